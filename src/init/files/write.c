/* Writing files: the content appears under its name whole, or the old content stays. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/files.h"

enum { LINKS_MAX = 40 }; /* as the kernel */

/* Replaces path by the target of the symlink that it is: 1, 0 if it is none, -errno. */
static int follow_once(char path[static PATH_MAX]) {
    char target[PATH_MAX], folder[PATH_MAX], name[NAME_MAX + 1];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -errno;
    target[n] = '\0';
    if (target[0] == '/')
        return str_copy(path, PATH_MAX, target) < 0 ? -ENAMETOOLONG : 1;
    int r = files_split(path, folder, name);
    if (r == 0)
        r = path_join(path, PATH_MAX, folder, target);
    return r < 0 ? r : 1;
}

static int follow_links(char path[static PATH_MAX]) {
    for (int i = 0; i < LINKS_MAX; i++) {
        int r = follow_once(path);
        if (r <= 0)
            return r;
    }
    return -ELOOP;
}

static int open_temporary(struct files_writer *w) {
    char id[ID_SIZE];
    if (id_new(id, NULL) < 0 || str_format(w->temporary, sizeof w->temporary, ".cay-%s", id) < 0)
        return -EIO;
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    w->fd = openat(w->folder, w->temporary, FLAGS, 0600);
    if (w->fd >= 0)
        return 0;
    w->temporary[0] = '\0';
    return -errno;
}

/* The folder may not be written to but the file may: content goes over the old one. */
static int open_in_place(struct files_writer *w) {
    w->fd = openat(w->folder, w->name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return w->fd < 0 ? -errno : 0;
}

/* An owner that this user may not give a file to is no reason to refuse the write. Set-id bits go,
 * as with any write. */
static int keep_attributes(const struct files_writer *w, const struct stat *st) {
    struct stat now;
    if (fstat(w->fd, &now) < 0)
        return -errno;
    if ((now.st_uid != st->st_uid || now.st_gid != st->st_gid) &&
        fchown(w->fd, st->st_uid, st->st_gid) < 0 && errno != EPERM && errno != EINVAL)
        return -errno;
    return fchmod(w->fd, st->st_mode & 01777) < 0 ? -errno : 0;
}

static int open_existing(struct files_writer *w, const struct stat *st) {
    if (S_ISDIR(st->st_mode))
        return -EISDIR;
    if (!S_ISREG(st->st_mode))
        return -EOPNOTSUPP;
    /* A rename would get around a read-only mode, which is not what its owner meant. */
    if (faccessat(w->folder, w->name, W_OK, 0) < 0)
        return -errno;
    int r = open_temporary(w);
    if (r == -EACCES || r == -EPERM || r == -EROFS)
        return open_in_place(w);
    return r < 0 ? r : keep_attributes(w, st);
}

static int open_target(struct files_writer *w, char path[static PATH_MAX], mode_t mode) {
    char folder[PATH_MAX];
    struct stat st;
    int r = follow_links(path);
    if (r == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        r = -EISDIR;
    if (r == 0)
        r = files_split(path, folder, w->name);
    if (r < 0)
        return r;
    w->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->folder < 0)
        return -errno;
    if (fstatat(w->folder, w->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return open_existing(w, &st);
    if (errno != ENOENT)
        return -errno;
    r = open_temporary(w);
    if (r < 0)
        return r;
    return fchmod(w->fd, mode & 07777) < 0 ? -errno : 0;
}

int files_writer_open(struct files_writer *w, const char *path, mode_t mode,
                      struct cay_error *err) {
    char at[PATH_MAX];
    if (str_copy(at, sizeof at, path) < 0)
        return files_error(err, ENAMETOOLONG, "writing", path);
    int r = open_target(w, at, mode);
    if (r == -EOPNOTSUPP) {
        error_set(err, CAY_CONFLICT, "writing '%.256s': not a regular file", path);
        return error_remedy(err, "write to fifos, sockets and devices with a command");
    }
    return r < 0 ? files_error(err, -r, "writing", path) : 0;
}

int files_writer_commit(struct files_writer *w) {
    int fd = TAKE_FD(w->fd);
    if (close(fd) < 0) /* where a quota is charged late, the failure shows here */
        return -errno;
    if (w->temporary[0] == '\0')
        return 0;
    if (renameat(w->folder, w->temporary, w->folder, w->name) < 0)
        return -errno;
    w->temporary[0] = '\0';
    return 0;
}

void files_writer_abort(struct files_writer *w) {
    fd_close(&w->fd);
    if (w->temporary[0] != '\0')
        (void)unlinkat(w->folder, w->temporary, 0);
    w->temporary[0] = '\0';
    fd_close(&w->folder);
}

/* Copies input frames to the file until the host says that this was all. */
static int take_content(const struct op_conn *c, int fd, const char *path, uint64_t *ret_size,
                        struct cay_error *err) {
    struct wire_frame f;
    for (*ret_size = 0;;) {
        int r = wire_receive(c->reader, c->fd, &f);
        if (r <= 0)
            return error_set(err, CAY_UNAVAILABLE, "writing '%.256s': the content broke off", path);
        if (f.type == WIRE_INPUT_END)
            return 0;
        if (f.type != WIRE_INPUT)
            return error_set(err, CAY_INVALID_ARGUMENT, "unexpected frame of type %d in content",
                             (int)f.type);
        r = fd_write_all(fd, f.data, f.len);
        if (r < 0)
            return files_error(err, -r, "writing", path);
        *ret_size += f.len;
    }
}

static int make_folder_of(const char *path, struct cay_error *err) {
    char folder[PATH_MAX], name[NAME_MAX + 1];
    int r = files_split(path, folder, name);
    if (r < 0)
        return files_error(err, -r, "writing", path);
    return path_make_dirs_trusted(folder, 0755, err);
}

/* What is acknowledged is on the disk. One flush behind the rename is enough for content and name,
 * and half as expensive as one for each. */
static int commit_for_good(struct files_writer *w) {
    _cleanup_(closep) int file = fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
    int r = file < 0 ? -errno : files_writer_commit(w);
    return r == 0 && fsync(file) < 0 ? -errno : r;
}

int op_write(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r == 0 && request->number[WIRE_TAG_RECURSIVE] != 0)
        r = make_folder_of(path, err);
    if (r < 0)
        return r;
    bool has_mode = request->present[WIRE_TAG_MODE];
    mode_t mode = has_mode ? (mode_t)(request->number[WIRE_TAG_MODE] & 07777) : 0644;
    _cleanup_(files_writer_abort) struct files_writer w = FILES_WRITER_INIT;
    uint64_t size = 0;
    r = files_writer_open(&w, path, mode, err);
    if (r == 0)
        r = take_content(c, w.fd, path, &size, err);
    if (r < 0)
        return r;
    r = commit_for_good(&w);
    if (r < 0)
        return files_error(err, -r, "writing", path);
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_SIZE, size);
    return files_send(c, WIRE_DONE, &b, err);
}
