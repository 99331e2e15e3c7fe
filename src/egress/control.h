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
    uint32_t owner_max;  /* connections of all sandboxes of the owner; 0: no limit of its own */
    char owner[ID_SIZE]; /* whose sandbox it is; "": of whoever runs the daemon */
    char id[ID_SIZE];
    char network[NETWORK_TEXT_SIZE];
};

/* What the proxy says after its first byte, about once in a second while something changes: how
 * many connections the sandboxes of an owner have. */
struct egress_news {
    char owner[ID_SIZE];
    uint32_t connections;
};

/* What a sandbox may reach, and who pays for it. */
struct egress_wish {
    const char *id, *network;
    const char *owner; /* "": whoever runs the daemon */
    uint32_t owner_max;
    int door; /* or -1: as before */
};

enum egress_voice { EGRESS_QUIET, EGRESS_LOGS };

/* Starts the program with `sock` as its end of the control socket. as: the id that it shall have
 * instead of root's, and the next one is for its helper; 0: it stays who it is. EGRESS_LOGS: each
 * connection is a line on standard error. 0 or -errno. */
int egress_spawn(const char *program, int sock, uid_t as, enum egress_voice voice, pid_t *ret);

/* Sends EGRESS_SET. */
int egress_send_set(int sock, const struct egress_wish *wish, struct cay_error *err);
int egress_send_drop(int sock, const char *id, struct cay_error *err);
