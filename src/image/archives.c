#include "image/archives.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"

#define FOLDER "archives"
#define MAKING ".new-"

static const struct {
    const char *name, *making, *pin; /* what follows the id, and comes before it */
} kinds[] = {
    [ARCHIVE_WHOLE] = {".tar.zst", MAKING, "archive-"},
    [ARCHIVE_BACKUP] = {".backup.tar.zst", MAKING "backup-", "backup-"},
};

enum { HOLDER_SIZE = sizeof "archive-" + ID_SIZE };

void archives_name(enum archive_kind kind, const char *id, char out[static ARCHIVES_NAME_SIZE]) {
    (void)snprintf(out, ARCHIVES_NAME_SIZE, "%.*s%s", ID_LEN, id, kinds[kind].name);
}

void archives_making_name(enum archive_kind kind, const char *id,
                          char out[static ARCHIVES_NAME_SIZE]) {
    (void)snprintf(out, ARCHIVES_NAME_SIZE, "%s%.*s", kinds[kind].making, ID_LEN, id);
}

static int open_folder(int state_dir) {
    int fd = openat(state_dir, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int archives_open(int state_dir) {
    if (mkdirat(state_dir, FOLDER, 0700) == 0)
        (void)fsync(state_dir); /* what is in it would be lost with it */
    else if (errno != EEXIST)
        return -errno;
    return open_folder(state_dir);
}

static int open_by_path(const char *state_path) {
    _cleanup_(closep) int state = open(state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return state < 0 ? -errno : open_folder(state);
}

static void holder_of(enum archive_kind kind, const char *id, char out[static HOLDER_SIZE]) {
    (void)snprintf(out, HOLDER_SIZE, "%s%s", kinds[kind].pin, id);
}

int archives_pin(const char *state_path, enum archive_kind kind, const char *id, const char *image,
                 struct cay_error *err) {
    char holder[HOLDER_SIZE];
    holder_of(kind, id, holder);
    return image_store_pin(state_path, holder, image, err);
}

static void remove_making(int folder, enum archive_kind kind, const char *id) {
    char name[ARCHIVES_NAME_SIZE];
    archives_making_name(kind, id, name);
    (void)unlinkat(folder, name, 0); /* swept otherwise */
}

void archives_remove_making(const char *state_path, enum archive_kind kind, const char *id) {
    _cleanup_(closep) int folder = open_by_path(state_path);
    if (folder >= 0)
        remove_making(folder, kind, id);
}

static int remove_files(int folder, enum archive_kind kind, const char *id) {
    char name[ARCHIVES_NAME_SIZE];
    remove_making(folder, kind, id);
    archives_name(kind, id, name);
    if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
        return -errno;
    return fsync(folder) < 0 ? -errno : 0;
}

int archives_remove(const char *state_path, enum archive_kind kind, const char *id,
                    struct cay_error *err) {
    char holder[HOLDER_SIZE];
    _cleanup_(closep) int folder = open_by_path(state_path);
    if (folder == -ENOENT)
        return 0;
    int r = folder < 0 ? folder : remove_files(folder, kind, id);
    if (r < 0)
        return error_sys(err, -r, "removing the archive of sandbox %s", id);
    holder_of(kind, id, holder);
    return image_store_unpin(state_path, holder, err);
}

static int sweep_one(void *user, int folder, const char *name) {
    (void)user;
    if (str_starts(name, MAKING))
        (void)unlinkat(folder, name, 0); /* the next daemon tries again */
    return 0;
}

void archives_sweep(const char *state_path) {
    _cleanup_(closep) int folder = open_by_path(state_path);
    if (folder >= 0)
        (void)path_each(folder, sweep_one, NULL);
}
