/* The host's side of WIRE_OP_LISTEN. */
#pragma once

#include "wire/call.h"

/* Has the sandbox listen on this port of its loopback, and send the listening socket over door. */
int wire_listen(const struct wire_call *call, unsigned port, int door, struct cay_error *err);
