/* What cay-remote knows: where the remote is, how it is trusted, and the handles that keep its
 * connections open. */
#pragma once

#include <curl/curl.h>
#include <pthread.h>

#include "base/buf.h"
#include "client/http.h"
#include "client/remote.h"

struct cay_error;

enum { WORLD_HANDLES_MAX = 8, WORLD_PEM_MAX = 16 * 1024 * 1024 };

struct world {
    struct remote_order order;
    enum remote_kind kind;
    char version[REMOTE_WORD_MAX];
    char host[300]; /* for people */
    bool plain;     /* the user chose http:// */
    struct buf pem; /* what is trusted; empty: the system's certificates */
    pthread_mutex_t lock;
    CURL *idle[WORLD_HANDLES_MAX];
    size_t idle_count;
};

/* Reads the certificates that the order names. */
int world_init(struct world *w, const struct remote_order *order, struct cay_error *err);

/* A handle that trusts and waits as everything here does; NULL on OOM. */
CURL *world_take(struct world *w);
/* Gives it back, with its connection. */
void world_give(struct world *w, CURL *curl);

/* Sets on a handle what all of them have: who is trusted, and how long connecting may take. */
void world_prepare(const struct world *w, CURL *curl);

/* Finds out what the remote is. */
int world_probe(struct world *w, struct cay_error *err);

/* Appends "http(s)://HOST…/api" and a path. */
void world_put_api(const struct world *w, struct buf *url, const char *path);
