/* The sockets of sandboxes: run/ID.sock in the work folder. */
#pragma once

#include <stdint.h>

struct cay_error;

enum { CONNECT_MS = 5000 }; /* what a user waits for */

int socket_listen(const char *id, struct cay_error *err);
int socket_connect(const char *id, int64_t timeout_ms, struct cay_error *err);
void socket_remove(const char *id);
