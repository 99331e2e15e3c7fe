/* An engine that another process serves, behind engine.h: the client of cay-launcher, cay-docker
 * and of every later one. That process may die and be started again; sandboxes live on. */
#pragma once

#include "engine/engine.h"

/* sock is connected to a launcher, and becomes the engine's. `ended` and `user` as in engine.h;
 * they may be called before this returns. */
int link_open(int sock, void (*ended)(void *user, const struct engine_end *end), void *user,
              struct engine **ret, struct cay_error *err);

/* A new launcher in place of one that died. What was under way has failed with -CAY_UNAVAILABLE. */
int link_reconnect(struct engine *e, int sock, struct cay_error *err);

/* Lets go of its launcher, for a process that goes on without it: whatever is asked of the engine
 * from now on fails. */
void link_hang_up(struct engine *e);

/* The same for an engine whose launcher is started when it is first needed, and again whenever it
 * has ended. */
struct link_source {
    int (*connect)(void *user, struct cay_error *err); /* a socket to a new one, or negative */
    void *user;
};
int link_open_later(const struct link_source *source,
                    void (*ended)(void *user, const struct engine_end *end), void *user,
                    struct engine **ret, struct cay_error *err);
