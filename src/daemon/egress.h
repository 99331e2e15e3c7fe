/* The front's way to cay-egress, which the supervisor starts when it is first needed, and again
 * when it has ended. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct cay_error;
struct settings;

struct egress_link {
    pthread_mutex_t lock;
    int control; /* to the supervisor */
    int sock;    /* to the proxy; -1: there is none */
    int64_t pause_ms;
    void (*lost)(void *user); /* called by a thread: everything has to be said anew */
    void *user;
};

void egress_link_init(struct egress_link *l, int control, void (*lost)(void *user), void *user);
/* As EGRESS_SET and EGRESS_DROP; who is not known is not dropped. */
int egress_link_set(struct egress_link *l, const char *id, const char *network, int door,
                    struct cay_error *err);
void egress_link_drop(struct egress_link *l, const char *id);

/* The supervisor's side: starts one with its end of the socket, in place of *pid. */
void egress_replace(const struct settings *s, int sock, pid_t *pid);
