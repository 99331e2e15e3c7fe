/* rm, tag, prune */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "imager/verbs/verbs.h"

enum { PRUNE_WAIT_MS = 30000 };

/* ---- rm ---- */

/* What a word on the command line turned out to be. */
struct target {
    const char *text;
    char id[HEX_SIZE];
    bool by_name;
    struct reference ref; /* if so */
    size_t names;         /* that the owner has of the image, or all that there are */
    bool is_own;
};

/* Whoever sees all acts on everybody's names. */
static bool is_within(const struct image_store *store, const struct image_name *name) {
    return store->owner[0] == '\0' || str_equal(store->owner, name->owner);
}

static int refuse_public(const struct target *t, struct cay_error *err) {
    char shown[160];
    error_set(err, CAY_FORBIDDEN, "image '%s' is public: a key cannot remove it",
              str_escape(shown, sizeof shown, t->text));
    return error_remedy(err, "ask whoever runs the daemon");
}

static int find_by_word(const struct image_store *store, struct target *t, struct cay_error *err) {
    struct cay_error ignored;
    bool is_name = reference_parse(t->text, &t->ref, &ignored) == 0;
    t->by_name =
        is_name && (store->owner[0] == '\0'
                        ? image_store_find_reference(store, &t->ref, t->id, &ignored)
                        : image_store_find_own(store, store->owner, &t->ref, t->id, &ignored)) == 0;
    t->is_own = t->by_name || store->owner[0] == '\0';
    return t->by_name ? 0 : verbs_find(store, t->text, t->id, err);
}

static int find_target(const struct image_store *store, const char *text, struct target *ret,
                       struct cay_error *err) {
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    *ret = (struct target){.text = text};
    int r = find_by_word(store, ret, err);
    if (r == 0)
        r = image_store_names(store, &names, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        ret->names += str_equal(names[i].id, ret->id) && is_within(store, &names[i]);
    if (r == 0 && !ret->is_own && ret->names == 0 && !image_store_owns(store, ret->id))
        r = refuse_public(ret, err);
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
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (!str_equal(names[i].id, id) || !is_within(store, &names[i]))
            continue;
        struct image_store its = image_store_as(store, names[i].owner);
        r = image_store_remove_name(&its, &names[i].ref, err);
    }
    return r;
}

/* All that the owner has of the image. The image itself goes when nobody else has it; while it is
 * used it only loses its names, so that its sandbox can tell what it is. */
static int remove_image(const struct image_store *store, const struct target *t,
                        struct cay_error *err) {
    bool is_for_all = store->owner[0] == '\0' && !t->by_name;
    int r = remove_names(store, t->id, err);
    if (r == 0)
        r = image_store_disown(store, t->id, err);
    if (r < 0 || (!is_for_all && image_store_is_wanted(store, t->id)))
        return r;
    if (!is_used(store, t->id)) {
        r = image_store_remove_record(store, t->id, err);
        return r == -CAY_NOT_FOUND && !is_for_all ? 0 : r;
    }
    if (store->owner[0] == '\0')
        verb_note("%s is in use by a sandbox: it lost its name, and goes with a later "
                  "'cay image prune -a'",
                  t->text);
    return 0;
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

/* ---- public ---- */

static int publish(const struct image_store *store, const struct reference *ref, bool is_private,
                   struct cay_error *err) {
    const char *owner = store->owner[0] != '\0' ? store->owner : is_private ? "" : IMAGE_ADMIN;
    struct image_store from = image_store_as(store, owner);
    int r = image_store_copy_name(store, owner, is_private ? IMAGE_ADMIN : "", ref, err);
    if (r == -CAY_NOT_FOUND)
        return error_remedy(err, is_private ? "only a public name can be made private"
                                            : "with --owner, name an image of that key; "
                                              "'cay image ls' shows them");
    return r < 0 || store->owner[0] != '\0' ? r : image_store_remove_name(&from, ref, err);
}

int do_public(const void *values, int argc, char **argv) {
    const struct image_public_options *o = values;
    struct cay_error err;
    struct world world = WORLD_NONE;
    struct reference ref;
    (void)argc;
    int r = reference_parse(argv[0], &ref, &err);
    if (r == 0 && o->is_private && o->common.owner != NULL) {
        r = error_set(&err, CAY_INVALID_ARGUMENT, "--private and --owner contradict each other");
        (void)error_remedy(&err, "remove the public name: cay image rm NAME");
    }
    if (r == 0)
        r = verbs_enter(&o->common, false, &world, &err);
    if (r == 0)
        r = publish(&world.store, &ref, o->is_private, &err);
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
