#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"
#include "image/store_files.h"

enum {
    ENTRIES_MAX = 100 * 1000, /* of a listing */
    PREFIX_MIN = 4,
    PATH_SIZE = 2 * REFERENCE_PART_SIZE + 64,
    LEAF_SIZE = REFERENCE_TAG_SIZE, /* a tag, or '@' and a digest */
};

/* ---- where a name is kept ---- */

/* "names", or "owners/OWNER/names". */
static void base_of(const char *owner, char out[static PATH_SIZE]) {
    bool is_public = owner[0] == '\0';
    (void)snprintf(out, PATH_SIZE, "%s%s%snames", is_public ? "" : STORE_OWNERS "/", owner,
                   is_public ? "" : "/");
}

/* "BASE/REGISTRY/REPO+WITH+PLUS": no repository has a plus. */
static void folder_of(const char *owner, const struct reference *ref, char out[static PATH_SIZE]) {
    base_of(owner, out);
    size_t at = strlen(out);
    (void)snprintf(out + at, PATH_SIZE - at, "/%s/", ref->registry);
    at += strlen(out + at);
    (void)snprintf(out + at, PATH_SIZE - at, "%s", ref->repository);
    for (char *p = out + at; *p != '\0'; p++)
        if (*p == '/')
            *p = '+';
}

static void digest_leaf(const struct reference *ref, char out[static LEAF_SIZE]) {
    (void)snprintf(out, LEAF_SIZE, "@%s", ref->digest);
}

/* ---- finding ---- */

static int not_found(const char *text, struct cay_error *err) {
    char shown[160];
    return error_set(err, CAY_NOT_FOUND, "image '%s' is not in the store",
                     str_escape(shown, sizeof shown, text));
}

bool store_has_record(const struct image_store *store, const char *id) {
    _cleanup_(closep) int folder = store_folder(store, "records");
    _cleanup_(closep) int fd = folder < 0 ? -1 : store_open_file(folder, id, O_RDONLY);
    return fd >= 0;
}

/* The id that the file of a name holds: 0 or -errno. */
static int read_name(int folder, const char *leaf, char id[static HEX_SIZE]) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(HEX_SIZE);
    int r = store_read_file(folder, leaf, &b);
    if (r < 0)
        return r;
    if (b.len != HEX_SIZE || b.data[HEX_SIZE - 1] != '\n')
        return -EBADMSG;
    b.data[HEX_SIZE - 1] = '\0';
    if (!hex_is_valid(b.data))
        return -EBADMSG;
    memcpy(id, b.data, HEX_SIZE);
    return 0;
}

/* Where names are looked up after those of the store's owner. */
static const char *second_owner(const struct image_store *store) {
    return store->owner[0] == '\0' ? IMAGE_ADMIN : "";
}

int image_store_find_own(const struct image_store *store, const char *owner,
                         const struct reference *ref, char id[static HEX_SIZE],
                         struct cay_error *err) {
    char path[PATH_SIZE], leaf[LEAF_SIZE], text[REFERENCE_TEXT_SIZE], found[HEX_SIZE];
    if (owner[0] == '\0' && !image_store_allows(store, ref))
        return not_found(reference_familiar(ref, text), err);
    folder_of(owner, ref, path);
    digest_leaf(ref, leaf);
    _cleanup_(closep) int folder = store_folder(store, path);
    int r = folder;
    if (r >= 0)
        r = read_name(folder, ref->digest[0] != '\0' ? leaf : ref->tag, found);
    if (r == -ENOENT || (r == 0 && !store_has_record(store, found)))
        return not_found(reference_familiar(ref, text), err);
    if (r < 0)
        return store_fail(err, -r, "reading the name", reference_familiar(ref, text));
    memcpy(id, found, HEX_SIZE);
    return 0;
}

int image_store_find_reference(const struct image_store *store, const struct reference *ref,
                               char id[static HEX_SIZE], struct cay_error *err) {
    int r = image_store_find_own(store, store->owner, ref, id, err);
    return r == -CAY_NOT_FOUND ? image_store_find_own(store, second_owner(store), ref, id, err) : r;
}

