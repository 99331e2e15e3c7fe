#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"
#include "image/store_files.h"

enum {
    SIZE_DEPTH_MAX = 128, /* of a tree; what lies deeper is not counted */
    NAMES_DEPTH = 4,      /* of the folders below names, and below owners */
};

/* ---- sets of digests ---- */

struct hex_set {
    char (*items)[HEX_SIZE];
    size_t count, capacity;
};

static void hex_set_free(struct hex_set *set) {
    free(set->items);
}

static int hex_set_add(struct hex_set *set, const char *hex) {
    if (hex[0] == '\0')
        return 0;
    if (set->count == set->capacity) {
        size_t capacity = MAX(set->capacity * 2, (size_t)64);
        char(*items)[HEX_SIZE] = reallocarray(set->items, capacity, HEX_SIZE);
        if (items == NULL)
            return -ENOMEM;
        set->items = items;
        set->capacity = capacity;
    }
    memcpy(set->items[set->count++], hex, HEX_SIZE);
    return 0;
}

static int compare_hex(const void *a, const void *b) {
    return memcmp(a, b, HEX_SIZE);
}

static void hex_set_sort(struct hex_set *set) {
    if (set->count > 0)
        qsort(set->items, set->count, HEX_SIZE, compare_hex);
}

static bool hex_set_has(const struct hex_set *set, const char *hex) {
    return set->count > 0 && bsearch(hex, set->items, set->count, HEX_SIZE, compare_hex) != NULL;
}

/* ---- sizes ---- */

/* A file that is linked n times in the tree counts n times one nth. */
static uint64_t size_of(const struct stat *st) {
    uint64_t bytes = (uint64_t)st->st_blocks * 512;
    return S_ISDIR(st->st_mode) || st->st_nlink < 2 ? bytes : bytes / st->st_nlink;
}

struct measure {
    uint64_t bytes;
    unsigned depth;
};

static int measure_entry(void *user, int folder, const char *name) {
    struct measure *m = user;
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    m->bytes += size_of(&st);
    if (!S_ISDIR(st.st_mode) || m->depth >= SIZE_DEPTH_MAX)
        return 0;
    _cleanup_(closep) int below =
        openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0)
        return 0;
    m->depth++;
    (void)path_each(below, measure_entry, m);
    m->depth--;
    return 0;
}

/* ---- marking ---- */

struct sweep {
    const struct image_store *store;
    bool unnamed, dry_run;
    int work;
    unsigned depth;       /* of the folder that is being swept */
    struct hex_set named; /* ids that a name leads to */
    struct hex_set chains, blobs;
    bool keeps_cache; /* and what others may be at work on: only layers and blobs go */
    struct prune_result *result;
    struct cay_error *err;
};

static int fail_memory(struct sweep *s) {
    return error_sys(s->err, ENOMEM, "pruning the image store");
}

/* A sandbox holds the locks of all layers; those below the uppermost may be another image's. */
bool image_store_is_used(const struct image_store *store, const struct image_record *record) {
    if (store_is_pinned(store, record->id))
        return true;
    if (record->layer_count == 0)
        return false;
    _cleanup_(closep) int layers = store_folder(store, "layers");
    _cleanup_(closep) int layer =
        layers < 0 ? -1
                   : path_open_no_symlinks(layers, record->layers[record->layer_count - 1].chain,
                                           O_RDONLY | O_DIRECTORY, 0);
    _cleanup_(closep) int lock = layer < 0 ? -1 : store_open_file(layer, "lock", O_RDONLY);
    return lock >= 0 && !store_lock_is_free(lock);
}

static int mark_record(struct sweep *s, const struct image_record *record) {
    int r = hex_set_add(&s->blobs, record->id);
    if (r == 0)
        r = hex_set_add(&s->blobs, record->manifest);
    for (size_t i = 0; r == 0 && i < record->layer_count; i++) {
        r = hex_set_add(&s->chains, record->layers[i].chain);
        if (r == 0)
            r = hex_set_add(&s->blobs, record->layers[i].blob);
    }
    return r < 0 ? fail_memory(s) : 0;
}

/* Marks what the image needs, or removes the image. A record that cannot be read may be a newer
 * cay's: no layer and no blob is removed then. */
static int mark_image(struct sweep *s, const char *id) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    int r = image_store_read_record(s->store, id, &record, s->err);
    if (r < 0) {
        (void)error_prefix(s->err, "pruning");
        return r;
    }
    if (!s->unnamed || hex_set_has(&s->named, id) || image_store_is_used(s->store, record))
        return mark_record(s, record);
    s->result->images++;
    return s->dry_run ? 0 : image_store_remove_record(s->store, id, s->err);
}

