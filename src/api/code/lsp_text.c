#include "api/code/lsp_text.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/str.h"

enum { TREE_DEPTH_MAX = 16 };

/* ---- messages ---- */

static int refuse(struct cay_error *err, const char *what) {
    error_set(err, CAY_UNAVAILABLE, "the language server says what is no message: %s", what);
    return error_remedy(err, "start it again; see whether it speaks over its standard output");
}

void lsp_reader_free(struct lsp_reader *r) {
    buf_free(&r->in);
    r->used = 0;
}

int lsp_reader_append(struct lsp_reader *r, const char *data, size_t len, struct cay_error *err) {
    buf_consume(&r->in, r->used);
    r->used = 0;
    return buf_append(&r->in, data, len) < 0 ? refuse(err, "it is too long") : 0;
}

/* One line of a head, without its end. */
static int take_line(const char *line, size_t len, size_t *ret_length, struct cay_error *err) {
    static const char name[] = "Content-Length:";
    char number[24];
    uint64_t value;
    size_t at = sizeof name - 1;
    if (len < at || strncasecmp(line, name, at) != 0)
        return memchr(line, ':', len) != NULL ? 0 : refuse(err, "its head is none");
    while (at < len && line[at] == ' ')
        at++;
    if (len - at >= sizeof number)
        return refuse(err, "its length is no number");
    memcpy(number, line + at, len - at);
    number[len - at] = '\0';
    if (str_to_u64(number, LSP_MESSAGE_MAX, &value) < 0 || value == 0)
        return refuse(err, "its length is no number, or too large");
    *ret_length = (size_t)value;
    return 0;
}

/* The length of the message behind a head that ends at `end`. */
static int read_head(const char *head, const char *end, size_t *ret_length, struct cay_error *err) {
    *ret_length = 0;
    while (head < end) {
        const char *stop = memchr(head, '\r', (size_t)(end - head));
        size_t len = (size_t)((stop != NULL ? stop : end) - head);
        int r = take_line(head, len, ret_length, err);
        if (r < 0)
            return r;
        head += len + 2; /* over CR LF */
    }
    return *ret_length == 0 ? refuse(err, "its length is missing") : 0;
}

int lsp_reader_next(struct lsp_reader *r, const char **ret, size_t *ret_len,
                    struct cay_error *err) {
    buf_consume(&r->in, r->used);
    r->used = 0;
    if (r->in.len == 0) {
        buf_free(&r->in); /* servers are silent for long */
        return 0;
    }
    const char *end = memmem(r->in.data, MIN(r->in.len, (size_t)LSP_HEAD_MAX), "\r\n\r\n", 4);
    if (end == NULL)
        return r->in.len < LSP_HEAD_MAX ? 0 : refuse(err, "its head is too long");
    size_t length, head = (size_t)(end - r->in.data) + 4;
    int code = read_head(r->in.data, end, &length, err);
    if (code < 0)
        return code;
    if (r->in.len - head < length)
        return 0;
    *ret = r->in.data + head;
    *ret_len = length;
    r->used = head + length;
    return 1;
}

void lsp_put_message(struct buf *out, const struct buf *text) {
    (void)buf_printf(out, "Content-Length: %zu\r\n\r\n", text->len);
    (void)buf_append(out, text->data, text->len);
}

/* ---- files ---- */

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~/", c) != NULL);
}

