/* The disk of a sandbox that stays: what it has written, within its limit. It lies in the sandbox's
 * own folder, STATE/sandboxes/ID, and holds "fs" with "work" (the overlay's writable layer) and
 * "local" (/usr/local, where /usr is the host's), of the image store's ids.
 *
 * Where the caller is root of the host and there are loop devices, it is a file system in the
 * sparse file "disk"; else these are plain folders, without a limit. Nothing is mounted where
 * others see it: a mount lives as long as its descriptors and the sandbox that runs on it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;

/* 0 if this process can make disks with a limit; -CAY_UNSUPPORTED says what is missing. */
int disk_probe(struct cay_error *err);

/* What there is in a sandbox's folder. */
enum disk_kind {
    DISK_NONE,
    DISK_PLAIN,   /* folders, without a limit */
    DISK_BOUNDED, /* a file system of its own */
};
enum disk_kind disk_look(int folder);

/* Makes an empty disk for so many bytes in the sandbox's folder, which has none. 0 bytes: without a
 * limit, as plain folders. owner gets the folders: IMAGE_IDS_FIRST as root of the host, 0 for root
 * of a user namespace. What failed leaves nothing. */
int disk_make(int folder, uint64_t bytes, uid_t owner, struct cay_error *err);

/* A descriptor of the folder that holds fs, work and local, to be used with openat(); the sandbox
 * may run or not. Others may hold it at the same time: it is the same file system. One with a limit
 * is the root of a detached mount. */
int disk_open(int folder, struct cay_error *err);

/* 0 if its file system does not say that it has errors; else -CAY_INTERNAL with EUCLEAN. One that
 * says so is not to be used before it was checked. */
int disk_check(int folder, struct cay_error *err);

/* Checks the file system of a disk that nobody uses, and repairs it. *ret_thorough: it took more
 * than what is safe by itself, and files may be lost. */
int disk_repair(int folder, bool *ret_thorough, struct cay_error *err);

/* Raises the limit, whether or not the sandbox runs; as large already is fine. A disk without a
 * limit is -CAY_UNSUPPORTED, less than it has -CAY_CONFLICT. */
int disk_grow(int folder, uint64_t bytes, struct cay_error *err);

/* Removes the disk and all that is on it; the sandbox does not run. The folder and what else is in
 * it stay, and another disk may be made. None is fine. */
int disk_remove(int folder, struct cay_error *err);

/* Bytes that files take on the disk of a sandbox whose first process is pid, or does not run (0).
 * False if it cannot be told at once. */
bool disk_used(int folder, pid_t pid, uint64_t *ret);