static int find_prefix(const struct image_store *store, const char *text, const char *prefix,
                       char id[static HEX_SIZE], struct cay_error *err) {
    size_t len = strlen(prefix), count, hits = 0;
    size_t least = store->owner[0] == '\0' ? PREFIX_MIN : HEX_SIZE - 1; /* ids are not guessed */
    if (len < least || len >= HEX_SIZE || strspn(prefix, "0123456789abcdef") != len)
        return not_found(text, err);
    _cleanup_(freep) char(*ids)[HEX_SIZE] = NULL;
    int r = image_store_ids(store, &ids, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        if (memcmp(ids[i], prefix, len) == 0 && !store_is_backup(store, ids[i]) && hits++ == 0)
            memcpy(id, ids[i], HEX_SIZE);
    if (hits > 1) {
        r = error_set(err, CAY_CONFLICT, "'%s' is the beginning of %zu images' ids", prefix, hits);
        (void)error_remedy(err, "write more of its digits; 'cay image ls' shows them");
        return r;
    }
    return hits == 1 ? 0 : not_found(text, err);
}

int image_store_find_backup(const struct image_store *store, const char *text,
                            char id[static HEX_SIZE]) {
    char found[HEX_SIZE];
    if (!digest_parse(text, found) || !store_is_backup(store, found) ||
        !store_has_record(store, found))
        return 0;
    memcpy(id, found, HEX_SIZE);
    return 1;
}

int image_store_find(const struct image_store *store, const char *text, char id[static HEX_SIZE],
                     struct cay_error *err) {
    if (reference_is_id(text))
        return find_prefix(store, text, str_starts(text, "sha256:") ? text + 7 : text, id, err);
    struct reference ref;
    int r = reference_parse(text, &ref, err);
    if (r == 0)
        r = image_store_find_reference(store, &ref, id, err);
    return r == -CAY_NOT_FOUND ? find_prefix(store, text, text, id, err) : r;
}

/* ---- giving and taking ---- */

/* To be called alone: another process would remove the folder as empty before the file is in it. */
static int write_name(const struct image_store *store, const char *path, const char *leaf,
                      const char *id) {
    char text[HEX_SIZE + 1];
    (void)snprintf(text, sizeof text, "%s\n", id);
    _cleanup_(closep) int made = path_make_dirs(store->dir, path);
    _cleanup_(closep) int folder = made < 0 ? made : store_folder(store, path);
    return folder < 0 ? folder : store_write_file(folder, leaf, text, strlen(text));
}

/* The names of the folders above `path` must be as durable as the file in it. */
static int sync_folders(const struct image_store *store, char path[static PATH_SIZE]) {
    for (char *slash; (slash = strrchr(path, '/')) != NULL;) {
        *slash = '\0';
        _cleanup_(closep) int folder = store_folder(store, path);
        if (folder < 0 || fsync(folder) < 0)
            return folder < 0 ? folder : -errno;
    }
    return 0;
}

/* Writes the files of a name: 0 or -errno. */
static int write_names(const struct image_store *store, const char *owner,
                       const struct reference *ref, const char *id) {
    char path[PATH_SIZE], leaf[LEAF_SIZE];
    folder_of(owner, ref, path);
    digest_leaf(ref, leaf);
    _cleanup_(closep) int names = store_folder_alone(store, "names");
    int r = MIN(names, 0);
    if (r == 0 && ref->digest[0] != '\0')
        r = write_name(store, path, leaf, id);
    if (r == 0 && ref->tag[0] != '\0')
        r = write_name(store, path, ref->tag, id);
    return r == 0 ? sync_folders(store, path) : r;
}

/* Whose name it is or becomes: what an admin made private stays so. */
static const char *owner_of_name(const struct image_store *store, const struct reference *ref) {
    char id[HEX_SIZE];
    struct cay_error ignored;
    bool is_private = store->owner[0] == '\0' &&
                      image_store_find_own(store, "", ref, id, &ignored) < 0 &&
                      image_store_find_own(store, IMAGE_ADMIN, ref, id, &ignored) == 0;
    return is_private ? IMAGE_ADMIN : store->owner;
}

int image_store_set_name(const struct image_store *store, const struct reference *ref,
                         const char *id, struct cay_error *err) {
    char text[REFERENCE_TEXT_SIZE];
    if (!hex_is_valid(id) || !store_has_record(store, id))
        return not_found(id, err);
    int r = write_names(store, owner_of_name(store, ref), ref, id);
    return r < 0 ? store_fail(err, -r, "writing the name", reference_familiar(ref, text)) : 0;
}

int image_store_copy_name(const struct image_store *store, const char *from, const char *to,
                          const struct reference *ref, struct cay_error *err) {
    char id[HEX_SIZE], text[REFERENCE_TEXT_SIZE];
    int r = image_store_find_own(store, from, ref, id, err);
    if (r < 0)
        return r;
    r = write_names(store, to, ref, id);
    return r < 0 ? store_fail(err, -r, "writing the name", reference_familiar(ref, text)) : 0;
}

/* What is not empty stays. */
static void remove_empty(const struct image_store *store, char path[static PATH_SIZE]) {
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        _cleanup_(closep) int above = store_folder(store, path);
        if (above < 0 || unlinkat(above, slash + 1, AT_REMOVEDIR) < 0)
            return;
    }
}

