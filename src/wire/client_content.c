#include "wire/client_content.h"

#include "base/error.h"

enum { ANSWER_MAX = 32 * 1024 };

/* ---- in ---- */

int wire_write_begin(const struct wire_call *c, const char *path, int mode, bool parents,
                     struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_call_begin(c, WIRE_OP_WRITE, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, parents);
    if (mode >= 0)
        wire_put_number(&b, WIRE_TAG_MODE, (uint64_t)mode);
    return wire_call_send(c, WIRE_REQUEST, &b, err);
}

int wire_write_end(const struct wire_call *c, struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f = {0};
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_INPUT_END, NULL, err);
    if (n == 0)
        n = wire_call_receive(c, &r, &f, err);
    if (n == 0 && f.type != WIRE_DONE)
        n = wire_call_broken(err, "an unexpected kind of frame");
    return n < 0 ? n : wire_call_parse(&f, ANSWER_MAX, &m, err);
}

/* ---- out ---- */

int wire_read_begin(const struct wire_call *c, const char *path, uint64_t offset, uint64_t limit,
                    struct wire_read_stream *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    *ret = (struct wire_read_stream){
        .call = c, .reader = WIRE_READER_INIT, .max = limit != 0 ? limit : UINT64_MAX};
    wire_call_begin(c, WIRE_OP_READ, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_OFFSET, offset);
    wire_put_number(&b, WIRE_TAG_LIMIT, limit);
    return wire_call_send(c, WIRE_REQUEST, &b, err);
}

static int take_end(struct wire_read_stream *s, const struct wire_frame *f, struct cay_error *err) {
    struct wire_message m = {0};
    int n = wire_call_parse(f, ANSWER_MAX, &m, err);
    if (n == 0 && m.number[WIRE_TAG_SIZE] != s->size)
        n = wire_call_broken(err, "the content has another size than announced");
    s->ended = true;
    return n;
}

int wire_read_next(struct wire_read_stream *s, const char **ret_data, size_t *ret_len,
                   struct cay_error *err) {
    struct wire_frame f;
    if (s->ended)
        return 0;
    int n = wire_call_receive(s->call, &s->reader, &f, err);
    if (n < 0)
        return n;
    if (f.type == WIRE_DONE)
        return take_end(s, &f, err);
    if (f.type != WIRE_STDOUT || f.len == 0 || f.len > s->max - s->size)
        return wire_call_broken(err, "an unexpected kind of frame, or too much content");
    s->size += f.len;
    *ret_data = f.data;
    *ret_len = f.len;
    return 1;
}

void wire_read_free(struct wire_read_stream *s) {
    wire_reader_free(&s->reader);
}
