/* Paths. Whatever lies below a folder that somebody else can write to is walked with openat2(2)
 * from a descriptor, never by a joined string. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;

/* The first three need openat2(2). Where a filter denies it, they walk step by step, take no ".."
 * (-EXDEV) and follow no symlink (-ELOOP), be it one that would have stayed below. */

/* Opens path below dirfd: it may not leave it by "..", an absolute name or a symlink
 * (RESOLVE_BENEATH, no magic links). An fd or -errno. */
int path_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* Opens path as if dirfd were "/": absolute symlinks and ".." resolve inside (RESOLVE_IN_ROOT). */
int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode);

/* As path_open_in_root, with no symlink allowed in any component. */
int path_open_no_symlinks(int rootfd, const char *path, int flags, mode_t mode);

/* Makes every missing folder of path below dirfd, mode 0755 each. Symlinks are refused. Returns an
 * O_PATH fd of the last one, or -errno. */
int path_make_dirs(int dirfd, const char *path);

/* mkdir -p by name, for folders that are ours (the state folder). */
int path_make_dirs_trusted(const char *path, mode_t mode, struct cay_error *err);

/* The next name in an open folder but "." and "..", good until the next call: 1, 0 at the end, or
 * -errno. */
int path_next(DIR *d, const char **ret);

/* Calls visit for each name in the folder but "." and "..", until one is negative. 0, or that, or
 * -errno of reading the folder. */
typedef int (*path_visit)(void *user, int dir, const char *name);
int path_each(int dir, path_visit visit, void *user);

/* How many names a folder has but "." and "..", or -errno. */
ssize_t path_count_entries(const char *folder);

/* Removes name below dirfd with everything in it, however deep, never following a symlink or
 * entering a mount (-EXDEV, -EBUSY). The folders that lead to name are trusted. Gone already is
 * success. 0 or -errno. */
int path_remove_tree(int dirfd, const char *name);

/* Checks an absolute path as users give it for the inside: absolute, no "..", no NUL, not longer
 * than PATH_MAX; writes it normalised ("//", "/./", trailing "/" removed) to out. */
int path_normalize(const char *what, const char *path, char *out, size_t size,
                   struct cay_error *err);

/* a/b joined with exactly one slash: 0 or -ENAMETOOLONG. */
int path_join(char *out, size_t size, const char *a, const char *b);
