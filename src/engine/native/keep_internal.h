/* What the files of keep share; not for others. */
#pragma once

#include "engine/native/cgroup.h"
#include "engine/native/keep.h"
#include "engine/native/keep_record.h"
#include "engine/native/launcher.h"

#define KEEP_FOLDER "sandboxes" /* of the state folder */

enum { KEEP_REMOVE_MS = 10000 }; /* for a control group whose processes have ended */

/* A request that is answered when the sandbox has ended. */
struct keep_waiter {
    uint64_t tag;
    bool removes;
};

struct kept {
    struct keep_record record; /* pid 0: it does not run */
    bool paused;
    bool child; /* started by this launcher, which reaps it */
    bool reaped;
    int status;          /* if reaped */
    int pidfd;           /* the only descriptor that a running sandbox costs the launcher */
    struct cgroup group; /* without open descriptors; host NULL: none */
    struct keep_waiter *waiters;
    size_t waiter_count;
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
    int ended;         /* epoll of the pidfds */
    struct kept **all; /* sorted by id */
    size_t count, room;
    struct keep_job *jobs;
    size_t job_count, job_room;
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
void keep_answer(const struct keep *k, const struct launcher_answer *a);
void keep_answer_error(const struct keep *k, uint64_t tag, const struct cay_error *err);

/* ---- keep_adopt.c ---- */

/* Fills the table with what there is. */
int keep_take_over(struct keep *k, struct cay_error *err);
/* Takes over a sandbox whose folder came beside us, by a restore. NULL if there is none. */
struct kept *keep_take_over_new(struct keep *k, const char *id);

/* ---- keep_start.c ---- */

/* s is NULL for one that is new. On failure nothing has changed. */
int keep_start(struct keep *k, struct kept *s, const struct launcher_request *r, int listener,
               struct kept **ret, struct cay_error *err);

/* ---- keep_files.c ---- */

/* The folder of a sandbox, made if need be; *ret_new says whether it was. */
int keep_make_folder(const struct keep *k, const char *id, bool *ret_new, struct cay_error *err);
int keep_open_folder(const struct keep *k, const char *id);
/* Takes a folder that is being filled, or half removed, away at once. */
void keep_unmake_folder(const struct keep *k, const char *id);

/* Both answer, if it takes long from a job of their own. What is removed does not run; its folder
 * loses its name at once, and s is no more, or it is answered why not. */
void keep_remove(struct keep *k, struct kept *s, const uint64_t *tags, size_t count);
void keep_measure(struct keep *k, const struct kept *s, const struct launcher_answer *stats);
/* Removes what an earlier launcher did not come to. */
void keep_sweep(struct keep *k);

/* True if it was a job's. */
bool keep_job_ended(struct keep *k, pid_t pid, int status);
/* Returns as fork does; the child ends when the launcher does. Tags are answered if it fails. */
pid_t keep_fork_job(struct keep *k, const uint64_t *tags, size_t count);
void keep_fail_tags(const struct keep *k, const uint64_t *tags, size_t count);

/* ---- keep_space.c ---- */

/* LAUNCHER_SPACE: done, and answered, by a job. */
void keep_divide_space(struct keep *k, const struct launcher_request *r);

/* ---- keep_volume.c ---- */

/* LAUNCHER_VOLUME_*: done, or begun, and answered. */
void keep_handle_volume(struct keep *k, const struct launcher_request *r);
/* In a job: removes what an earlier launcher did not come to. */
void keep_sweep_volumes(const struct keep *k);
