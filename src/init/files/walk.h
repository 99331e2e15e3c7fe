/* Walks a folder tree by descriptors: symlinks are reported and never followed, so there are no
 * loops, and kernel file systems (/proc, /sys) below the start are left out. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct cay_error;

struct walk_entry {
    int dirfd;         /* the folder that holds it */
    const char *name;  /* its name there */
    const char *path;  /* start, "/" and the way down */
    const char *below; /* the part of path behind the start; "" for the start itself */
    const struct stat *st;
    bool post; /* a folder again, after what is in it */
};

enum { WALK_ON = 0, WALK_SKIP = 1, WALK_STOP = 2 };

/* WALK_ON, WALK_SKIP (do not enter this folder), WALK_STOP (end, successfully), or negative. */
typedef int walk_fn(void *arg, const struct walk_entry *e, struct cay_error *err);

struct walk_options {
    bool post;       /* report folders a second time, when their content was reported */
    bool forgiving;  /* pass over folders that cannot be read instead of failing */
    bool below_only; /* do not report the start itself */
};

/* Visits start (as `shown` in paths) and everything below it. 0, WALK_STOP, or negative. */
int walk_tree(const char *start, const char *shown, struct walk_options options, walk_fn *visit,
              void *arg, struct cay_error *err);
