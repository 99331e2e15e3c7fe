/* One connection of a sandbox, from its first byte to its end. */
#pragma once

#include "egress/network.h"

struct cay_error;

/* What became of it, for the log. */
struct talk_outcome {
    char host[NETWORK_NAME_SIZE];
    unsigned port;
    int code; /* enum cay_code */
    const char *why;
};

/* Reads what `client` asks for and connects. *ret_upstream is open then, and the beginning of the
 * stream was sent; -1: it was refused, and the client knows why. ret->why lies in err. */
void talk_begin(int client, const struct network *n, int *ret_upstream, struct talk_outcome *ret,
                struct cay_error *err);
/* As the answer to a connection that is not served. Does not wait. */
void talk_refuse(int client, const struct cay_error *err);