void lsp_put_uri(const char *path, char out[static LSP_URI_SIZE]) {
    static const char digits[] = "0123456789ABCDEF";
    size_t n = sizeof "file://" - 1;
    memcpy(out, "file://", n);
    for (; *path != '\0' && n + 4 <= LSP_URI_SIZE; path++) {
        unsigned char c = (unsigned char)*path;
        if (is_plain(*path)) {
            out[n++] = *path;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    out[n] = '\0';
}

/* The byte that "%41" at p stands for, or -1. */
static int escaped(const char *p) {
    int high = p[0] == '%' ? str_hex_digit(p[1]) : -1;
    int low = high >= 0 ? str_hex_digit(p[2]) : -1;
    return low < 0 ? -1 : high << 4 | low;
}

/* Whether a path is written as URIs are. */
static bool is_encoded(const char *text) {
    bool has_escape = false;
    for (; *text != '\0'; text++) {
        bool is_escape = escaped(text) > 0;
        if (!is_escape && !is_plain(*text) && strchr("!$&'()*+,;=:@", *text) == NULL)
            return false;
        has_escape |= is_escape;
    }
    return has_escape;
}

int lsp_read_uri(const char *uri, char out[static PATH_MAX], struct cay_error *err) {
    static const char scheme[] = "file://";
    size_t n = 0;
    const char *text = str_starts(uri, scheme) ? uri + sizeof scheme - 1 : "";
    bool decode = is_encoded(text);
    for (; *text != '\0' && n < PATH_MAX - 1; text++) {
        int byte = decode ? escaped(text) : -1;
        out[n++] = byte > 0 ? (char)byte : *text;
        text += byte > 0 ? 2 : 0;
    }
    out[n] = '\0';
    if (n > 0 && *text == '\0')
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "uri: it names no file, or a path that is too long");
    return error_remedy(err, "send file:// and the path");
}

/* ---- completions ---- */

static const char *text_of(const struct json *at, const char *key) {
    struct json child;
    const char *text = NULL;
    struct cay_error ignored; /* of another type: as if it were not there */
    return json_child(at, key, &child) && json_as_string(&child, &text, &ignored) == 0 ? text
                                                                                       : NULL;
}

static void put_text(struct jsonw *w, const char *key, const char *text) {
    if (text != NULL)
        jsonw_put_string(w, key, text);
}

static bool number_of(const struct json *at, const char *key, int64_t *ret) {
    struct json child;
    struct cay_error ignored;
    return json_child(at, key, &child) && json_as_integer(&child, 0, INT32_MAX, ret, &ignored) == 0;
}

/* A text, or {kind, value}. */
static void put_documentation(struct jsonw *w, const struct json *item) {
    struct json child;
    if (!json_child(item, "documentation", &child))
        return;
    const char *kind = text_of(&child, "kind"), *value = text_of(&child, "value");
    if (json_kind(&child) == JSON_KIND_STRING) {
        put_text(w, "documentation", text_of(item, "documentation"));
    } else if (value != NULL) {
        jsonw_key(w, "documentation");
        jsonw_begin_object(w);
        jsonw_put_string(w, "kind", kind != NULL ? kind : "plaintext");
        jsonw_put_string(w, "value", value);
        jsonw_end_object(w);
    }
}

static void put_item(struct jsonw *w, const struct json *item) {
    static const char *const texts[] = {"detail", "sortText", "filterText", "insertText"};
    const char *label = text_of(item, "label");
    int64_t kind;
    if (label == NULL)
        return;
    jsonw_begin_object(w);
    jsonw_put_string(w, "label", label);
    if (number_of(item, "kind", &kind))
        jsonw_put_integer(w, "kind", kind);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        put_text(w, texts[i], text_of(item, texts[i]));
    put_documentation(w, item);
    jsonw_end_object(w);
}

void lsp_write_completions(struct jsonw *w, const struct json *result) {
    struct json list = *result, flag, item;
    bool is_incomplete = false;
    struct cay_error ignored;
    if (json_kind(result) == JSON_KIND_OBJECT && !json_child(result, "items", &list))
        list = (struct json){0};
    if (json_child(result, "isIncomplete", &flag))
        (void)json_as_bool(&flag, &is_incomplete, &ignored);
    jsonw_begin_object(w);
    jsonw_key(w, "items");
    jsonw_begin_array(w);
    for (size_t i = 0; i < LSP_ITEMS_MAX && json_item(&list, i, &item); i++)
        put_item(w, &item);
    jsonw_end_array(w);
    jsonw_put_bool(w, "isIncomplete", is_incomplete || json_count(&list) > LSP_ITEMS_MAX);
    jsonw_end_object(w);
}

/* ---- symbols ---- */

struct position {
    int64_t line, character;
};

struct symbol {
    const char *name, *uri;
    int64_t kind;
    struct position start, end;
};

static bool read_position(const struct json *range, const char *key, struct position *ret) {
    struct json at;
    return json_child(range, key, &at) && number_of(&at, "line", &ret->line) &&
           number_of(&at, "character", &ret->character);
}

/* {name, kind, location: {uri, range}}, or {name, kind, range, selectionRange, children} */
static bool read_symbol(const struct json *at, const char *uri, struct symbol *ret) {
    struct json location, range;
    bool is_flat = json_child(at, "location", &location);
    ret->name = text_of(at, "name");
    ret->uri = is_flat ? text_of(&location, "uri") : uri;
    if (ret->name == NULL || ret->uri == NULL || !number_of(at, "kind", &ret->kind))
        return false;
    if (!json_child(is_flat ? &location : at, is_flat ? "range" : "selectionRange", &range)) {
        ret->start = ret->end = (struct position){0, 0}; /* the file, which is allowed */
        return is_flat;
    }
    return read_position(&range, "start", &ret->start) && read_position(&range, "end", &ret->end);
}

static void put_position(struct jsonw *w, const char *key, const struct position *p) {
    jsonw_key(w, key);
    jsonw_begin_object(w);
    jsonw_put_integer(w, "line", p->line);
    jsonw_put_integer(w, "character", p->character);
    jsonw_end_object(w);
}

static void put_symbol(struct jsonw *w, const struct symbol *s) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "name", s->name);
    jsonw_put_integer(w, "kind", s->kind);
    jsonw_key(w, "location");
    jsonw_begin_object(w);
    jsonw_put_string(w, "uri", s->uri);
    jsonw_key(w, "range");
    jsonw_begin_object(w);
    put_position(w, "start", &s->start);
    put_position(w, "end", &s->end);
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

/* Those of a tree, each before what is below it; as deep as people write. */
static void put_symbols(struct jsonw *w, const struct json *list, const char *uri, int depth,
                        size_t *left) {
    struct json item, children;
    for (size_t i = 0; *left > 0 && json_item(list, i, &item); i++) {
        struct symbol s;
        if (!read_symbol(&item, uri, &s))
            continue;
        put_symbol(w, &s);
        --*left;
        if (depth < TREE_DEPTH_MAX && json_child(&item, "children", &children))
            put_symbols(w, &children, uri, depth + 1, left);
    }
}

void lsp_write_symbols(struct jsonw *w, const struct json *result, const char *uri) {
    size_t left = LSP_ITEMS_MAX;
    jsonw_begin_array(w);
    put_symbols(w, result, uri, 0, &left);
    jsonw_end_array(w);
}
