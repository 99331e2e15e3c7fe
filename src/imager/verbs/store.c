/* `cay-image store`: what the daemon has done for its clients. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "imager/build/state.h"
#include "imager/verbs/verbs.h"

enum { LIST_MAX = 4 * 1024 * 1024 };

int verbs_check_new(const struct image_store *store, const struct reference *name,
                    struct cay_error *err) {
    struct cay_error ignored;
    char id[HEX_SIZE], text[REFERENCE_TEXT_SIZE];
    int r = store->owner[0] == '\0' ? image_store_find_reference(store, name, id, &ignored)
                                    : image_store_find_own(store, store->owner, name, id, &ignored);
    if (r < 0)
        return 0;
    error_set(err, CAY_CONFLICT, "there is an image '%s' already", reference_familiar(name, text));
    return error_remedy(err, "choose another name, or remove it first");
}

/* ---- list ---- */

/* NAME, id, bytes, time and owner, separated by tabs. */
static void put_image(struct buf *b, const struct image_name *name,
                      const struct image_record *record) {
    char text[REFERENCE_TEXT_SIZE], created[80];
    (void)buf_printf(b, "%s\t%s\t%llu\t%s\t%s\n", reference_familiar(&name->ref, text), name->id,
                     (unsigned long long)record_size(record),
                     str_escape(created, sizeof created, record->created), name->owner);
}

static int put_images(const struct image_store *store, struct buf *b, struct cay_error *err) {
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    int r = image_store_names(store, &names, &count, err);
    (void)buf_puts(b, "ok\n");
    for (size_t i = 0; r == 0 && i < count; i++) {
        _cleanup_(record_freep) struct image_record *record = NULL;
        r = image_store_read_record(store, names[i].id, &record, err);
        if (r == 0)
            put_image(b, &names[i], record);
        else if (r == -CAY_NOT_FOUND)
            r = 0; /* removed meanwhile */
    }
    return r == 0 && b->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "the list is too long") : r;
}

static int list(const struct verb_common *common, struct cay_error *err) {
    struct world world = WORLD_NONE;
    _cleanup_(buf_free) struct buf b = BUF_INIT(LIST_MAX);
    int r = verbs_enter(common, false, &world, err);
    if (r == 0)
        r = put_images(&world.store, &b, err);
    verbs_leave(&world);
    return r < 0 ? verbs_answer(r, NULL, err) : verb_print(&b);
}

/* ---- usage ---- */

/* OWNER, key and bytes, separated by tabs. */
static int put_usage(const struct image_store *store, struct buf *b, struct cay_error *err) {
    _cleanup_(image_charges_free) struct image_charges all = {0};
    int r = image_store_charges(store, &all, err);
    if (r == 0 && build_cache_charges(store, &all) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0)
        r = image_charges_sum(store, &all, err);
    (void)buf_puts(b, "ok\n");
    for (size_t i = 0; r == 0 && i < all.count; i++)
        (void)buf_printf(b, "%s\t%s\t%llu\n", all.items[i].owner, all.items[i].made_by,
                         (unsigned long long)all.items[i].bytes);
    return r == 0 && b->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "the list is too long") : r;
}

static int usage(const struct verb_common *common, struct cay_error *err) {
    struct world world = WORLD_NONE;
    _cleanup_(buf_free) struct buf b = BUF_INIT(LIST_MAX);
    int r = verbs_enter(common, false, &world, err);
    if (r == 0)
        r = put_usage(&world.store, &b, err);
    verbs_leave(&world);
    return r < 0 ? verbs_answer(r, NULL, err) : verb_print(&b);
}

/* ---- names ---- */

static int give_name(const struct verb_common *common, const char *image, const char *name,
                     struct cay_error *err) {
    struct world world = WORLD_NONE;
    struct reference ref;
    char id[HEX_SIZE];
    int r = reference_parse(name, &ref, err);
    if (r == 0 && ref.digest[0] != '\0')
        r = error_set(err, CAY_INVALID_ARGUMENT, "'%s' has a digest", name);
    if (r == 0)
        r = verbs_enter(common, false, &world, err);
    if (r == 0)
        r = verbs_check_new(&world.store, &ref, err);
    if (r == 0)
        r = verbs_find(&world.store, image, id, err);
    if (r == 0)
        r = image_store_set_name(&world.store, &ref, id, err);
    verbs_leave(&world);
    return verbs_answer(r, (const char *const[]){id, NULL}, err);
}

/* Gives the owner an image that was made for him, so far as one of nobody. */
static int adopt(const struct verb_common *common, const char *image, const char *name,
                 struct cay_error *err) {
    struct world world = WORLD_NONE;
    struct reference ref;
    int r = reference_parse(name, &ref, err);
    if (r == 0 && !hex_is_valid(image))
        r = error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    if (r == 0)
        r = verbs_enter(common, false, &world, err);
    if (r == 0)
        r = verbs_check_new(&world.store, &ref, err);
    if (r == 0)
        r = image_store_own(&world.store, image, err);
    if (r == 0)
        r = image_store_set_name(&world.store, &ref, image, err);
    verbs_leave(&world);
    return verbs_answer(r, (const char *const[]){image, NULL}, err);
}

/* What a key gives back is there for others at once. Steps of builds stay for a next time, unless
 * the key has a limit, which they would count for. */
static int take_name(const struct verb_common *common, const char *name, struct cay_error *err) {
    struct world world = WORLD_NONE;
    int r = verbs_enter(common, false, &world, err);
    if (r == 0)
        r = verbs_remove(&world.store, name, false, err);
    if (r == 0 && world.store.owner[0] != '\0') {
        if (world.store.room > 0)
            build_cache_forget(&world.store);
        image_store_reclaim(&world.store);
    }
    verbs_leave(&world);
    return verbs_answer(r, (const char *const[]){"ok", NULL}, err);
}

static int keep(const struct verb_common *common, const char *sandbox, const char *name,
                struct cay_error *err) {
    struct reference ref;
    char id[HEX_SIZE];
    int r = reference_parse(name, &ref, err);
    if (r == 0)
        r = verbs_snapshot(common, sandbox, &ref, true, id, err);
    return verbs_answer(r, (const char *const[]){id, NULL}, err);
}

int do_store(const void *values, int argc, char **argv) {
    struct cay_error err;
    if (argc == 1 && strcmp(argv[0], "list") == 0)
        return list(values, &err);
    if (argc == 1 && strcmp(argv[0], "usage") == 0)
        return usage(values, &err);
    if (argc == 3 && strcmp(argv[0], "name") == 0)
        return give_name(values, argv[1], argv[2], &err);
    if (argc == 3 && strcmp(argv[0], "adopt") == 0)
        return adopt(values, argv[1], argv[2], &err);
    if (argc == 2 && strcmp(argv[0], "unname") == 0)
        return take_name(values, argv[1], &err);
    if (argc == 3 && strcmp(argv[0], "keep") == 0)
        return keep(values, argv[1], argv[2], &err);
    error_set(&err, CAY_INVALID_ARGUMENT, "'%.40s' is nothing to do with the store", argv[0]);
    return verb_fail(&err);
}
