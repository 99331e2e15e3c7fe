/* One request and its answer, as handlers see them; only http*.c know the HTTP library. */
#pragma once

#include "api/http/target.h"
#include "api/preview/place.h"
#include "api/route.h"
#include "base/buf.h"
#include "base/json/jsonw.h"
#include "base/relay.h"
#include "base/str.h"
#include "manager/record/audit.h"
#include "manager/record/key.h"
#include "wire/client_exec.h"
#include "wire/watch.h"

struct builds;
struct contexts;
struct image_ops;
struct interpreters;
struct lender;
struct manager;
struct operation;
struct outputs;
struct ws;

enum {
    CALL_BODY_MAX = 1024 * 1024,
    CALL_CODE_MAX = 16 * 1024 * 1024, /* the same where a program is part of it */
    /* All output of a session's command, 10 MiB together and 8 MiB of each stream, if it is of
     * bytes that take six characters in JSON. */
    CALL_ANSWER_MAX = 160 * 1024 * 1024,
};

/* An answer that comes bit by bit. */
struct stream {
    /* Waits for more: how many bytes were put into data, 0 at the end. */
    size_t (*read)(struct stream *s, char *data, size_t size);
    /* Also if it was not read to its end, and perhaps when the call has gone already. */
    void (*close)(struct stream *s);
    bool failed; /* set with the end: it is none, and the client is to notice */
};

/* A body that is taken piece by piece, as it comes. */
struct sink {
    int (*write)(struct sink *s, const char *data, size_t len, struct cay_error *err);
    /* Also if the body did not come to its end. */
    void (*close)(struct sink *s);
};

struct answer {
    unsigned status;
    bool is_plain;    /* not JSON */
    const char *type; /* its Content-Type, if it is none of all these */
    struct buf body;
    struct strv headers;         /* name, value, name, value … */
    struct stream *stream;       /* in place of a body, if not NULL */
    bool is_foreign;             /* status and headers are somebody else's: ours are not added */
    uint64_t stream_bytes;       /* how much that will be; 0: not known */
    struct operation *operation; /* in place of a body, if not NULL: its bytes both ways, */
    int connection;              /* and cay-init's end of them, */
    struct relay_watch watch;    /* with who looks at its bytes (see NULL: nobody), */
    struct wire_watch frames;    /* for what connect.c finds in them, */
    void (*passed)(struct call *c, int64_t began_ms); /* called when all have passed, or NULL */
    /* In place of a body, if not NULL: a WebSocket, in the thread of its connection. */
    void (*talk)(struct call *c, struct ws *w);
    size_t message_max; /* bytes of one message of its client; 0: 1 MiB */
};

struct call {
    struct manager *manager;
    const struct image_ops *images;
    struct builds *builds;
    struct contexts *contexts;         /* NULL: there are none */
    struct interpreters *interpreters; /* NULL: there are none */
    struct lender *lender;             /* NULL: there are no prepared sandboxes */
    struct outputs *outputs;           /* NULL: there are none */
    struct target target;
    char *uri;                    /* as it was sent */
    struct preview_place preview; /* what it is a preview of, if it is one */
    bool has_key;                 /* the caller is who he is by his Authorization */
    bool is_visitor;              /* of a preview, let in by a token or since it is public */
    struct key caller;            /* who asks */
    bool sees_metrics;            /* of everybody, whoever asks */
    const struct route *route;    /* NULL until it is known, and if there is none */
    /* What {who} in the path is. A sandbox's id when it is one: looked up among those that the
     * caller sees, before the handler is called. */
    const char *who;
    char id[ID_SIZE];
    /* For the audit: what it is about, if {who} does not say it, and what there is to add. */
    char object[AUDIT_OBJECT_SIZE], detail[AUDIT_DETAIL_SIZE];
    struct route_args args; /* all parts in braces; {who} is the first */
    struct buf body;
    struct sink *sink; /* takes the body, if not NULL */
    bool is_noted;     /* in the audit, by the handler itself */
    const char *method;
    const char *public_url; /* how clients reach us; "": as this one did */
    bool is_tls;
    bool wants_progress, wants_upgrade, wants_websocket;
    /* Of a toolbox's error, if its class does not say it: toolbox_fault() */
    const char *fault;
    unsigned fault_status;
    struct buf fault_list;   /* an array in JSON: each of the errors, if there are several */
    struct buf fault_output; /* what a command printed that was ended before it was answered */
    bool fault_is_cut;       /* that is not all of it; fault_file has the rest, or is "" */
    char fault_file[EXEC_FILE_SIZE];
    struct answer answer;
};

