#include "config/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/toml/toml.h"

static const char folder_file[] = "config/config.toml";
static const char system_file[] = "/etc/cay/config.toml";

/* Not even a FIFO makes us wait. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

/* ---- whose is it ---- */

static bool is_ours(const struct stat *st) {
    return st->st_uid == 0 || st->st_uid == geteuid();
}

static bool others_write(const struct stat *st) {
    return (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* In a sticky folder others cannot replace what is ours. */
static const char *judge_folder(const struct stat *st) {
    if (!is_ours(st))
        return "another user owns its folder";
    return others_write(st) && (st->st_mode & S_ISVTX) == 0 ? "others can write to its folder"
                                                            : NULL;
}

/* The folder of what was opened, which is another one if the name is a symlink. */
static const char *judge_real_folder(int fd) {
    char link[40], path[PATH_MAX];
    struct stat st;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (slash[1] = '\0', stat(path, &st)) < 0)
        return "its folder cannot be checked";
    return judge_folder(&st);
}

/* Why somebody else could have written it: NULL if nobody could. It judges descriptors, so that
 * what is judged is what is read; only the owner of the name itself is looked up, which nobody else
 * can change where the folder was found to be ours. */
static const char *judge(int dir, const char *name, int fd) {
    struct stat folder, entry, file;
    if (fstat(dir, &folder) < 0 || fstat(fd, &file) < 0 ||
        fstatat(dir, name, &entry, AT_SYMLINK_NOFOLLOW) < 0)
        return "its owner cannot be checked";
    bool is_link = S_ISLNK(entry.st_mode);
    if (!is_ours(&file) || !is_ours(&entry))
        return "another user owns it";
    if (!is_link && (entry.st_ino != file.st_ino || entry.st_dev != file.st_dev))
        return "it was replaced while it was read";
    if (others_write(&file))
        return "others can write to it";
    const char *why = judge_folder(&folder);
    return why == NULL && is_link ? judge_real_folder(fd) : why;
}

/* ---- opening ---- */

const char *config_getenv(const char *const *env, const char *name) {
    size_t len = strlen(name);
    for (; *env != NULL; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

/* As config_getenv, with an empty one like a missing one. */
static const char *path_variable(const char *const *env, const char *name) {
    const char *value = config_getenv(env, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The user's own file; "" if the environment names no home. Relative folders do not count there
 * (XDG Base Directory Specification). */
static int user_file(const char *const *env, char out[static PATH_MAX]) {
    const char *base = path_variable(env, "XDG_CONFIG_HOME");
    const char *home = path_variable(env, "HOME");
    out[0] = '\0';
    if (base != NULL && base[0] == '/')
        return str_format(out, PATH_MAX, "%s/cay/config.toml", base);
    if (home != NULL && home[0] == '/')
        return str_format(out, PATH_MAX, "%s/.config/cay/config.toml", home);
    return 0;
}

/* A file in a folder that we may not even look into is as good as none; one that is there but
 * closed to us is an error, since its owner meant it to count. */
static bool is_absent(int dir, const char *name, int error) {
    struct stat st;
    return error == ENOENT || error == ENOTDIR ||
           (error == EACCES && fstatat(dir, name, &st, 0) < 0 && errno == EACCES);
}

static int fail_open(const char *path, struct cay_error *err) {
    (void)error_errno(err, "opening the configuration '%s'", path);
    return error_remedy(err, "make it readable, or name another file with --config");
}

/* Opens the folder of path: a descriptor, -1 if there is none, or a negative code. */
static int open_folder(const char *path, struct cay_error *err) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (str_format(folder, sizeof folder, "%.*s", (int)(slash - path), path) < 0)
        return error_sys(err, ENAMETOOLONG, "opening the configuration '%.64s…'", path);
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || is_absent(AT_FDCWD, folder, errno))
        return fd < 0 ? -1 : fd;
    return fail_open(path, err);
}

/* A file that nobody asked for by name: a descriptor, -1 if there is none, or a negative code. */
static int open_found(const char *path, const char **ret_limited, struct cay_error *err) {
    const char *name = strrchr(path, '/') + 1;
    _cleanup_(closep) int dir = open_folder(path, err);
    if (dir < 0)
        return dir;
    _cleanup_(closep) int fd = openat(dir, name, OPEN_FLAGS);
    if (fd < 0)
        return is_absent(dir, name, errno) ? -1 : fail_open(path, err);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return fail_open(path, err);
    if (!S_ISREG(st.st_mode)) {
        error_set(err, CAY_CONFLICT, "the configuration '%s' is not a regular file", path);
        return error_remedy(err, "remove it, or name another file with --config");
    }
    *ret_limited = judge(dir, name, fd);
    return TAKE_FD(fd);
}

/* A file that somebody asked for: a descriptor or a negative code. It may be a pipe. */
static int open_named(const char *path, const char *how, struct cay_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0)
        return fd;
    (void)error_errno(err, "opening the configuration '%s' (%s)", path, how);
    return error_remedy(err, "name a file that exists and that you may read");
}

/* ---- reading ---- */

static int read_file(struct config_file *file, const char *path, int fd, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(TOML_SIZE_MAX);
    file->path = strdup(path);
    if (file->path == NULL)
        return error_sys(err, ENOMEM, "reading %s", path);
    int r = fd_read_to_end(fd, &text);
    if (r == -ENOBUFS)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: larger than %d bytes", path,
                         TOML_SIZE_MAX);
    if (r < 0)
        return error_sys(err, -r, "reading %s", path);
    return toml_parse(file->path, buf_text(&text), text.len, &file->tree, err);
}

static int read_named(struct config *config, const char *path, const char *how,
                      struct cay_error *err) {
    if (strlen(path) >= PATH_MAX)
        return error_sys(err, ENAMETOOLONG, "opening the configuration '%.64s…'", path);
    _cleanup_(closep) int fd = open_named(path, how, err);
    return fd < 0 ? fd : read_file(&config->files[CONFIG_FROM_NAMED], path, fd, err);
}

static int read_found(struct config *config, enum config_source source, const char *path,
                      struct cay_error *err) {
    struct config_file *file = &config->files[source];
    *err = (struct cay_error){.code = CAY_OK};
    _cleanup_(closep) int fd = open_found(path, &file->limited, err);
    if (fd < 0)
        return err->code == CAY_OK ? 0 : fd;
    if (source == CONFIG_FROM_FOLDER)
        file->limited = "it is the current folder's";
    return read_file(file, path, fd, err);
}

int config_read_files(struct config *config, const char *path, const char *const *env,
                      bool with_folder, struct cay_error *err) {
    char user[PATH_MAX];
    const char *variable = path_variable(env, "CAY_CONFIG");
    if (path != NULL)
        return read_named(config, path, "--config", err);
    if (variable != NULL)
        return read_named(config, variable, "$CAY_CONFIG", err);
    if (user_file(env, user) < 0)
        return error_sys(err, ENAMETOOLONG, "looking for the user's configuration");
    int r = read_found(config, CONFIG_FROM_SYSTEM, system_file, err);
    if (r == 0 && user[0] != '\0')
        r = read_found(config, CONFIG_FROM_USER, user, err);
    return r < 0 || !with_folder ? r : read_found(config, CONFIG_FROM_FOLDER, folder_file, err);
}
