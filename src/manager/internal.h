/* What the files of the manager share.
 *
 * Two locks, taken in this order: `saving` while a row is written, `lock` for everything in memory,
 * never while waiting for the disk, the engine or the network. Changes of one sandbox take turns by
 * its flag `changing`; whoever has it may call the engine for it. */
#pragma once

#include <pthread.h>

#include "manager/access/budget_accounts.h"
#include "manager/checks.h"
#include "manager/db/db.h"
#include "manager/engine_calls.h"
#include "manager/files/hold.h"
#include "manager/manager.h"
#include "manager/network.h"
#include "manager/pool.h"
#include "manager/queue.h"
#include "manager/record/audit.h"
#include "manager/record/key.h"
#include "manager/record/table.h"
#include "manager/record/volume.h"
#include "manager/sampler.h"
#include "manager/socket.h"
#include "manager/watch.h"

/* One limit of a sandbox, watched. */
struct pressure {
    int64_t since; /* monotonic; 0: it is not above */
    bool is_reported;
};

/* A creation under way, for who wants it to be given up. */
struct building {
    int cancel, client; /* an eventfd, and the socket of who waits for it; -1: none */
    bool given_up;
};

struct sandbox {
    struct sandbox_record record;
    struct budget_charge charge; /* that counts for it: see quota_settle() */
    struct building *building;   /* of who makes it; NULL: it is made */
    struct queue_ticket *ticket; /* of who creates or starts it; NULL: nobody does */
    size_t place;                /* in manager.boxes */
    unsigned references;         /* the table's, and one of everybody who works with it */
    unsigned operations;
    unsigned turns;      /* changes so far: what was seen before one is out of date */
    bool changing, held; /* the second: it stands still for somebody who is at work */
    bool gone;           /* not in the table any more */
    bool unsaved;        /* its row is of a state before */
    bool waking;         /* it was archived, and its memory is counted again; until its turn ends */
    bool missed;         /* the engine does not run it, and did not say why yet */
    bool has_end, wants_no_backup; /* the second: the one under way is to be given up */
    struct engine_end end;
    int64_t deadline;                 /* of the change; 0: none */
    int64_t active_at;                /* monotonic, as all that is compared */
    int64_t stopped_at, silent_since; /* the second: it does not say what goes on; 0: it did */
    int64_t saved_active_ms;
    const int *progress;        /* of the change: where lines that tell of it go; NULL: nowhere */
    int64_t first_failure;      /* of record.failures */
    int64_t recover_at;         /* it is started again then; 0: not by itself */
    int64_t again_at, again_ms; /* left half-way: when it is tried again (0: never), the pause */
    struct engine_stats usage;  /* as last measured, at usage_at; 0: never in this life */
    int64_t usage_at, oom_at;
    uint64_t oom_kills; /* that were noticed, the last of them at oom_at; 0: none */
    bool knows_oom;     /* kills from before this process are no news */
    bool adopted;       /* a pooled one that was there before it */
    struct pressure memory_pressure, cpu_pressure;
    struct disk_news disk;
};

/* Hits and misses of the last five minutes, by periods. */
enum { POOL_PERIODS = 30, POOL_PERIOD_MS = 10 * 1000 };
struct pool_period {
    int64_t number; /* of the period, since the clock began */
    uint64_t hits, misses;
};

/* What manager/pool.c keeps. */
struct pool {
    size_t per_image;
    struct strv images;    /* names */
    bool is_changed;       /* these two are, and have to be looked at */
    int64_t missing_since; /* when one was taken of a pool that was full; 0: it is full */
    struct pool_period window[POOL_PERIODS];
    int64_t retry_ms, retry_at;
    struct manager_pool_totals totals; /* size is counted when it is asked for */
    bool filling, has_filler;
    pthread_t filler;
};

/* Rows in an order, with room for all there are: record/index.c. */
struct index {
    struct sandbox **v;
    size_t count;
};

