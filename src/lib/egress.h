/* The proxy of one sandbox of this process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "confine/role_ids.h"

struct cay_error;

struct egress_proxy {
    pid_t pid; /* 0: there is none */
    int control;
    int door;            /* for cay-init, with the request; -1: not needed any more */
    struct role_ids ids; /* the proxy's, as root */
};
#define EGRESS_PROXY_NONE ((struct egress_proxy){.control = -1, .door = -1, .ids = ROLE_IDS_EMPTY})

/* Starts it for the sandbox `id`. as_root: the caller is root of the host, whose rights it must not
 * have. */
int egress_proxy_start(const char *id, const char *network, bool as_root, struct egress_proxy *ret,
                       struct cay_error *err);
/* Its end, and that of all connections. */
void egress_proxy_stop(struct egress_proxy *p);
