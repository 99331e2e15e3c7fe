/* Language servers that run in sandboxes, one for each sandbox, language and project, and what is
 * said to them. The program is a command of cay-init; its streams are a connection that is kept
 * here. It does not keep its sandbox from being idle, and ends with it, or with this process. */
#pragma once

#include <limits.h>

#include "api/call.h"
#include "base/json/jsonw.h"

struct json;
struct json_document;
struct lsp_server;

enum { LSP_SERVERS_MAX = 64, LSP_OF_SANDBOX_MAX = 8, LSP_DOCUMENTS_MAX = 256 };

struct lsp_place {
    char sandbox[ID_SIZE];
    char language[16];
    char project[PATH_MAX]; /* a folder, absolute */
};

/* The one of this place, a new one if there is none and `make`. It is the caller's alone until
 * lsp_server_put(). *ret is NULL if there is none. */
int lsp_server_take(const struct lsp_place *place, bool make, struct lsp_server **ret,
                    struct cay_error *err);
/* Lets it go. One that has ended, or was never started, is forgotten. */
void lsp_server_put(struct lsp_server *s);

bool lsp_server_is_started(const struct lsp_server *s);
/* Its program talks over this connection from now on; the request to start it has been sent. */
void lsp_server_begin(struct lsp_server *s, int fd);
/* Nobody needs it any more: its program is ended. */
void lsp_server_end(struct lsp_server *s);

/* Documents that are open there, by their URIs. */
bool lsp_server_has_document(const struct lsp_server *s, const char *uri);
int lsp_server_add_document(struct lsp_server *s, const char *uri, struct cay_error *err);
void lsp_server_drop_document(struct lsp_server *s, const char *uri);

/* ---- saying something ---- */

struct lsp_message {
    struct buf text;
    struct jsonw w;
    uint64_t id; /* 0: nothing is answered */
};

/* Begins a request (wants_answer) or a notification; the caller writes its params into m->w, one
 * value. lsp_message_free also after a failure. */
void lsp_message_begin(struct lsp_server *s, const char *method, bool wants_answer,
                       struct lsp_message *m);
void lsp_message_free(struct lsp_message *m);

/* Says it, and waits for the answer if there is one: *ret, with "result" in it. Given up at the
 * deadline, and when the caller of c hangs up. */
int lsp_server_say(const struct call *c, struct lsp_server *s, struct lsp_message *m,
                   int64_t deadline_ms, struct json_document **ret, struct cay_error *err);
