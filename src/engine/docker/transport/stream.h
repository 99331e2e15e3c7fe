/* A process in a container, by an exec of Docker's, and the stream that Docker makes of the
 * connection that asked for it: input goes in as it is, output comes out as stdout and stderr. A
 * stream is used by one thread at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/docker/transport/demux.h"

struct cay_error;
struct docker_api;
struct docker_stream;

/* Starts `cay-enter relay` in the container of this sandbox, as cay-init's user, and waits until it
 * runs (transport/relay.h). */
int docker_stream_open(struct docker_api *api, const char *id, struct docker_stream **ret,
                       struct cay_error *err);
void docker_stream_close(struct docker_stream *s);
static inline void docker_stream_closep(struct docker_stream **s) {
    docker_stream_close(*s);
}

/* To wait for with poll. What was read ahead is not announced there: read until -EAGAIN first. */
int docker_stream_fd(const struct docker_stream *s);

/* How much was taken, or -EAGAIN, or -errno. */
ssize_t docker_stream_send(struct docker_stream *s, const void *data, size_t len);
/* How much came, of which of the two; 0 at the end; -EAGAIN or -errno. */
ssize_t docker_stream_receive(struct docker_stream *s, enum demux_stream *ret_which, void *out,
                              size_t size);

/* The same, waiting until the deadline: all of it; or something. 0 or more, or -errno. */
int docker_stream_send_all(struct docker_stream *s, const void *data, size_t len, int64_t deadline);
ssize_t docker_stream_await(struct docker_stream *s, enum demux_stream *ret_which, void *out,
                            size_t size, int64_t deadline);
