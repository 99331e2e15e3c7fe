/* rm, tag, prune */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "imager/verbs.h"

enum { PRUNE_WAIT_MS = 30000 };

/* ---- rm ---- */

/* What a word on the command line turned out to be. */
struct target {
    const char *text;
    char id[HEX_SIZE];
    bool by_name;
    struct reference ref; /* if so */
    size_t names;         /* that the image has, this one included */
};

static int find_target(const struct image_store *store, const char *text, struct target *ret,
                       struct cay_error *err) {
    *ret = (struct target){.text = text};
    ret->by_name = reference_parse(text, &ret->ref, err) == 0 &&
                   image_store_find_reference(store, &ret->ref, ret->id, err) == 0;
    int r = ret->by_name ? 0 : verbs_find(store, text, ret->id, err);
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    if (r == 0)
        r = image_store_names(store, &names, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        ret->names += str_equal(names[i].id, ret->id);
    return r;
}

static bool is_used(const struct image_store *store, const char *id) {
    struct cay_error err;
    _cleanup_(record_freep) struct image_record *record = NULL;
    return image_store_read_record(store, id, &record, &err) == 0 &&
           image_store_is_used(store, record);
}

static int remove_names(const struct image_store *store, const char *id, struct cay_error *err) {
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    int r = image_store_names(store, &names, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (str_equal(names[i].id, id))
            r = image_store_remove_name(store, &names[i].ref, err);
    return r;
}

/* The whole image; while it is used only its names, so that its sandbox can tell what it is. */
static int remove_image(const struct image_store *store, const struct target *t,
                        struct cay_error *err) {
    if (!is_used(store, t->id))
        return image_store_remove_record(store, t->id, err);
    int r = remove_names(store, t->id, err);
    if (r == 0)
        verb_note("%s is in use by a sandbox: it lost its name, and goes with a later "
                  "'cay image prune -a'",
                  t->text);
    return r;
}

int verbs_remove(const struct image_store *store, const char *text, bool force,
                 struct cay_error *err) {
    struct target t;
    int r = find_target(store, text, &t, err);
    if (r < 0)
        return r;
    if (!t.by_name && t.names > 0 && !force) {
        error_set(err, CAY_CONFLICT, "image %.12s has %zu name%s", t.id, t.names,
                  t.names == 1 ? "" : "s");
        return error_remedy(err, "remove it by name, or with -f by id with all its names");
    }
    return t.by_name && t.names > 1 ? image_store_remove_name(store, &t.ref, err)
                                    : remove_image(store, &t, err);
}

/* Every one is tried; the first failure is the exit code. */
int do_rm(const void *values, int argc, char **argv) {
    const struct image_rm_options *o = values;
    struct cay_error err;
    struct world world = WORLD_NONE;
    int code = 0;
    if (verbs_enter(&o->common, false, &world, &err) < 0)
        return verb_fail(&err);
    for (int i = 0; i < argc; i++) {
        if (verbs_remove(&world.store, argv[i], o->force, &err) == 0)
            continue;
        int failed = verb_fail(&err);
        code = code != 0 ? code : failed;
    }
    verbs_leave(&world);
    return code;
}

/* ---- tag ---- */

static int parse_new_name(const char *text, struct reference *ret, struct cay_error *err) {
    int r = reference_parse(text, ret, err);
    if (r < 0 || ret->digest[0] == '\0')
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "'%s' has a digest, which only a registry gives", text);
    return error_remedy(err, "leave out what begins with '@'");
}

int do_tag(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct reference ref;
    struct world world = WORLD_NONE;
    char id[HEX_SIZE];
    int r = parse_new_name(argv[1], &ref, &err);
    if (r == 0)
        r = verbs_enter(values, false, &world, &err);
    if (r == 0)
        r = verbs_find(&world.store, argv[0], id, &err);
    if (r == 0)
        r = image_store_set_name(&world.store, &ref, id, &err);
    verbs_leave(&world);
    return r < 0 ? verb_fail(&err) : 0;
}

/* ---- prune ---- */

static void put_json(struct buf *b, const struct prune_result *result, bool dry_run) {
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "images", result->images);
    jsonw_put_unsigned(&w, "layers", result->layers);
    jsonw_put_unsigned(&w, "blobs", result->blobs);
    jsonw_put_unsigned(&w, "leftovers", result->leftovers);
    jsonw_put_unsigned(&w, "bytes", result->bytes);
    jsonw_put_bool(&w, "dry_run", dry_run);
    jsonw_end_object(&w);
    (void)buf_putc(b, '\n');
}

static void put_line(struct buf *b, const struct prune_result *result, bool dry_run) {
    char bytes[32];
    (void)buf_printf(b, "%s: %zu images, %zu layers, %zu blobs, %zu leftovers; %s\n",
                     dry_run ? "would be removed" : "removed", result->images, result->layers,
                     result->blobs, result->leftovers, str_bytes(result->bytes, bytes));
}

int do_prune(const void *values, int argc, char **argv) {
    (void)argc, (void)argv;
    const struct image_prune_options *o = values;
    struct cay_error err;
    struct world world = WORLD_NONE;
    struct prune_result result = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    int r = verbs_enter(&o->common, false, &world, &err);
    if (r == 0)
        r = image_store_prune(&world.store, o->all, o->dry_run, PRUNE_WAIT_MS, &result, &err);
    verbs_leave(&world);
    if (r < 0)
        return verb_fail(&err);
    if (o->common.output == OUTPUT_JSON)
        put_json(&b, &result, o->dry_run);
    else if (!o->common.quiet || o->dry_run)
        put_line(&b, &result, o->dry_run);
    return verb_print(&b);
}
