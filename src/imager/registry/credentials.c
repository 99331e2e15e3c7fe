#include "imager/registry/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "imager/registry/credential_helper.h"
#include "imager/registry/docker_config.h"
#include "imager/registry/secret.h"

void credential_clear(struct credential *c) {
    secret_free(c->user);
    secret_free(c->secret);
    secret_free(c->identity_token);
    *c = CREDENTIAL_NONE;
}

static bool is_empty(const struct credential *c) {
    return c->user == NULL && c->identity_token == NULL;
}

/* ---- where ---- */

/* $VARIABLE/TAIL, or $HOME/IN_HOME/TAIL; -ENOENT if neither is set. */
static int locate(const char *variable, const char *in_home, const char *tail, char *out,
                  size_t size) {
    const char *folder = getenv(variable), *home = getenv("HOME");
    if (folder != NULL && folder[0] == '/')
        return str_format(out, size, "%s%s", folder, tail);
    if (home == NULL || home[0] != '/')
        return -ENOENT;
    return str_format(out, size, "%s/%s%s", home, in_home, tail);
}

static int locate_own(char *out, size_t size) {
    return locate("XDG_CONFIG_HOME", ".config", "/cay", out, size);
}

/* ---- reading ---- */

static int read_file(int dirfd, const char *path, struct buf *text) {
    _cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > DOCKER_CONFIG_MAX)
        return -EFBIG;
    if (buf_reserve(text, (size_t)st.st_size + 1) == NULL) /* it need not move then */
        return -ENOMEM;
    return fd_read_to_end(fd, text);
}

/* What is missing, or not for us, says nothing. */
static bool is_nothing(int r) {
    return r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -EPERM;
}

static int ask_helper(const char *path, const char *registry, struct docker_entry *entry,
                      struct cay_error *err) {
    struct credential found;
    int r = credential_helper_get(entry->helper, docker_config_key(registry), 0, &found, err);
    if (r < 0)
        return error_prefix(err, "%s", path);
    if (is_empty(&found))
        return 0;
    credential_clear(&entry->credential);
    entry->credential = found;
    return 0;
}

static int find_in(const char *path, const char *registry, struct credential *ret,
                   struct cay_error *err) {
    _cleanup_(secret_buf_free) struct buf text = BUF_INIT(DOCKER_CONFIG_MAX + 1);
    struct docker_entry entry;
    int r = read_file(AT_FDCWD, path, &text);
    if (is_nothing(r) || (r == 0 && text.len == 0))
        return 0;
    if (r < 0)
        return error_sys(err, -r, "reading '%s'", path);
    r = docker_config_find(path, text.data, text.len, registry, &entry, err);
    if (r == 0 && entry.helper[0] != '\0')
        r = ask_helper(path, registry, &entry, err);
    if (r < 0) {
        credential_clear(&entry.credential);
        return r;
    }
    *ret = entry.credential;
    return 0;
}

int credential_find(const char *registry, struct credential *ret, struct cay_error *err) {
    char path[PATH_MAX];
    int r = 0;
    *ret = CREDENTIAL_NONE;
    if (locate("XDG_CONFIG_HOME", ".config", "/cay/auth.json", path, sizeof path) == 0)
        r = find_in(path, registry, ret, err);
    if (r < 0 || !is_empty(ret))
        return r;
    if (locate("DOCKER_CONFIG", ".docker", "/config.json", path, sizeof path) == 0)
        r = find_in(path, registry, ret, err);
    return r;
}

/* ---- writing ---- */

static int open_own(char *path, size_t size, bool make, struct cay_error *err) {
    if (locate_own(path, size) < 0) {
        (void)error_set(err, CAY_INVALID_ARGUMENT, "there is no folder to keep credentials in");
        return error_remedy(err, "set HOME or XDG_CONFIG_HOME");
    }
    int r = make ? path_make_dirs_trusted(path, 0700, err) : 0;
    if (r < 0)
        return r;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening '%s'", path);
    while (flock(fd, LOCK_EX) < 0) /* two logins at once keep both */
        if (errno != EINTR) {
            r = error_errno(err, "locking '%s'", path);
            (void)close(fd);
            return r;
        }
    return fd;
}

static int write_new(int dir, const char *name, const struct buf *text) {
    _cleanup_(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fchmod(fd, 0600) < 0 ? -errno : fd_write_all(fd, text->data, text->len);
    return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int replace_file(int dir, const struct buf *text) {
    char id[ID_SIZE], name[64];
    struct cay_error ignored;
    if (id_new(id, &ignored) < 0)
        return -EIO;
    (void)snprintf(name, sizeof name, ".auth.json.%s", id);
    int r = write_new(dir, name, text);
    if (r == 0 && renameat(dir, name, dir, "auth.json") < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, name, 0);
    return r == 0 && fsync(dir) < 0 ? -errno : r;
}

/* 1 if something was replaced or removed. */
static int change(int dir, const char *folder, const char *registry,
                  const struct credential *credential, struct cay_error *err) {
    _cleanup_(secret_buf_free) struct buf old = BUF_INIT(DOCKER_CONFIG_MAX + 1);
    _cleanup_(secret_buf_free) struct buf text = BUF_INIT(DOCKER_CONFIG_MAX);
    char name[PATH_MAX];
    int r = read_file(dir, "auth.json", &old);
    if (str_format(name, sizeof name, "%s/auth.json", folder) < 0)
        r = -ENAMETOOLONG;
    if (r < 0 && r != -ENOENT)
        return error_sys(err, -r, "reading '%s'", name);
    if (buf_reserve(&text, text.max) == NULL)
        return error_sys(err, ENOMEM, "writing '%s'", name);
    int had =
        docker_config_replace(name, buf_text(&old), old.len, registry, credential, &text, err);
    if (had < 0 || (had == 0 && credential == NULL))
        return had;
    r = replace_file(dir, &text);
    return r < 0 ? error_sys(err, -r, "writing '%s'", name) : had;
}

int credential_save(const char *registry, const struct credential *credential,
                    struct cay_error *err) {
    char folder[PATH_MAX];
    bool pair = credential->user != NULL && credential->secret != NULL;
    if (credential->identity_token == NULL && !pair)
        return error_set(err, CAY_INVALID_ARGUMENT, "no credentials to keep");
    if (pair && strchr(credential->user, ':') != NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "the user's name holds a colon");
    _cleanup_(closep) int dir = open_own(folder, sizeof folder, true, err);
    if (dir < 0)
        return dir;
    int r = change(dir, folder, registry, credential, err);
    return MIN(r, 0);
}

int credential_remove(const char *registry, struct cay_error *err) {
    char folder[PATH_MAX];
    struct stat st;
    if (locate_own(folder, sizeof folder) == 0 && stat(folder, &st) < 0 && errno == ENOENT)
        return 0;
    _cleanup_(closep) int dir = open_own(folder, sizeof folder, false, err);
    return dir < 0 ? dir : change(dir, folder, registry, NULL, err);
}
