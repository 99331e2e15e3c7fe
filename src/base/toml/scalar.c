#include "base/toml/reader.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/str.h"

/* ---- strings ---- */

static void put_utf8(struct buf *out, uint32_t c) {
    char b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else if (c < 0x800) {
        b[n++] = (char)(0xc0 | (c >> 6));
    } else if (c < 0x10000) {
        b[n++] = (char)(0xe0 | (c >> 12));
        b[n++] = (char)(0x80 | ((c >> 6) & 0x3f));
    } else {
        b[n++] = (char)(0xf0 | (c >> 18));
        b[n++] = (char)(0x80 | ((c >> 12) & 0x3f));
        b[n++] = (char)(0x80 | ((c >> 6) & 0x3f));
    }
    if (c >= 0x80)
        b[n++] = (char)(0x80 | (c & 0x3f));
    (void)buf_append(out, b, n); /* failures are sticky */
}

/* \uXXXX or \UXXXXXXXX, standing at the backslash. */
static int read_code_point(struct toml_reader *r, size_t digits, struct buf *out) {
    uint32_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        int c = toml_peek(r, 2 + i);
        if (c < 0 || !isxdigit(c))
            return toml_fail(r, r->place, NULL, "a \\%c escape needs %zu hexadecimal digits",
                             toml_peek(r, 1), digits);
        v = v << 4 | (uint32_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    if (v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return toml_fail(r, r->place, "use U+0000 to U+D7FF or U+E000 to U+10FFFF",
                         "U+%04X is not a character", (unsigned)v);
    put_utf8(out, v);
    toml_skip(r, 2 + digits);
    return 0;
}

static int read_escape(struct toml_reader *r, struct buf *out) {
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    int c = toml_peek(r, 1);
    if (c == 'u' || c == 'U')
        return read_code_point(r, c == 'u' ? 4 : 8, out);
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (at == NULL)
        return toml_fail(
            r, r->place,
            "use \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX \\UXXXXXXXX, or 'single quotes'",
            "unknown escape in a string");
    (void)buf_putc(out, to[at - from]);
    toml_skip(r, 2);
    return 0;
}

int toml_read_line_string(struct toml_reader *r, struct buf *out) {
    int quote = toml_peek(r, 0);
    toml_skip(r, 1);
    for (;;) {
        int c = toml_peek(r, 0);
        if (c < 0 || c == '\n' || c == '\r')
            return toml_fail(r, r->place, "close it, or use three quotes for several lines",
                             "the string has no closing %c", quote);
        if (c == '\\' && quote == '"') {
            int result = read_escape(r, out);
            if (result < 0)
                return result;
            continue;
        }
        toml_skip(r, 1);
        if (c == quote)
            return 0;
        (void)buf_putc(out, (char)c);
    }
}

static void skip_newline(struct toml_reader *r) {
    if (toml_peek(r, 0) == '\r')
        toml_skip(r, 1);
    if (toml_peek(r, 0) == '\n')
        toml_skip(r, 1);
}

/* A backslash at the end of a line swallows all space up to the next character. */
static bool skip_line_join(struct toml_reader *r) {
    size_t n = 1;
    while (toml_peek(r, n) == ' ' || toml_peek(r, n) == '\t')
        n++;
    if (toml_peek(r, n) != '\n' && toml_peek(r, n) != '\r')
        return false;
    toml_skip(r, n);
    for (int c = toml_peek(r, 0); c > 0 && strchr(" \t\r\n", c) != NULL; c = toml_peek(r, 0))
        toml_skip(r, 1);
    return true;
}

/* Quotes inside a multi-line string: true if they end it. One or two may stand before the end. */
static bool read_quotes(struct toml_reader *r, int quote, struct buf *out) {
    size_t n = 0;
    while (n < 5 && toml_peek(r, n) == quote)
        n++;
    (void)buf_append(out, r->text + r->at, n >= 3 ? n - 3 : n);
    toml_skip(r, n);
    return n >= 3;
}

static int read_multi_line(struct toml_reader *r, struct buf *out) {
    int quote = toml_peek(r, 0);
    unsigned line = r->place.line;
    toml_skip(r, 3);
    skip_newline(r);
    for (;;) {
        int c = toml_peek(r, 0), result = 0;
        if (c < 0)
            return toml_fail(r, r->place, "close it with three quotes",
                             "the string of line %u has no end", line);
        if (c == quote) {
            if (read_quotes(r, quote, out))
                return 0;
        } else if (c == '\\' && quote == '"') {
            if (!skip_line_join(r))
                result = read_escape(r, out);
        } else {
            if (c != '\r') /* a line ends with LF, however the file was saved */
                (void)buf_putc(out, (char)c);
            toml_skip(r, 1);
        }
        if (result < 0)
            return result;
    }
}

/* Moves the text into v. */
static int take_text(struct toml_reader *r, struct buf *b, struct toml_value *v) {
    size_t len = b->len;
    v->text = buf_take(b);
    if (v->text == NULL)
        return toml_fail_memory(r);
    v->text_len = len;
    return 0;
}

int toml_read_string(struct toml_reader *r, struct toml_value *v) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(r->len);
    v->type = TOML_STRING;
    bool multi = toml_at(r, "\"\"\"") || toml_at(r, "'''");
    int result = multi ? read_multi_line(r, &b) : toml_read_line_string(r, &b);
    return result < 0 ? result : take_text(r, &b, v);
}

/* ---- numbers ---- */

static bool is_digit_of(int base, char c) {
    if (base == 16)
        return isxdigit((unsigned char)c) != 0;
    return c >= '0' && c < '0' + base;
}

/* Removes the underscores; each must stand between two digits. */
static bool strip_underscores(char *token, int base) {
    char *to = token;
    for (const char *p = token; *p != '\0'; p++) {
        if (*p != '_')
            *to++ = *p;
        else if (p == token || !is_digit_of(base, p[-1]) || !is_digit_of(base, p[1]))
            return false;
    }
    *to = '\0';
    return true;
}

static int based_number(const char *token) {
    if (token[0] != '0')
        return 10;
    return token[1] == 'x' ? 16 : token[1] == 'o' ? 8 : token[1] == 'b' ? 2 : 10;
}

static size_t count_digits(const char *p, int base) {
    size_t n = 0;
    while (is_digit_of(base, p[n]))
        n++;
    return n;
}

/* Length of a sign and a decimal without leading zeros, 0 if there is none. */
static size_t decimal_length(const char *token) {
    size_t sign = token[0] == '+' || token[0] == '-';
    size_t digits = count_digits(token + sign, 10);
    if (digits == 0 || (digits > 1 && token[sign] == '0'))
        return 0;
    return sign + digits;
}

static bool is_float(const char *token) {
    const char *p = token + decimal_length(token);
    if (p == token || *p == '\0')
        return false;
    if (*p == '.') {
        size_t digits = count_digits(++p, 10);
        if (digits == 0)
            return false;
        p += digits;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        size_t digits = count_digits(p, 10);
        if (digits == 0)
            return false;
        p += digits;
    }
    return *p == '\0';
}

/* The decimal point of the program's locale must not matter. */
static int to_double(const char *token, double *ret) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return -ENOMEM;
    *ret = strtod_l(token, NULL, c);
    freelocale(c);
    return 0;
}

