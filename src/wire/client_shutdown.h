/* The host's side of ending a sandbox in peace. */
#pragma once

#include <stdint.h>

#include "wire/call.h"

struct cay_error;

/* Asks every command inside to end, and waits until none is left: at most grace_ms (more than 0),
 * and no longer than c's deadline. 0 does not say that all have ended. */
int wire_shutdown(const struct wire_call *c, int64_t grace_ms, struct cay_error *err);