struct manager {
    pthread_mutex_t lock, saving;
    pthread_cond_t changed; /* what somebody who asked for something may wait for */
    pthread_cond_t duty;    /* what the manager's own threads wait for, and nobody else */
    struct db *db;
    struct engine *engine;                /* of sandboxes that do not say, */
    enum engine_kind kind;                /* and which that is */
    struct engine *engines[ENGINE_KINDS]; /* NULL: there is none */
    bool is_used[ENGINE_KINDS];           /* it may have sandboxes */
    bool is_away[ENGINE_KINDS];           /* when it was last asked what it has */
    bool is_compared[ENGINE_KINDS];       /* with the table, at least once */
    bool was_unused;                      /* the database, when this manager began */
    enum tier best_tier[ENGINE_KINDS];
    struct manager_limits limits;
    struct sandbox_record defaults;
    struct cay_error no_disk_limits;
    ensure_image ensure;
    describe_image describe;
    void *user;
    struct spec_host host;
    struct volume *volumes;
    size_t volume_count;
    struct sandbox **boxes; /* in no order */
    size_t count, room;
    struct index indexes[TABLE_ORDERS]; /* the same rows, each in an order */
    int64_t last_created_ms;
    struct key *keys; /* oldest first */
    size_t key_count;
    struct key_use *key_uses;
    struct budget budget;
    struct watch *watches;
    int64_t refusals_since; /* monotonic: the minute in which */
    size_t refusals, refusals_left_out;
    size_t operations, changes, awaiting; /* under way; awaiting: how many want operations to end */
    bool ready; /* compared with the engine: what is asked for can be done */
    bool closing, reaping, wake, is_rescue; /* the last: see files/rescue.c */
    bool has_tidied;                        /* the reaper has looked at everything once */
    int64_t look_at;                        /* when the clean-up looks next, at the latest */
    pthread_t reaper, sampler;
    bool sampling, has_sampler;
    const struct archive_ops *archives; /* NULL: there are none */
    const struct network_ops *network;
    void (*key_gone)(void *user);
    bool opening, network_again; /* see manager/network.c */
    unsigned archiving;          /* how many the clean-up archives now */
    struct pool pool;
    struct queue queue;
    struct hold hold;
    uint64_t audit_failures;
    uint64_t ended_oom, ended_unasked; /* sandboxes that ended by themselves: out of memory, else */
};

/* ---- record/settings.c ---- */
/* What is inside gets to end by itself. Takes the lock. */
int64_t settings_grace(struct manager *m);

/* May it be done now? Asked under the lock, in the moment that decides. */
typedef bool (*permission)(const struct manager *m, const struct sandbox *s);

/* ---- manager/turn.c: changes, one at a time for each sandbox; they take the lock ---- */

/* Finds it and waits for its turn. */
int turn_take(struct manager *m, const char *who, struct sandbox **ret, struct cay_error *err);
/* Begins one, with the lock held, of a sandbox that nobody changes. */
void turn_begin(struct manager *m, struct sandbox *s);
/* Takes its turn if nobody has it and it has not changed since. */
bool turn_try(struct manager *m, struct sandbox *s, unsigned turns);
void turn_end(struct manager *m, struct sandbox *s);
void turn_set_deadline(struct manager *m, struct sandbox *s);
/* Writes the row. */
int turn_save(struct manager *m, struct sandbox *s, enum db_flush flush, struct cay_error *err);
/* The next state, in memory and on disk; if that fails, it stays what it was. On the way to an end
 * a full disk is no failure. may (or NULL) is asked first; if it says no: -CAY_CONFLICT. */
int turn_become(struct manager *m, struct sandbox *s, enum sandbox_state state, permission may,
                struct cay_error *err);
/* The same, with why; "": it was asked for. */
int turn_become_because(struct manager *m, struct sandbox *s, enum sandbox_state state,
                        const char *why, permission may, struct cay_error *err);
int turn_become_for(struct manager *m, struct sandbox *s, enum sandbox_state state,
                    const char *reason, const char *remedy, struct cay_error *err);