static bool read_special(const char *token, struct toml_value *v) {
    bool negative = token[0] == '-';
    const char *word = token + (negative || token[0] == '+');
    if (!str_equal(word, "inf") && !str_equal(word, "nan"))
        return false;
    double n = word[0] == 'i' ? (double)INFINITY : (double)NAN;
    v->type = TOML_FLOAT;
    v->number = negative ? -n : n;
    return true;
}

/* 1 if the token is an integer, 0 if not, -ERANGE if it does not fit. */
static int read_integer(const char *token, int base, struct toml_value *v) {
    const char *digits = token + (base == 10 ? 0 : 2);
    size_t len = base == 10 ? decimal_length(token) : count_digits(digits, base);
    if (len == 0 || digits[len] != '\0')
        return 0;
    errno = 0;
    v->type = TOML_INTEGER;
    v->integer = strtoll(digits, NULL, base);
    return errno == ERANGE ? -ERANGE : 1;
}

/* As read_integer, for all numbers. */
static int read_number(char *token, struct toml_value *v) {
    if (read_special(token, v))
        return 1;
    int base = based_number(token);
    if (!strip_underscores(token, base))
        return 0;
    if (base != 10 || !is_float(token))
        return read_integer(token, base, v);
    v->type = TOML_FLOAT;
    int result = to_double(token, &v->number);
    return result < 0 ? result : 1;
}

/* ---- plain values ---- */

static bool is_plain(int c) {
    return c > 0 && c < 0x80 && (isalnum(c) || strchr("_+-.:", c) != NULL);
}

/* A date may be followed by one space and a time. */
static bool joins_time(const struct toml_reader *r, size_t len) {
    int next = toml_peek(r, len + 1);
    return len == 10 && toml_peek(r, 4) == '-' && toml_peek(r, 7) == '-' &&
           toml_peek(r, len) == ' ' && next > 0 && isdigit(next);
}

static size_t plain_length(const struct toml_reader *r) {
    size_t len = 0;
    while (is_plain(toml_peek(r, len)))
        len++;
    if (joins_time(r, len))
        for (len++; is_plain(toml_peek(r, len));)
            len++;
    return len;
}

/* What the token is, into v: 1, or 0 if it is nothing, or -errno. */
static int classify(char *token, struct toml_value *v) {
    if (str_equal(token, "true") || str_equal(token, "false")) {
        v->type = TOML_BOOL;
        v->boolean = token[0] == 't';
        return 1;
    }
    int result = toml_check_time(token, &v->type);
    return result != 0 ? result : read_number(token, v);
}

static int fail_plain(struct toml_reader *r, const char *token, int why) {
    char shown[80];
    if (why == -ENOMEM)
        return toml_fail_memory(r);
    str_escape(shown, sizeof shown, token);
    if (why == -EINVAL)
        return toml_fail(r, r->place, "write 1979-05-27, 07:32:00 or 1979-05-27T07:32:00Z",
                         "'%s' is not a valid date or time", shown);
    if (why == -ERANGE)
        return toml_fail(r, r->place, "use a number of at most 64 bits", "'%s' is too large",
                         shown);
    return toml_fail(r, r->place, "put text in quotes", "'%s' is not a value", shown);
}

int toml_read_plain(struct toml_reader *r, struct toml_value *v) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(r->len);
    size_t len = plain_length(r);
    char shown[24];
    if (len == 0)
        return toml_fail(r, r->place, "put text in quotes", "expected a value, found %s",
                         toml_show(r, shown));
    if (buf_append(&b, r->text + r->at, len) < 0)
        return toml_fail_memory(r);
    int result = classify(b.data, v);
    if (result <= 0)
        return fail_plain(r, b.data, result);
    toml_skip(r, len);
    if (v->type == TOML_BOOL)
        return 0;
    b.len = strlen(b.data); /* underscores were removed */
    return take_text(r, &b, v);
}
