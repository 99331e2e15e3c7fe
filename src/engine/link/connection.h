/* The connection of client.c to the program of its engine; for client.c only. */
#pragma once

#include <pthread.h>

#include "engine/link/client.h"
#include "engine/link/protocol.h"

/* A throw-away sandbox, from asking for it to its once_end. */
struct once {
    uint64_t tag;
    bool started, ended, oom_killed;
    char id[ID_SIZE];
    struct cay_error err; /* why it never began, or ended with its launcher */
    int counter;          /* -1: none */
    struct engine_watcher watcher;
    struct once *next;
};

struct call;

struct link {
    struct engine engine;   /* first */
    pthread_mutex_t lock;   /* of all that follows but sock */
    pthread_cond_t changed; /* onces have */
    struct call *calls;
    struct once *onces;
    uint64_t last_tag;
    int64_t asked_at, heard_at;  /* when the first of the calls began, and when it last answered */
    uint64_t ping_tag;           /* of the ping under way; 0: there is none */
    int64_t ping_us;             /* when it began */
    struct engine_health pinged; /* what the last one has shown */
    bool gone;                   /* the launcher, */
    int64_t gone_at;             /* since */
    pthread_mutex_t sending;     /* of sock, which the reader uses without: it is closed after it */
    int sock;
    pthread_t reader;
    bool reading;              /* there is one */
    struct link_source source; /* of one that is started when it is needed */
    int64_t tried_at;          /* when that was last done; 0: never */
};

/* With room for the mounts of the spec, which are many bytes and rarely there. NULL: no memory. */
struct launcher_request *link_new_request(enum launcher_op op, const struct sandbox_spec *spec,
                                          struct cay_error *err);
/* Sends a request, with a descriptor or -1; negative if the launcher is gone. */
int link_send(struct link *n, const struct launcher_request *r, size_t mounts, int fd);
/* The same, with a tag of its own, and waits for its answer. */
int link_ask(struct link *n, struct launcher_request *r, size_t mounts, int fd,
             struct launcher_answer *answer, struct cay_error *err);
/* With the lock held: it has started, or has ended as it says itself. Its watcher hears it. */
void link_once_started(struct once *o);
void link_once_ended(struct once *o);
/* What to say when it is gone. */
int link_unavailable(const struct link *n, struct cay_error *err);

/* As in engine.h. */
void link_ping(struct link *n);
void link_health(struct link *n, struct engine_health *ret);

/* With n->sending held, or before anybody else knows n: sock becomes n's. */
int link_connect(struct link *n, int sock, struct cay_error *err);
/* The same in place of one that died. */
int link_replace(struct link *n, int sock, struct cay_error *err);
/* Ends the reader, if there is one; the socket is closed after it, so that it reads from no other.
 */
void link_disconnect(struct link *n);
