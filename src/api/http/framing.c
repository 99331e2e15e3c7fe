#include "api/http/framing.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/str.h"

enum { DIGITS_MAX = 15 }; /* as many as the library takes */

/* ---- heads ---- */

/* The value of a line "NAME: VALUE" if it has this name, without blanks around it; else NULL. */
static const char *value_of(struct framing *f, const char *name) {
    size_t len = strlen(name), end = MIN(f->line_len, sizeof f->line - 1);
    while (end > 0 && strchr(" \t\r", f->line[end - 1]) != NULL)
        end--;
    f->line[end] = '\0';
    if (end <= len || strncasecmp(f->line, name, len) != 0 || f->line[len] != ':')
        return NULL;
    return f->line + len + 1 + strspn(f->line + len + 1, " \t");
}

/* False if a field that counts is too long to be read. */
static bool read_field(struct framing *f) {
    if (value_of(f, "Transfer-Encoding") != NULL) {
        f->is_chunked = true; /* head.h refuses all other values */
        return true;
    }
    const char *value = value_of(f, "Content-Length");
    if (value != NULL && str_to_u64(value, UINT64_MAX, &f->left) < 0)
        f->left = 0; /* the library refuses it */
    return value == NULL || f->line_len < sizeof f->line;
}

static void end_head(struct framing *f) {
    f->has_line = false;
    f->used = f->digits = 0;
    if (f->is_chunked)
        f->left = 0;
    f->state = f->is_chunked ? FRAMING_SIZE : f->left > 0 ? FRAMING_BODY : FRAMING_HEAD;
    f->is_chunked = false;
}

static bool take_head(struct framing *f, char c) {
    if (c != '\n') {
        if (f->line_len < sizeof f->line - 1)
            f->line[f->line_len] = c;
        f->line_len++;
        return true;
    }
    bool is_empty = f->line_len == 0 || (f->line_len == 1 && f->line[0] == '\r');
    bool is_right = is_empty || read_field(f);
    f->line_len = 0;
    if (is_empty && f->has_line)
        end_head(f);
    else
        f->has_line |= !is_empty; /* empty lines before a request are ignored */
    return is_right;
}

/* ---- chunks ---- */

/* Each returns false if the byte is wrong. */

static bool go(struct framing *f, enum framing_state next, bool is_right) {
    f->state = next;
    return is_right;
}

static bool take_size(struct framing *f, char c) {
    int digit = str_hex_digit(c);
    if (digit >= 0) {
        f->left = f->left << 4 | (uint64_t)digit;
        return ++f->digits <= DIGITS_MAX;
    }
    if (f->digits == 0)
        return false;
    if (c == ';')
        return go(f, FRAMING_EXTENSION, true);
    return go(f, FRAMING_SIZE_LF, c == '\r');
}

static bool is_text(char c) {
    return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

static bool take_extension(struct framing *f, char c) {
    if (c == '\r')
        return go(f, FRAMING_SIZE_LF, true);
    return is_text(c) && ++f->used <= FRAMING_LINE_MAX;
}

static bool end_size(struct framing *f, char c) {
    f->used = f->digits = 0;
    return go(f, f->left > 0 ? FRAMING_DATA : FRAMING_TRAILER, c == '\n');
}

static bool take_trailer(struct framing *f, char c) {
    if (f->state == FRAMING_TRAILER && c == '\r')
        return go(f, FRAMING_TRAILER_LF, true);
    if (c == '\r')
        return go(f, FRAMING_FIELD_LF, true);
    f->state = FRAMING_FIELD;
    return is_text(c) && ++f->used <= FRAMING_TRAILER_MAX;
}

static bool take_byte(struct framing *f, char c) {
    switch (f->state) {
    case FRAMING_SIZE:
        return take_size(f, c);
    case FRAMING_EXTENSION:
        return take_extension(f, c);
    case FRAMING_SIZE_LF:
        return end_size(f, c);
    case FRAMING_DATA_CR:
        return go(f, FRAMING_DATA_LF, c == '\r');
    case FRAMING_DATA_LF:
        return go(f, FRAMING_SIZE, c == '\n');
    case FRAMING_TRAILER:
    case FRAMING_FIELD:
        return take_trailer(f, c);
    case FRAMING_FIELD_LF:
        return go(f, FRAMING_TRAILER, c == '\n');
    case FRAMING_TRAILER_LF:
        f->used = 0;
        return go(f, FRAMING_HEAD, c == '\n');
    case FRAMING_HEAD:
    case FRAMING_BODY:
    case FRAMING_DATA:
        break;
    }
    return take_head(f, c);
}

/* Content is not looked at. */
static size_t skip(struct framing *f, size_t len) {
    size_t n = (size_t)MIN((uint64_t)len, f->left);
    f->left -= n;
    if (f->left == 0)
        f->state = f->state == FRAMING_BODY ? FRAMING_HEAD : FRAMING_DATA_CR;
    return n;
}

size_t framing_take(struct framing *f, const char *data, size_t len) {
    size_t at = 0;
    if (f->is_bad)
        return 0;
    while (at < len && !f->is_off) {
        if (f->state == FRAMING_BODY || f->state == FRAMING_DATA) {
            at += skip(f, len - at);
            continue;
        }
        if (!take_byte(f, data[at])) {
            f->is_bad = true;
            return at;
        }
        at++;
    }
    return len;
}
