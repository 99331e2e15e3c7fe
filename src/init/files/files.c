#include "init/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"

/* ---- shared by all file operations ---- */

int files_path_of(const struct op_conn *c, const struct wire_message *request, const char *text,
                  char out[static PATH_MAX], struct cay_error *err) {
    const char *base = request->string[WIRE_TAG_CWD];
    if (base == NULL)
        base = c->home != NULL ? c->home : "/";
    if (text[0] == '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "empty path");
        return error_remedy(err, "name a file or a folder");
    }
    int r = text[0] == '/' ? str_copy(out, PATH_MAX, text) : path_join(out, PATH_MAX, base, text);
    return r < 0 ? files_error(err, ENAMETOOLONG, "using", text) : 0;
}

int files_path(const struct op_conn *c, const struct wire_message *request, enum wire_tag tag,
               char out[static PATH_MAX], struct cay_error *err) {
    const char *text = request->string[tag];
    if (text == NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "request without field %d, a path", (int)tag);
        return error_remedy(err, "use the client library that belongs to this sandbox");
    }
    return files_path_of(c, request, text, out, err);
}

int files_resolve(const char *path, char out[static PATH_MAX], struct cay_error *err) {
    return realpath(path, out) == NULL ? files_error(err, errno, "looking at", path) : 0;
}

uint64_t files_limit(const struct wire_message *request, uint64_t fallback) {
    uint64_t limit = request->number[WIRE_TAG_LIMIT];
    return limit != 0 ? limit : fallback;
}

static const char *remedy_of(int sys) {
    switch (sys) {
    case ENOENT:
        return "check the path; listing the folder above it shows what is there";
    case ENOTDIR:
        return "a part of the path is a file; name a folder";
    case EISDIR:
        return "name a file, or a new name inside that folder";
    case ENXIO:
    case ENODEV:
        return "use sockets and devices with a command in the sandbox";
    case EEXIST:
    case ENOTEMPTY:
        return "remove what is there first, or choose another name";
    case EACCES:
    case EPERM:
        return "run it as the owner of the file, or choose a folder that this user may write to";
    case EROFS:
        return "choose a folder that is not mounted read-only";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return "remove files, or give the sandbox a larger disk limit";
    case ELOOP:
        return "check where its symbolic links lead";
    case ENAMETOOLONG:
        return "use a shorter path";
    default:
        return NULL;
    }
}

int files_error(struct cay_error *err, int sys, const char *doing, const char *path) {
    int r = error_sys(err, sys, "%s '%.256s'", doing, path);
    /* Nothing that a file answers is a fault of ours: sockets, devices and files of /proc have
     * errors of their own. */
    if (r == -CAY_INTERNAL && err != NULL) {
        err->code = CAY_CONFLICT;
        r = -CAY_CONFLICT;
    }
    const char *remedy = remedy_of(sys);
    if (remedy == NULL && r == -CAY_CONFLICT)
        remedy = "it is no ordinary file; use it with a command in the sandbox";
    return remedy != NULL ? error_remedy(err, "%s", remedy) : r;
}

int files_send(const struct op_conn *c, enum wire_type type, const struct buf *b,
               struct cay_error *err) {
    int r = wire_send(c->fd, type, b);
    return r < 0 ? error_sys(err, -r, "sending the answer") : 0;
}

void files_put_stat(struct buf *b, const char *path, const struct stat *st, const char *target) {
    int64_t ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
    wire_put_string(b, WIRE_TAG_PATH, path);
    wire_put_number(b, WIRE_TAG_MODE, st->st_mode);
    wire_put_number(b, WIRE_TAG_SIZE, (uint64_t)st->st_size);
    wire_put_number(b, WIRE_TAG_MTIME_MS, (uint64_t)ms);
    wire_put_number(b, WIRE_TAG_UID, st->st_uid);
    wire_put_number(b, WIRE_TAG_GID, st->st_gid);
    if (target != NULL)
        wire_put_string(b, WIRE_TAG_TARGET, target);
}

void files_read_link(int dirfd, const char *name, char target[static PATH_MAX]) {
    ssize_t n = readlinkat(dirfd, name, target, PATH_MAX - 1);
    target[n < 0 ? 0 : n] = '\0';
}

