/* HTTP on the daemon's sockets: who may, what a request is, and how its answer goes out. The one
 * place that knows the HTTP library. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"

struct cay_error;
struct http;
struct image_ops;
struct manager;
struct tls;

struct http_options {
    struct manager *manager;
    int unix_socket, tcp_socket; /* bound; -1: none */
    uid_t owner;                 /* who may use the unix socket, besides root */
    const char *key;             /* for TCP */
    const struct strv *hosts;    /* what Host may say on TCP, besides this machine's own names */
    const struct strv *origins;  /* web pages of others that may call us */
    const struct tls *tls;       /* of TCP */
    bool metrics_public;         /* /metrics needs no key */
    const struct image_ops *images;
    const char *public_url; /* how clients reach us; "": as they did */
};

/* Serves from threads of its own. What options point to must stay. */
int http_start(const struct http_options *options, struct http **ret, struct cay_error *err);

/* Takes no new connections. */
void http_close_doors(struct http *h);
/* Waits at most wait_ms for requests under way; true if none is left. Threads may go on: the
 * process has to end next. */
bool http_wait(struct http *h, int64_t wait_ms);
