/* HTTP on the daemon's sockets: who may (http_caller.c), what a request is, and how its answer goes
 * out (http_answer.c). The one place that knows the HTTP library. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

struct builds;
struct cay_error;
struct contexts;
struct outputs;
struct http;
struct image_ops;
struct interpreters;
struct lender;
struct manager;
struct tls;

/* What may change while it serves. */
struct http_rules {
    const struct strv *hosts;   /* what Host may say on TCP, besides this machine's own names */
    const struct strv *origins; /* web pages of others that may call us */
    bool metrics_public;        /* /metrics needs no key */
    int64_t client_timeout_ms;  /* what is waited for a client that has to say or read; 0: 60 s */
    const char *public_url;     /* how clients reach us; "": as they did */
};

struct http_options {
    struct manager *manager;
    int unix_socket, tcp_socket; /* bound; -1: none */
    uid_t owner;                 /* who may use the unix socket, besides root */
    const char *key;             /* for TCP */
    struct http_rules rules;     /* copied */
    const struct tls *tls;       /* of TCP */
    const struct image_ops *images;
    struct builds *builds;
    struct contexts *contexts; /* NULL: there are none */
    struct outputs *outputs;   /* the same */
    struct interpreters *interpreters;
    struct lender *lender; /* NULL: there are no prepared sandboxes */
};

/* Serves from threads of its own. What options point to must stay. */
int http_start(const struct http_options *options, struct http **ret, struct cay_error *err);

/* New rules for requests that begin from now on. */
int http_set_rules(struct http *h, const struct http_rules *rules, struct cay_error *err);
/* Another certificate for connections that begin from now on; its texts are taken over. If it is of
 * no use the one before stays. Where there was none, and without a TCP socket, nothing happens. */
int http_set_tls(struct http *h, struct tls *tls, struct cay_error *err);

/* Begins the end, in this order. Requests that come from now on get 503 with Retry-After before
 * anything is done, and WebSockets are closed with 1012. With a successor, who serves the same
 * sockets, no connection is accepted any more: clients wait for him. Returns how many requests were
 * under way. */
unsigned http_drain(struct http *h, bool has_successor);
/* How many still are, and how many got 503 since. */
unsigned http_under_way(struct http *h);
unsigned http_turned_away(struct http *h);
/* Waits at most wait_ms until only connections are left that became something else (a command's
 * streams, a WebSocket); true if so. */
bool http_settle(struct http *h, int64_t wait_ms);
/* Closes the WebSockets that were left, those of programs that run, in the same way. */
void http_end_runs(void);
/* Waits at most wait_ms for these, too. If true, nothing that http_options point to is used any
 * more. */
bool http_wait(struct http *h, int64_t wait_ms);
/* True if no connection is left. */
bool http_is_left(struct http *h);
/* Waits at most wait_ms for clients to close their connections, and tells those that ask instead to
 * try again; then accepts no more, and lets answers go out. The process has to end next: threads go
 * on. */
void http_linger(struct http *h, int64_t wait_ms);
