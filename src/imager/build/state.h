/* What the files of the builder share; not for others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "image/record.h"
#include "image/store.h"
#include "image/store_usage.h"
#include "imager/build/build.h"
#include "imager/build/dockerfile.h"
#include "imager/build/dockerfile_words.h"
#include "imager/build/dockerignore.h"
#include "imager/layer/digest.h"

/* A FROM with what follows it. */
struct build_stage {
    const struct instruction *from;
    const struct instruction *list; /* its instructions, after FROM */
    size_t count;
    const char *name; /* NULL if it has none */
    bool needed;
    struct image_record *record; /* as far as it is built; NULL before */
    struct strv args;            /* "K=V" of ARG */
    struct strv shell;           /* of SHELL; empty: /bin/sh -c */
    struct strv history;         /* a line for each layer */
    bool cmd_set;                /* by this stage */
    int64_t epoch;               /* newest time so far; nothing in its layers is newer */
};

struct build {
    const struct image_store *store;
    const struct build_options *options;
    struct dockerfile *file;
    struct dockerignore *ignore;
    struct build_stage *stages;
    size_t stage_count;
    size_t target;
    struct strv globals;   /* "K=V" of ARG before the first FROM */
    struct strv used_args; /* names of --build-arg that an ARG took */
    size_t step, steps;
};

/* A line of the log. */
void build_log(const struct build *b, const char *fmt, ...) _printf_(2, 3);
/* Fills err with the line of the instruction. */
int build_refuse(const struct instruction *in, struct cay_error *err, const char *fmt, ...)
    _printf_(3, 4);
int build_no_memory(struct cay_error *err);

/* Every layer of a record, lowest first; chain of the topmost, "" if there is none. */
const char *build_parent(const struct build_stage *s);

/* ---- build/stage.c: planning, FROM, the result ---- */

/* Cuts the Dockerfile into stages, finds the target and marks what it needs. */
int build_plan(struct build *b, struct cay_error *err);
/* Gives the stage the record that it starts from. */
int build_from(struct build *b, struct build_stage *s, struct cay_error *err);
/* The stage that COPY --from=NAME or an index means; NULL with 0 if it is the name of an image. */
int build_find_stage(const struct build *b, const struct build_stage *s,
                     const struct instruction *in, const char *name, const struct build_stage **ret,
                     struct cay_error *err);
/* The record of an image, pulled if it is not there. */
int build_open_image(const struct build *b, const char *name, const struct platform *platform,
                     struct image_record **ret, struct cay_error *err);
/* Writes the configuration and the record of the finished stage. */
int build_finish(struct build *b, struct build_stage *s, char id[static HEX_SIZE],
                 struct cay_error *err);

/* ---- build/config.c: what makes no layer ---- */

int build_apply(struct build *b, struct build_stage *s, const struct instruction *in,
                struct cay_error *err);
/* ARG before the first FROM. */
int build_global_arg(struct build *b, const struct instruction *in, struct cay_error *err);
/* Variables of the stage: ENV before ARG. */
struct word_scope build_scope(const struct build *b, struct build_stage *s);
/* Those that FROM sees. */
struct word_scope build_global_scope(struct build *b);
/* The value in a list of "K=V", NULL if there is none. */
const char *build_get(const struct strv *list, const char *name);
/* Sets K to V in a list of "K=V", in place if it is there. */
int build_set(struct strv *list, const char *name, const char *value);
/* path as the stage sees it, absolute and without "." and "..": relative to WORKDIR. */
int build_path(const struct build_stage *s, const char *path, char *out, size_t size);
/* Names of --build-arg that no ARG took are told. */
void build_report_unused(const struct build *b);

/* ---- build/layer.c ---- */

/* Gives the settled layer its digest and its name, and the stage one layer more; remembers it under
 * key. */
int build_seal(struct build *b, struct build_stage *s, const struct instruction *in,
               struct layer_work *work, const char *key, struct cay_error *err);
/* Takes the layer that the cache has for this key, and says so in the log; false if it has none. */
bool build_reuse(struct build *b, struct build_stage *s, const struct instruction *in,
                 const char *key);

/* ---- build/cache.c: from what goes into a layer to the layer ---- */

/* A key in the making: every field is told apart from the next. */
struct digest *build_key_new(const struct build *b, const struct build_stage *s, const char *op);
void build_key_put(struct digest *key, const char *text);
void build_key_put_list(struct digest *key, const struct strv *list);

/* false if there is none, or if its layer is gone. */
bool build_cache_get(const struct image_store *store, const char *key, struct record_layer *ret);
/* What cannot be remembered is built again the next time. */
void build_cache_put(const struct image_store *store, const char *key,
                     const struct record_layer *layer);
/* Adds the layers that only the cache may have, with who pays for them. 0 or -ENOMEM. */
int build_cache_charges(const struct image_store *store, struct image_charges *ret);
/* Forgets the steps of the store's owner that none of his images has. */
void build_cache_forget(const struct image_store *store);
/* Forgets entries whose layer was pruned. */
void build_cache_sweep(const struct image_store *store);

/* ---- instructions that make a layer ---- */

int build_run(struct build *b, struct build_stage *s, const struct instruction *in,
              struct cay_error *err);
int build_copy(struct build *b, struct build_stage *s, const struct instruction *in,
               struct cay_error *err);
int build_workdir(struct build *b, struct build_stage *s, const struct instruction *in,
                  struct cay_error *err);
