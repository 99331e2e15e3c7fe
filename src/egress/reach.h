/* The way out: a host and a port that a sandbox asked for, looked up, checked and connected. The
 * address that was checked is the one that is connected to, so no answer of a name server can lead
 * elsewhere in between. */
#pragma once

#include "egress/network.h"

struct cay_error;

/* A connected socket. -CAY_FORBIDDEN with the reason if the list does not open it, -CAY_UNAVAILABLE
 * if it is not there, -CAY_TIMEOUT if it does not answer. Blocks for seconds. */
int reach_connect(const struct network *n, const char *host, unsigned port, struct cay_error *err);
