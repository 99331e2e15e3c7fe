#include "image/store_usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store_files.h"

void image_charges_free(struct image_charges *c) {
    free(c->items);
    *c = (struct image_charges){0};
}

int image_charges_add(struct image_charges *c, const struct image_charge *one) {
    if (c->count == c->capacity) {
        size_t capacity = MAX(c->capacity * 2, (size_t)64);
        struct image_charge *items = reallocarray(c->items, capacity, sizeof *items);
        if (items == NULL)
            return -ENOMEM;
        c->items = items;
        c->capacity = capacity;
    }
    c->items[c->count++] = *one;
    return 0;
}

/* ---- what owners have ---- */

struct reading {
    const struct image_store *store;
    struct image_charges *to;
    struct image_charge whose; /* the owner of the folder that is being read */
};

/* Unpacked, and as it came. */
static int add_layers(const struct reading *r, const struct image_charge *whose, const char *id) {
    struct cay_error ignored; /* what cannot be read is no image of anybody */
    _cleanup_(record_freep) struct image_record *record = NULL;
    if (image_store_read_record(r->store, id, &record, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < record->layer_count; i++) {
        const struct record_layer *layer = &record->layers[i];
        struct image_charge one = *whose;
        memcpy(one.chain, layer->chain, sizeof one.chain);
        one.bytes = layer->size + (layer->blob[0] != '\0' ? layer->blob_size : 0);
        int e = image_charges_add(r->to, &one);
        if (e < 0)
            return e;
    }
    return 0;
}

static int visit_id(void *user, int folder, const char *name) {
    const struct reading *r = user;
    _cleanup_(buf_free) struct buf text = BUF_INIT(IMAGE_OWNER_SIZE);
    struct image_charge whose = r->whose;
    if (!hex_is_valid(name))
        return 0;
    if (store_read_file(folder, name, &text) == 0 && text.len > 0 &&
        image_owner_is_valid(buf_text(&text)))
        (void)snprintf(whose.made_by, sizeof whose.made_by, "%s", buf_text(&text));
    return add_layers(r, &whose, name);
}

static int visit_owner(void *user, int folder, const char *name) {
    struct reading *r = user;
    (void)folder;
    if (!image_owner_is_valid(name) || str_equal(name, IMAGE_ADMIN))
        return 0;
    r->whose = (struct image_charge){0};
    (void)snprintf(r->whose.owner, sizeof r->whose.owner, "%s", name);
    _cleanup_(closep) int ids = store_owner_ids(r->store, name);
    return ids < 0 ? 0 : path_each(ids, visit_id, r);
}

int image_store_charges(const struct image_store *store, struct image_charges *ret,
                        struct cay_error *err) {
    struct reading r = {.store = store, .to = ret};
    _cleanup_(closep) int owners = store_folder(store, STORE_OWNERS);
    if (owners == -ENOENT)
        return 0;
    int e = owners < 0 ? owners : path_each(owners, visit_owner, &r);
    return e < 0 ? store_fail(err, -e, "reading the folder", STORE_OWNERS) : 0;
}

/* ---- sums ---- */

/* The layers of public images, which nobody pays for. */
static int read_public(const struct image_store *store, struct image_charges *ret,
                       struct cay_error *err) {
    struct image_store all = image_store_as(store, "");
    const struct reading r = {.store = &all, .to = ret};
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    int e = image_store_names(&all, &names, &count, err);
    for (size_t i = 0; e == 0 && i < count; i++)
        if (names[i].owner[0] == '\0' && add_layers(&r, &r.whose, names[i].id) < 0)
            e = error_sys(err, ENOMEM, "reading the public images");
    return e;
}

static int by_chain(const void *a, const void *b) {
    return strcmp(((const struct image_charge *)a)->chain, ((const struct image_charge *)b)->chain);
}

/* Of one layer the entry with the most bytes comes first. */
static int by_owner(const void *a, const void *b) {
    const struct image_charge *x = a, *y = b;
    int c = strcmp(x->owner, y->owner);
    if (c == 0)
        c = by_chain(a, b);
    if (c == 0 && x->bytes != y->bytes)
        c = x->bytes > y->bytes ? -1 : 1;
    return c != 0 ? c : strcmp(x->made_by, y->made_by);
}

static int by_payer(const void *a, const void *b) {
    const struct image_charge *x = a, *y = b;
    int c = strcmp(x->owner, y->owner);
    return c != 0 ? c : strcmp(x->made_by, y->made_by);
}

static void sort(struct image_charges *c, int (*compare)(const void *, const void *)) {
    if (c->count > 0)
        qsort(c->items, c->count, sizeof *c->items, compare);
}

static bool has(const struct image_charges *sorted, const struct image_charge *one) {
    return sorted->count > 0 &&
           bsearch(one, sorted->items, sorted->count, sizeof *one, by_chain) != NULL;
}

/* Every layer once for an owner, and none that is public. */
static void keep_single(struct image_charges *c, const struct image_charges *public) {
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct image_charge *one = &c->items[i],
                                  *last = kept == 0 ? NULL : &c->items[kept - 1];
        bool is_again = last != NULL && str_equal(last->owner, one->owner) &&
                        str_equal(last->chain, one->chain);
        if (!is_again && !has(public, one))
            c->items[kept++] = *one;
    }
    c->count = kept;
}

int image_charges_sum(const struct image_store *store, struct image_charges *c,
                      struct cay_error *err) {
    _cleanup_(image_charges_free) struct image_charges public = {0};
    int r = read_public(store, &public, err);
    if (r < 0)
        return r;
    sort(&public, by_chain);
    sort(c, by_owner);
    keep_single(c, &public);
    sort(c, by_payer);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (kept > 0 && by_payer(&c->items[kept - 1], &c->items[i]) == 0)
            c->items[kept - 1].bytes += c->items[i].bytes;
        else
            c->items[kept++] = c->items[i];
        c->items[kept - 1].chain[0] = '\0';
    }
    c->count = kept;
    return 0;
}
