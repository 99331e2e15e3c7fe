/* The file operations of cay-init, from the host: blocking, one connection each. What comes back
 * is checked field by field, and bounded by the caller's limits however long the other end goes
 * on (max_entries at least 1). Results that are passed to callbacks are valid during the call only;
 * a callback that returns negative (after filling err) ends the operation with that. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "wire/call.h"

enum { WIRE_MODE_DEFAULT = -1 };

/* ---- content ---- */

/* Puts up to size bytes into data: how many, 0 at the end, negative on failure. */
typedef ssize_t wire_source_fn(void *arg, char *data, size_t size, struct cay_error *err);
/* Takes content. 0 or negative. */
typedef int wire_sink_fn(void *arg, const char *data, size_t len, struct cay_error *err);

/* arg: const int *, a descriptor. */
wire_source_fn wire_source_fd;
wire_sink_fn wire_sink_fd;

/* arg: struct wire_memory *, which is consumed. */
struct wire_memory {
    const char *data;
    size_t len;
};
wire_source_fn wire_source_memory;

/* arg: struct buf *, whose maximum bounds what is taken. */
wire_sink_fn wire_sink_buf;

/* What to read of a file. */
struct wire_range {
    uint64_t offset;
    uint64_t limit;     /* 0: to the end */
    uint64_t max_bytes; /* more than this is an error */
};

/* Regular files only. */
int wire_read(const struct wire_call *c, const char *path, const struct wire_range *range,
              wire_sink_fn *sink, void *arg, uint64_t *ret_size, struct cay_error *err);

/* Whole or not at all. mode is for a new file; `parents` makes missing folders. */
int wire_write(const struct wire_call *c, const char *path, int mode, bool parents,
               wire_source_fn *source, void *arg, struct cay_error *err);

/* ---- names and attributes ---- */

struct wire_file {
    const char *path;   /* wire_list: the name in the folder */
    const char *target; /* of a symlink, else NULL */
    uint32_t mode;      /* st_mode, type included */
    uint32_t uid;
    uint32_t gid;
    uint64_t size;
    int64_t mtime_ms;
};
typedef int wire_file_fn(void *arg, const struct wire_file *f, struct cay_error *err);

/* ret->path is path, ret->target is the array or NULL. */
int wire_stat(const struct wire_call *c, const char *path, bool follow, struct wire_file *ret,
              char target[static PATH_MAX], struct cay_error *err);
/* Whether the user of the call may enter a folder, by its absolute path, which fits PATH_MAX.
 * CAY_INVALID_ARGUMENT if not, or if it is none. */
int wire_check_folder(const struct wire_call *c, const char *path, struct cay_error *err);

/* Everything in a folder, in no order. *ret_truncated: there were more than max_entries. */
int wire_list(const struct wire_call *c, const char *path, uint64_t max_entries, wire_file_fn *fn,
              void *arg, bool *ret_truncated, struct cay_error *err);

int wire_mkdir(const struct wire_call *c, const char *path, int mode, bool parents,
               struct cay_error *err);
int wire_move(const struct wire_call *c, const char *from, const char *to, struct cay_error *err);
int wire_remove(const struct wire_call *c, const char *path, bool recursive, struct cay_error *err);
int wire_chmod(const struct wire_call *c, const char *path, uint32_t mode, bool recursive,
               struct cay_error *err);
/* owner: "user", "user:group", ":group"; names or numbers of the sandbox. */
int wire_chown(const struct wire_call *c, const char *path, const char *owner, bool recursive,
               struct cay_error *err);

/* ---- search ---- */

enum { WIRE_SEARCH_REGEX = 1, WIRE_SEARCH_IGNORE_CASE = 2 };

struct wire_query {
    const char *path;     /* where to look */
    const char *pattern;  /* what for */
    unsigned flags;       /* WIRE_SEARCH_...; wire_search only */
    uint64_t max_entries; /* *ret_truncated: there were more */
};

/* Files below path whose name matches the glob; with a slash in it, whose path below does. */
int wire_find(const struct wire_call *c, const struct wire_query *q, wire_file_fn *fn, void *arg,
              bool *ret_truncated, struct cay_error *err);

struct wire_match {
    const char *path;
    const char *text; /* the line, cut after 1,024 bytes */
    uint64_t line;    /* from 1 */
};
typedef int wire_match_fn(void *arg, const struct wire_match *m, struct cay_error *err);

/* Lines with the pattern, in the file path or below the folder path. */
int wire_search(const struct wire_call *c, const struct wire_query *q, wire_match_fn *fn, void *arg,
                bool *ret_truncated, struct cay_error *err);

struct wire_replaced {
    const char *path; /* as given */
    uint64_t count;
    const struct cay_error *failure; /* NULL: it worked */
};
typedef int wire_replaced_fn(void *arg, const struct wire_replaced *r, struct cay_error *err);

/* Replaces a literal text in each file; fn hears about each, in the order given. */
int wire_replace(const struct wire_call *c, const char *const *paths, size_t count,
                 const char *pattern, const char *text, wire_replaced_fn *fn, void *arg,
                 struct cay_error *err);

/* ---- archives ---- */

struct wire_tar_totals {
    uint64_t members;
    uint64_t bytes; /* in: content; out: stream */
    char note[256]; /* what was left out; empty if nothing */
};

/* Extracts a tar stream below the folder path; `make` makes the folder. */
int wire_tar_in(const struct wire_call *c, const char *path, bool make, uint64_t max_bytes,
                wire_source_fn *source, void *arg, struct wire_tar_totals *ret,
                struct cay_error *err);

/* A tar stream of path, names beginning with its last part ("dir/." for what is in it only). */
int wire_tar_out(const struct wire_call *c, const char *path, uint64_t max_bytes,
                 wire_sink_fn *sink, void *arg, struct wire_tar_totals *ret, struct cay_error *err);

/* ---- streams ---- */

/* Afterwards c->fd is the raw stream to the port on the sandbox's loopback, or to the socket. */
int wire_dial_port(const struct wire_call *c, uint16_t port, struct cay_error *err);
int wire_dial_path(const struct wire_call *c, const char *path, struct cay_error *err);
