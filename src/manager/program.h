/* Programs that run in throw-away sandboxes, each counted for its key. */
#pragma once

#include <stdint.h>

#include "manager/record.h"

struct cay_error;
struct manager;

enum { PROGRAMS_MAX = 64 }; /* at once, of everybody */

/* One program: whose it is, and what it may take. */
struct program_use {
    char owner[OWNER_SIZE]; /* id of the key; "": nobody's budget */
    uint64_t memory_bytes, cpu_quota_us;
};

/* What the programs of one key take together. */
struct program_sums {
    uint64_t count, memory_bytes, cpu_quota_us;
};

/* Takes a place for it: -CAY_LIMIT_REACHED, with the remedy, if its key may not have one more. */
int manager_program_begin(struct manager *m, const struct program_use *use, struct cay_error *err);
void manager_program_end(struct manager *m, const struct program_use *use);
