/* The verbs of cay-image, and what they share. Each takes its own values (cmd/image_verbs.h) and
 * its operands, and returns an exit code. All follow one order: options are read and the caller's
 * files are opened with the caller's rights, then the image store's world is entered, then the work
 * is done there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json/jsonw.h"
#include "cmd/image_verbs.h"
#include "image/progress.h"
#include "image/reference.h"
#include "imager/verbs/world.h"

struct cay_error;
struct config;
struct credential;
struct pull_options;
struct registry_options;

int do_ls(const void *values, int argc, char **argv);
int do_inspect(const void *values, int argc, char **argv);
int do_rm(const void *values, int argc, char **argv);
int do_tag(const void *values, int argc, char **argv);
int do_public(const void *values, int argc, char **argv);
int do_prune(const void *values, int argc, char **argv);
int do_pull(const void *values, int argc, char **argv);
int do_ensure(const void *values, int argc, char **argv);
int do_credential(const void *values, int argc, char **argv);
int do_load(const void *values, int argc, char **argv);
int do_save(const void *values, int argc, char **argv);
int do_import(const void *values, int argc, char **argv);
int do_export(const void *values, int argc, char **argv);
int do_build(const void *values, int argc, char **argv);
int do_make(const void *values, int argc, char **argv);
int do_login(const void *values, int argc, char **argv);
int do_logout(const void *values, int argc, char **argv);
int do_snapshot(const void *values, int argc, char **argv);
int do_archive(const void *values, int argc, char **argv);
int do_restore(const void *values, int argc, char **argv);
int do_store(const void *values, int argc, char **argv);

/* ---- the world ---- */

/* Finds the state folder and enters the world. */
int verbs_enter(const struct verb_common *common, bool builds, struct world *ret,
                struct cay_error *err);
void verbs_leave(struct world *world);
#define WORLD_NONE ((struct world){.store = IMAGE_STORE_NONE})

/* As image_store_find, with what to do about an image that is not there. */
int verbs_find(const struct image_store *store, const char *text, char id[static HEX_SIZE],
               struct cay_error *err);

/* What `rm` does with one word. */
int verbs_remove(const struct image_store *store, const char *text, bool force,
                 struct cay_error *err);
/* -CAY_CONFLICT if the owner has that name already. */
int verbs_check_new(const struct image_store *store, const struct reference *name,
                    struct cay_error *err);
/* Makes an image of a sandbox that stands still; is_new: the name must not be taken. */
int verbs_snapshot(const struct verb_common *common, const char *sandbox,
                   const struct reference *name, bool is_new, char id[static HEX_SIZE],
                   struct cay_error *err);

/* Does work(user) in a child process and returns its exit code (negative with err filled if there
 * can be none): for what has to be done with the caller's rights after the world is gone. Since
 * apart_prepare() signals end the child, or keep it from starting, but not this process. */
void apart_prepare(void);
int apart_run(int (*work)(void *user), void *user, struct cay_error *err);

/* ---- registries ---- */

/* What a verb needs of the configuration and of the caller's files to talk to registries. */
struct access {
    struct config *config;
    char *ca_pem;          /* certificates: the world may not read the caller's files; NULL: none */
    bool insecure;         /* as an option said */
    struct runner *runner; /* to be asked for credentials; set by access_pull_options */
};

int access_open(const struct image_registry_options *options, struct access *ret,
                struct cay_error *err);
void access_close(struct access *access);
/* How this registry is to be talked to; it points into access. */
void access_to(const struct access *access, const char *registry, struct registry_options *ret);
/* Who we are to this registry, by the configuration, then by the caller's own files; not in the
 * world. */
int access_find_credential(const struct access *access, const char *registry,
                           struct credential *ret, struct cay_error *err);
/* All of pull's options but the policy; the world's parent is asked for credentials. They point
 * into access. */
int access_pull_options(struct access *access, const struct image_registry_options *options,
                        struct world *world, struct progress *progress, struct pull_options *ret,
                        struct cay_error *err);
/* The configured policy. */
int access_policy(const struct access *access);
/* What is meant by text here: an alias of the configuration, which is told on standard error, or
 * text itself. 1 if it is an alias, 0 if not. */
int access_resolve(const struct access *access, const char *text,
                   char out[static REFERENCE_TEXT_SIZE], struct cay_error *err);

/* ---- files of the caller ---- */

/* An archive to read: path, or standard input if it is NULL or "-", but no terminal. A folder is
 * refused unless asked for. An fd or a negative code. */
int input_open(const char *path, bool folders, struct cay_error *err);

/* A file to write, which appears under its name when it is complete. */
struct output_file {
    int fd;
    const char *path; /* NULL: standard output */
    char *temporary;  /* what has to be renamed; NULL: nothing */
};
#define OUTPUT_FILE_NONE ((struct output_file){.fd = -1})

/* path NULL is standard output, but no terminal. */
int output_open(const char *path, struct output_file *ret, struct cay_error *err);
int output_commit(struct output_file *out, struct cay_error *err);
/* Removes what was not committed. An empty one is fine. */
void output_close(struct output_file *out);

/* ---- telling ---- */

/* NULL without memory, which tells nothing. */
struct progress *verbs_progress(const struct verb_common *common, int choice);
void verbs_put_digest(struct jsonw *w, const char *key, const char *hex);
/* "sha256:HEX", or an object with id and name (NULL: none). */
int verbs_print_id(const struct verb_common *common, const char *id, const struct reference *name);

/* For verbs that programs start: the lines (NULL-terminated) if r is not negative, or in three
 * lines the error's name, its message and its remedy, which they tell in their own way. Returns the
 * exit code. */
int verbs_answer(int r, const char *const *lines, struct cay_error *err);

/* ---- the caller's terminal ---- */

/* Asks on the terminal of standard input, with or without echo. A line of at most size - 1 bytes.
 */
int prompt(const char *question, bool echo, char *out, size_t size, struct cay_error *err);
