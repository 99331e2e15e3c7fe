/* pull, ensure */
#include <stdio.h>

#include "base/error.h"
#include "imager/pull/pull.h"
#include "imager/verbs/verbs.h"

/* What is to be pulled, and how. */
struct request {
    const struct image_registry_options *options;
    struct access access;
    struct reference ref;
    bool alias; /* the caller said another name */
    enum pull_policy policy;
    char id[HEX_SIZE];
};

/* Everything that needs the caller's files; nothing is sent yet. */
static int prepare(struct request *q, struct cay_error *err) {
    struct platform platform;
    int r = access_open(q->options, &q->access, err);
    if (r == 0 && q->options->platform != NULL) /* refuse before anything is made */
        r = platform_parse(q->options->platform, &platform, err);
    return r;
}

static int pull(struct request *q, struct world *world, struct cay_error *err) {
    struct pull_options options;
    _cleanup_(progress_freep) struct progress *progress =
        verbs_progress(&q->options->common, q->options->progress);
    int r = access_pull_options(&q->access, q->options, world, progress, &options, err);
    if (r < 0)
        return r;
    options.policy = q->policy;
    return image_pull(&world->store, &q->ref, &options, q->id, err);
}

/* ---- pull ---- */

/* An explicit pull asks the registry; but what an alias stands for is most likely on this machine
 * alone, which is why there is one. */
static enum pull_policy policy_of_pull(const struct request *q) {
    if (q->options->policy >= 0)
        return (enum pull_policy)q->options->policy;
    return q->alias ? PULL_MISSING : PULL_ALWAYS;
}

static int prepare_pull(struct request *q, const char *text, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    int r = prepare(q, err);
    if (r == 0)
        r = access_resolve(&q->access, text, name, err);
    if (r < 0)
        return r;
    q->alias = r > 0;
    q->policy = policy_of_pull(q);
    return reference_parse(name, &q->ref, err);
}

int do_pull(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct request q = {.options = values};
    struct world world = WORLD_NONE;
    int r = prepare_pull(&q, argv[0], &err);
    if (r == 0)
        r = verbs_enter(&q.options->common, false, &world, &err);
    if (r == 0)
        r = pull(&q, &world, &err);
    int code = r < 0 ? verb_fail(&err) : verbs_print_id(&q.options->common, q.id, &q.ref);
    verbs_leave(&world);
    access_close(&q.access);
    return code;
}

/* ---- ensure ---- */

/* A name, an id, or the beginning of one that is here; else it is a name to pull. Aliases are the
 * business of whoever asks. */
static int ensure(struct request *q, const char *text, struct world *world, struct cay_error *err) {
    if (reference_is_id(text))
        return verbs_find(&world->store, text, q->id, err);
    int r = reference_parse(text, &q->ref, err);
    if (r < 0)
        return r;
    if (q->policy != PULL_ALWAYS &&
        image_store_find_reference(&world->store, &q->ref, q->id, err) < 0 &&
        image_store_find(&world->store, text, q->id, err) == 0)
        return 0;
    return pull(q, world, err);
}

int do_ensure(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct request q = {.options = values};
    struct world world = WORLD_NONE;
    int r = prepare(&q, &err);
    if (r == 0) {
        q.policy = (enum pull_policy)(q.options->policy >= 0 ? q.options->policy
                                                             : access_policy(&q.access));
        r = verbs_enter(&q.options->common, false, &world, &err);
    }
    if (r == 0)
        r = ensure(&q, argv[0], &world, &err);
    int code = verbs_answer(r, (const char *const[]){q.id, NULL}, &err);
    verbs_leave(&world);
    access_close(&q.access);
    return code;
}
