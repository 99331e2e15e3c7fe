/* Any bytes as what a language server says: messages within their bounds, the same however they are
 * cut, and answers that are whole JSON; and as the name of a file, which comes back as it was. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/code/lsp_text.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_answers(const char *text, size_t len) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf out = BUF_INIT(64 * 1024 * 1024);
    struct cay_error err;
    if (json_parse("message", text, len, &doc, &err) < 0)
        return;
    struct json root = json_root(doc, ""), result = root;
    (void)json_child(&root, "result", &result);
    struct jsonw w = JSONW_INIT(&out);
    lsp_write_completions(&w, &result);
    require(jsonw_finish(&w) == 0);
    w = JSONW_INIT(&out);
    lsp_write_symbols(&w, &result, "file:///x");
    require(jsonw_finish(&w) == 0);
}

/* How many messages there are, and how it ended. */
static size_t read_all(const char *data, size_t size, size_t piece, bool look, int *ret_end) {
    _cleanup_(lsp_reader_free) struct lsp_reader r = LSP_READER_INIT;
    struct cay_error err;
    const char *text;
    size_t len, count = 0;
    int n = 0;
    for (size_t at = 0; at < size && n == 0; at += MIN(piece, size - at)) {
        n = lsp_reader_append(&r, data + at, MIN(piece, size - at), &err);
        while (n == 0 && (n = lsp_reader_next(&r, &text, &len, &err)) > 0) {
            require(len > 0 && len <= LSP_MESSAGE_MAX);
            if (look)
                check_answers(text, len);
            count++;
            n = 0;
        }
    }
    require(n == 0 || (err.message[0] != '\0' && err.remedy[0] != '\0'));
    *ret_end = n;
    return count;
}

static void check_name(const char *data, size_t size) {
    char path[PATH_MAX], again[PATH_MAX], uri[LSP_URI_SIZE];
    struct cay_error err;
    char *text = strndup(data, size);
    require(text != NULL);
    if (lsp_read_uri(text, path, &err) == 0) {
        require(path[0] != '\0');
        lsp_put_uri(path, uri);
        require(lsp_read_uri(uri, again, &err) == 0);
        require(strcmp(path, again) == 0);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int whole_end, piece_end;
    const char *text = (const char *)data;
    size_t whole = read_all(text, size, size + 1, true, &whole_end);
    size_t pieces = read_all(text, size, 7, false, &piece_end);
    require(whole == pieces && whole_end == piece_end);
    check_name(text, size);
    return 0;
}