/* Takes in the names; one whose image is gone is a leftover. */
static int mark_names(struct sweep *s, const struct hex_set *ids) {
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count;
    int r = image_store_names(s->store, &names, &count, s->err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (hex_set_has(ids, names[i].id)) {
            r = hex_set_add(&s->named, names[i].id) < 0 ? fail_memory(s) : 0;
            continue;
        }
        struct image_store its = image_store_as(s->store, names[i].owner);
        s->result->leftovers++;
        if (!s->dry_run)
            r = image_store_remove_name(&its, &names[i].ref, s->err);
    }
    hex_set_sort(&s->named);
    return r;
}

/* The first word of an entry is the layer. */
static int mark_cached(void *user, int folder, const char *name) {
    struct sweep *s = user;
    char text[HEX_SIZE] = "";
    _cleanup_(closep) int fd = store_open_file(folder, name, O_RDONLY);
    if (fd < 0 || read(fd, text, HEX_SIZE - 1) != HEX_SIZE - 1 || !hex_is_valid(text))
        return 0;
    return hex_set_add(&s->chains, text);
}

static int mark_cache(struct sweep *s) {
    _cleanup_(closep) int cache = store_folder(s->store, "cache");
    int r = cache == -ENOENT ? 0 : cache < 0 ? cache : path_each(cache, mark_cached, s);
    return r < 0 ? store_fail(s->err, -r, "reading the folder", "cache") : 0;
}

static int mark(struct sweep *s) {
    _cleanup_(hex_set_free) struct hex_set ids = {0};
    int r = image_store_ids(s->store, &ids.items, &ids.count, s->err);
    if (r < 0)
        return r;
    r = mark_names(s, &ids);
    for (size_t i = 0; r == 0 && i < ids.count; i++)
        r = mark_image(s, ids.items[i]);
    if (r == 0 && s->keeps_cache)
        r = mark_cache(s);
    hex_set_sort(&s->chains);
    hex_set_sort(&s->blobs);
    return r;
}

/* ---- sweeping ---- */

/* Counts and removes an entry, which may be a tree. It is first moved to where nobody looks for
 * something whole. */
static int discard(struct sweep *s, int folder, const char *name, size_t *counter) {
    char aside[32];
    struct measure m = {0};
    (void)measure_entry(&m, folder, name);
    (*counter)++;
    s->result->bytes += m.bytes;
    if (s->dry_run)
        return 0;
    int r = store_new_name(".old-", aside, sizeof aside);
    if (r < 0)
        return r;
    if (renameat(folder, name, s->work, aside) < 0)
        return errno == ENOENT ? 0 : -errno;
    return path_remove_tree(s->work, aside);
}

/* Whether nobody holds the lock; if it is to be used, it is taken. */
static bool can_take(const struct sweep *s, int lock) {
    return s->dry_run ? store_lock_is_free(lock) : store_lock(lock, F_WRLCK, false) == 0;
}

/* Discards a folder unless its lock file is held. */
static int discard_unlocked(struct sweep *s, int folder, const char *name, size_t *counter) {
    _cleanup_(closep) int dir = path_open_no_symlinks(folder, name, O_RDONLY | O_DIRECTORY, 0);
    _cleanup_(closep) int lock = dir < 0 ? -1 : store_open_file(dir, "lock", O_RDWR);
    if (lock >= 0 && !can_take(s, lock))
        return 0;
    return discard(s, folder, name, counter);
}

static int sweep_layer(void *user, int folder, const char *name) {
    struct sweep *s = user;
    if (!hex_is_valid(name))
        return discard(s, folder, name, &s->result->leftovers);
    _cleanup_(closep) int layer = path_open_no_symlinks(folder, name, O_RDONLY | O_DIRECTORY, 0);
    if (hex_set_has(&s->chains, name) && layer >= 0 && store_layer_is_whole(layer))
        return 0;
    return discard_unlocked(s, folder, name, &s->result->layers);
}

static int sweep_blob(void *user, int folder, const char *name) {
    struct sweep *s = user;
    if (!hex_is_valid(name))
        return discard(s, folder, name, &s->result->leftovers);
    return hex_set_has(&s->blobs, name) ? 0 : discard(s, folder, name, &s->result->blobs);
}

static int sweep_ingest(void *user, int folder, const char *name) {
    struct sweep *s = user;
    _cleanup_(closep) int fd = store_open_file(folder, name, O_RDWR);
    if (fd >= 0 && !can_take(s, fd))
        return 0;
    return discard(s, folder, name, &s->result->leftovers);
}

