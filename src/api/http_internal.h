/* What the files of the HTTP server share. */
#pragma once

#include <cay/errors.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/call.h"
#include "api/http.h"
#include "api/http/tls.h"
#include "api/request_log.h"
#include "manager/record/hash.h"

/* Connections that are open, and the thread that looks after them: api/http_timeouts.c. */
struct http_peer;
struct http_crowd {
    struct http *http;
    bool is_tcp;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;  /* there is somebody again */
    struct http_peer *first;
    size_t count, dropped; /* of the count, those that were shut down to make room */
};

/* A server that has stopped listening, until its last connection ends. */
struct http_retired {
    struct MHD_Daemon *daemon;
    int sock;
    struct tls tls;
    struct http_retired *next;
};

/* One listening socket. */
struct http_port {
    struct http *http;
    bool is_tcp;
    int sock; /* -1: none */
    struct MHD_Daemon *daemon;
    bool is_quiet;                /* it accepts no more */
    struct tls tls;               /* what daemon was started with, if it is not the first */
    struct http_retired *retired; /* those before it */
    struct http_crowd crowd;      /* of them all */
};

struct http {
    struct http_options options;
    struct http_port ports[2];
    unsigned char admin_hash[HASH_SIZE];
    atomic_bool is_draining;
    atomic_int under_way;        /* requests that were let in and have not ended */
    atomic_int conversing;       /* of them, connections that became something else */
    atomic_int turned_away;      /* requests that came while it was draining */
    pthread_rwlock_t rules_lock; /* of what follows */
    struct strv hosts, origins;
    bool metrics_public;
    _Atomic int64_t patience_ms; /* not of the lock */
    char public_url[CALL_ORIGIN_SIZE];
};

/* A request, with what only these files know. */
struct http_request {
    struct call call; /* first: call_header() gets from it to the rest */
    struct http *http;
    struct MHD_Connection *connection;
    struct key_use use;            /* of the caller's key, from the head to the end */
    struct cay_error target_error; /* of its path, if target_result is negative */
    int target_result;
    struct request_log log;
    char *origin; /* of a page that may call us, or NULL */
    char public_url[CALL_ORIGIN_SIZE];
    struct cay_error sink_error; /* of its body, if sink_result is negative */
    int sink_result;
    int begun;      /* what call_begin() said */
    bool has_begun; /* its head was looked at */
    bool is_let_in; /* counted in under_way: it may use what http_options point to */
    bool closes;    /* its connection ends with the answer */
    bool is_answered;
    size_t body_bytes;    /* that came */
    size_t ignored_bytes; /* of them, that its sink did not take */
    int64_t body_ms;      /* when it began, later by as much as we made it wait */
};

/* ---- http_answer.c ---- */

/* Sends what is in the call's answer. */
enum MHD_Result http_answer(struct http_request *q);
/* The same, and the connection ends: its body was not read. */
enum MHD_Result http_answer_and_close(struct http_request *q);
/* Sends the error; status 0: that of its class. */
enum MHD_Result http_refuse(struct http_request *q, const struct cay_error *err, unsigned status);

/* ---- http_drain.c ---- */

/* Counts a request in, before it uses anything. False when the daemon is about to stop: then it
 * must use nothing. */
bool http_let_in(struct http_request *q);
void http_let_out(struct http_request *q);
/* Shuts down the connections of keys that have expired, unless the daemon is about to stop. */
void http_end_expired(struct http *h);
/* The answer to one that was not let in: 503, when to try again, and the connection ends. */
void http_fill_turned_away(struct http_request *q);

/* ---- http_caller.c ---- */

/* Fills the call's caller, or says why he may not ask. */
int http_identify(const struct http_port *port, struct http_request *q, struct cay_error *err);
/* Ties the request to the caller's key: its connection is shut down when that is removed or
 * expires. Fails if that has happened. */
int http_use_key(struct http_request *q, struct cay_error *err);
/* For the audit. */
void http_note_refusal(const struct http_request *q, const struct cay_error *err);
/* The error for a page of an origin that is not allowed. */
int http_refuse_origin(struct cay_error *err);
/* Keeps the origin that the request names, if pages of it may call us. */
void http_keep_origin(struct http_request *q);
/* Keeps how clients reach us, as it is now, for the call. */
void http_keep_public_url(struct http_request *q);

/* ---- api/http_timeouts.c ---- */

/* The library accepts some more, since a connection that is dropped takes a moment to end. */
enum { HTTP_CONNECTIONS_MAX = 1024, HTTP_CONNECTIONS_SPARE = 512 };

/* How many connections it has. */
size_t http_count_peers(struct http_port *port);
/* Starts the thread of a port. */
int http_patience_start(struct http_port *port, struct cay_error *err);
/* The library's word of a connection that begins or ends; cls is its port. */
void http_patience_notify(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code);

/* The connection is this caller's from now on. Refused if he has more than are left for others. */
int http_claim(struct MHD_Connection *connection, const struct key *caller, struct cay_error *err);

/* What a connection is waited for from now on. If it does not come in time, it is shut down. */
/* A head. */
void http_await_head(struct MHD_Connection *connection);
/* More of a body of which q->body_bytes came since q->body_ms. */
void http_await_body(const struct http_request *q);
/* That so many bytes are taken. */
void http_await_reader(struct MHD_Connection *connection, uint64_t bytes);
/* Nothing: it is our turn, or the sandbox's. */
void http_await_nothing(struct MHD_Connection *connection);
