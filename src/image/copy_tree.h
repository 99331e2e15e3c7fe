/* Bounded copying of configuration that everybody on the host may read. What is not world-readable,
 * is no file, folder or symlink, or lies beyond a limit is left out; symlinks are never followed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    COPY_FILE_MAX = 4 * 1024 * 1024,
    COPY_ENTRIES_MAX = 2000,
    COPY_DEPTH_MAX = 8,
};

struct copy_tree {
    size_t entries;      /* copied so far; COPY_ENTRIES_MAX at most */
    bool only_usr_links; /* nothing but symlinks to programs and data in /usr */
};

/* Copies `name` of folder `from` into folder `to` under the same name: files get mode 0644 or 0755,
 * folders 0755, the owner is the caller. A source that is missing or left out is success.
 * 0 or -errno of the destination. */
int copy_tree(struct copy_tree *c, int from, const char *name, int to);

/* Makes the file `name` in folder `to` with this content and exactly this mode. It must not exist
 * yet. 0 or -errno. */
int copy_text(int to, const char *name, unsigned mode, const void *data, size_t len);

/* Makes the folder `name` in folder `to` with exactly this mode. 0 or -errno. */
int copy_make_dir(int to, const char *name, unsigned mode);
