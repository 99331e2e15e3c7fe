/* What the manager needs of whoever keeps the proxy. */
#pragma once

struct cay_error;

/* The proxy that leads out of sandboxes. Neither waits long. */
struct network_ops {
    /* What this sandbox reaches from now on; door (or -1: as before) is the socket over which it
     * sends what the proxy listens on. */
    int (*set)(void *user, const char *id, const char *network, int door, struct cay_error *err);
    /* Nothing more, and what it has open is cut; one that is not known is fine. */
    void (*drop)(void *user, const char *id);
};
