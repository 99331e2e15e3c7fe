/* The sandbox's end of a connection, for tests of the host's side. */
#pragma once

#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "wire/call.h"

struct peer {
    struct wire_call call;
    int fd;
};

static struct peer peer_open(void) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    return (struct peer){.call = {.fd = pair[0], .deadline_ms = clock_ms() + 30000}, .fd = pair[1]};
}

static void peer_close(struct peer *p) {
    fd_close(&p->call.fd);
    fd_close(&p->fd);
}

/* What it got, which stays valid until the reader is freed. */
static void peer_take(const struct peer *p, struct wire_reader *r, struct wire_message *m) {
    struct wire_frame f;
    assert_int_equal(wire_receive(r, p->fd, &f), 1);
    assert_int_equal(f.type, WIRE_REQUEST);
    assert_int_equal(wire_parse(f.data, f.len, m), 0);
    assert_int_equal(m->number[WIRE_TAG_VERSION], WIRE_VERSION);
}
