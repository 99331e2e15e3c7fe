/* What the files of the store share; private to store*.c and image.c. Whatever lies in the store
 * may have been changed by whoever owns its ids: no symlink is followed, nothing but regular files
 * and folders is opened, and every read has a bound. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "image/store.h"

struct stat;

/* What a file is written under before it has its name. Found by prune it is garbage. */
#define STORE_NEW ".new-"

/* Opens the folder STATE/images/store to read, or -errno. It is not locked. */
int store_open_folder(const char *state_dir);

/* A folder of the store ("blobs", "names/docker.io"), to read and to sync. An fd or -errno. */
int store_folder(const struct image_store *store, const char *path);

/* Waits until this process alone may change the folder of the store (one of those that are always
 * there). The fd, which holds the lock until it is closed, or -errno. */
int store_folder_alone(const struct image_store *store, const char *path);

/* Opens a regular file of a folder. An fd or -errno (-EBADMSG: it is something else). */
int store_open_file(int folder, const char *name, int flags);

/* Reads a regular file of a folder up to b's maximum. 0 or -errno. */
int store_read_file(int folder, const char *name, struct buf *b);

/* Writes a file of a folder, atomically and durably; what has that name is replaced. 0 or -errno.
 */
int store_write_file(int folder, const char *name, const void *data, size_t len);

/* OFD locks: they belong to the open file, so threads exclude each other too, and forked children
 * share them. type is F_RDLCK, F_WRLCK or F_UNLCK. 0 or -errno; -EAGAIN without `wait` if another
 * holds it. F_WRLCK wants a file that is open for writing. */
int store_lock(int fd, short type, bool wait);
/* Whether an exclusive lock could be had now. */
bool store_lock_is_free(int fd);

/* True if `name` of the folder is still the open file fd. */
bool store_is_same(int folder, const char *name, int fd);

/* A name that nobody has: prefix and 16 random hex digits. 0 or -errno. */
int store_new_name(const char *prefix, char *out, size_t size);

/* The error of a store whose file or folder could not be used; sys is positive. */
int store_fail(struct cay_error *err, int sys, const char *what, const char *name);

/* ---- store_names.c ---- */

bool store_has_record(const struct image_store *store, const char *id);

/* ---- store_owners.c ---- */

#define STORE_OWNERS "owners"
/* The folder owners/OWNER/ids, or -errno. */
int store_owner_ids(const struct image_store *store, const char *owner);
/* Removes the image from the ids of every owner: 0 or -errno. */
int store_disown_all(const struct image_store *store, const char *id);

/* ---- store_layers.c ---- */

/* Opens a layer of the folder of layers if it is whole: as image_store_open_layer. */
int store_open_layer_at(int layers, const char *chain, int *ret_lock);
/* Whether the files of the layer (its folder) are known to be there: they were written since the
 * machine started, or brought to the disk since. */
bool store_layer_is_whole(int layer);

/* ---- store_pins.c ---- */

/* Whether it is the backup of a sandbox. */
bool store_is_backup(const struct image_store *store, const char *id);
bool store_is_pinned(const struct image_store *store, const char *id);
