#include "engine/native/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"

/* ---- named ones ---- */

int volume_open_store(const struct volume_rules *rules, struct cay_error *err) {
    if (mkdirat(rules->state_dir, VOLUMES_FOLDER, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of volumes");
    int fd =
        openat(rules->state_dir, VOLUMES_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening the folder of volumes") : fd;
}

/* Made under another name first, so that none is ever seen with another owner. */
static int make_folder(const struct volume_rules *rules, int store, const char *id) {
    char fresh[ID_SIZE + sizeof ".new-"];
    (void)snprintf(fresh, sizeof fresh, ".new-%s", id);
    if (mkdirat(store, fresh, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (!rules->own_userns &&
        fchownat(store, fresh, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (fchmodat(store, fresh, 0755, 0) < 0 || renameat(store, fresh, store, id) < 0)
        return -errno;
    return 0;
}

int volume_make(const struct volume_rules *rules, const char *id, struct cay_error *err) {
    _cleanup_(closep) int store = volume_open_store(rules, err);
    if (store < 0)
        return store;
    int fd = openat(store, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        int r = make_folder(rules, store, id);
        if (r < 0)
            return error_sys(err, -r, "making volume %s", id);
        fd = openat(store, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd < 0 ? error_errno(err, "opening volume %s", id) : fd;
}

/* A folder in a named volume, made if it is not there. Sandboxes write above it, perhaps at this
 * moment: each part is opened by itself, and no link is followed. Only we make folders that belong
 * to the host's root, so that nothing but ours is given away. */
static int step_into(const struct volume_rules *rules, int dir, const char *name) {
    struct stat st;
    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!rules->own_userns && st.st_uid == 0 && fchown(fd, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int refuse_part(const char *source, int sys, struct cay_error *err) {
    char shown[200];
    (void)str_escape(shown, sizeof shown, source + ID_LEN);
    error_sys(err, sys, "opening '%s' in volume %.*s", shown, ID_LEN, source);
    return error_remedy(err, "name a folder in it, not a file or a link");
}

/* "ID" or "ID/PATH". */
static int open_named(const struct volume_rules *rules, const char *source, struct cay_error *err) {
    char id[ID_SIZE], parts[SPEC_PATH_SIZE], *rest = parts;
    (void)snprintf(id, sizeof id, "%s", source);
    (void)snprintf(parts, sizeof parts, "%s", source + strlen(id));
    int fd = volume_make(rules, id, err);
    for (const char *name; fd >= 0 && (name = strtok_r(rest, "/", &rest)) != NULL;) {
        int next = step_into(rules, fd, name);
        (void)close(fd);
        fd = next < 0 ? refuse_part(source, -next, err) : next;
    }
    return fd;
}

/* ---- folders of the host ---- */

static bool is_below(const char *path, const char *folder) {
    size_t n = str_equal(folder, "/") ? 0 : strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int refuse(const char *source, const char *why, struct cay_error *err) {
    char shown[200];
    error_set(err, CAY_FORBIDDEN, "volume source '%s' %s", str_escape(shown, sizeof shown, source),
              why);
    return error_remedy(err,
                        "use a named volume, or let the daemon show its folder: volume_folders "
                        "in the section [manager] of the configuration");
}

/* -ENOENT too if it is not below this root. */
static int open_below(const char *root, const char *source) {
    if (!is_below(source, root))
        return -ENOENT;
    _cleanup_(closep) int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -errno;
    const char *rest = source + (str_equal(root, "/") ? 0 : strlen(root));
    while (*rest == '/')
        rest++;
    if (*rest == '\0')
        return TAKE_FD(top);
    return str_equal(root, "/") ? path_open_in_root(top, rest, O_PATH | O_CLOEXEC, 0)
                                : path_open_beneath(top, rest, O_PATH | O_CLOEXEC, 0);
}

static int open_allowed(const struct volume_rules *rules, const char *source,
                        struct cay_error *err) {
    char shown[200];
    int last = -EPERM; /* as long as no root is above it */
    for (size_t i = 0; rules->roots[i] != NULL; i++) {
        if (!is_below(source, rules->roots[i]))
            continue;
        int fd = open_below(rules->roots[i], source);
        if (fd >= 0)
            return fd;
        last = fd;
    }
    if (last == -EPERM)
        return refuse(source, "is in no folder that may be shown", err);
    if (last == -EXDEV || last == -ELOOP)
        return refuse(source, "leads out of the folder that may be shown", err);
    return error_sys(err, -last, "volume source '%s'", str_escape(shown, sizeof shown, source));
}

int volume_real_path(int fd, char out[static PATH_MAX]) {
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0)
        return -errno;
    out[n] = '\0';
    return n == PATH_MAX - 1 ? -ENAMETOOLONG : 0;
}

static int check_not_ours(const struct volume_rules *rules, int fd, const char *source,
                          struct cay_error *err) {
    char path[PATH_MAX], state[PATH_MAX];
    struct stat found = {0}, ours = {0};
    int r = volume_real_path(fd, path);
    if (r == 0)
        r = volume_real_path(rules->state_dir, state);
    if (r == 0 && (fstat(fd, &found) < 0 || fstat(rules->state_dir, &ours) < 0))
        r = -errno;
    if (r < 0)
        return error_sys(err, -r, "looking where volume source '%.200s' is", source);
    if (is_below(path, state) || (found.st_dev == ours.st_dev && found.st_ino == ours.st_ino))
        return refuse(source, "is in the state folder of cay", err);
    return is_below(state, path) ? refuse(source, "holds the state folder of cay", err) : 0;
}

int volume_open(const struct volume_rules *rules, const struct mount_spec *m,
                struct cay_error *err) {
    if (m->named)
        return open_named(rules, m->source, err);
    _cleanup_(closep) int fd = open_allowed(rules, m->source, err);
    if (fd < 0)
        return fd;
    int r = check_not_ours(rules, fd, m->source, err);
    return r < 0 ? r : TAKE_FD(fd);
}
