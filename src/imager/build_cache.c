#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "imager/build_state.h"

/* cache/KEY in the store holds one line: chain, diff_id, bytes, entries. */
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

static bool parse_entry(char *text, struct record_layer *ret) {
    char *fields[4] = {NULL}, *save = NULL;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        fields[i] = strtok_r(i == 0 ? text : NULL, " ", &save);
        if (fields[i] == NULL)
            return false;
    }
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
                       struct record_layer *ret) {
    char text[ENTRY_SIZE];
    return fd_read_file_at(dir, key, text, sizeof text) >= 0 && parse_entry(text, ret) &&
           image_store_has_layer(store, ret->chain);
}

bool build_cache_get(const struct image_store *store, const char *key, struct record_layer *ret) {
    _cleanup_(closep) int dir = open_folder(store);
    return dir >= 0 && hex_is_valid(key) && read_entry(dir, store, key, ret);
}

void build_cache_put(const struct image_store *store, const char *key,
                     const struct record_layer *layer) {
    char text[ENTRY_SIZE], temporary[HEX_SIZE + 32];
    if (!hex_is_valid(key) || (mkdirat(store->dir, folder, 0755) < 0 && errno != EEXIST))
        return;
    _cleanup_(closep) int dir = open_folder(store);
    int n = snprintf(text, sizeof text, "%s %s %" PRIu64 " %" PRIu64 "\n", layer->chain,
                     layer->diff_id, layer->size, layer->entries);
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
    struct stat st;
    if (hex_is_valid(name))
        return !read_entry(dir, store, name, &layer);
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
