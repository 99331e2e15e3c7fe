/* Pins are empty files whose names say all, so that whoever prunes need not be able to read files
 * of whoever pinned. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"
#include "image/store_files.h"

#define PINS "pins"

enum { PIN_SIZE = NAME_MAX + 1 };

static int open_pins(int dir) {
    return path_open_no_symlinks(dir, PINS, O_RDONLY | O_DIRECTORY, 0);
}

/* A store that was made before there were pins has no folder for them. */
static int make_pins(int dir) {
    if (mkdirat(dir, PINS, 0755) < 0 && errno != EEXIST)
        return -errno;
    return open_pins(dir);
}

static int add_pin(int dir, const char *holder, const char *id) {
    char name[PIN_SIZE];
    int r = str_format(name, sizeof name, "%s.%s", holder, id);
    if (r < 0)
        return r;
    _cleanup_(closep) int pins = make_pins(dir);
    if (pins < 0)
        return pins;
    _cleanup_(closep) int pin =
        openat(pins, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* whatever the umask was: a prune that cannot look removes nothing */
    return pin < 0 || fchmod(pins, 0755) < 0 || fsync(pins) < 0 ? -errno : 0;
}

int image_store_pin(const char *state_dir, const char *holder, const char *id,
                    struct cay_error *err) {
    _cleanup_(closep) int dir = store_open_folder(state_dir);
    int r = dir < 0 ? dir : add_pin(dir, holder, id);
    return r < 0 ? store_fail(err, -r, "pinning the image", id) : 0;
}

static int remove_pin(void *user, int folder, const char *name) {
    const char *holder = user;
    size_t n = strlen(holder);
    if (strncmp(name, holder, n) != 0 || name[n] != '.')
        return 0;
    return unlinkat(folder, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int image_store_unpin(const char *state_dir, const char *holder, struct cay_error *err) {
    _cleanup_(closep) int dir = store_open_folder(state_dir);
    _cleanup_(closep) int pins = dir < 0 ? dir : open_pins(dir);
    if (pins == -ENOENT)
        return 0;
    int r = pins < 0 ? pins : path_each(pins, remove_pin, (void *)(uintptr_t)holder);
    return r < 0 ? store_fail(err, -r, "unpinning the image of", holder) : 0;
}

int image_store_unpin_one(const char *state_dir, const char *holder, const char *id,
                          struct cay_error *err) {
    char name[PIN_SIZE];
    _cleanup_(closep) int dir = store_open_folder(state_dir);
    _cleanup_(closep) int pins = dir < 0 ? dir : open_pins(dir);
    int r = pins < 0 ? pins : str_format(name, sizeof name, "%s.%s", holder, id);
    if (r == 0 && unlinkat(pins, name, 0) < 0 && errno != ENOENT)
        r = -errno;
    return r < 0 && r != -ENOENT ? store_fail(err, -r, "unpinning the image", id) : 0;
}

struct search {
    const char *holder, *but;
    char *id; /* HEX_SIZE bytes */
};

static int find_pin(void *user, int folder, const char *name) {
    const struct search *s = user;
    size_t n = strlen(s->holder);
    (void)folder;
    if (strncmp(name, s->holder, n) == 0 && name[n] == '.' && hex_is_valid(name + n + 1) &&
        !str_equal(name + n + 1, s->but))
        memcpy(s->id, name + n + 1, HEX_SIZE);
    return 0;
}

int image_store_pinned(const char *state_dir, const char *holder, const char *but,
                       char ret[static HEX_SIZE], struct cay_error *err) {
    struct search s = {holder, but, ret};
    ret[0] = '\0';
    _cleanup_(closep) int dir = store_open_folder(state_dir);
    _cleanup_(closep) int pins = dir < 0 ? dir : open_pins(dir);
    int r = pins < 0 ? pins : path_each(pins, find_pin, &s);
    if (r < 0 && r != -ENOENT)
        return store_fail(err, -r, "looking for the image of", holder);
    return ret[0] != '\0';
}

static int is_pin_of(void *user, int folder, const char *name) {
    (void)folder;
    const char *dot = strchr(name, '.');
    return dot != NULL && strcmp(dot + 1, user) == 0 ? -EEXIST : 0;
}

static int is_backup_of(void *user, int folder, const char *name) {
    return str_starts(name, IMAGE_STORE_BACKUP) ? is_pin_of(user, folder, name) : 0;
}

bool store_is_backup(const struct image_store *store, const char *id) {
    _cleanup_(closep) int pins = open_pins(store->dir);
    if (pins == -ENOENT)
        return false;
    return pins < 0 || path_each(pins, is_backup_of, (void *)(uintptr_t)id) < 0;
}

bool store_is_pinned(const struct image_store *store, const char *id) {
    _cleanup_(closep) int pins = open_pins(store->dir);
    if (pins == -ENOENT)
        return false;
    /* what cannot be read may hold a pin */
    return pins < 0 || path_each(pins, is_pin_of, (void *)(uintptr_t)id) < 0;
}
