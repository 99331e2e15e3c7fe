/* Processes beside the launcher that start persistent sandboxes, clean up after them and remove
 * their files. The launcher decides and keeps the table; a worker does one task at a time with what
 * the task says, and reports. Sandboxes that a worker starts are children of the launcher. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/native/keep/internal.h"

enum keep_work {
    KEEP_WORK_START,
    KEEP_WORK_CLEAN_UP, /* after the end of one that stays */
    KEEP_WORK_REMOVE,   /* the same, with its folder, which has lost its name */
};

/* What a worker is told; r is cut off behind its mounts, and not sent but with a start. */
struct keep_order {
    enum keep_work work;
    bool is_new;
    struct keep_record record; /* as it was */
    char old[KEEP_OLD_SIZE];
    struct launcher_request r;
};

/* What it reports. A start that succeeded comes with the sandbox's pidfd, and with the socket at
 * which its cay-init waits for its listener. */
struct keep_report {
    int result;
    struct keep_record record;
    bool has_group;
    struct cay_error err; /* if result is negative */
};

/* A task of the launcher: waiting for a worker, or being done by one. */
struct keep_task {
    struct keep_task *next;
    struct kept *s; /* NULL: it is being removed */
    uint64_t *tags; /* to be answered */
    size_t tag_count;
    int listener;   /* of a start */
    unsigned tries; /* by workers that died of it */
    struct keep_order order;
};

/* Starts the workers; those that cannot be started now are when they are needed. */
void keep_workers_start(struct keep *k);
/* Ends them; what they were doing is finished by the next launcher. */
void keep_workers_stop(struct keep *k);

/* Each begins a task, and answers its tags once it is done or cannot be. s is busy until then. */
void keep_begin_start(struct keep *k, struct kept *s, bool is_new, const struct launcher_request *r,
                      int listener);
void keep_begin_clean_up(struct keep *k, struct kept *s);
void keep_begin_remove(struct keep *k, const struct keep_record *record, const char *old,
                       const uint64_t *tags, size_t count);

/* Something is to be read from a worker. */
void keep_worker_reports(struct keep *k, struct keep_worker *w);
/* True if pid was a worker. */
bool keep_worker_ended(struct keep *k, pid_t pid);

/* Keeps a request until no worker is busy on s; does what was kept; drops it unanswered. */
void keep_defer(const struct keep *k, struct kept *s, const struct launcher_request *r,
                int listener);
void keep_replay(struct keep *k, struct keep_deferred *list);
void keep_forget_deferred(struct keep_deferred *list);

/* In a worker: does what is ordered until the launcher hangs up. */
_Noreturn void keep_worker_run(struct keep *k, int sock);
