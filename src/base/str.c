#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"

int str_format(char *dst, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(dst, size, fmt, ap);
    va_end(ap);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int str_copy(char *dst, size_t size, const char *text) {
    size_t len = strlen(text);
    if (len >= size)
        return -ENAMETOOLONG;
    memcpy(dst, text, len + 1);
    return 0;
}

bool str_equal(const char *a, const char *b) {
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a, b) == 0;
}

bool str_starts(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix) {
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

int str_to_i64(const char *text, int64_t min, int64_t max, int64_t *ret) {
    if (!isdigit((unsigned char)text[0]) && text[0] != '-')
        return -EINVAL;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return -EINVAL;
    if (errno == ERANGE || v < min || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

int str_to_u64(const char *text, uint64_t max, uint64_t *ret) {
    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end != '\0')
        return -EINVAL;
    if (errno == ERANGE || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

/* A decimal number without exponent, hex, inf or nan; *ret_end is what follows it. */
static int parse_decimal(const char *text, double *ret, const char **ret_end) {
    const char *p = text;
    double v = 0, scale = 1;
    bool digits = false;
    bool negative = *p == '-';
    if (negative)
        p++;
    for (; isdigit((unsigned char)*p); p++, digits = true)
        v = v * 10 + (*p - '0');
    if (*p == '.')
        for (p++; isdigit((unsigned char)*p); p++, digits = true)
            if (scale < 1e15) { /* later digits are beyond what a double holds */
                v = v * 10 + (*p - '0');
                scale *= 10;
            }
    if (!digits || !isfinite(v))
        return -EINVAL;
    v /= scale; /* one rounding, so that "0.3" is 0.3 */
    *ret = negative ? -v : v;
    *ret_end = p;
    return 0;
}

int str_to_double(const char *text, double *ret) {
    const char *end;
    double v;
    if (parse_decimal(text, &v, &end) < 0 || *end != '\0')
        return -EINVAL;
    *ret = v;
    return 0;
}

static int size_unit(const char *unit, uint64_t *ret) {
    static const char letters[] = "kmgt";
    if (unit[0] == '\0' || strcasecmp(unit, "b") == 0) {
        *ret = 1;
        return 0;
    }
    const char *at = strchr(letters, tolower((unsigned char)unit[0]));
    if (at == NULL || *at == '\0')
        return -EINVAL;
    const char *rest = unit + 1;
    if (*rest != '\0' && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0)
        return -EINVAL;
    *ret = UINT64_C(1) << (10 * (at - letters + 1));
    return 0;
}

/* The text comes from outside and may go to a terminal. */
static int refuse(const char *what, const char *text, const char *why, const char *remedy,
                  struct cay_error *err) {
    char shown[80];
    int r = error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' %s", what,
                      str_escape(shown, sizeof shown, text), why);
    (void)error_remedy(err, "%s", remedy);
    return r;
}

int str_to_size(const char *what, const char *text, uint64_t *ret_bytes, struct cay_error *err) {
    static const char remedy[] = "use a number with k, m, g or t, such as 512m";
    const char *end;
    double v;
    uint64_t unit;
    if (parse_decimal(text, &v, &end) < 0 || size_unit(end, &unit) < 0)
        return refuse(what, text, "is not a size", remedy, err);
    if (v <= 0)
        return refuse(what, text, "must be more than zero", remedy, err);
    double bytes = v * (double)unit;
    if (bytes >= 9.2e18)
        return refuse(what, text, "is too large", remedy, err);
    *ret_bytes = MAX((uint64_t)bytes, UINT64_C(1));
    return 0;
}

static int duration_unit(const char *unit, double *ret_ms) {
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"", 1000},       {"ms", 1},          {"s", 1000},
                 {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 86400.0 * 1000}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(unit, units[i].name) != 0)
            continue;
        *ret_ms = units[i].ms;
        return 0;
    }
    return -EINVAL;
}

