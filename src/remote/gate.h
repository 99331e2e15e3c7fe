/* The handlers of cay-remote's gateway: each answers one request of cay's own interface
 * (docs/api.md) by asking a Daytona. */
#pragma once

#include "remote/far.h"
#include "remote/request.h"

struct cay_error;

struct gate {
    struct world *world;
    struct request *request;
    char who[256];     /* of the path; "" if it names nothing */
    struct buf answer; /* the content */
    bool is_empty;     /* answer without any */
    bool is_over;      /* the handler has answered by itself */
};

typedef int gate_fn(struct gate *g, struct cay_error *err);

gate_fn gate_list, gate_create, gate_get, gate_delete, gate_start, gate_stop, gate_archive,
    gate_pause, gate_update, gate_stats, gate_status, gate_snapshot;
gate_fn gate_volume_list, gate_volume_create, gate_volume_get, gate_volume_resize,
    gate_volume_delete;
/* Becomes a connection to the sandbox's init, which is spoken for by the remote's toolbox. */
gate_fn gate_connect;

/* "a Daytona has no WHAT" */
int gate_unsupported(struct cay_error *err, const char *what, const char *remedy);

/* Answers with one sandbox. */
void gate_report(struct gate *g, const struct json_document *doc);

/* ---- what requests say ---- */

struct jsonw;

/* The body of the request. */
int gate_parse(const struct gate *g, struct json_document **ret, struct cay_error *err);
/* Refuses what the protocol has no word for. */
int gate_check_words(const struct json *wish, struct cay_error *err);
/* CPUs, memory and disk: whole CPUs and GiB, rounded up. */
int gate_put_sizes(struct jsonw *w, const struct json *wish, struct cay_error *err);
