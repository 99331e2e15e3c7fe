/* Programs of e2fsprogs, which make and change the file systems of disks. */
#pragma once

struct cay_error;

/* 0 if it is there; -CAY_UNSUPPORTED. */
int disk_tool_find(const char *name, struct cay_error *err);

/* Runs it with the words, up to NULL, and waits. The file is the last word; nothing else of ours
 * reaches it, and nothing of the host's configuration. */
int disk_tool_run(const char *name, const char *const *words, int file, struct cay_error *err);