/* SANDBOX_ERROR, with the reason in words, and in the log. */
void turn_fail(struct manager *m, struct sandbox *s, const struct cay_error *why);
/* -CAY_CONFLICT: what it is, that it cannot be `done` ("paused") so, and the remedy. */
int turn_refuse(const struct sandbox *s, const char *done, struct cay_error *err);

/* Where lines that tell of the change go until the turn ends; *fd is -1 for nowhere, and outlives
 * it. */
void turn_report(struct manager *m, struct sandbox *s, const int *fd);
int turn_progress(const struct sandbox *s); /* -1: nowhere */

/* ---- manager/change.c: for who has the turn; why: as above ---- */
int change_stop(struct manager *m, struct sandbox *s, const char *why, permission may,
                int64_t grace_ms, struct cay_error *err);
int change_remove(struct manager *m, struct sandbox *s, permission may, struct cay_error *err);
int change_pause(struct manager *m, struct sandbox *s, const char *reason, const char *remedy,
                 struct cay_error *err);
int change_resume(struct manager *m, struct sandbox *s, struct cay_error *err);

/* For creations: takes a place in the table, with the turn, for what was asked for; *ret is
 * referenced. Then makes it run. */
int change_admit(struct manager *m, const struct sandbox_record *request, const char *progress,
                 struct building *building, struct queue_ticket *ticket, struct sandbox **ret,
                 struct cay_error *err);
int change_build(struct manager *m, struct sandbox *s, int progress_fd, struct cay_error *err);
/* Its turn and the reference of change_admit. */
void change_end_creation(struct manager *m, struct sandbox *s);
int change_copy_out(struct manager *m, const struct sandbox *s, struct sandbox_record *ret,
                    struct cay_error *err);

/* ---- files/archive.c ---- */

/* How what the sandbox has written is kept elsewhere; NULL: it is not. */
const struct archive_ops *archives_of(const struct manager *m, const struct sandbox_record *r);
/* For who has the turn. From stopped to archived; what fails leaves it stopped. */
int change_archive(struct manager *m, struct sandbox *s, permission may, struct cay_error *err);
/* The files of one that is archived are there again; nothing is done for others. What fails leaves
 * it archived. */
int archive_bring_back(struct manager *m, struct sandbox *s, struct cay_error *err);
/* Removes the files of one that is archived. */
int archive_empty(struct manager *m, struct sandbox *s, struct cay_error *err);
/* Removes the archive, if it has one. */
int archive_drop(struct manager *m, struct sandbox *s, struct cay_error *err);
/* With the lock held: it has an archive for no purpose; it has been stopped for long enough. */
bool archive_is_needless(const struct sandbox *s);
bool archive_is_due(const struct manager *m, const struct sandbox *s);

/* Starts it, from any state in which it does not run. */
int change_start(struct manager *m, struct sandbox *s, struct cay_error *err);
bool change_is_held(const struct sandbox *s); /* or was, by a daemon that has ended */

/* ---- manager/reconcile.c ---- */
/* Makes table and engines agree. first: the configured one only; nothing is under way, and nothing
 * is waited for. */
int reconcile(struct manager *m, bool first, struct cay_error *err);

/* ---- manager/event.c ---- */
/* A note between the states (which note themselves). Without the lock; a failure is logged. */
void event_note(struct manager *m, const struct sandbox *s, const char *text);

/* With the lock held: whether there is room for what is wanted, in place of s; what is pooled takes
 * none. */
int change_check_room(struct manager *m, const struct sandbox *s,
                      const struct sandbox_record *wanted, struct cay_error *err);

/* ---- manager/reaper.c: a thread gets no signals; *running is set before it starts ---- */
int worker_start(struct manager *m, pthread_t *ret, void *(*run)(void *), bool *running,
                 struct cay_error *err);
/* The end of one: the last thing that it does. */
void worker_end(struct manager *m, bool *running);
int reaper_start(struct manager *m, struct cay_error *err);
int64_t limits_minutes_ms(const struct manager_limits *limits, int64_t minutes);
void reaper_wake(struct manager *m);                    /* with the lock held */
void reaper_plan(struct manager *m, struct sandbox *s); /* what is left half-way; the same */
