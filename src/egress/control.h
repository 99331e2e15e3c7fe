/* How cay-egress, the proxy of sandboxes that may reach something, is started and told what to do.
 * One process serves one sandbox of `cay run`, or all of a daemon; it ends when the socket does. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "egress/network.h"

struct cay_error;

enum {
    EGRESS_CONTROL_FD = 3,
    EGRESS_PORT = 3128, /* on the loopback of the sandbox */
};

enum egress_op {
    EGRESS_SET = 1,  /* what sandbox `id` may reach from now on; with a descriptor if it is new: the
                      * socket over which cay-init sends the listener */
    EGRESS_DROP = 2, /* nothing more of it; its connections are cut */
};

/* One packet. */
struct egress_message {
    uint32_t op;
    char id[ID_SIZE];
    char network[NETWORK_TEXT_SIZE];
};

enum egress_voice { EGRESS_QUIET, EGRESS_LOGS };

/* Starts the program with `sock` as its end of the control socket. as: the id that it shall have
 * instead of root's; 0: it stays who it is. EGRESS_LOGS: each connection is a line on standard
 * error. 0 or -errno. */
int egress_spawn(const char *program, int sock, uid_t as, enum egress_voice voice, pid_t *ret);

/* Sends EGRESS_SET; door may be -1. */
int egress_send_set(int sock, const char *id, const char *network, int door, struct cay_error *err);
int egress_send_drop(int sock, const char *id, struct cay_error *err);
