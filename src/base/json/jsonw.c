#include "base/json/jsonw.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/str.h"

static uint64_t bit(unsigned depth) {
    return UINT64_C(1) << (depth - 1);
}

/* Checks that a value may come here and writes the comma before it. */
static bool begin_value(struct jsonw *w) {
    if (w->failed || w->done)
        w->failed = true;
    else if (w->depth > 0 && (w->objects & bit(w->depth)) != 0 && !w->after_key)
        w->failed = true;
    if (w->failed)
        return false;
    if (w->depth == 0) {
        w->done = true;
    } else if (!w->after_key) {
        if ((w->filled & bit(w->depth)) != 0)
            (void)buf_putc(w->out, ',');
        w->filled |= bit(w->depth);
    }
    w->after_key = false;
    return true;
}

/* ---- structure ---- */

static void begin(struct jsonw *w, bool object) {
    if (!begin_value(w))
        return;
    if (w->depth == JSONW_DEPTH_MAX) {
        w->failed = true;
        return;
    }
    w->depth++;
    w->objects = object ? w->objects | bit(w->depth) : w->objects & ~bit(w->depth);
    w->filled &= ~bit(w->depth);
    w->done = false;
    (void)buf_putc(w->out, object ? '{' : '[');
}

static void end(struct jsonw *w, bool object) {
    if (w->depth == 0 || w->after_key || ((w->objects & bit(w->depth)) != 0) != object)
        w->failed = true;
    if (w->failed)
        return;
    w->depth--;
    w->done = w->depth == 0;
    (void)buf_putc(w->out, object ? '}' : ']');
}

void jsonw_begin_object(struct jsonw *w) {
    begin(w, true);
}

void jsonw_end_object(struct jsonw *w) {
    end(w, true);
}

void jsonw_begin_array(struct jsonw *w) {
    begin(w, false);
}

void jsonw_end_array(struct jsonw *w) {
    end(w, false);
}

/* ---- strings ---- */

/* By hand: a megabyte of short lines has half a million of these. */
static void put_escape(struct buf *b, unsigned char c) {
    static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                   ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    static const char digits[] = "0123456789abcdef";
    if (letters[c] != '\0')
        (void)buf_append(b, (char[]){'\\', letters[c]}, 2);
    else
        (void)buf_append(b, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

/* Length of the run at p that can be copied as it is. */
static size_t plain_run(const char *p, size_t len) {
    size_t i = 0;
    while (i < len) {
        unsigned char c = (unsigned char)p[i];
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        size_t n = c < 0x80 ? 1 : str_utf8_length(p + i, len - i);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

static void put_string(struct buf *b, const char *data, size_t len) {
    (void)buf_putc(b, '"');
    for (size_t i = 0; i < len && !b->failed;) {
        size_t run = plain_run(data + i, len - i);
        (void)buf_append(b, data + i, run);
        i += run;
        if (i == len)
            break;
        unsigned char c = (unsigned char)data[i++];
        if (c < 0x80)
            put_escape(b, c);
        else
            (void)buf_puts(b, "\xef\xbf\xbd");
    }
    (void)buf_putc(b, '"');
}

static void put_key(struct jsonw *w, const char *key, size_t len) {
    if (w->depth == 0 || (w->objects & bit(w->depth)) == 0 || w->after_key)
        w->failed = true;
    if (w->failed)
        return;
    if ((w->filled & bit(w->depth)) != 0)
        (void)buf_putc(w->out, ',');
    w->filled |= bit(w->depth);
    put_string(w->out, key, len);
    (void)buf_putc(w->out, ':');
    w->after_key = true;
}

void jsonw_key(struct jsonw *w, const char *key) {
    put_key(w, key, strlen(key));
}

/* ---- values ---- */

void jsonw_bytes(struct jsonw *w, const char *data, size_t len) {
    if (begin_value(w))
        put_string(w->out, data, len);
}

void jsonw_object(struct jsonw *w, const char *text, size_t len) {
    if (!json_is_plain_object(text, len))
        jsonw_null(w);
    else if (begin_value(w))
        (void)buf_append(w->out, text, len);
}

static void put_base64(struct buf *b, const unsigned char *data, size_t len) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len && !b->failed; i += 3) {
        size_t left = len - i;
        uint32_t v = (uint32_t)data[i] << 16;
        v |= left > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        v |= left > 2 ? data[i + 2] : 0;
        char four[] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                       left > 2 ? digits[v & 63] : '='};
        (void)buf_append(b, four, sizeof four); /* failures are sticky */
    }
}

void jsonw_base64(struct jsonw *w, const void *data, size_t len) {
    if (!begin_value(w))
        return;
    (void)buf_putc(w->out, '"');
    put_base64(w->out, data, len);
    (void)buf_putc(w->out, '"');
}

void jsonw_string(struct jsonw *w, const char *text) {
    if (text == NULL)
        jsonw_null(w);
    else
        jsonw_bytes(w, text, strlen(text));
}

void jsonw_integer(struct jsonw *w, int64_t value) {
    if (begin_value(w))
        (void)buf_printf(w->out, "%" PRId64, value);
}

void jsonw_unsigned(struct jsonw *w, uint64_t value) {
    if (begin_value(w))
        (void)buf_printf(w->out, "%" PRIu64, value);
}

/* The shortest of the three precisions that reads back as the same value. */
static void format_double(double value, char out[static 32]) {
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(out, 32, "%.*g", precision, value);
        if (strtod(out, NULL) == value)
            break;
    }
    char *comma = strchr(out, ','); /* the locale's idea of a point */
    if (comma != NULL)
        *comma = '.';
}

