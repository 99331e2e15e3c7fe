/* What the manager needs of whoever keeps archives. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cay_error;
struct sandbox_record;

/* Archives of what sandboxes have written. Each may take long, in the caller's thread; lines that
 * tell how far it is go to progress_fd (or -1). */
struct archive_ops {
    /* Of a sandbox that does not run: a whole archive on the disk, or none. */
    int (*write)(void *user, const struct sandbox_record *r, int progress_fd, uint64_t *ret_bytes,
                 struct cay_error *err);
    /* The engine's files from the archive, which stays. Files that are there are left as they are.
     */
    int (*restore)(void *user, const struct sandbox_record *r, int progress_fd,
                   struct cay_error *err);
    /* None is fine. */
    int (*remove)(void *user, const char *id, struct cay_error *err);
    /* Backups, in the same way; NULL: there are none. Of a sandbox that stands still or does not
     * run, in place of its last one, which stays if the new one is larger than max_bytes
     * (-CAY_LIMIT_REACHED) or fails otherwise; */
    int (*backup)(void *user, const struct sandbox_record *r, uint64_t max_bytes,
                  uint64_t *ret_bytes, struct cay_error *err);
    /* *ret: there were no files, and now there are; */
    int (*restore_backup)(void *user, const struct sandbox_record *r, int progress_fd, bool *ret,
                          struct cay_error *err);
    /* ends who is making one, which leaves the last one as it is; */
    int (*end_backup)(void *user, const char *id, struct cay_error *err);
    int (*remove_backup)(void *user, const char *id, struct cay_error *err);
};
