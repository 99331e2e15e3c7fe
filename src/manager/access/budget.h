/* The budget of a key, and of an organisation. One table (budget_table) says what counts, one
 * function admits, one releases: whoever lets a key use something that is shared charges it here,
 * and nowhere else.
 *
 * Four limits hold for a charge, each of them for every item of it:
 *   - the key's own limit (`cay key create --memory ...`), if it has one;
 *   - the limit of its organisation, if it has one: for all of its keys together;
 *   - the key's share of a pool of places: a key may hold as many as are free, so that another key
 *     always finds some;
 *   - for memory, processors and processes: what the host has less its reserve, for one sandbox,
 * and that times the over-commit factor for the sum, of which a key may hold as much as is left.
 * Whoever runs the daemon (owner "", admin keys) is not bound by shares and sums. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/record.h"

struct cay_error;
struct key;
struct manager;

enum budget_item {
    BUDGET_SANDBOXES,
    BUDGET_VOLUMES,
    BUDGET_MEMORY, /* bytes */
    BUDGET_CPUS,   /* microseconds per 100 ms */
    BUDGET_PIDS,
    BUDGET_DISK, /* bytes: the sum of the following, which have no limits of their own */
    BUDGET_DISK_SANDBOXES,
    BUDGET_DISK_VOLUMES,
    BUDGET_DISK_BACKUPS,
    BUDGET_DISK_ARCHIVES,
    BUDGET_DISK_IMAGES,  /* in the store: pulled, built, snapshots; without what is public */
    BUDGET_DISK_UPLOADS, /* contexts of builds */
    BUDGET_DISK_OUTPUTS, /* of Python programs */
    BUDGET_WAITING,      /* creations and starts that wait for their turn */
    BUDGET_COMMANDS,     /* operations in persistent sandboxes */
    BUDGET_PYTHON,       /* programs of POST /api/cay/python */
    BUDGET_PULLS,
    BUDGET_BUILDS,
    BUDGET_CONNECTIONS, /* of clients, on TCP */
    BUDGET_PROXY,       /* connections of sandboxes through cay-egress */
    BUDGET_VIEWERS,     /* of events */
    BUDGET_ITEMS
};

enum budget_unit { BUDGET_COUNT, BUDGET_BYTES, BUDGET_QUOTA };

struct budget_row {
    const char *name;       /* in JSON and in metrics */
    const char *limit_name; /* in the JSON of a key; NULL: it is a part of BUDGET_DISK */
    const char *what;       /* in messages */
    const char *option;     /* of `cay key create` */
    enum budget_unit unit;
    size_t limit;        /* offset of the limit in struct key */
    uint64_t pool;       /* places that all keys share; 0: none */
    uint64_t each;       /* of these one key has at most so many; 0: as many as are free */
    bool is_of_the_host; /* its sum is bounded by the host */
};
extern const struct budget_row budget_table[BUDGET_ITEMS];

/* What the host keeps for itself, and how far sums may exceed the rest. */
struct manager_host_limits {
    unsigned memory_reserve_percent; /* of the memory, if not 0, */
    uint64_t memory_reserve_bytes;   /* but at most so much */
    uint64_t pids_reserve;
    double memory_overcommit, cpu_overcommit, pids_overcommit; /* 0: sums are not checked */
};

static inline bool budget_is_part(enum budget_item item) {
    return budget_table[item].limit_name == NULL;
}

uint64_t budget_limit(const struct key *k, enum budget_item item); /* 0: none */
void budget_set_limit(struct key *k, enum budget_item item, uint64_t limit);

/* What one use takes of the budget. */
struct budget_charge {
    char owner[OWNER_SIZE];        /* id of the key; "": of whoever runs the daemon */
    char organization[OWNER_SIZE]; /* of the key; "": the one that the key has, if it is there */
    uint64_t amount[BUDGET_ITEMS];
    bool runs; /* its memory, processors and processes are in use: they count for the host */
};

/* The charge for what `owner` has and the key `made_by` ("": the owner) made. */
struct budget_charge budget_charge_for(const char *owner, const char *made_by);
/* Adds bytes of one kind, which count for BUDGET_DISK. */
void budget_add_disk(struct budget_charge *c, enum budget_item part, uint64_t bytes);

/* Charges all of it or nothing. -CAY_LIMIT_REACHED with err->sys EAGAIN (429 with Retry-After),
 * naming the limit; -CAY_RESOURCE_EXHAUSTED if the host has no more; -CAY_INVALID_ARGUMENT if it
 * never could. */
int manager_budget_admit(struct manager *m, const struct budget_charge *c, struct cay_error *err);
/* The same charge, again. */
void manager_budget_release(struct manager *m, const struct budget_charge *c);

/* One unit of one item. */
int manager_budget_take(struct manager *m, const char *owner, enum budget_item item,
                        struct cay_error *err);
void manager_budget_give(struct manager *m, const char *owner, enum budget_item item);

/* The limit of a key that is known by its id, or of its organisation if that is lower; 0: it has
 * none, or there is no such key. */
uint64_t manager_budget_limit(struct manager *m, const char *owner, enum budget_item item);

/* For what another process admits and counts: so many of it are this key's now. Of keys that are
 * not known nothing is noted. */
void manager_budget_note(struct manager *m, const char *owner, enum budget_item item,
                         uint64_t count);
/* Nobody has any of it any more. */
void manager_budget_forget(struct manager *m, enum budget_item item);

/* ---- bytes on the disk that others count ---- */

struct budget_disk {
    char owner[OWNER_SIZE], made_by[OWNER_SIZE]; /* as of sandboxes */
    uint64_t bytes;
};
/* So much of a part of BUDGET_DISK there is now, whoever has it; who is not in rows has none. What
 * is noted is charged, also beyond a limit. */
void manager_disk_note_all(struct manager *m, enum budget_item part, const struct budget_disk *rows,
                           size_t count);
/* The same of one owner. */
void manager_disk_note(struct manager *m, enum budget_item part, const struct budget_disk *row);
/* What was noted. */
uint64_t manager_disk_noted(struct manager *m, enum budget_item part, const char *owner,
                            const char *made_by);
/* Whether so many bytes more are within the disk of the key and of the organisation; 0 bytes: what
 * they have already. Errors are those of manager_budget_admit. */
int manager_disk_check(struct manager *m, const char *owner, const char *made_by, uint64_t bytes,
                       struct cay_error *err);
/* How many bytes more that are; UINT64_MAX: any number. */
uint64_t manager_disk_left(struct manager *m, const char *owner, const char *made_by);

struct budget_usage {
    uint64_t used, limit; /* limit 0: none of its own */
    uint64_t left;        /* UINT64_MAX: not bounded */
};
/* What a key or an organisation uses, and what is left for it now. */
void manager_budget_usage(struct manager *m, const struct key *k,
                          struct budget_usage ret[static BUDGET_ITEMS]);