static int sweep_work(void *user, int folder, const char *name) {
    struct sweep *s = user;
    return discard_unlocked(s, folder, name, &s->result->leftovers);
}

/* Half-written files, in records and at any level of names. */
static int sweep_new(void *user, int folder, const char *name) {
    struct sweep *s = user;
    if (str_starts(name, STORE_NEW))
        return discard(s, folder, name, &s->result->leftovers);
    _cleanup_(closep) int below = path_open_no_symlinks(folder, name, O_RDONLY | O_DIRECTORY, 0);
    if (below < 0 || s->depth >= NAMES_DEPTH)
        return 0;
    s->depth++;
    int r = path_each(below, sweep_new, s);
    s->depth--;
    return r;
}

static int sweep_all(struct sweep *s) {
    static const struct {
        const char *folder;
        path_visit visit;
    } steps[] = {
        {"layers", sweep_layer}, {"blobs", sweep_blob}, {"ingest", sweep_ingest},
        {"records", sweep_new},  {"names", sweep_new},  {STORE_OWNERS, sweep_new},
        {"work", sweep_work},
    };
    size_t count = s->keeps_cache ? 2 : ARRAY_LEN(steps);
    for (size_t i = 0; i < count; i++) {
        _cleanup_(closep) int folder = store_folder(s->store, steps[i].folder);
        if (folder == -ENOENT && strcmp(steps[i].folder, STORE_OWNERS) == 0)
            continue; /* made with the first name of a key */
        int r = folder < 0 ? folder : path_each(folder, steps[i].visit, s);
        if (r < 0)
            return store_fail(s->err, -r, "pruning the folder", steps[i].folder);
    }
    return 0;
}

/* ---- the lock ---- */

/* Two that both kept their shared lock would wait for each other. */
static int lock_alone(const struct image_store *store, int64_t wait_ms, struct cay_error *err) {
    int64_t end = clock_ms() + wait_ms;
    int r = store_lock(store->lock, F_UNLCK, false);
    if (r == 0)
        r = store_lock(store->lock, F_WRLCK, false);
    while (r == -EAGAIN && clock_ms() < end) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
        r = store_lock(store->lock, F_WRLCK, false);
    }
    if (r == 0)
        return 0;
    (void)store_lock(store->lock, F_RDLCK, true);
    if (r != -EAGAIN)
        return store_fail(err, -r, "locking", "it");
    r = error_set(err, CAY_CONFLICT, "the image store is in use by other processes");
    (void)error_remedy(err, "wait until no image is being pulled, built, loaded or saved");
    return r;
}

static int prune(struct sweep *s, int64_t wait_ms) {
    int r = lock_alone(s->store, wait_ms, s->err);
    if (r < 0)
        return r;
    _cleanup_(closep) int work = store_folder(s->store, "work");
    s->work = work;
    if (work < 0)
        r = store_fail(s->err, -work, "opening the folder", "work");
    if (r == 0)
        r = mark(s);
    if (r == 0)
        r = sweep_all(s);
    hex_set_free(&s->named);
    hex_set_free(&s->chains);
    hex_set_free(&s->blobs);
    int relocked = store_lock(s->store->lock, F_RDLCK, true);
    return r == 0 && relocked < 0 ? store_fail(s->err, -relocked, "locking", "it") : r;
}

int image_store_prune(struct image_store *store, bool unnamed, bool dry_run, int64_t wait_ms,
                      struct prune_result *ret, struct cay_error *err) {
    *ret = (struct prune_result){0};
    struct sweep s = {
        .store = store, .unnamed = unnamed, .dry_run = dry_run, .result = ret, .err = err};
    return prune(&s, wait_ms);
}

void image_store_reclaim(const struct image_store *store) {
    struct prune_result ignored = {0};
    struct cay_error err;
    struct image_store all = image_store_as(store, "");
    struct sweep s = {.store = &all, .keeps_cache = true, .result = &ignored, .err = &err};
    (void)prune(&s, 0); /* busy: the next one, or a prune, removes the same */
}

void image_store_sweep(const char *state_dir, int64_t wait_ms) {
    struct image_store store;
    struct prune_result swept = {0};
    struct cay_error ignored; /* the next one tries again */
    if (image_store_open(state_dir, false, 0, &store, &ignored) < 0)
        return;
    _cleanup_(closep) int work = store_folder(&store, "work");
    struct sweep s = {.store = &store, .work = work, .result = &swept, .err = &ignored};
    if (work >= 0 && lock_alone(&store, wait_ms, &ignored) == 0)
        (void)path_each(work, sweep_work, &s);
    image_store_close(&store);
}
