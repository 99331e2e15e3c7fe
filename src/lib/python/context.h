/* Contexts: interpreters that stay in a sandbox, with what they know. The keeper inside starts a
 * driver, a small program of ours in the language itself, and gives it pieces of code. What a
 * driver reports beside output comes as records, which are hostile as all that comes from inside:
 * one that makes no sense is the last that counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct cay_error;
struct wire_call;

/* The context of whoever names none. */
#define CONTEXT_DEFAULT "default"

#define CONTEXT_CHART "application/vnd.cay.chart+json"

enum { CONTEXT_REPORT_MAX = 8 * 1024 * 1024, CONTEXT_ITEMS_MAX = 32 };

/* The name that a language is known by ("python", "javascript", "bash"); NULL or "": python. NULL
 * and err if it is not known. */
const char *context_language(const char *asked, struct cay_error *err);

struct context_start {
    const char *language; /* one of context_language()'s */
    const char *const *env;
    int warm; /* a frozen interpreter of the sandbox's image; 0: none */
};

/* What became of the frozen interpreter. */
enum context_warmth {
    CONTEXT_COLD,    /* there was none, or it could not be woken */
    CONTEXT_CHANGED, /* it is not the sandbox's Python any more; cold, then */
    CONTEXT_WARM,
};

/* Makes a context. ret may be NULL. */
int context_create(const struct wire_call *c, const char *name, const struct context_start *start,
                   enum context_warmth *ret, struct cay_error *err);

/* ---- what a driver reports ---- */

struct context_item {
    const char *type; /* "text/plain" */
    const char *data; /* len bytes, of any kind */
    size_t len;
};

/* Whether its data is text; else it travels in base64. */
bool context_is_text(const struct context_item *item);

enum context_record_kind { CONTEXT_ERROR = 1, CONTEXT_RESULT = 2, CONTEXT_NOTICE = 3 };

/* Points into what was read, until the next call. */
struct context_record {
    enum context_record_kind kind;
    const char *name, *value, *traceback; /* of an error */
    const char *text;                     /* of a notice */
    bool is_last;                         /* a result: the value of the last expression */
    struct context_item items[CONTEXT_ITEMS_MAX];
    size_t count;
};

/* Whether a result has the type of this item before: in JSON that would be a key that occurs twice.
 */
bool context_is_repeated(const struct context_record *r, size_t index);

/* Takes records out of a stream. */
struct context_reader {
    struct buf in;
    size_t used; /* bytes of `in` that belong to the record returned last */
    bool failed; /* what came made no sense; nothing more is taken */
};

#define CONTEXT_READER_INIT ((struct context_reader){.in = BUF_INIT(CONTEXT_REPORT_MAX + 64)})

/* Adds bytes of the stream; they are dropped once it has failed. */
void context_reader_add(struct context_reader *r, const char *data, size_t len);
/* The next record, if there is a whole one. */
bool context_reader_next(struct context_reader *r, struct context_record *ret);
void context_reader_free(struct context_reader *r);
