/* What the files of interpreters share. */
#pragma once

#include <pthread.h>

#include "image/reference.h"
#include "lib/command.h"
#include "manager/python/interpreters.h"

enum {
    INTERPRETERS_FROZEN_MAX = 16,
    INTERPRETERS_WAITING_MAX = 64,
    INTERPRETERS_RUNNING_MAX = 64,
    INTERPRETERS_CHANGED_MAX = 256,
};

/* A sandbox whose Python is not the one that was frozen. */
struct changed {
    char id[ID_SIZE];
    uint64_t number; /* of the frozen one */
};

/* The interpreter of an image. */
struct frozen {
    char image[HEX_SIZE];                             /* "": the host image */
    int fd;                                           /* -1: there is none */
    bool wanted;                                      /* it is to be made, or made anew */
    int64_t made_at, checked_at, used_at, refused_at; /* monotonic; 0: never */
    uint64_t mark;                                    /* python_fingerprint() */
    uint64_t number;                                  /* no other has it */
    char why[200];                                    /* it was refused */
    struct sandbox_record record;                     /* what it was made with: user, variables */
};

/* A sandbox of ours, and the way into it. */
struct python_box {
    int fd;
    uint64_t tag;     /* of one that is thrown away, */
    char id[ID_SIZE]; /* or of one that would stay; "": of the first kind */
    uint64_t made_of; /* the interpreter that waits there */
};

struct interpreters {
    struct interpreters_options options;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool closing;
    pthread_t worker;
    int making_fd; /* what the worker waits for; -1: nothing that lasts */
    uint64_t last_number;
    uint64_t rules; /* which these are: what was made by others is of no use */
    bool warm;
    struct strv preload;
    struct sandbox_spec spec;
    char work_dir[PATH_MAX], find_links[PATH_MAX], index_url[1024];
    struct frozen frozen[INTERPRETERS_FROZEN_MAX];
    size_t frozen_count;
    struct changed changed_boxes[INTERPRETERS_CHANGED_MAX]; /* a ring */
    size_t changed_next;
    struct python_box waiting[INTERPRETERS_WAITING_MAX];
    size_t waiting_count, target;
    bool is_used;     /* somebody has asked for one: they are worth keeping */
    int64_t asked_at; /* when that was last */
    int64_t retry_at; /* nothing is made before: it failed */
    unsigned running; /* programs */
    uint64_t hits, misses, dropped;
};

/* ---- interpreters_box.c ---- */

/* A fresh sandbox of the image; spec has its limits. */
int python_box_open(const struct interpreters *all, const struct sandbox_spec *spec,
                    const char *image, struct python_box *ret, struct cay_error *err);
/* Ends it; with ret_oom after everything of it has gone. */
int python_box_end(const struct interpreters *all, struct python_box *box, bool *ret_oom,
                   struct cay_error *err);

/* ---- interpreters.c; with the lock held ---- */

/* The one of this image, with a descriptor of its own in *ret, and its number; negative, with the
 * reason. */
int frozen_get(struct interpreters *all, const char *image, int *ret, uint64_t *ret_number,
               struct cay_error *why);
/* One that was not fit for use after all. */
void frozen_drop(struct interpreters *all, const char *image);
/* Of an image that is to be frozen; NULL: none. */
struct frozen *frozen_next(struct interpreters *all);
/* Freezes it. Takes the lock, and has it while nothing is waited for. */
void frozen_make(struct interpreters *all, const char *image);

/* ---- interpreters_once.c ---- */

/* With the lock held: ends those that wait. */
void once_empty(struct interpreters *all);
/* Whether one is missing, and may be made by now; *ret_at is when to look again. Lock held. */
bool once_is_missing(const struct interpreters *all, int64_t *ret_at);
/* Makes one; takes the lock. */
void once_fill(struct interpreters *all);
