/* The front's way to cay-egress, which the supervisor starts when it is first needed, and again
 * when it has ended. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct cay_error;
struct egress_hears;
struct egress_wish;
struct settings;

struct egress_link {
    pthread_mutex_t lock;
    int control; /* to the supervisor */
    int sock;    /* to the proxy; -1: there is none */
    int64_t pause_ms;
    const struct egress_hears *hears;
    void *user;
};

/* What the proxy's news mean to somebody; called by a thread. */
struct egress_hears {
    void (*lost)(void *user); /* it has ended: everything has to be said again */
    void (*counted)(void *user, const char *owner, uint32_t connections);
};

void egress_link_init(struct egress_link *l, int control, const struct egress_hears *hears,
                      void *user);
/* As EGRESS_SET and EGRESS_DROP; who is not known is not dropped. */
int egress_link_set(struct egress_link *l, const struct egress_wish *wish, struct cay_error *err);
void egress_link_drop(struct egress_link *l, const char *id);

/* The supervisor's side: starts one with its end of the socket, in place of *pid. */
void egress_replace(const struct settings *s, int sock, pid_t *pid);
