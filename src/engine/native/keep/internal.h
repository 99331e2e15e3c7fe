/* What the files of keep share; not for others. */
#pragma once

#include "engine/link/protocol.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/native/keep/keep.h"
#include "engine/native/keep/record.h"
#include "engine/native/native.h"

#define KEEP_FOLDER "sandboxes" /* of the state folder */

#define KEEP_OLD_PREFIX ".old-" /* of a folder that is being removed */

enum {
    KEEP_REMOVE_MS = 10000, /* for a control group whose processes have ended */
    KEEP_OLD_SIZE = sizeof KEEP_OLD_PREFIX + 2 * ID_SIZE,
    KEEP_WORKERS_MAX = 16,
    KEEP_WORKERS_SPARE = 2, /* of these start nothing */
};

/* A request that is answered when the sandbox has ended. */
struct keep_waiter {
    uint64_t tag;
    bool removes;
};

/* A request about a sandbox on which a worker is busy. */
struct keep_deferred {
    struct keep_deferred *next;
    int listener;
    struct launcher_request r;
};

struct kept {
    struct keep_record record; /* pid 0: it does not run */
    bool busy;                 /* a worker starts it or cleans up after it; requests wait */
    bool making;               /* it is being started for the first time */
    bool paused;
    bool child; /* started by this launcher, which reaps it */
    bool reaped;
    int status;          /* if reaped */
    int pidfd;           /* the only descriptor that a running sandbox costs the launcher */
    struct cgroup group; /* without open descriptors; host NULL: none */
    /* Kills for want of memory that the sandbox has outlived; those that were seen last, and when:
     * its first process may be about to end by one of them. */
    uint64_t oom_outlived, oom_seen;
    int64_t oom_seen_ms;
    struct keep_waiter *waiters;
    size_t waiter_count;
    struct keep_deferred *deferred; /* in their order */
};

/* keep/worker.h has more. */
struct keep_worker {
    pid_t pid; /* 0: none */
    int sock;
    struct keep_task *task; /* NULL: idle */
};

struct keep_queue {
    struct keep_task *first, *last;
};

/* A process of ours that does what takes long, and answers. */
struct keep_job {
    pid_t pid;
    uint64_t *tags; /* to be answered here if it fails */
    size_t tag_count;
};

struct keep {
    struct native *n;
    int client;
    const struct spec_host *host;
    int folder;        /* STATE/sandboxes */
    int home;          /* the mount namespace where all of this is done: the host's */
    int ended;         /* epoll of the pidfds, and of the workers' sockets */
    struct kept **all; /* sorted by id */
    size_t count, room;
    struct keep_job *jobs;
    size_t job_count, job_room;
    struct keep_worker workers[KEEP_WORKERS_MAX];
    size_t worker_count;
    struct keep_queue starts, endings; /* tasks that no worker has */
};

/* ---- keep.c ---- */

struct kept *keep_find(const struct keep *k, const char *id);
/* A new one that does not run; NULL without memory. */
struct kept *keep_add(struct keep *k, const char *id);
void keep_drop(struct keep *k, struct kept *s);
/* Until the pidfd is closed. */
int keep_watch(struct keep *k, struct kept *s, int pidfd, struct cay_error *err);
/* Both also for one that is found to have ended while nobody looked. The first notes the end in the
 * record, which the second writes, and tells the client. */
void keep_note_end(const struct keep *k, struct kept *s, enum engine_end_cause cause, int status);
void keep_write_stopped(const struct keep *k, struct kept *s);
/* A worker has finished with it: answers those who wait, and does what was deferred. */
void keep_settle(struct keep *k, struct kept *s);
void keep_answer(const struct keep *k, const struct launcher_answer *a);
void keep_answer_error(const struct keep *k, uint64_t tag, const struct cay_error *err);

/* ---- keep/adopt.c ---- */

/* Fills the table with what there is. */
int keep_take_over(struct keep *k, struct cay_error *err);
/* Takes over a sandbox whose folder came beside us, by a restore. NULL if there is none. */
struct kept *keep_take_over_new(struct keep *k, const char *id);

/* ---- keep/start.c ---- */

/* Makes and starts a sandbox whose cay-init waits for its listener; `had` is its record, NULL for
 * one that is new. On failure nothing has changed. */
int keep_start(struct keep *k, const struct keep_record *had, const struct launcher_request *r,
               struct keep_record *ret, struct native_kept *box, struct cay_error *err);

/* ---- keep/files.c ---- */

/* The folder of a sandbox, made if need be; *ret_new says whether it was. */
int keep_make_folder(const struct keep *k, const char *id, bool *ret_new, struct cay_error *err);
int keep_open_folder(const struct keep *k, const char *id);
/* Takes a folder that is being filled, or half removed, away at once. */
void keep_unmake_folder(const struct keep *k, const char *id);

/* What is removed does not run. Its folder loses its name at once, s is no more, and a worker does
 * the rest; or it is answered why not, and false is returned. */
bool keep_remove(struct keep *k, struct kept *s, const uint64_t *tags, size_t count);
/* Answers, if it takes long from a job. */
void keep_measure(struct keep *k, const struct kept *s, const struct launcher_answer *stats);
/* Removes what an earlier launcher did not come to. */
void keep_sweep(struct keep *k);

/* True if it was a job's. */
bool keep_job_ended(struct keep *k, pid_t pid, int status);
/* Returns as fork does; the child ends when the launcher does. Tags are answered if it fails. */
pid_t keep_fork_job(struct keep *k, const uint64_t *tags, size_t count);
void keep_fail_tags(const struct keep *k, const uint64_t *tags, size_t count);

/* ---- keep/space.c ---- */

/* LAUNCHER_SPACE: done, and answered, by a job. */
void keep_divide_space(struct keep *k, const struct launcher_request *r);
/* LAUNCHER_REPAIR, the same. */
void keep_repair(struct keep *k, const struct launcher_request *r);

/* ---- keep/worker_run.c ---- */

/* After the end of one: gives its control group and ids back, and notes that it does not run. */
void keep_clean_up(const struct keep *k, const struct keep_record *r);
/* Without the note. */
void keep_clean_up_host(const struct keep *k, const struct keep_record *r);

/* ---- keep/volume.c ---- */

/* LAUNCHER_VOLUME_*: done, or begun, and answered. */
void keep_handle_volume(struct keep *k, const struct launcher_request *r);
/* In a job: removes what an earlier launcher did not come to. */
void keep_sweep_volumes(const struct keep *k);
