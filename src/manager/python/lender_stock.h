/* Sandboxes that the lender has started ahead, so that a client gets one without asking the
 * launcher: of the kind that was asked for last. For one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/spec.h"
#include "image/host.h"

struct cay_error;
struct engine;

enum { STOCK_SIZE = 2 };

struct stock_item {
    int fd; /* the way to its cay-init */
    uint64_t tag;
};

struct stock {
    struct engine *engine;
    struct sandbox_spec kind; /* nothing is made before memory_bytes is set */
    char fingerprint[HOST_FINGERPRINT_SIZE];
    struct stock_item items[STOCK_SIZE];
    size_t count;
    int64_t asked_at, retry_at;
};

/* Starts one; its cay-init gets connection. The spec was a client's. */
int stock_start(struct engine *e, const struct sandbox_spec *spec, const char *fingerprint,
                int connection, uint64_t *ret_tag, struct cay_error *err);

/* One of this kind, the caller's from now on; false: there is none. What is made from now on is of
 * this kind. */
bool stock_take(struct stock *s, const struct sandbox_spec *spec, const char *fingerprint,
                struct stock_item *ret);

/* When stock_fill() has something to do, as clock_ms(); 0: never. */
int64_t stock_due(const struct stock *s);
/* Starts one, if it is time; does not wait for it. */
void stock_fill(struct stock *s);

void stock_empty(struct stock *s);
