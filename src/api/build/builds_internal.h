/* What the files of builds share; not for others. Everything here is called with the lock held. */
#pragma once

#include <pthread.h>

#include "api/build/builds.h"
#include "base/buf.h"
#include "base/id.h"

enum {
    BUILD_LOG_MAX = 1 << 20,
    BUILD_LOG_END = 256, /* room behind it: that it was cut, and how the build ended */
};

struct build {
    struct builds *all;
    struct build *next; /* older */
    unsigned references;
    char name[REFERENCE_TEXT_SIZE];
    char owner[OWNER_SIZE];
    char made_by[OWNER_SIZE]; /* as in struct image_ops; not kept on the disk */
    bool is_snapshot;
    char *dockerfile;
    enum build_state state;
    bool has_runner;
    bool is_charged; /* to the budget of its owner, until its end */
    char reason[SANDBOX_TEXT_SIZE];
    int64_t created_ms, updated_ms, born; /* born: monotonic */
    struct buf log;
    int cancel;
    int contexts; /* -1: none */
    int file;     /* where it is kept; -1: nowhere */
    char file_name[ID_SIZE];
};

struct builds {
    const struct image_ops *ops;
    pthread_mutex_t lock; /* of all that follows, and of every build */
    pthread_cond_t changed;
    struct build *first; /* newest first */
    int folder;          /* where they are kept; -1: nowhere */
    unsigned running;    /* of all owners */
};

/* The owner's build of this name, or NULL; owner NULL is anybody. */
struct build *builds_lookup(const struct builds *b, const char *owner, const char *name);
/* It has come to its end: the owner may have another. */
void build_discharge(struct build *one);
bool build_is_finished(const struct build *one);
/* What others may know of it. */
void build_show(const struct build *one, struct build_view *ret);
/* Writes it to the disk as it is now. */
void build_keep(const struct build *one);
/* Gives a reference back. */
void build_put(struct build *one);
/* Adds to its log as much as there is room for, here and on the disk. */
void build_append_log(struct build *one, const char *data, size_t len);
