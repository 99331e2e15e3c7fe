/* What a language server says and hears, as text: messages with their heads, names of files, and
 * answers in the shapes that clients of the toolbox know. Whatever comes from a server is hostile.
 * Pure. */
#pragma once

#include <limits.h>
#include <stddef.h>

#include "base/buf.h"

struct cay_error;
struct json;
struct jsonw;

enum {
    LSP_HEAD_MAX = 4096,
    LSP_MESSAGE_MAX = 4 * 1024 * 1024,
    LSP_ITEMS_MAX = 20 * 1000, /* of one answer; the rest is left out */
    LSP_URI_SIZE = 3 * PATH_MAX + 8,
};

/* ---- messages ---- */

/* Bytes as they come: "Content-Length: N", an empty line, N bytes. */
struct lsp_reader {
    struct buf in;
    size_t used; /* by the message that was taken last */
};
#define LSP_READER_INIT                                                                            \
    ((struct lsp_reader){.in = BUF_INIT(LSP_HEAD_MAX + LSP_MESSAGE_MAX + 64 * 1024)})

int lsp_reader_append(struct lsp_reader *r, const char *data, size_t len, struct cay_error *err);
/* Takes a whole message: 1, valid until the next call; 0 if more is needed; negative. */
int lsp_reader_next(struct lsp_reader *r, const char **ret, size_t *ret_len, struct cay_error *err);
void lsp_reader_free(struct lsp_reader *r);

/* Appends a message with its head. */
void lsp_put_message(struct buf *out, const struct buf *text);

/* ---- files ---- */

/* "file:///a%20b" for "/a b". */
void lsp_put_uri(const char *path, char out[static LSP_URI_SIZE]);
/* The path that a client means: SDKs put "file://" before it and encode nothing; others write what
 * is a URI, and that is decoded. */
int lsp_read_uri(const char *uri, char out[static PATH_MAX], struct cay_error *err);

/* ---- answers ---- */

/* A result of textDocument/completion (null, an array, or a list) as {isIncomplete, items}. */
void lsp_write_completions(struct jsonw *w, const struct json *result);
/* A result of textDocument/documentSymbol or workspace/symbol, flat or as a tree, as an array of
 * {name, kind, location}. uri: of the document, for those that do not say it. */
void lsp_write_symbols(struct jsonw *w, const struct json *result, const char *uri);