int files_split(const char *path, char folder[static PATH_MAX], char name[static NAME_MAX + 1]) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    size_t len = end - start;
    if (len > NAME_MAX || start >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(name, path + start, len);
    name[len] = '\0';
    if (len == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EINVAL;
    memcpy(folder, path, start);
    folder[start] = '\0';
    return start == 0 ? str_copy(folder, PATH_MAX, ".") : 0;
}

/* ---- stat and list ---- */

int op_stat(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX], target[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r < 0)
        return r;
    bool follow = request->number[WIRE_TAG_FOLLOW] != 0;
    struct stat st;
    if (fstatat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return files_error(err, errno, "looking at", path);
    bool is_link = S_ISLNK(st.st_mode);
    if (is_link)
        files_read_link(AT_FDCWD, path, target);
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    files_put_stat(&b, path, &st, is_link ? target : NULL);
    return files_send(c, WIRE_DONE, &b, err);
}

/* Sends the entry `name` of the folder; one that vanished meanwhile is left out. */
static int send_listed(const struct op_conn *c, int dirfd, const char *name, struct buf *b,
                       struct cay_error *err) {
    struct stat st;
    char target[PATH_MAX];
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    bool is_link = S_ISLNK(st.st_mode);
    if (is_link)
        files_read_link(dirfd, name, target);
    buf_clear(b);
    files_put_stat(b, name, &st, is_link ? target : NULL);
    return files_send(c, WIRE_ENTRY, b, err);
}

int op_list(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r < 0)
        return r;
    _cleanup_(closedirp) DIR *d = opendir(path);
    if (d == NULL)
        return files_error(err, errno, "listing", path);
    uint64_t limit = files_limit(request, UINT64_MAX), count = 0;
    bool truncated = false;
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    const char *name;
    while ((r = path_next(d, &name)) > 0) {
        truncated = count == limit;
        if (truncated)
            break;
        r = send_listed(c, dirfd(d), name, &b, err);
        if (r < 0)
            return r;
        count++;
    }
    if (r < 0)
        return files_error(err, -r, "listing", path);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_COUNT, count);
    wire_put_number(&b, WIRE_TAG_TRUNCATED, truncated);
    return files_send(c, WIRE_DONE, &b, err);
}

/* ---- read ---- */

/* Opens a regular file for reading. A fifo or a device neither blocks nor is read. */
static int open_regular(const char *path, struct stat *st, struct cay_error *err) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, st) < 0)
        return files_error(err, errno, "reading", path);
    if (S_ISDIR(st->st_mode))
        return files_error(err, EISDIR, "reading", path);
    if (!S_ISREG(st->st_mode)) {
        error_set(err, CAY_CONFLICT, "reading '%.256s': not a regular file", path);
        return error_remedy(err, "read fifos, sockets and devices with a command in the sandbox");
    }
    return TAKE_FD(fd);
}

OP_ROOM char op_data[WIRE_DATA_MAX];

/* Sends up to `limit` bytes from where fd stands; *ret_sent says how many there were. */
static int send_content(const struct op_conn *c, int fd, const char *path, uint64_t limit,
                        uint64_t *ret_sent, struct cay_error *err) {
    for (*ret_sent = 0; *ret_sent < limit;) {
        ssize_t n = read(fd, op_data, (size_t)MIN(limit - *ret_sent, (uint64_t)sizeof op_data));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return files_error(err, errno, "reading", path);
        if (n == 0)
            break;
        int r = wire_send_data(c->fd, WIRE_STDOUT, op_data, (size_t)n);
        if (r < 0)
            return error_sys(err, -r, "sending the content of '%.256s'", path);
        *ret_sent += (uint64_t)n;
    }
    return 0;
}

int op_read(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r < 0)
        return r;
    struct stat st;
    _cleanup_(closep) int fd = open_regular(path, &st, err);
    if (fd < 0)
        return fd;
    uint64_t offset = request->number[WIRE_TAG_OFFSET], sent;
    if (offset > INT64_MAX || (offset > 0 && lseek(fd, (off_t)offset, SEEK_SET) < 0))
        return error_set(err, CAY_INVALID_ARGUMENT, "reading '%.256s': offset %llu is not possible",
                         path, (unsigned long long)offset);
    uint64_t limit = files_limit(request, UINT64_MAX);
    r = send_content(c, fd, path, limit, &sent, err);
    if (r < 0)
        return r;
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_SIZE, sent);
    wire_put_number(&b, WIRE_TAG_TRUNCATED, sent == limit && (uint64_t)st.st_size > offset + sent);
    return files_send(c, WIRE_DONE, &b, err);
}

/* ---- mkdir ---- */

static int make_parents(const char *path, struct cay_error *err) {
    char folder[PATH_MAX], name[NAME_MAX + 1];
    if (files_split(path, folder, name) < 0)
        return 0; /* "/" and "..": there already, or mkdir will say why not */
    return path_make_dirs_trusted(folder, 0755, err);
}

int op_mkdir(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r < 0)
        return r;
    bool parents = request->number[WIRE_TAG_RECURSIVE] != 0;
    if (parents) {
        r = make_parents(path, err);
        if (r < 0)
            return r;
    }
    struct stat st;
    if (mkdir(path, 0755) < 0) {
        int sys = errno;
        if (!parents || sys != EEXIST || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            return files_error(err, sys, "creating folder", path);
    } else if (request->present[WIRE_TAG_MODE] &&
               chmod(path, request->number[WIRE_TAG_MODE] & 07777) < 0) {
        return files_error(err, errno, "setting the mode of", path);
    }
    return files_send(c, WIRE_DONE, NULL, err);
}
