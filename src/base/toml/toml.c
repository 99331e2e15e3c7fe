#include "base/toml/toml.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/toml/reader.h"

int toml_fail(struct toml_reader *r, struct toml_place at, const char *remedy, const char *fmt,
              ...) {
    char cause[320];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(cause, sizeof cause, fmt, ap);
    va_end(ap);
    int result =
        error_set(r->err, CAY_INVALID_ARGUMENT, "%s:%u:%u: %s", r->name, at.line, at.column, cause);
    if (remedy != NULL)
        (void)error_remedy(r->err, "%s", remedy);
    return result;
}

int toml_fail_memory(struct toml_reader *r) {
    return error_sys(r->err, ENOMEM, "reading %s", r->name);
}

int toml_peek(const struct toml_reader *r, size_t ahead) {
    return ahead < r->len - r->at ? (unsigned char)r->text[r->at + ahead] : -1;
}

bool toml_at(const struct toml_reader *r, const char *text) {
    size_t n = strlen(text);
    return n <= r->len - r->at && memcmp(r->text + r->at, text, n) == 0;
}

void toml_skip(struct toml_reader *r, size_t bytes) {
    for (; bytes > 0; bytes--) {
        unsigned char c = (unsigned char)r->text[r->at++];
        if (c == '\n')
            r->place = (struct toml_place){.line = r->place.line + 1, .column = 1};
        else if ((c & 0xc0) != 0x80) /* the rest of a multi-byte character has no width */
            r->place.column++;
    }
}

static size_t sequence_length(unsigned char lead) {
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

const char *toml_show(const struct toml_reader *r, char out[static 24]) {
    int c = toml_peek(r, 0);
    if (c < 0)
        (void)snprintf(out, 24, "the end of the file");
    else if (c == '\n' || c == '\r')
        (void)snprintf(out, 24, "the end of the line");
    else
        (void)snprintf(out, 24, "'%.*s'", (int)sequence_length((unsigned char)c), r->text + r->at);
    return out;
}

/* ---- the text as such ---- */

static int check_character(struct toml_reader *r) {
    static const char remedy[] = "remove it, or write it as an escape such as \\u001B in a string";
    const char *p = r->text + r->at;
    int c = (unsigned char)*p;
    if (c >= 0x80) {
        size_t n = sequence_length((unsigned char)c);
        if (n > r->len - r->at || !str_is_utf8(p, n))
            return toml_fail(r, r->place, "save the file as UTF-8", "byte 0x%02x is not UTF-8", c);
        return 0;
    }
    if (c == '\r' && toml_peek(r, 1) != '\n')
        return toml_fail(r, r->place, "end lines with LF or CRLF", "carriage return inside a line");
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
        return toml_fail(r, r->place, remedy, "control character 0x%02x", c);
    return 0;
}

/* Done once in front, so that the rest of the reader meets only characters that TOML allows. */
static int check_text(struct toml_reader *r) {
    if (r->len > TOML_SIZE_MAX)
        return toml_fail(r, r->place, "split or shorten it", "larger than %d bytes", TOML_SIZE_MAX);
    while (r->at < r->len) {
        int result = check_character(r);
        if (result < 0)
            return result;
        toml_skip(r, sequence_length((unsigned char)r->text[r->at]));
    }
    r->at = 0;
    r->place = (struct toml_place){1, 1};
    return 0;
}

static void skip_space(struct toml_reader *r) {
    while (toml_peek(r, 0) == ' ' || toml_peek(r, 0) == '\t')
        toml_skip(r, 1);
}

static void skip_comment(struct toml_reader *r) {
    if (toml_peek(r, 0) != '#')
        return;
    while (toml_peek(r, 0) >= 0 && toml_peek(r, 0) != '\n')
        toml_skip(r, 1);
}

/* Space, line ends and comments. */
static void skip_blank(struct toml_reader *r) {
    for (;;) {
        skip_space(r);
        skip_comment(r);
        int c = toml_peek(r, 0);
        if (c != '\n' && c != '\r')
            return;
        toml_skip(r, 1);
    }
}

static int end_line(struct toml_reader *r) {
    skip_space(r);
    skip_comment(r);
    int c = toml_peek(r, 0);
    if (c < 0 || c == '\n' || c == '\r')
        return 0;
    char shown[24];
    return toml_fail(r, r->place, "write one key or header on each line",
                     "expected the end of the line, found %s", toml_show(r, shown));
}

static int expect(struct toml_reader *r, const char *text, const char *remedy) {
    if (toml_at(r, text)) {
        toml_skip(r, strlen(text));
        return 0;
    }
    char shown[24];
    return toml_fail(r, r->place, remedy, "expected '%s', found %s", text, toml_show(r, shown));
}

/* ---- keys ---- */

static void key_free(struct toml_key *key) {
    buf_free(&key->text);
}

static int read_bare_key(struct toml_reader *r, struct buf *out) {
    const char *start = r->text + r->at;
    int c = toml_peek(r, 0);
    for (; (c < 0x80 && isalnum(c)) || c == '_' || c == '-'; c = toml_peek(r, 0))
        toml_skip(r, 1);
    size_t len = (size_t)(r->text + r->at - start);
    char shown[24];
    if (len == 0)
        return toml_fail(r, r->place, "quote keys that are not letters, digits, '_' and '-'",
                         "expected a key, found %s", toml_show(r, shown));
    (void)buf_append(out, start, len);
    return 0;
}

static int read_key(struct toml_reader *r, struct toml_key *key) {
    buf_clear(&key->text);
    key->place = r->place;
    int c = toml_peek(r, 0);
    int result =
        c == '"' || c == '\'' ? toml_read_line_string(r, &key->text) : read_bare_key(r, &key->text);
    if (result == 0 && key->text.failed)
        return toml_fail_memory(r);
    return result;
}

typedef int (*enter_fn)(struct toml_reader *, struct toml_value **, const struct toml_key *);

/* Reads a.b.c, entering a and b from *table on; c is left in *last. */
static int read_path(struct toml_reader *r, enter_fn enter, struct toml_value **table,
                     struct toml_key *last) {
    for (;;) {
        skip_space(r);
        int result = read_key(r, last);
        if (result < 0)
            return result;
        skip_space(r);
        if (toml_peek(r, 0) != '.')
            return 0;
        toml_skip(r, 1);
        result = enter(r, table, last);
        if (result < 0)
            return result;
    }
}

/* ---- values ---- */

static int read_value(struct toml_reader *r, struct toml_value *v);

static int read_pair(struct toml_reader *r, struct toml_value *table) {
    _cleanup_(key_free) struct toml_key key = {.text = BUF_INIT(r->len)};
    struct toml_value *v;
    int result = read_path(r, toml_enter_dotted, &table, &key);
    if (result == 0)
        result = expect(r, "=", "write key = value; quote keys with other characters");
    if (result == 0)
        result = toml_add_keyed(r, table, &key, &v);
    if (result < 0)
        return result;
    skip_space(r);
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): set unless it failed */
    return read_value(r, v);
}

