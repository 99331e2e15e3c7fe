#include "daemon/front/describe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "daemon/control.h"
#include "image/record.h"

/* ---- the supervisor's side ---- */

/* The store belongs to others: no symlink in it is followed, and nothing but a file is opened. */
static int open_record(const char *state_dir, const char *id) {
    char store[PATH_MAX], name[HEX_SIZE + 16];
    struct stat st;
    if (!hex_is_valid(id) || path_join(store, sizeof store, state_dir, "images/store") < 0 ||
        str_format(name, sizeof name, "records/%s", id) < 0)
        return -EINVAL;
    _cleanup_(closep) int dir = open(store, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    _cleanup_(closep) int fd =
        path_open_no_symlinks(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    return fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EINVAL : TAKE_FD(fd);
}

void describe_send(const char *state_dir, const char *id, int sock) {
    _cleanup_(closep) int record = open_record(state_dir, id);
    if (record >= 0 && fd_set_nonblocking(sock, true) == 0)
        (void)fd_send(sock, "", 1, &record, 1);
}

/* ---- the front's side ---- */

static int ask(int control, const char *id, struct cay_error *err) {
    struct control_message m = {.op = CONTROL_RECORD};
    int pair[2], fd = -1;
    size_t count = 0;
    char byte;
    if (str_copy(m.name, sizeof m.name, id) < 0)
        return error_set(err, CAY_INTERNAL, "an image's id is too long");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket");
    _cleanup_(closep) int ours = pair[0];
    int r = control_send(control, &m, &pair[1], 1);
    (void)close(pair[1]);
    if (r < 0)
        return error_sys(err, -r, "asking for the record of image %.12s", id);
    ssize_t n = fd_receive(ours, &byte, 1, &fd, 1, &count);
    if (n == 1 && count == 1)
        return fd;
    error_set(err, CAY_NOT_FOUND, "the record of image %.12s cannot be read", id);
    return error_remedy(err, "fetch the image again with: cay image pull");
}

static int read_record(int control, const char *id, struct image_record **ret,
                       struct cay_error *err) {
    _cleanup_(closep) int fd = ask(control, id, err);
    if (fd < 0)
        return fd;
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    int r = fd_read_to_end(fd, &text);
    return r < 0 ? error_sys(err, -r, "reading the record of image %.12s", id)
                 : record_read(id, buf_text(&text), text.len, ret, err);
}

static bool has_key(const struct strv *env, const char *entry) {
    size_t n = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->v[i], entry, n) == 0)
            return true;
    return false;
}

static int add_env(const struct strv *of_image, struct strv *env, struct cay_error *err) {
    for (size_t i = 0; i < of_image->len; i++) {
        const char *entry = of_image->v[i];
        bool is_pair = entry[0] != '=' && strchr(entry, '=') != NULL;
        if (is_pair && !has_key(env, entry) && strv_push(env, entry) < 0)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return 0;
}

static int take_text(char *text, size_t size, const char *of_image, const char *what,
                     struct cay_error *err) {
    if (text[0] != '\0' || str_copy(text, size, of_image) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the %s of the image is too long", what);
    return error_remedy(err, "name another when making the sandbox");
}

int describe_ask(int control, struct sandbox_record *r, struct cay_error *err) {
    _cleanup_(record_freep) struct image_record *image = NULL;
    int e = read_record(control, r->image, &image, err);
    if (e == 0)
        e = take_text(r->user, sizeof r->user, image->user, "user", err);
    if (e == 0 && image->working_dir[0] == '/')
        e = take_text(r->work_dir, sizeof r->work_dir, image->working_dir, "work folder", err);
    return e < 0 ? e : add_env(&image->env, &r->env, err);
}
