/* Throw-away sandboxes that the daemon has prepared (the client's side). Whatever speaks against
 * one is a reason to make the sandbox in this process instead, never a failure. */
#pragma once

#include <cay.h>

#include "lib/prepared_wire.h"

struct prepared {
    int control;    /* to the daemon; -1: none */
    int connection; /* to cay-init */
    int frozen;     /* an interpreter to be woken; -1: none */
    int counter;    /* of kills for want of memory; -1: unknown before its end */
    uint64_t kills; /* what it said at the beginning */
    bool waits;     /* one has been woken */
    char id[ID_SIZE];
    int64_t start_us; /* how long it took to get it */
};

#define PREPARED_NONE                                                                              \
    ((struct prepared){.control = -1, .connection = -1, .frozen = -1, .counter = -1})

/* What a program in Python wants of it. */
struct prepared_wish {
    bool may_wait;              /* nothing keeps it from an interpreter that has been woken */
    const char *const *preload; /* modules, NULL-terminated; or NULL */
    const char *work_dir;
};

/* Takes one from the daemon that serves the state folder; wish is NULL for commands. Fails with the
 * reason if there is none that would be the same as one made here. */
int prepared_take(const char *state_dir, const struct cay_spec *spec,
                  const struct prepared_wish *wish, struct prepared *ret, struct cay_error *why);

/* Whether something in it was killed for want of memory; negative: ask prepared_wait(). */
int prepared_oom_killed(const struct prepared *p, bool *ret);

/* Waits until the sandbox is gone. Fails if it did not end by itself but with the daemon. */
int prepared_wait(struct prepared *p, bool *ret_oom, struct cay_error *err);

/* Hangs up, which ends the sandbox. Once more is fine. */
void prepared_drop(struct prepared *p);