static int read_element(struct toml_reader *r, struct toml_value *array) {
    struct toml_value *v;
    int result = toml_add(r, array, NULL, TOML_BOOL, &v);
    return result < 0 ? result : read_value(r, v);
}

static int read_array(struct toml_reader *r, struct toml_value *v) {
    v->type = TOML_ARRAY;
    toml_skip(r, 1);
    for (;;) {
        skip_blank(r);
        if (toml_peek(r, 0) == ']')
            break;
        if (toml_peek(r, 0) < 0)
            return toml_fail(r, r->place, "close it with ']'", "the array of line %u has no end",
                             v->line);
        int result = read_element(r, v);
        if (result < 0)
            return result;
        skip_blank(r);
        if (toml_peek(r, 0) == ']')
            break;
        result = expect(r, ",", "separate elements with ',' and end the array with ']'");
        if (result < 0)
            return result;
    }
    toml_skip(r, 1);
    return 0;
}

static int read_inline_table(struct toml_reader *r, struct toml_value *v) {
    v->type = TOML_TABLE;
    toml_skip(r, 1);
    skip_space(r);
    while (toml_peek(r, 0) != '}' || v->count > 0) {
        int result = read_pair(r, v);
        if (result < 0)
            return result;
        skip_space(r);
        if (toml_peek(r, 0) == '}')
            break;
        result = expect(r, ",", "separate pairs with ',' and end the table with '}' on its line");
        if (result < 0)
            return result;
    }
    toml_skip(r, 1);
    return 0;
}

static int read_value(struct toml_reader *r, struct toml_value *v) {
    v->line = r->place.line;
    v->column = r->place.column;
    switch (toml_peek(r, 0)) {
    case '"':
    case '\'':
        return toml_read_string(r, v);
    case '[':
        return read_array(r, v);
    case '{':
        return read_inline_table(r, v);
    default:
        return toml_read_plain(r, v);
    }
}

/* ---- the document ---- */

static int read_header(struct toml_reader *r, struct toml_value **table) {
    _cleanup_(key_free) struct toml_key key = {.text = BUF_INIT(r->len)};
    bool element = toml_at(r, "[[");
    toml_skip(r, element ? 2 : 1);
    *table = r->root;
    int result = read_path(r, toml_enter_header, table, &key);
    if (result == 0)
        result = expect(r, element ? "]]" : "]", "write headers as [name] or [[name]]");
    if (result < 0)
        return result;
    return element ? toml_append_table(r, table, &key) : toml_define_table(r, table, &key);
}

static int read_document(struct toml_reader *r) {
    struct toml_value *table = r->root;
    for (;;) {
        skip_blank(r);
        int c = toml_peek(r, 0);
        if (c < 0)
            return 0;
        int result = c == '[' ? read_header(r, &table) : read_pair(r, table);
        if (result == 0)
            result = end_line(r);
        if (result < 0)
            return result;
    }
}

int toml_parse(const char *name, const char *text, size_t len, struct toml_value **ret,
               struct cay_error *err) {
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct toml_reader r = {.name = name, .text = text, .len = len, .place = {1, 1}, .err = err};
    struct toml_value *root;
    int result = check_text(&r);
    if (result == 0)
        result = toml_add(&r, NULL, NULL, TOML_TABLE, &root);
    if (result < 0)
        return result;
    if (toml_at(&r, byte_order_mark))
        r.at = strlen(byte_order_mark);
    result = read_document(&r);
    if (result < 0)
        toml_free(root);
    else
        *ret = root;
    return result;
}
