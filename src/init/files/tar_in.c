/* The operation that takes an archive. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "init/files/files.h"
#include "init/files/tar.h"

struct wire_input {
    struct tar_input input;
    const struct op_conn *c;
    bool ended;
};

static int more_frames(struct tar_input *in, struct cay_error *err) {
    struct wire_input *w = (struct wire_input *)in; /* its first member */
    struct wire_frame f;
    if (w->ended)
        return 0;
    if (wire_receive(w->c->reader, w->c->fd, &f) <= 0)
        return error_set(err, CAY_UNAVAILABLE, "the archive broke off: the connection ended");
    if (f.type != WIRE_INPUT && f.type != WIRE_INPUT_END)
        return error_set(err, CAY_INVALID_ARGUMENT, "unexpected frame of type %d in an archive",
                         (int)f.type);
    w->ended = f.type == WIRE_INPUT_END;
    in->data = f.data;
    in->len = f.len;
    return !w->ended;
}

static int send_totals(const struct op_conn *c, const struct tar_totals *t, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    char note[256];
    wire_put_number(&b, WIRE_TAG_COUNT, t->members);
    wire_put_number(&b, WIRE_TAG_SIZE, t->bytes);
    if (t->skipped > 0) {
        (void)snprintf(note, sizeof note, "skipped %llu devices, fifos or the like, such as '%s'",
                       (unsigned long long)t->skipped, t->first_skipped);
        wire_put_string(&b, WIRE_TAG_MESSAGE, note);
    }
    return files_send(c, WIRE_DONE, &b, err);
}

/* What is acknowledged is on the disk: one flush for all files, whatever their number. */
static int sync_all(int dest) {
    _cleanup_(closep) int folder = openat(dest, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return errno == EACCES ? 0 : -1; /* a folder that may be written to but not read */
    return syncfs(folder);
}

int op_tar_in(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r == 0 && request->number[WIRE_TAG_RECURSIVE] != 0)
        r = path_make_dirs_trusted(path, 0755, err);
    if (r < 0)
        return r;
    uint64_t max_bytes = request->number[WIRE_TAG_LIMIT];
    _cleanup_(closep) int dest = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dest < 0)
        return files_error(err, errno, "extracting to", path);
    (void)umask(0); /* modes are those of the archive; this process does nothing else */
    struct wire_input w = {.input = {.more = more_frames}, .c = c};
    struct tar_totals totals;
    r = tar_extract(&w.input, dest, max_bytes, &totals, err);
    while (r == 0 && !w.ended) /* padding behind the end mark */
        r = MIN(more_frames(&w.input, err), 0);
    if (r == 0 && sync_all(dest) < 0)
        r = files_error(err, errno, "writing to", path);
    return r < 0 ? r : send_totals(c, &totals, err);
}
