/* Programs of e2fsprogs, which make and change the file systems of disks. */
#pragma once

#include <sys/types.h>

struct cay_error;

/* 0 if it is there; -CAY_UNSUPPORTED. */
int disk_tool_find(const char *name, struct cay_error *err);

/* The same for a file whose bytes a sandbox has chosen, which gets the owner `uid` meanwhile: the
 * program has that id and no other right, no network, and the filter of sandboxes. What it exits
 * with; -CAY_INTERNAL if it was killed. */
int disk_tool_run_confined(const char *name, const char *const *words, int file, uid_t uid,
                           struct cay_error *err);

/* Runs it with the words, up to NULL, and waits. The file is the last word; nothing else of ours
 * reaches it, and nothing of the host's configuration. */
int disk_tool_run(const char *name, const char *const *words, int file, struct cay_error *err);
