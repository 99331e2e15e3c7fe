/* What the manager needs of whoever keeps the proxy. */
#pragma once

struct cay_error;
struct egress_wish; /* egress/control.h */

/* The proxy that leads out of sandboxes. Neither waits long. */
struct network_ops {
    /* What this sandbox reaches from now on; wish->door is the socket over which it sends what the
     * proxy listens on. */
    int (*set)(void *user, const struct egress_wish *wish, struct cay_error *err);
    /* Nothing more, and what it has open is cut; one that is not known is fine. */
    void (*drop)(void *user, const char *id);
};
