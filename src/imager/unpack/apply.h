/* Inside of applying a tar to a folder: what unpack/apply.c (entries and names), unpack/make.c
 * (making what an entry says), unpack/attr.c (owners, attributes, times) and unpack/hide.c
 * (whiteouts) share. Not for others. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/auto.h"
#include "imager/unpack/internal.h"

/* Numbers, none of them 0. */
struct number_set {
    uint64_t *slots;
    size_t size, used; /* size is a power of two */
};

/* Folders whose times are set when nothing is made in them any more. */
struct later {
    struct later_folder {
        size_t path; /* in paths */
        struct timespec times[2];
    } * folders;
    size_t count, size;
    char *paths; /* each with its NUL */
    size_t used, allocated;
};

struct apply {
    int root;
    const struct unpack_limits *limits;
    bool raw; /* UNPACK_RAW */
    bool single_id;
    struct archive *archive;
    struct archive_entry *entry;
    const char *shown;   /* the entry's name as the archive has it */
    char path[PATH_MAX]; /* its clean form: relative, "" for the root */

    /* The folder that the last entry was made in, by its path. */
    char parent_path[PATH_MAX];
    int parent;        /* O_PATH; -1: none */
    bool parent_known; /* parent_path still leads there */
    struct stat parent_stat;

    struct number_set made; /* what this layer made: number_of() */
    struct later later;
    uint64_t headers; /* entries of any kind */
    struct unpack_result *counts;
    struct cay_error *err;
};

/* ---- unpack/apply.c ---- */

/* Fills the error with the entry's name, escaped; negative. */
int apply_refuse(struct apply *a, const char *fmt, ...) _printf_(2, 3);
int apply_errno(struct apply *a, int sys, const char *what);
/* Hitting a limit. */
int apply_limit(struct apply *a, const char *fmt, ...) _printf_(2, 3);

/* Makes a name of the archive a clean path. "" for the root. */
int apply_clean(struct apply *a, const char *name, char out[static PATH_MAX]);

/* Opens the folder that path lies in, as a program in the image would find it, and makes *ret_name
 * its last component. With `make` what is missing is made. The descriptor is a->parent, which stays
 * a's; 0 or -errno. */
int apply_enter(struct apply *a, const char *path, bool make, const char **ret_name);
/* What was resolved so far may be something else now. */
void apply_forget(struct apply *a);

/* ---- unpack/make.c ---- */

/* Makes what the entry says at a->path; name is its last component in a->parent. */
int apply_file(struct apply *a, const char *name);
int apply_folder(struct apply *a, const char *name);
int apply_root(struct apply *a);
int apply_symlink(struct apply *a, const char *name);
int apply_fifo(struct apply *a, const char *name);
int apply_hard_link(struct apply *a, const char *name);
/* A fifo, or a socket that comes as one; a whiteout of the overlay. Both in raw archives only. */
int apply_marked_fifo(struct apply *a, const char *name);
int apply_overlay_whiteout(struct apply *a, const char *name);

/* ---- unpack/attr.c ---- */

/* Owner, mode and attributes of what was just made (`fresh`) or was there. */
int attr_set(struct apply *a, int fd, bool fresh);
/* The owner alone, of what cannot be opened. */
int attr_set_owner_at(struct apply *a, const char *name);
/* Its times, of access and of change. */
void attr_times(const struct apply *a, struct timespec times[static 2]);
int attr_set_times_at(struct apply *a, const char *name);

/* Remembers the folder a->path for later_set_times. */
int later_add(struct apply *a);
int later_set_times(struct apply *a);
void later_free(struct later *l);

/* ---- unpack/hide.c ---- */

/* Identifies a name in a folder. */
uint64_t number_of(const struct stat *folder, const char *name);
int number_add(struct number_set *set, uint64_t number);
void number_free(struct number_set *set);

/* Removes what layers below have under this name in a->parent; what this layer made stays. */
int hide_name(struct apply *a, const char *name);
/* The same for all names in the folder a->parent. */
int hide_all(struct apply *a);
