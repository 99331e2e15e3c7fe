#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"
#include "image/store_files.h"

enum { OWNER_PATH_SIZE = 64 };

bool image_owner_is_valid(const char *owner) {
    return owner[0] == '\0' || str_equal(owner, IMAGE_ADMIN) || id_is_valid(owner);
}

bool image_store_allows(const struct image_store *store, const struct reference *ref) {
    char text[REFERENCE_TEXT_SIZE];
    if (store->owner[0] == '\0' || store->allowed == NULL || store->allowed->len == 0)
        return true;
    (void)reference_familiar(ref, text);
    for (size_t i = 0; i < store->allowed->len; i++)
        if (fnmatch(store->allowed->v[i], text, 0) == 0)
            return true;
    return false;
}

struct image_store image_store_as(const struct image_store *store, const char *owner) {
    struct image_store ret = {
        .dir = store->dir, .lock = store->lock, .room = store->room, .allowed = store->allowed};
    (void)snprintf(ret.owner, sizeof ret.owner, "%s", owner);
    if (str_equal(owner, store->owner))
        memcpy(ret.made_by, store->made_by, sizeof ret.made_by);
    return ret;
}

/* ---- ids ---- */

static void ids_path(const char *owner, char out[static OWNER_PATH_SIZE]) {
    (void)snprintf(out, OWNER_PATH_SIZE, STORE_OWNERS "/%s/ids", owner);
}

int store_owner_ids(const struct image_store *store, const char *owner) {
    char path[OWNER_PATH_SIZE];
    ids_path(owner, path);
    return store_folder(store, path);
}

int image_store_own(const struct image_store *store, const char *id, struct cay_error *err) {
    char path[OWNER_PATH_SIZE];
    if (store->owner[0] == '\0')
        return 0;
    ids_path(store->owner, path);
    _cleanup_(closep) int made = path_make_dirs(store->dir, path);
    _cleanup_(closep) int ids = made < 0 ? made : store_folder(store, path);
    if (ids >= 0 && faccessat(ids, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* whoever came first pays */
    int r = ids < 0 ? ids : store_write_file(ids, id, store->made_by, strlen(store->made_by));
    return r < 0 ? store_fail(err, -r, "noting the owner of image", id) : 0;
}

bool image_store_owns(const struct image_store *store, const char *id) {
    if (store->owner[0] == '\0')
        return true;
    _cleanup_(closep) int ids = store_owner_ids(store, store->owner);
    return ids >= 0 && faccessat(ids, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int remove_id(const struct image_store *store, const char *owner, const char *id) {
    _cleanup_(closep) int ids = store_owner_ids(store, owner);
    if (ids < 0)
        return ids == -ENOENT ? 0 : ids;
    return unlinkat(ids, id, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int image_store_disown(const struct image_store *store, const char *id, struct cay_error *err) {
    int r = store->owner[0] == '\0' ? 0 : remove_id(store, store->owner, id);
    return r < 0 ? store_fail(err, -r, "removing the owner of image", id) : 0;
}

/* ---- every owner ---- */

struct visit {
    const struct image_store *store;
    const char *id;
    bool found;
};

/* Calls fn with each owner that has something: 0 or -errno. */
static int each_owner(struct visit *v, path_visit fn) {
    _cleanup_(closep) int folder = store_folder(v->store, STORE_OWNERS);
    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    return path_each(folder, fn, v);
}

static int disown_visit(void *user, int folder, const char *name) {
    const struct visit *v = user;
    (void)folder;
    return image_owner_is_valid(name) ? remove_id(v->store, name, v->id) : 0;
}

int store_disown_all(const struct image_store *store, const char *id) {
    struct visit v = {.store = store, .id = id};
    return each_owner(&v, disown_visit);
}

static int look_visit(void *user, int folder, const char *name) {
    struct visit *v = user;
    (void)folder;
    _cleanup_(closep) int ids = image_owner_is_valid(name) ? store_owner_ids(v->store, name) : -1;
    v->found |= ids >= 0 && faccessat(ids, v->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return 0;
}

bool image_store_is_wanted(const struct image_store *store, const char *id) {
    struct cay_error ignored;
    struct visit v = {.store = store, .id = id};
    struct image_store all = image_store_as(store, "");
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    if (image_store_names(&all, &names, &count, &ignored) < 0 || each_owner(&v, look_visit) < 0)
        return true;
    for (size_t i = 0; i < count; i++)
        v.found |= str_equal(names[i].id, id);
    return v.found;
}

/* ---- what an owner knows ---- */

struct image_known {
    size_t count, capacity;
    char (*items)[HEX_SIZE]; /* sorted */
};

static int add(struct image_known *k, const char *hex) {
    if (hex[0] == '\0')
        return 0;
    if (k->count == k->capacity) {
        size_t capacity = k->capacity == 0 ? 64 : 2 * k->capacity;
        char(*items)[HEX_SIZE] = reallocarray(k->items, capacity, HEX_SIZE);
        if (items == NULL)
            return -ENOMEM;
        k->items = items;
        k->capacity = capacity;
    }
    memcpy(k->items[k->count++], hex, HEX_SIZE);
    return 0;
}

/* A record that cannot be read tells nothing: its parts are fetched again. */
static int add_image(const struct image_store *store, const char *id, struct image_known *k) {
    struct cay_error ignored;
    _cleanup_(record_freep) struct image_record *record = NULL;
    if (image_store_read_record(store, id, &record, &ignored) < 0)
        return 0;
    int r = add(k, record->id);
    if (r == 0)
        r = add(k, record->manifest);
    for (size_t i = 0; r == 0 && i < record->layer_count; i++) {
        r = add(k, record->layers[i].chain);
        if (r == 0)
            r = add(k, record->layers[i].blob);
    }
    return r;
}

static int compare(const void *a, const void *b) {
    return memcmp(a, b, HEX_SIZE);
}

int image_store_learn(struct image_store *store, struct cay_error *err) {
    _cleanup_(freep) char(*ids)[HEX_SIZE] = NULL;
    size_t count = 0;
    image_store_forget(store);
    if (store->owner[0] == '\0')
        return 0;
    int r = image_store_ids(store, &ids, &count, err);
    if (r < 0)
        return r;
    store->known = calloc(1, sizeof *store->known);
    r = store->known == NULL ? -ENOMEM : 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_image(store, ids[i], store->known);
    if (r < 0)
        return error_sys(err, -r, "looking at the image store");
    if (store->known->count > 0)
        qsort(store->known->items, store->known->count, HEX_SIZE, compare);
    return 0;
}

void image_store_forget(struct image_store *store) {
    if (store->known != NULL)
        free(store->known->items);
    free(store->known);
    store->known = NULL;
}

bool image_store_knows(const struct image_store *store, const char *hex) {
    if (store->owner[0] == '\0')
        return true;
    const struct image_known *k = store->known;
    return k != NULL && k->count > 0 && bsearch(hex, k->items, k->count, HEX_SIZE, compare) != NULL;
}