int str_to_duration(const char *what, const char *text, int64_t *ret_ms, struct cay_error *err) {
    static const char remedy[] = "use a number with ms, s, m, h or d, such as 30s";
    const char *end;
    double v, unit;
    if (parse_decimal(text, &v, &end) < 0 || duration_unit(end, &unit) < 0)
        return refuse(what, text, "is not a duration", remedy, err);
    if (v < 0)
        return refuse(what, text, "must not be negative", remedy, err);
    double ms = v * unit;
    if (ms > 1e15)
        return refuse(what, text, "is too long", remedy, err);
    *ret_ms = (int64_t)(ms + 0.5);
    return 0;
}

const char *str_bytes(uint64_t bytes, char out[static 32]) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024 && u + 1 < ARRAY_LEN(units)) {
        v /= 1024;
        u++;
    }
    (void)snprintf(out, 32, u == 0 ? "%.0f %s" : "%.1f %s", v, units[u]);
    return out;
}

size_t str_utf8_length(const char *data, size_t len) {
    const unsigned char *p = (const unsigned char *)data;
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || p[0] > 0xf4 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool str_is_utf8(const char *data, size_t len) {
    for (size_t i = 0; i < len;) {
        size_t n = str_utf8_length(data + i, len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

size_t str_printable_length(const char *data, size_t len) {
    const unsigned char *p = (const unsigned char *)data;
    size_t n = str_utf8_length(data, len);
    if (n == 1 && (p[0] < 0x20 || p[0] == 0x7f))
        return 0;
    return n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : n; /* C1 controls drive terminals too */
}

const char *str_escape(char *dst, size_t size, const char *text) {
    size_t left = strlen(text), out = 0;
    while (left > 0) {
        size_t n = str_printable_length(text, left);
        size_t take = MAX(n, (size_t)1);
        if (out + (n > 0 ? n : 4) >= size)
            break;
        if (n > 0)
            memcpy(dst + out, text, n);
        else
            (void)snprintf(dst + out, size - out, "\\x%02x", (unsigned char)*text);
        out += n > 0 ? n : 4;
        text += take;
        left -= take;
    }
    dst[out] = '\0';
    return dst;
}

size_t str_distance(const char *a, const char *b) {
    enum { LIMIT = 32 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LIMIT || m > LIMIT)
        return LIMIT;
    size_t rows[3][LIMIT + 1]; /* this one, the one before, and the one before that */
    size_t *row = rows[0], *above = rows[1], *before = rows[2];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = MIN(MIN(row[j - 1], above[j]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = MIN(row[j], before[j - 2] + 1);
        }
    }
    return row[m];
}

const char *str_nearest(const char *text, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t best_distance = strlen(text) <= 5 ? 2 : 3; /* nearer than this is a likely typo */
    for (size_t i = 0; i < count; i++) {
        size_t d = str_distance(text, candidates[i]);
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}

int strv_push(struct strv *s, const char *text) {
    char **v = realloc(s->v, (s->len + 2) * sizeof *v);
    if (v == NULL)
        return -ENOMEM;
    s->v = v;
    s->v[s->len] = strdup(text);
    if (s->v[s->len] == NULL)
        return -ENOMEM;
    s->v[++s->len] = NULL;
    return 0;
}

int strv_pushf(struct strv *s, const char *fmt, ...) {
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -ENOMEM;
    int r = strv_push(s, text);
    free(text);
    return r;
}

void strv_free(struct strv *s) {
    for (size_t i = 0; i < s->len; i++)
        free(s->v[i]);
    free(s->v);
    *s = (struct strv){0};
}

void strv_drop(struct strv *s, const char *text) {
    for (size_t i = 0; i < s->len; i++) {
        if (strcmp(s->v[i], text) != 0)
            continue;
        free(s->v[i]);
        memmove(s->v + i, s->v + i + 1, (s->len - i) * sizeof *s->v); /* with the NULL behind */
        s->len--;
        return;
    }
}

bool strv_has(const struct strv *s, const char *text) {
    for (size_t i = 0; i < s->len; i++)
        if (str_equal(s->v[i], text))
            return true;
    return false;
}

int str_hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
