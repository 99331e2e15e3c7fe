#include "wire/client_shutdown.h"

#include "base/buf.h"

int wire_shutdown(const struct wire_call *c, int64_t grace_ms, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    wire_call_begin(c, WIRE_OP_SHUTDOWN, &b);
    wire_put_number(&b, WIRE_TAG_TIMEOUT_MS, (uint64_t)grace_ms);
    int r = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (r == 0)
        r = wire_call_receive(c, &reader, &f, err);
    if (r != 0)
        return r;
    return f.type == WIRE_DONE ? 0 : wire_call_broken(err, "an unexpected frame");
}
