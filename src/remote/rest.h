/* One request to the remote and its answer, by libcurl: bounded, verified, not redirected. What may
 * safely be asked twice is, if the first answer does not come. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "remote/world.h"

struct cay_error;

enum { REST_ANSWER_MAX = 16 * 1024 * 1024, REST_SECONDS = 120 };

/* Puts up to size bytes into data: how many, 0 at the end, negative on failure. */
typedef ssize_t rest_source_fn(void *arg, char *data, size_t size, struct cay_error *err);
/* Takes content. 0 or negative. */
typedef int rest_sink_fn(void *arg, const char *data, size_t len, struct cay_error *err);

struct rest_request {
    const char *method, *url;
    const struct buf *body; /* JSON; NULL: none */
    rest_source_fn *source; /* else the content of a file, sent as the part "file" of a form */
    rest_sink_fn *sink;     /* takes the content of a good answer; NULL: `answer` does */
    void *arg;              /* of both */
    struct buf *answer;     /* NULL: it does not matter; holds what a refusal says too */
    long seconds;           /* until the whole answer is there; 0: as long as something moves */
};

/* 0 for an answer 2xx; a refusal is an error of its class, with what the remote said. */
int rest_call(struct world *w, const struct rest_request *req, struct cay_error *err);

/* Whether an error of rest_call says that there was no answer at all. */
bool rest_is_transport(const struct cay_error *err);

/* The same, the answer being JSON. The caller frees it. */
int rest_call_json(struct world *w, const struct rest_request *req, struct json_document **ret,
                   struct cay_error *err);

/* What a refusal with this status and content means. */
int rest_refusal(const struct world *w, long status, const struct buf *said, struct cay_error *err);

/* What a failure of libcurl means. */
int rest_explain(const struct world *w, CURLcode code, const char *detail, struct cay_error *err);
