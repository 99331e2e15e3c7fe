/* A request of cay's own client (client/http.h), read by cay-remote, and the answers to it. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "client/http_answer.h"

struct cay_error;

enum { REQUEST_BODY_MAX = 64 * 1024 * 1024 };

struct request {
    int fd;
    char method[16];
    char *path;  /* "/api/cay/…", escaped */
    char *query; /* "" if there is none */
    bool wants_progress;
    bool wants_upgrade;
    struct http_head head;
    struct buf body;
    char *line; /* what path and query point into */
};

/* 0, or negative: then there is nobody to answer. */
int request_read(int fd, struct request *ret);
void request_free(struct request *r);

/* The value of a field of the query, unescaped, for the caller to free; NULL if there is none. */
char *request_query(const struct request *r, const char *name);

/* Answers; NULL for no content. */
void request_answer(const struct request *r, const struct buf *content);
void request_refuse(const struct request *r, const struct cay_error *err);
