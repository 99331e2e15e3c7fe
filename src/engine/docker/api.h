/* Requests to a Docker Engine: HTTP over a unix socket, TCP or TLS, by libcurl, which this folder
 * alone uses in the engine layer. Connections are kept and used again. Any thread may ask. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/docker/parse.h"
#include "engine/docker/transport/host.h"

struct cay_error;
struct docker_api;

enum {
    DOCKER_ANSWER_MAX = 16 * 1024 * 1024,
    DOCKER_PATH_SIZE = 1024,
    /* The first answer of all: whether somebody is there. One on this machine that is being started
     * takes connections before it answers. */
    DOCKER_FIRST_MS = 30 * 1000,
    DOCKER_FIRST_FAR_MS = 8 * 1000,
    DOCKER_QUICK_MS = 120 * 1000, /* quick, but for a machine that is very busy */
    DOCKER_SLOW_MS = 300 * 1000,  /* what reads or writes whole images */
};

/* Takes a piece of an answer as it comes; negative ends it. */
typedef int docker_sink_fn(void *user, const char *data, size_t len);

struct docker_call {
    const char *method; /* "GET" */
    const char *path;   /* "/containers/json?all=1", without the version */
    const char *body;   /* NULL: none */
    size_t body_len;
    const char *type;            /* of the body; NULL is JSON */
    const char *auth;            /* the header X-Registry-Auth; NULL: none */
    int upload;                  /* descriptor to send instead, to its end; 0: none */
    int timeout_ms;              /* 0: quick; -1: none */
    int silence_s;               /* given up when nothing has come for so long; 0: never */
    docker_sink_fn *sink;        /* NULL: the answer is kept */
    bool (*is_over)(void *user); /* asked about every second: whether to give up; or NULL */
    void *user;
};

struct docker_answer {
    int status;
    char api[DOCKER_API_SIZE]; /* the header Api-Version; "" without one, or if it is too long */
    struct buf body;
};

#define DOCKER_ANSWER_INIT ((struct docker_answer){.body = BUF_INIT(DOCKER_ANSWER_MAX)})

static inline void docker_answer_free(struct docker_answer *a) {
    buf_free(&a->body);
}

/* Does not connect yet: the first request does, and finds the version to speak. If host is not one
 * that can be used, unusable says why, and so does every request; else it is NULL. */
int docker_api_new(const struct docker_host *host, const struct cay_error *unusable,
                   struct docker_api **ret, struct cay_error *err);
void docker_api_free(struct docker_api *api);

/* How long the first answer may take. */
static inline int docker_first_ms(const struct docker_host *host) {
    return host->socket[0] != '\0' ? DOCKER_FIRST_MS : DOCKER_FIRST_FAR_MS;
}

/* The version to speak; asked for once. One who does not answer soon is not there. */
int docker_api_version(struct docker_api *api, char out[static DOCKER_API_SIZE],
                       struct cay_error *err);

/* Asks. 0 for any answer, whatever its status; else -CAY_UNAVAILABLE with what to do. */
int docker_ask(struct docker_api *api, const struct docker_call *call, struct docker_answer *ret,
               struct cay_error *err);

/* Asks for what must succeed: an answer of 400 and more is an error of its class, with Docker's own
 * message. */
int docker_do(struct docker_api *api, const struct docker_call *call, struct docker_answer *ret,
              struct cay_error *err);
/* The error for an answer that is one; `what` begins it. */
int docker_refused(const struct docker_answer *a, const char *what, struct cay_error *err);
