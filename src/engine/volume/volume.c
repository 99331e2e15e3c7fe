#include "engine/volume/volume.h"

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
#include "engine/volume/named.h"

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
                        "in the section [manager] of the configuration, and restart the daemon");
}

static int refuse_root(const char *source, const char *why, struct cay_error *err) {
    (void)refuse(source, why, err);
    return error_remedy(
        err, "give it to another user and group, mount it read-only (:ro), or let sandboxes "
             "write as root there: volume_root_folders in the section [manager] "
             "of the configuration, and restart the daemon");
}

static bool has_root(const char *root) {
    return str_starts(root, VOLUME_ROOT_PREFIX);
}

static const char *path_of(const char *root) {
    return has_root(root) ? root + sizeof VOLUME_ROOT_PREFIX - 1 : root;
}

bool volume_root_is_valid(const char *root) {
    return path_of(root)[0] == '/';
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

/* Below those that let root write, or those that do not; *last is why not. */
static int open_in(const struct volume_rules *rules, const char *source, bool with_root,
                   int *last) {
    for (size_t i = 0; rules->roots[i] != NULL; i++) {
        const char *path = path_of(rules->roots[i]);
        if (has_root(rules->roots[i]) != with_root || !is_below(source, path))
            continue;
        int fd = open_below(path, source);
        if (fd >= 0)
            return fd;
        *last = fd;
    }
    return -1;
}

static int open_allowed(const struct volume_rules *rules, const char *source, bool *ret_with_root,
                        struct cay_error *err) {
    char shown[200];
    int last = -EPERM; /* as long as no root is above it */
    int fd = open_in(rules, source, true, &last);
    *ret_with_root = fd >= 0;
    if (fd < 0)
        fd = open_in(rules, source, false, &last);
    if (fd >= 0)
        return fd;
    if (rules->roots[0] == NULL)
        return refuse(source, "is a folder of the host, and this daemon shows none", err);
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

/* Whoever asks may be a front that was taken over: it gets to write as root of the host only where
 * the configuration says so by name. */
static int judge_owner(const struct volume_rules *rules, int fd, const struct mount_spec *m,
                       enum volume_kind *ret, struct cay_error *err) {
    struct stat st;
    if (rules->shares_root)
        return refuse_root(m->source,
                           "would be seen by the host's root: with Docker, root inside "
                           "is root outside",
                           err);
    if (fstat(fd, &st) < 0)
        return error_errno(err, "looking who owns a volume");
    if (st.st_uid != 0 && st.st_gid != 0)
        return 0;
    *ret = VOLUME_UNMAPPED;
    if (m->read_only)
        return 0;
    return refuse_root(
        m->source,
        st.st_uid == 0 ? "belongs to the host's root" : "belongs to the host's group root", err);
}

int volume_open(const struct volume_rules *rules, const struct mount_spec *m, enum volume_kind *ret,
                struct cay_error *err) {
    bool is_mount = false, with_root = false;
    *ret = VOLUME_FOLDER;
    if (m->named) {
        int named = volume_open_named(rules, m->source, &is_mount, err);
        *ret = is_mount ? VOLUME_MOUNT : VOLUME_FOLDER;
        return named;
    }
    _cleanup_(closep) int fd = open_allowed(rules, m->source, &with_root, err);
    if (fd < 0)
        return fd;
    int r = check_not_ours(rules, fd, m->source, err);
    if (r == 0 && !with_root && (!rules->own_userns || rules->shares_root))
        r = judge_owner(rules, fd, m, ret, err);
    return r < 0 ? r : TAKE_FD(fd);
}
