/* Archives of sandboxes, which the supervisor has written and restored for the front, by cay-image,
 * and removes for it. The front says which sandbox; what is done and where is the supervisor's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "daemon/control.h"
#include "daemon/settings.h"
#include "image/archives.h"
#include "manager/record/record.h"

enum { ARCHIVE_JOBS_MAX = 16 };

struct archive_jobs {
    struct archive_job {
        pid_t pid; /* 0: free */
        char id[ID_SIZE];
    } job[ARCHIVE_JOBS_MAX];
};

/* ---- the supervisor's side ---- */

/* Does, or begins, what a message asks for: CONTROL_ARCHIVE, CONTROL_RESTORE, CONTROL_UNARCHIVE.
 * The answer goes to `answer`, lines that tell how far it is to `progress` (-1: nowhere). Both stay
 * open here. */
void archive_jobs_handle(struct archive_jobs *jobs, const struct settings *s,
                         const struct control_message *m, int answer, int progress);
/* True if this child was one of them. */
bool archive_jobs_ended(struct archive_jobs *jobs, pid_t pid);
bool archive_jobs_are_busy(const struct archive_jobs *jobs);
/* Ends all at once: what they had not finished never was. */
void archive_jobs_kill(const struct archive_jobs *jobs);

/* ---- the front's side ---- */

/* As the functions of struct archive_ops, over the front's control socket. */
int archives_ask_write(int control, const struct sandbox_record *r, int progress,
                       uint64_t *ret_bytes, struct cay_error *err);
int archives_ask_backup(int control, const struct sandbox_record *r, uint64_t max_bytes,
                        uint64_t *ret_bytes, struct cay_error *err);
int archives_ask_restore(int control, enum archive_kind kind, const struct sandbox_record *r,
                         int progress, bool *ret, struct cay_error *err);
/* unfinished: only who makes one is ended. */
int archives_ask_remove(int control, enum archive_kind kind, const char *id, bool unfinished,
                        struct cay_error *err);
