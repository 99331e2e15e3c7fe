/* What the verbs on sandboxes that stay share: asking the daemon, and telling what it said. */
#pragma once

#include "client/daemon.h"
#include "client/reply.h"
#include "cmd/verb.h"

/* A verb at work; release it with sandbox_verb_free. */
struct sandbox_verb {
    const struct verb_common *common;
    struct daemon daemon;
    struct buf answer; /* the last one */
    struct cay_error err;
};

#define SANDBOX_VERB_INIT(c)                                                                       \
    ((struct sandbox_verb){.common = (c), .answer = BUF_INIT(DAEMON_ANSWER_MAX)})

/* Where the daemon is, as the options say. */
struct daemon_choice sandbox_choice(const struct verb_common *common);

/* Finds the daemon, or starts it. */
int sandbox_verb_open(struct sandbox_verb *v);
void sandbox_verb_free(struct sandbox_verb *v);

/* One request about one sandbox. */
struct sandbox_request {
    const char *method;
    const char *before, *who, *after; /* the path; who is escaped, NULL if it is about none */
    const struct buf *body;           /* JSON, or NULL */
    bool progress;                    /* show how far it is */
};

/* Asks; v->answer has the answer. The others also read it: an object, or a list of objects. */
int sandbox_ask(struct sandbox_verb *v, const struct sandbox_request *req);
int sandbox_query(struct sandbox_verb *v, const struct sandbox_request *req, struct reply *ret);
int sandbox_query_list(struct sandbox_verb *v, const struct sandbox_request *req,
                       struct reply *ret);

/* Tells the last failure, as JSON if that is what was asked for and what came. Returns the exit
 * code. */
int sandbox_fail(const struct sandbox_verb *v);

/* Prints the last answer: JSON as it is, or its field "id" (-q) or "name". */
int sandbox_report(struct sandbox_verb *v);

/* Asks the same of each sandbox, telling each. A failure is told and the rest is done; the exit
 * code is that of the first failure. */
int sandbox_each(const struct verb_common *common, const struct sandbox_request *req, int argc,
                 char **argv);

/* Lists what there is at a path: as JSON, as names (-q), or as print does it. Returns the exit
 * code. */
int sandbox_list(const struct verb_common *common, const char *path, int (*print)(struct reply *t));

/* ---- tables for people ---- */

enum { SANDBOX_COLUMNS_MAX = 16 };

/* Lines of count columns each, as wide as they must be; cell points to the first of rows * count.
 */
void sandbox_put_columns(struct buf *b, const char *const *cell, size_t rows, size_t count);

/* "5 minutes" since an RFC 3339 time; the text itself if it is none. */
const char *sandbox_age(const char *time, char out[static 32]);
