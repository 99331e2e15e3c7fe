/* All of what programs printed whose sandboxes are gone (POST /api/cay/python), when it is more
 * than an answer has: files of the daemon, each of the key whose program it was, for some minutes.
 * None outlives the process. Functions may be called from any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct cay_error;
struct key;
struct outputs; /* opaque; lives as long as the process */

struct outputs_rules {
    uint64_t one_bytes, owner_bytes, all_bytes;
    int64_t keep_ms;
    /* Told how much an owner has, when one is complete or has been removed; NULL: nobody is. */
    void (*changed)(void *user, const char *owner, uint64_t bytes);
    /* How much he may still have; NULL: any number. */
    uint64_t (*left)(void *user, const char *owner);
    void *user;
};
/* 256 MiB, 512 MiB, 1 GiB, for 10 minutes. */
extern const struct outputs_rules outputs_rules;

/* In a folder, which is made if it is missing; what is in it is removed. */
int outputs_open(const char *folder, const struct outputs_rules *rules, struct outputs **ret,
                 struct cay_error *err);
void outputs_free(struct outputs *o); /* for tests */

/* One that is being written. */
struct output {
    struct outputs *all;
    int fd;
    char id[ID_SIZE]; /* "": none could be made */
    uint64_t size;
    bool is_cut; /* there is no room for all of it */
};
#define OUTPUT_NONE ((struct output){.fd = -1})

/* Begins one; that there is no room for it shows in its id. */
void output_begin(struct outputs *o, const char *owner, struct output *ret);
void output_add(struct output *w, const char *data, size_t len);
/* It is there from now on, until its time is over; or it is not kept. */
void output_end(struct output *w, bool keeps);

/* One that the caller may read: a descriptor, or -CAY_NOT_FOUND. */
int outputs_find(struct outputs *o, const struct key *caller, const char *id, uint64_t *ret_bytes,
                 struct cay_error *err);