void jsonw_number(struct jsonw *w, double value) {
    if (!isfinite(value)) {
        w->failed = true;
        return;
    }
    char text[32];
    format_double(value, text);
    /* "-0" would read as the integer 0 */
    if (begin_value(w))
        (void)buf_puts(w->out, value == 0 && signbit(value) != 0 ? "-0.0" : text);
}

void jsonw_bool(struct jsonw *w, bool value) {
    if (begin_value(w))
        (void)buf_puts(w->out, value ? "true" : "false");
}

void jsonw_null(struct jsonw *w) {
    if (begin_value(w))
        (void)buf_puts(w->out, "null");
}

/* ---- pairs ---- */

void jsonw_put_string(struct jsonw *w, const char *key, const char *text) {
    jsonw_key(w, key);
    jsonw_string(w, text);
}

void jsonw_put_integer(struct jsonw *w, const char *key, int64_t value) {
    jsonw_key(w, key);
    jsonw_integer(w, value);
}

void jsonw_put_unsigned(struct jsonw *w, const char *key, uint64_t value) {
    jsonw_key(w, key);
    jsonw_unsigned(w, value);
}

void jsonw_put_number(struct jsonw *w, const char *key, double value) {
    jsonw_key(w, key);
    jsonw_number(w, value);
}

void jsonw_put_bool(struct jsonw *w, const char *key, bool value) {
    jsonw_key(w, key);
    jsonw_bool(w, value);
}

void jsonw_put_optional(struct jsonw *w, const char *key, const char *text) {
    jsonw_put_string(w, key, text[0] != '\0' ? text : NULL);
}

void jsonw_put_time(struct jsonw *w, const char *key, int64_t wall_ms) {
    char text[32];
    jsonw_put_string(w, key, clock_iso8601(wall_ms, text));
}

void jsonw_put_optional_time(struct jsonw *w, const char *key, int64_t wall_ms) {
    char text[32];
    jsonw_put_string(w, key, wall_ms != 0 ? clock_iso8601(wall_ms, text) : NULL);
}

void jsonw_put_strings(struct jsonw *w, const char *key, const struct strv *texts) {
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < texts->len; i++)
        jsonw_string(w, texts->v[i]);
    jsonw_end_array(w);
}

void jsonw_put_pairs(struct jsonw *w, const char *key, const struct strv *pairs) {
    jsonw_key(w, key);
    jsonw_begin_object(w);
    for (size_t i = 0; i < pairs->len; i++) {
        const char *equals = strchrnul(pairs->v[i], '=');
        put_key(w, pairs->v[i], (size_t)(equals - pairs->v[i]));
        jsonw_string(w, *equals == '=' ? equals + 1 : "");
    }
    jsonw_end_object(w);
}

static void write_row(struct jsonw *w, jsonw_members_fn *members, const void *row) {
    jsonw_begin_object(w);
    members(w, row);
    jsonw_end_object(w);
}

void jsonw_write_object(struct buf *out, jsonw_members_fn *members, const void *row) {
    struct jsonw w = JSONW_INIT(out);
    write_row(&w, members, row);
    (void)buf_putc(out, '\n');
}

void jsonw_write_array(struct buf *out, jsonw_members_fn *members, const void *rows, size_t count,
                       size_t row_size) {
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        write_row(&w, members, (const char *)rows + i * row_size);
    jsonw_end_array(&w);
    (void)buf_putc(out, '\n');
}

int jsonw_finish(const struct jsonw *w) {
    if (w->out->failed)
        return -ENOBUFS;
    return w->failed || !w->done ? -EINVAL : 0;
}
