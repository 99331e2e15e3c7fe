/* The daemon's side of prepared sandboxes (lib/prepared_wire.h): hands them to `cay run` and `cay
 * python` of the user who runs the daemon, and ends them when the client is gone. One thread serves
 * all clients; the streams of commands do not pass through it. */
#pragma once

#include <cay.h>

#include "lib/prepared_wire.h"

struct engine;
struct interpreters;
struct lender;

struct lender_options {
    struct engine *engine;
    struct interpreters *interpreters;
    struct prepared_place place; /* of this process, when it had one thread */
    uid_t owner;                 /* who may ask */
};

/* Listens in the work folder. */
int lender_open(const struct lender_options *options, struct lender **ret, struct cay_error *err);
/* Accepts no more clients. NULL is fine. */
void lender_stop(struct lender *l);
/* After lender_stop(): waits so long for the clients that there are, then ends their sandboxes.
 * NULL is fine. */
void lender_close(struct lender *l, int64_t wait_ms);

struct lender_totals {
    uint64_t commands, programs; /* sandboxes handed over */
    uint64_t refused;            /* requests that were refused; the client made its own */
    size_t running;
};
void lender_total(struct lender *l, struct lender_totals *ret);
