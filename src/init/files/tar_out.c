/* The operation that sends an archive. */
#include <errno.h>

#include "base/error.h"
#include "init/files/files.h"
#include "init/files/tar.h"

static int send_piece(void *arg, const char *data, size_t len, struct cay_error *err) {
    const struct op_conn *c = arg;
    int r = wire_send_data(c->fd, WIRE_STDOUT, data, len);
    return r < 0 ? error_sys(err, -r, "sending the archive") : 0;
}

static int send_totals(const struct op_conn *c, const struct tar_written *t,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    char note[128];
    wire_put_number(&b, WIRE_TAG_COUNT, t->members);
    wire_put_number(&b, WIRE_TAG_SIZE, t->bytes);
    if (t->skipped > 0) {
        (void)snprintf(note, sizeof note, "left out %llu devices, fifos and sockets",
                       (unsigned long long)t->skipped);
        wire_put_string(&b, WIRE_TAG_MESSAGE, note);
    }
    return files_send(c, WIRE_DONE, &b, err);
}

int op_tar_out(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX], folder[PATH_MAX], name[NAME_MAX + 1];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r < 0)
        return r;
    /* "/" and "folder/." stand for what is in them */
    bool content_only = files_split(path, folder, name) < 0;
    struct tar_output to = {send_piece, c, request->number[WIRE_TAG_LIMIT]};
    struct tar_written totals;
    r = tar_write(path, content_only ? NULL : name, &to, &totals, err);
    return r < 0 ? r : send_totals(c, &totals, err);
}
