/* A small HTTP/1.1 client over a unix socket or plain TCP: one request on each connection. The
 * answer is bounded by the caller; an answer that became a raw stream is left to him. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/http_answer.h"

struct cay_error;

struct http_address {
    bool tcp;
    bool tls;            /* not spoken here: see client/remote.h */
    char path[PATH_MAX]; /* of the socket; else */
    char host[256];
    char port[8];
    char prefix[256]; /* that begins every path, "/cay" for one; "" mostly */
    bool is_api;      /* the URL named the API, ".../api" */
};

/* "unix://PATH", or "http[s]://HOST[:PORT][/PATH]", where "/api" at the end of the path is left
 * away. The port is 3986 for http:// without a path, else as URLs have it. */
int http_address_parse(const char *url, struct http_address *ret, struct cay_error *err);

/* A connected socket. -CAY_UNAVAILABLE with err->sys ENOENT or ECONNREFUSED: nobody listens. */
int http_connect(const struct http_address *a, struct cay_error *err);

struct http_request {
    const char *method;
    const char *path;           /* escaped, with its query */
    const char *accept;         /* NULL: anything */
    const char *key;            /* "" or NULL: none */
    const char *const *headers; /* more of them, "Name: value"; NULL-terminated, or NULL */
    const char *body;           /* JSON; NULL: none */
    size_t body_len;
};

int http_send(int fd, const struct http_address *a, const struct http_request *req,
              struct cay_error *err);

/* Reads the head and not a byte behind it. */
int http_receive_head(int fd, struct http_head *ret, struct cay_error *err);

typedef int http_sink_fn(void *arg, const char *data, size_t len, struct cay_error *err);

/* Reads the body, at most max bytes. */
int http_receive_body(int fd, const struct http_head *head, size_t max, http_sink_fn *sink,
                      void *arg, struct cay_error *err);
