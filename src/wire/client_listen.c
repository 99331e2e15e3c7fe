#include "wire/client_listen.h"

#include "base/error.h"

int wire_listen(const struct wire_call *call, unsigned port, int door, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_DATA_MAX);
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame frame;
    wire_call_begin(call, WIRE_OP_LISTEN, &b);
    wire_put_number(&b, WIRE_TAG_PORT, port);
    int r = wire_send_with(call->fd, WIRE_REQUEST, &b, &door, 1);
    if (r < 0)
        return error_sys(err, -r, "asking the sandbox to listen");
    r = wire_call_receive(call, &reader, &frame, err);
    if (r < 0)
        return r;
    return frame.type == WIRE_DONE ? 0 : wire_call_broken(err, "it did not say that it listens");
}