void call_init(struct call *c, struct manager *manager);
/* Ends what the answer holds too. Once more is fine. */
void call_free(struct call *c);

/* Makes the error the answer; status 0: that of its class. */
void call_fail(struct call *c, const struct cay_error *err, unsigned status);
/* An object, or an array of objects, as the answer. */
void call_answer(struct call *c, jsonw_members_fn *members, const void *row);
void call_answer_all(struct call *c, jsonw_members_fn *members, const void *rows, size_t count,
                     size_t row_size);
/* So many bytes of a file, which is taken. (answer_file.c) */
int call_answer_file(struct call *c, const char *type, int *fd, uint64_t bytes,
                     struct cay_error *err);
int call_add_header(struct call *c, const char *name, const char *value, struct cay_error *err);

enum { CALL_ORIGIN_SIZE = 320 };
/* Where the client reaches us, as the beginning of URLs for it: "http://127.0.0.1:3986". */
const char *call_origin(const struct call *c, char out[static CALL_ORIGIN_SIZE]);

/* A header of the request, or NULL; until the call ends. (http_caller.c) */
const char *call_header(const struct call *c, const char *name);

/* Every header of the request. (http_caller.c) */
typedef void (*call_header_fn)(void *user, const char *name, const char *value);
void call_each_header(const struct call *c, call_header_fn fn, void *user);

/* Its connection, to be watched for the client's hanging up; nothing else may be done with it.
 * (http_caller.c) */
int call_socket(const struct call *c);

/* What the server that a call came by has open, this call included. (http_caller.c) */
struct call_load {
    size_t requests;
    size_t connections[2]; /* on the unix socket, on TCP */
};
void call_load(const struct call *c, struct call_load *ret);

/* Whose key a text is, for what carries it elsewhere than in the head; false: nobody's.
 * (http_caller.c) */
bool call_identify(const struct call *c, const char *text, struct key *ret);

/* A connection whose head had no key belongs to this key from now on. Refused if that has too many.
 * (http_caller.c) */
int call_claim(const struct call *c, const struct key *k, struct cay_error *err);

/* The caller is about to remove his own key: the answer goes out all the same, and the connection
 * ends after it. (http_caller.c) */
void call_forget_key(struct call *c);

/* Finds the handler, asks whether the caller may, and opens the sink if there is one. If that
 * fails the answer is filled, and negative. */
int call_begin(struct call *c, const char *method);
/* Lets the handler fill the answer. */
void call_run(struct call *c);

/* Handlers of their own files. */
int create_handle(struct call *c, struct cay_error *err);
int list_handle(struct call *c, struct cay_error *err);
int start_handle(struct call *c, struct cay_error *err);
int archive_handle(struct call *c, struct cay_error *err);
int connect_handle(struct call *c, struct cay_error *err);
int volume_create_handle(struct call *c, struct cay_error *err);
int volume_list_handle(struct call *c, struct cay_error *err);
int volume_get_handle(struct call *c, struct cay_error *err);
int volume_remove_handle(struct call *c, struct cay_error *err);
int volume_resize_handle(struct call *c, struct cay_error *err);
int resize_handle(struct call *c, struct cay_error *err);
int update_handle(struct call *c, struct cay_error *err);
struct manager_update;
int interval_read(const struct call *c, struct manager_update *ret, struct cay_error *err);
int interval_handle(struct call *c, struct cay_error *err);
/* Makes the image that the body names of the sandbox. */
int snapshot_make(struct call *c, struct cay_error *err);
int events_handle(struct call *c, struct cay_error *err);
/* Makes the key that the body says, and writes the name of its organisation and its text. */
int key_make(struct call *c, struct key *k, char organization[static NAME_MAX_LEN + 1],
             char value[static KEY_TEXT_SIZE], struct cay_error *err);
int organization_create_handle(struct call *c, struct cay_error *err);
int organization_list_handle(struct call *c, struct cay_error *err);
int organization_get_handle(struct call *c, struct cay_error *err);
int organization_remove_handle(struct call *c, struct cay_error *err);
int key_create_handle(struct call *c, struct cay_error *err);
int key_list_handle(struct call *c, struct cay_error *err);
int key_get_handle(struct call *c, struct cay_error *err);
int key_current_handle(struct call *c, struct cay_error *err);
int usage_handle(struct call *c, struct cay_error *err); /* usage.c */
int key_remove_handle(struct call *c, struct cay_error *err);
int audit_list_handle(struct call *c, struct cay_error *err);
int audit_verify_handle(struct call *c, struct cay_error *err);
int audit_trim_handle(struct call *c, struct cay_error *err);
