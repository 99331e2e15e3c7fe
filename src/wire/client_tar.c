#include "wire/client_tar.h"

#include "base/error.h"
#include "base/str.h"

enum { ANSWER_MAX = 32 * 1024 };

static int take_totals(const struct wire_frame *f, struct wire_tar_totals *ret,
                       struct cay_error *err) {
    struct wire_message m = {0};
    int r = wire_call_parse(f, ANSWER_MAX, &m, err);
    if (r < 0)
        return r;
    *ret = (struct wire_tar_totals){
        .members = m.number[WIRE_TAG_COUNT],
        .bytes = m.number[WIRE_TAG_SIZE],
    };
    if (m.string[WIRE_TAG_MESSAGE] != NULL)
        (void)str_escape(ret->note, sizeof ret->note, m.string[WIRE_TAG_MESSAGE]);
    return 0;
}

static int request(const struct wire_call *c, enum wire_op op, const char *path, bool make,
                   struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_call_begin(c, op, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    if (make)
        wire_put_number(&b, WIRE_TAG_RECURSIVE, 1);
    return wire_call_send(c, WIRE_REQUEST, &b, err);
}

static int send_piece(void *arg, const char *data, size_t len, struct cay_error *err) {
    return wire_call_send_data(arg, data, len, err);
}

int wire_tar_in_from(const struct wire_call *c, const char *path, bool make,
                     wire_produce_fn *produce, void *arg, struct wire_tar_totals *ret,
                     struct cay_error *err) {
    struct wire_call call = *c;
    int n = request(&call, WIRE_OP_TAR_IN, path, make, err);
    if (n == 0)
        n = produce(arg, send_piece, &call, err);
    if (n == 0)
        n = wire_call_send(&call, WIRE_INPUT_END, NULL, err);
    if (n < 0)
        return n;
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    n = wire_call_receive(&call, &r, &f, err);
    if (n == 0 && f.type != WIRE_DONE)
        n = wire_call_broken(err, "an unexpected kind of frame");
    return n < 0 ? n : take_totals(&f, ret, err);
}

int wire_tar_out_begin(const struct wire_call *c, const char *path, struct wire_tar_stream *ret,
                       struct cay_error *err) {
    *ret = (struct wire_tar_stream){.call = c, .reader = WIRE_READER_INIT};
    return request(c, WIRE_OP_TAR_OUT, path, false, err);
}

int wire_tar_out_next(struct wire_tar_stream *s, const char **ret_data, size_t *ret_len,
                      struct cay_error *err) {
    struct wire_frame f;
    if (s->ended)
        return 0;
    int n = wire_call_receive(s->call, &s->reader, &f, err);
    if (n < 0)
        return n;
    if (f.type == WIRE_DONE) {
        s->ended = true;
        n = take_totals(&f, &s->totals, err);
        if (n == 0 && s->totals.bytes != s->size)
            n = wire_call_broken(err, "the archive has another size than announced");
        return n;
    }
    if (f.type != WIRE_STDOUT || f.len == 0)
        return wire_call_broken(err, "an unexpected kind of frame");
    s->size += f.len;
    *ret_data = f.data;
    *ret_len = f.len;
    return 1;
}

void wire_tar_out_end(struct wire_tar_stream *s) {
    wire_reader_free(&s->reader);
}
