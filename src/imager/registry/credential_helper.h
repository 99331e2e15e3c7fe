/* Docker's credential helpers: programs named docker-credential-NAME. */
#pragma once

#include <stdint.h>

struct cay_error;
struct credential;

/* Asks the helper for what it has for the server; nothing is an empty *ret. It has timeout_ms
 * (0: 60 s) to answer. */
int credential_helper_get(const char *name, const char *server, int64_t timeout_ms,
                          struct credential *ret, struct cay_error *err);
