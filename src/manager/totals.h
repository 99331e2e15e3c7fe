/* What the manager counts and measures. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "manager/record/key.h"
#include "manager/record/record.h"

struct cay_error;
struct manager;

struct manager_pool_totals {
    size_t size, target;
    uint64_t hits, misses, dropped;
    uint64_t recent_hits, recent_misses; /* of the last five minutes */
};

/* Creations and starts: see manager/queue.h. */
struct manager_queue_totals {
    size_t running, waiting;
    size_t keys;      /* that have one waiting */
    uint64_t entered; /* that got their turn, after waited_us all together */
    uint64_t waited_us;
    uint64_t refused;
};

struct manager_totals {
    size_t total, started, operations;
    size_t by_state[SANDBOX_STATE_COUNT];
    size_t by_engine[ENGINE_KINDS];
    int64_t limit;
    bool shutting_down;
    struct manager_pool_totals pool;
    struct manager_queue_totals queue;
    uint64_t audit_failures;           /* rows that could not be written */
    uint64_t ended_oom, ended_unasked; /* sandboxes that ended by themselves: out of memory, else */
};
/* Of what the caller sees; NULL: of all. */
void manager_totals(struct manager *m, const struct key *caller, struct manager_totals *ret);

/* What each sandbox used when it was last measured. */
struct manager_usage {
    char id[ID_SIZE];
    char name[NAME_MAX_LEN + 1];
    bool is_measured;
    struct engine_stats stats;
};
/* Of every sandbox that the caller sees, NULL: of all. The caller frees the array. */
int manager_usage(struct manager *m, const struct key *caller, struct manager_usage **ret,
                  size_t *ret_count, struct cay_error *err);
