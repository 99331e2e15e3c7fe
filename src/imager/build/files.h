/* Files for COPY and ADD: finding them in the context or in another image, their digest, and
 * putting them into a layer. Sources and destination are hostile: every name is opened below a
 * descriptor of its root. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/str.h"
#include "imager/build/dockerignore.h"
#include "imager/layer/digest.h"

struct cay_error;

enum { FILES_DEPTH_MAX = 256, FILES_SOURCES_MAX = 100 * 1000 };

/* Where sources are taken from. */
struct file_tree {
    int root;
    bool is_image; /* symlinks resolve inside; in a context one that leaves it is refused */
    const struct dockerignore *ignore;
};

/* Adds the paths (relative to root; "." is the root) that a source means, which may be a pattern.
 * Nothing found is an error. */
int files_find(const struct file_tree *tree, const char *source, struct strv *ret,
               struct cay_error *err);
/* Opens one to read: a regular file or a folder; anything else is refused. */
int files_open(const struct file_tree *tree, const char *path, struct stat *ret_st,
               struct cay_error *err);

/* One file, folder or symlink below a source. */
struct file_entry {
    int dir;
    const char *name; /* in dir */
    const char *path; /* from the source */
    const struct stat *st;
};
struct file_visitor {
    int (*visit)(void *user, const struct file_entry *e, struct cay_error *err);
    int (*leave)(void *user, const struct file_entry *e, struct cay_error *err); /* a folder */
    void *user;
};
/* Visits what is in a folder (not the folder), sorted by name, folders before what is in them.
 * `path` is what it was found as, for what the tree ignores. */
int files_walk(const struct file_tree *tree, int folder, const char *path,
               const struct file_visitor *visitor, struct cay_error *err);

/* Adds to digest all that decides what a copy of the source looks like, times excluded. *newest
 * becomes the latest time of a file, if it is later. */
int files_digest(const struct file_tree *tree, const char *path, bool with_owner,
                 struct digest *digest, int64_t *newest, struct cay_error *err);

/* How copies look. */
struct file_look {
    bool keep_owner; /* as at the source; else uid and gid */
    unsigned uid, gid;
    bool has_mode;
    mode_t mode;
};

/* Opens the folder `path` of an image's root, making what is missing with mode 0755. */
int files_open_folder(int root, const char *path, const struct file_look *look,
                      struct cay_error *err);
/* Copies one source to the absolute path `to`: what is in a folder goes into it; a file goes into
 * it if it is a folder or must_be_folder, else becomes it. */
int files_place(const struct file_tree *tree, const char *path, int root, const char *to,
                bool must_be_folder, const struct file_look *look, struct cay_error *err);
/* Makes a file of this text in the folder. */
int files_place_text(int folder, const char *name, const char *text, const struct file_look *look,
                     int64_t time, struct cay_error *err);

/* Finds "USER[:GROUP]", names or numbers, in the files of an image. */
int files_owner(int root, const char *text, unsigned *uid, unsigned *gid, struct cay_error *err);
