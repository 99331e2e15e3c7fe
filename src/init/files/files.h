/* What the file operations of cay-init share: paths of a request, errors, answers, and writing a
 * file so that it appears whole or not at all. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "init/op.h"

struct buf;
struct cay_error;

enum { FILES_ENTRIES_DEFAULT = 10000 }; /* answers of find and search when no LIMIT is given */

/* Copies text as an absolute path to out; a relative one starts at the request's CWD, else at the
 * user's home. The copy stays valid when further frames are read, the request does not. */
int files_path_of(const struct op_conn *c, const struct wire_message *request, const char *text,
                  char out[static PATH_MAX], struct cay_error *err);

/* As files_path_of for the string field `tag`, which must be there. */
int files_path(const struct op_conn *c, const struct wire_message *request, enum wire_tag tag,
               char out[static PATH_MAX], struct cay_error *err);

/* The existing file that path names, free of symlinks. */
int files_resolve(const char *path, char out[static PATH_MAX], struct cay_error *err);

/* The LIMIT of a request, fallback if there is none. */
uint64_t files_limit(const struct wire_message *request, uint64_t fallback);

/* "doing 'path': reason", with a remedy that fits the reason. sys is a positive errno. */
int files_error(struct cay_error *err, int sys, const char *doing, const char *path);

/* Sends b (NULL: empty) as an answer frame. */
int files_send(const struct op_conn *c, enum wire_type type, const struct buf *b,
               struct cay_error *err);

/* Appends the fields that describe a file; target NULL for anything but a symlink. */
void files_put_stat(struct buf *b, const char *path, const struct stat *st, const char *target);

/* The target of the symlink name in dirfd; "" if it cannot be read. */
void files_read_link(int dirfd, const char *name, char target[static PATH_MAX]);

/* Splits path at its last component, both copied; "/" and "/a/.." have none (-EINVAL). */
int files_split(const char *path, char folder[static PATH_MAX], char name[static NAME_MAX + 1]);

/* Copies the tree `name` of the folder `from` to the new name `to_name` in the folder `to`: modes,
 * times, symlinks and, where the user may set them, owners. On failure nothing is left of it. */
int files_copy_tree(int from, const char *name, int to, const char *to_name, const char *shown,
                    struct cay_error *err);

/* ---- whole-or-nothing writing ---- */

struct files_writer {
    int fd;                  /* write the content here */
    int folder;              /* O_PATH fd of the folder */
    char name[NAME_MAX + 1]; /* final name */
    char temporary[32];      /* name while it is written; empty: written in place */
};

/* For a cleanup attribute: closes it and removes the temporary. */
void files_writer_abort(struct files_writer *w);

#define FILES_WRITER_INIT ((struct files_writer){.fd = -1, .folder = -1})

/* Starts to write path (symlinks are followed, as an editor does). An existing regular file keeps
 * its mode and, where the user may set it, its owner; a new one gets `mode`. Where a file may be
 * written but its folder may not, it is written in place. */
int files_writer_open(struct files_writer *w, const char *path, mode_t mode, struct cay_error *err);

/* Makes the content appear under the final name. 0 or -errno; call files_writer_abort too. */
int files_writer_commit(struct files_writer *w);