/* 1 if there was one, 0 if not, or -errno. */
static int remove_leaf(int folder, const char *leaf) {
    if (unlinkat(folder, leaf, 0) == 0)
        return 1;
    return errno == ENOENT ? 0 : -errno;
}

static int remove_leaves(const struct image_store *store, const char *path,
                         const struct reference *ref) {
    char leaf[LEAF_SIZE];
    _cleanup_(closep) int folder = store_folder(store, path);
    if (folder < 0)
        return folder;
    digest_leaf(ref, leaf);
    int by_digest = ref->digest[0] != '\0' ? remove_leaf(folder, leaf) : 0;
    int by_tag = by_digest >= 0 && ref->tag[0] != '\0' ? remove_leaf(folder, ref->tag) : 0;
    if (by_digest < 0 || by_tag < 0)
        return MIN(by_digest, by_tag);
    if (by_digest + by_tag == 0)
        return -ENOENT;
    return fsync(folder) < 0 ? -errno : 0;
}

int image_store_remove_name(const struct image_store *store, const struct reference *ref,
                            struct cay_error *err) {
    char path[PATH_SIZE], text[REFERENCE_TEXT_SIZE];
    folder_of(owner_of_name(store, ref), ref, path);
    _cleanup_(closep) int names = store_folder_alone(store, "names");
    int r = names < 0 ? names : remove_leaves(store, path, ref);
    if (r == -ENOENT)
        return not_found(reference_familiar(ref, text), err);
    if (r < 0)
        return store_fail(err, -r, "removing the name", reference_familiar(ref, text));
    remove_empty(store, path);
    return 0;
}

/* ---- listing ---- */

/* A growing array while folders are read. */
struct listing {
    const struct image_store *store;
    struct reference at; /* registry and repository of the folder that is being read */
    const char *owner;   /* of the names in it */
    void *items;
    size_t count, item_size;
};

static int add(struct listing *l, const void *item) {
    if (l->count >= ENTRIES_MAX)
        return -E2BIG;
    if (l->count % 64 == 0) {
        void *items = realloc(l->items, (l->count + 64) * l->item_size);
        if (items == NULL)
            return -ENOMEM;
        l->items = items;
    }
    memcpy((char *)l->items + l->count++ * l->item_size, item, l->item_size);
    return 0;
}

/* Fills the rest of a name from its file; false if no name is kept under that. */
static bool leaf_reference(const struct listing *l, const char *leaf, struct reference *ret) {
    char text[REFERENCE_TEXT_SIZE];
    bool digest = leaf[0] == '@';
    return str_format(text, sizeof text, "%s/%s%s%s", l->at.registry, l->at.repository,
                      digest ? "@sha256:" : ":", leaf + digest) == 0 &&
           reference_parse(text, ret, NULL) == 0 && strcmp(ret->registry, l->at.registry) == 0 &&
           strcmp(ret->repository, l->at.repository) == 0;
}

/* Foreign and half-written files are no names. */
static int visit_leaf(void *user, int folder, const char *leaf) {
    struct listing *l = user;
    struct image_name name = {0};
    if (!leaf_reference(l, leaf, &name.ref) || read_name(folder, leaf, name.id) < 0 ||
        str_copy(name.owner, sizeof name.owner, l->owner) < 0)
        return 0;
    if (l->owner[0] == '\0' && !image_store_allows(l->store, &name.ref))
        return 0;
    return add(l, &name);
}

static int visit_below(struct listing *l, int folder, const char *name, path_visit visit) {
    _cleanup_(closep) int below = path_open_no_symlinks(folder, name, O_RDONLY | O_DIRECTORY, 0);
    if (below < 0) /* removed meanwhile, or no folder */
        return below == -ENOENT || below == -ENOTDIR || below == -ELOOP ? 0 : below;
    return path_each(below, visit, l);
}

static int visit_repository(void *user, int folder, const char *name) {
    struct listing *l = user;
    if (str_copy(l->at.repository, sizeof l->at.repository, name) < 0)
        return 0;
    for (char *p = l->at.repository; *p != '\0'; p++)
        if (*p == '+')
            *p = '/';
    return visit_below(l, folder, name, visit_leaf);
}

static int visit_registry(void *user, int folder, const char *name) {
    struct listing *l = user;
    if (str_copy(l->at.registry, sizeof l->at.registry, name) < 0)
        return 0;
    return visit_below(l, folder, name, visit_repository);
}

