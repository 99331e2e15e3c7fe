/* What the rest of cay knows of this engine, and its throw-away sandboxes in this process. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/engines.h"
#include "engine/native/native.h"

extern const struct engine_type engine_type_native; /* of config/engines.h */

struct native_here {
    struct engine engine; /* first */
    struct native *native;
};

static struct native *native_of(struct engine *e) {
    return ((struct native_here *)e)->native;
}

static int engine_run(struct engine *e, const struct sandbox_spec *spec, const struct image *image,
                      struct engine_run *ret, struct cay_error *err) {
    struct native_root root = {.image = image, .disk = -1};
    struct native_box *box;
    int r = native_start(native_of(e), spec, image != NULL ? &root : NULL, &box, err);
    if (r < 0)
        return r;
    const struct native_phases *p = native_box_phases(box);
    *ret = (struct engine_run){.connection = native_box_take_connection(box),
                               .prepare_us = p->prepare_us,
                               .root_us = p->root_us,
                               .start_us = p->start_us,
                               .box = box};
    memcpy(ret->id, spec->id, sizeof ret->id);
    return 0;
}

static bool engine_run_oom_killed(struct engine *e, const struct engine_run *run, bool was_killed) {
    (void)e, (void)was_killed; /* any process of it counts */
    return native_box_oom_killed(run->box);
}

static void engine_run_end(struct engine *e, struct engine_run *run) {
    (void)e;
    run->box = native_box_destroy(run->box);
}

static size_t engine_walls(struct engine *e, struct engine_wall *walls, size_t max) {
    const struct native_wall *all;
    size_t count = native_walls(native_of(e), &all);
    for (size_t i = 0; i < MIN(count, max); i++)
        walls[i] = (struct engine_wall){.name = all[i].name,
                                        .detail = all[i].detail,
                                        .remedy = all[i].remedy,
                                        .needed_for = all[i].needed_for,
                                        .ok = all[i].ok};
    return count;
}

static enum tier engine_tier(struct engine *e) {
    return native_tier(native_of(e));
}

static void engine_close(struct engine *e) {
    (void)native_close(native_of(e));
    free(e);
}

static const struct engine_ops ops = {.run = engine_run,
                                      .run_oom_killed = engine_run_oom_killed,
                                      .run_end = engine_run_end,
                                      .walls = engine_walls,
                                      .tier = engine_tier,
                                      .close = engine_close};

static int open_here(const char *state_dir, struct engine **ret, struct cay_error *err) {
    struct native_here *h = calloc(1, sizeof *h);
    if (h == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    h->engine.ops = &ops;
    int r = native_open(state_dir, true, &h->native, err);
    if (r < 0) {
        free(h);
        return r;
    }
    *ret = &h->engine;
    return 0;
}

static enum tier best_tier(bool is_root, const char *const keys[static ENGINE_KEYS]) {
    (void)keys;
    return is_root ? TIER_FULL : TIER_ROOTLESS;
}

const struct engine_type engine_type_native = {
    .program = "cay-launcher",
    .role = "launcher",
    .title = "Native engine",
    .folder = "sandboxes",
    .keep = "0", /* slots: throw-away sandboxes are not kept ready by the launcher */
    .abilities = ENGINE_HAS_ONCE,
    .ping_rounds = 1,
    .best_tier = best_tier,
    .open = open_here,
};
