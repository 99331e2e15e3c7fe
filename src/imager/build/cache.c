#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "imager/build/state.h"

/* cache/KEY in the store holds one line: chain, diff_id, bytes, entries; and who pays, if that is a
 * key: the owner, and the key of an organisation. */
static const char folder[] = "cache";
enum { ENTRY_SIZE = 256, LEFTOVER_AGE_S = 3600 };

/* ---- keys ---- */

void build_key_put(struct digest *key, const char *text) {
    char length[32];
    int n = snprintf(length, sizeof length, "%zu:", strlen(text));
    digest_update(key, length, (size_t)n);
    digest_update(key, text, strlen(text));
}

void build_key_put_list(struct digest *key, const struct strv *list) {
    char count[32];
    (void)snprintf(count, sizeof count, "%zu", list->len);
    build_key_put(key, count);
    for (size_t i = 0; i < list->len; i++)
        build_key_put(key, list->v[i]);
}

/* A time that the user gave decides what is in the layer; one that was derived does not, or a
 * touched file would build everything anew. */
struct digest *build_key_new(const struct build *b, const struct build_stage *s, const char *op) {
    struct digest *key = digest_new();
    char epoch[32];
    (void)snprintf(epoch, sizeof epoch, "%" PRId64, b->options->source_date_epoch);
    build_key_put(key, "cay build 1");
    build_key_put(key,
                  b->store->owner); /* a step is cached for its owner: others must not notice */
    build_key_put(key, build_parent(s));
    build_key_put(key, b->options->source_date_epoch >= 0 ? epoch : "");
    build_key_put(key, op);
    return key;
}

/* ---- entries ---- */

/* An owner that is missing, or is none, is "". */
static void copy_owner(char out[static IMAGE_OWNER_SIZE], const char *text) {
    bool is_one = text != NULL && image_owner_is_valid(text);
    (void)snprintf(out, IMAGE_OWNER_SIZE, "%s", is_one ? text : "");
}

static bool parse_entry(char *text, struct record_layer *ret, struct image_charge *whose) {
    enum { NEEDED = 4, FIELDS = 6 };
    char *fields[FIELDS] = {NULL}, *save = NULL;
    for (size_t i = 0; i < FIELDS; i++) {
        fields[i] = strtok_r(i == 0 ? text : NULL, " \n", &save);
        if (fields[i] == NULL && i < NEEDED)
            return false;
        if (fields[i] == NULL)
            break;
    }
    copy_owner(whose->owner, fields[4]);
    copy_owner(whose->made_by, fields[5]);
    *ret = (struct record_layer){0};
    if (!hex_is_valid(fields[0]) || !hex_is_valid(fields[1]) ||
        str_to_u64(fields[2], INT64_MAX, &ret->size) < 0 ||
        str_to_u64(fields[3], INT64_MAX, &ret->entries) < 0)
        return false;
    memcpy(ret->chain, fields[0], HEX_SIZE);
    memcpy(ret->diff_id, fields[1], HEX_SIZE);
    return true;
}

static int open_folder(const struct image_store *store) {
    return openat(store->dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool read_entry(int dir, const struct image_store *store, const char *key,
                       struct record_layer *ret, struct image_charge *whose) {
    char text[ENTRY_SIZE];
    return fd_read_file_at(dir, key, text, sizeof text) >= 0 && parse_entry(text, ret, whose) &&
           image_store_has_layer(store, ret->chain);
}

bool build_cache_get(const struct image_store *store, const char *key, struct record_layer *ret) {
    struct image_charge whose;
    _cleanup_(closep) int dir = open_folder(store);
    return dir >= 0 && hex_is_valid(key) && read_entry(dir, store, key, ret, &whose);
}

void build_cache_put(const struct image_store *store, const char *key,
                     const struct record_layer *layer) {
    char text[ENTRY_SIZE], temporary[HEX_SIZE + 32];
    if (!hex_is_valid(key) || (mkdirat(store->dir, folder, 0755) < 0 && errno != EEXIST))
        return;
    _cleanup_(closep) int dir = open_folder(store);
    int n = snprintf(text, sizeof text, "%s %s %" PRIu64 " %" PRIu64 " %s %s\n", layer->chain,
                     layer->diff_id, layer->size, layer->entries, store->owner, store->made_by);
    if (dir < 0 || str_format(temporary, sizeof temporary, "%s.%d", key, (int)getpid()) < 0)
        return;
    _cleanup_(closep) int fd =
        openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    if (fd_write_all(fd, text, (size_t)n) < 0 || renameat(dir, temporary, dir, key) < 0)
        (void)unlinkat(dir, temporary, 0); /* a later sweep finds it otherwise */
}

/* A name that is no key is one of a build that writes it just now, or that was killed. */
static bool is_stale(int dir, const struct image_store *store, const char *name) {
    struct record_layer layer;
    struct image_charge whose;
    struct stat st;
    if (hex_is_valid(name))
        return !read_entry(dir, store, name, &layer, &whose);
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_mtime < time(NULL) - LEFTOVER_AGE_S;
}

void build_cache_sweep(const struct image_store *store) {
    int dir = open_folder(store);
    _cleanup_(closedirp) DIR *d = dir < 0 ? NULL : fdopendir(dir);
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && is_stale(dir, store, e->d_name))
            (void)unlinkat(dir, e->d_name, 0);
}

/* Calls fn with every entry whose layer is there and that a key pays for. */
static int each_charge(const struct image_store *store,
                       int (*fn)(void *user, int dir, const char *name,
                                 const struct image_charge *one),
                       void *user) {
    int dir = open_folder(store), r = 0;
    _cleanup_(closedirp) DIR *d = dir < 0 ? NULL : fdopendir(dir);
    if (d == NULL)
        return 0;
    for (struct dirent *e; r == 0 && (e = readdir(d)) != NULL;) {
        struct record_layer layer;
        struct image_charge one = {0};
        if (!hex_is_valid(e->d_name) || !read_entry(dir, store, e->d_name, &layer, &one) ||
            one.owner[0] == '\0')
            continue;
        memcpy(one.chain, layer.chain, sizeof one.chain);
        one.bytes = layer.size;
        r = fn(user, dir, e->d_name, &one);
    }
    return r;
}

static int add_charge(void *user, int dir, const char *name, const struct image_charge *one) {
    (void)dir, (void)name;
    return image_charges_add(user, one);
}

int build_cache_charges(const struct image_store *store, struct image_charges *ret) {
    return each_charge(store, add_charge, ret);
}

static int forget_unused(void *user, int dir, const char *name, const struct image_charge *one) {
    const struct image_store *store = user;
    if (str_equal(one->owner, store->owner) && !image_store_knows(store, one->chain))
        (void)unlinkat(dir, name, 0); /* else it is charged on */
    return 0;
}

void build_cache_forget(const struct image_store *store) {
    struct cay_error ignored; /* then all of it stays */
    struct image_store own = image_store_as(store, store->owner);
    if (image_store_learn(&own, &ignored) == 0)
        (void)each_charge(&own, forget_unused, &own);
    image_store_forget(&own);
}