static int visit_id(void *user, int folder, const char *name) {
    char id[HEX_SIZE];
    (void)folder;
    if (!hex_is_valid(name))
        return 0;
    memcpy(id, name, HEX_SIZE);
    return add(user, id);
}

/* Reads the names of one owner, who may have none. */
static int list_owner(struct listing *l, const char *owner) {
    char path[PATH_SIZE];
    base_of(owner, path);
    l->owner = owner;
    _cleanup_(closep) int folder = store_folder(l->store, path);
    if (folder < 0)
        return folder == -ENOENT && owner[0] != '\0' ? 0 : folder;
    return path_each(folder, visit_registry, l);
}

static int visit_owner(void *user, int folder, const char *name) {
    (void)folder;
    return name[0] != '\0' && image_owner_is_valid(name) ? list_owner(user, name) : 0;
}

static int list_owners(struct listing *l) {
    _cleanup_(closep) int folder = store_folder(l->store, STORE_OWNERS);
    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    return path_each(folder, visit_owner, l);
}

/* By reference, then by owner: a public name follows the owner's. */
static int compare_names(const void *a, const void *b) {
    char x[REFERENCE_TEXT_SIZE], y[REFERENCE_TEXT_SIZE];
    const struct image_name *m = a, *n = b;
    int r = strcmp(reference_format(&m->ref, x), reference_format(&n->ref, y));
    return r != 0 ? r : -strcmp(m->owner, n->owner);
}

/* An owner sees a public name only where he has none like it. */
static size_t drop_shadowed(struct image_name *names, size_t count) {
    char x[REFERENCE_TEXT_SIZE], y[REFERENCE_TEXT_SIZE];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && str_equal(reference_format(&names[kept - 1].ref, x),
                                  reference_format(&names[i].ref, y)))
            continue;
        names[kept++] = names[i];
    }
    return kept;
}

static void sort(struct listing *l, int (*compare)(const void *, const void *)) {
    if (l->count > 0)
        qsort(l->items, l->count, l->item_size, compare);
}

static int fail_listing(struct listing *l, int r, const char *folder, struct cay_error *err) {
    free(l->items);
    return store_fail(err, -r, "reading the folder", folder);
}

int image_store_names(const struct image_store *store, struct image_name **ret, size_t *ret_count,
                      struct cay_error *err) {
    struct listing l = {.store = store, .item_size = sizeof(struct image_name)};
    int r = list_owner(&l, "");
    if (r == 0)
        r = store->owner[0] == '\0' ? list_owners(&l) : list_owner(&l, store->owner);
    if (r < 0)
        return fail_listing(&l, r, "names", err);
    sort(&l, compare_names);
    *ret = l.items;
    *ret_count = store->owner[0] == '\0' ? l.count : drop_shadowed(l.items, l.count);
    return 0;
}

static int compare_ids(const void *a, const void *b) {
    return memcmp(a, b, HEX_SIZE);
}

/* The ids of an owner: those of the names that he sees, and those that are noted as his. */
static int list_seen(struct listing *l, struct cay_error *err) {
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    int r = image_store_names(l->store, &names, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add(l, names[i].id);
    _cleanup_(closep) int own = store_owner_ids(l->store, l->store->owner);
    if (r == 0 && own != -ENOENT)
        r = own < 0 ? own : path_each(own, visit_id, l);
    return r < 0 ? store_fail(err, -r, "reading the folder", STORE_OWNERS) : 0;
}

/* Drops what occurs twice, and what has no record. */
static size_t drop_gone(const struct image_store *store, char (*ids)[HEX_SIZE], size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_twice = kept > 0 && memcmp(ids[kept - 1], ids[i], HEX_SIZE) == 0;
        if (!is_twice && store_has_record(store, ids[i]))
            memmove(ids[kept++], ids[i], HEX_SIZE);
    }
    return kept;
}

static int list_all(struct listing *l, struct cay_error *err) {
    _cleanup_(closep) int folder = store_folder(l->store, "records");
    int r = folder < 0 ? folder : path_each(folder, visit_id, l);
    return r < 0 ? store_fail(err, -r, "reading the folder", "records") : 0;
}

int image_store_ids(const struct image_store *store, char (**ret)[HEX_SIZE], size_t *ret_count,
                    struct cay_error *err) {
    struct listing l = {.store = store, .item_size = HEX_SIZE};
    bool sees_all = store->owner[0] == '\0';
    int r = sees_all ? list_all(&l, err) : list_seen(&l, err);
    if (r < 0) {
        free(l.items);
        return r;
    }
    sort(&l, compare_ids);
    *ret = l.items;
    *ret_count = sees_all ? l.count : drop_gone(store, l.items, l.count);
    return 0;
}
