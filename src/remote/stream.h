/* A stream of bytes to the remote, through TLS and proxies as libcurl does them. */
#pragma once

#include "remote/world.h"

struct cay_error;

struct stream {
    CURL *curl;
    curl_socket_t socket;
};

/* Connects to the host of a URL; nothing has been sent. */
int stream_open(const struct world *w, const char *url, struct stream *ret, struct cay_error *err);
void stream_close(struct stream *s);

/* Carries bytes both ways between the stream and fd, which becomes non-blocking, until one of them
 * has ended. */
void stream_relay(struct stream *s, int fd);

/* A descriptor that a thread carries to the stream and back; the thread ends with it, and closes
 * the stream. */
int stream_to_fd(struct stream *s, struct cay_error *err);
