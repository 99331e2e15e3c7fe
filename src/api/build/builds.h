/* Builds of images that clients asked for: what each has said so far, and what became of it. They
 * are kept for some time after their end; an image that was built is the store's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "manager/record/key.h"

struct build;  /* opaque, referenced */
struct builds; /* opaque; lives as long as the process */
struct cay_error;
struct image_ops;

enum build_state { BUILD_PENDING, BUILD_RUNNING, BUILD_DONE, BUILD_FAILED };

struct build_view {
    char name[REFERENCE_TEXT_SIZE];
    enum build_state state;
    char reason[SANDBOX_TEXT_SIZE]; /* of BUILD_FAILED */
    int64_t created_ms, updated_ms;
};

/* ops must stay. */
int builds_new(const struct image_ops *ops, struct builds **ret, struct cay_error *err);
/* Keeps them in a folder, which is made if it is missing, and finds those that are there: what had
 * not come to its end has failed. To be called before anything else. */
int builds_keep(struct builds *b, const char *folder, struct cay_error *err);
/* For tests; those that builds_start began are given up. */
void builds_free(struct builds *b);

/* Takes note of a build by an owner, as struct image_ops has it. With a name the image gets it;
 * without ("") it is for a sandbox, and the build gets a name that nobody can guess, for
 * sandbox_record.image_name. -CAY_CONFLICT if a build of that name by the same owner is under way,
 * -CAY_LIMIT_REACHED if there are too many. A failed one of that name is forgotten. *ret is a
 * reference. */
int builds_add(struct builds *b, const char *owner, const char *made_by, const char *name,
               const char *dockerfile, struct build **ret, struct cay_error *err);
/* What COPY and ADD of one that does not run yet take: image_build_order.contexts, which is taken
 * over. */
void build_give_contexts(struct build *one, int contexts);
/* Runs it in a thread of its own; *ret_view is how it begins, whatever has become of it since. */
int builds_start(struct build *one, struct build_view *ret_view, struct cay_error *err);

/* True for names that builds_add made. */
bool builds_is_name(const char *image_name);
/* Runs the build of such a name, in the caller's thread, until it has the image's id, fails, or
 * cancel (or -1) is readable. */
int builds_run(struct builds *b, const char *name, int cancel, char id[static HEX_SIZE],
               struct cay_error *err);

/* The build of this name, referenced, if the caller may see it; else NULL. */
struct build *builds_find(struct builds *b, const struct key *caller, const char *name);
/* Calls fn with each build of a snapshot that is not done, newest first. */
void builds_each(struct builds *b, const struct key *caller,
                 void (*fn)(void *user, const struct build_view *view), void *user);
void build_look(struct build *one, struct build_view *ret);
/* Gives it up if it is under way, waits for its end, and forgets it: what it was in the end. */
enum build_state builds_drop(struct build *one);
void build_unref(struct build *one);
static inline void build_unrefp(struct build **one) {
    if (*one != NULL)
        build_unref(*one);
}

/* What it said from a place on: how many bytes, 0 at its end, or -EAGAIN if nothing came within
 * wait_ms. */
ssize_t build_read_log(struct build *one, size_t from, char *data, size_t size, int64_t wait_ms);
