#include "api/http/target.h"

#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

static bool is_text(const char *text) {
    size_t left = strlen(text), len;
    for (; left > 0; text += len, left -= len) {
        len = str_printable_length(text, left);
        if (len == 0)
            return false;
    }
    return true;
}

enum place { IN_PATH, IN_KEY, IN_VALUE };

/* In place: what is decoded is never longer. Values may be any UTF-8: names of files are. */
static int decode(char *text, enum place place, struct cay_error *err) {
    char *out = text;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '%') {
            *out++ = place != IN_PATH && *p == '+' ? ' ' : *p;
            continue;
        }
        int high = str_hex_digit(p[1]), low = high < 0 ? -1 : str_hex_digit(p[2]);
        if (low < 0)
            return error_set(err, CAY_INVALID_ARGUMENT,
                             "the path has a '%%' that two hex digits do not follow");
        if ((high | low) == 0)
            return error_set(err, CAY_INVALID_ARGUMENT, "the path has a zero byte");
        *out++ = (char)(high << 4 | low);
        p += 2;
    }
    *out = '\0';
    if (place == IN_VALUE && str_is_utf8(text, strlen(text)))
        return 0;
    return is_text(text) ? 0
                         : error_set(err, CAY_INVALID_ARGUMENT,
                                     "the path has a control character, or is no UTF-8");
}

static int parse_segments(char *path, struct target *ret, struct cay_error *err) {
    while (path != NULL && *path != '\0') {
        char *slash = strchr(path, '/');
        if (slash != NULL)
            *slash = '\0';
        if (*path == '\0')
            return error_set(err, CAY_INVALID_ARGUMENT, "the path has an empty part");
        if (ret->segments == TARGET_SEGMENTS_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "the path has more than %d parts",
                             TARGET_SEGMENTS_MAX);
        int r = decode(path, IN_PATH, err);
        if (r < 0)
            return r;
        ret->segment[ret->segments++] = path;
        path = slash == NULL ? NULL : slash + 1;
    }
    return 0;
}

static int parse_query(char *pair, struct target *ret, struct cay_error *err) {
    static char none[] = "";
    if (*pair == '\0')
        return 0;
    if (ret->queries == TARGET_QUERIES_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "more than %d query parameters",
                         TARGET_QUERIES_MAX);
    char *value = strchr(pair, '=');
    if (value == NULL)
        value = none;
    else
        *value++ = '\0';
    int r = decode(pair, IN_KEY, err);
    if (r == 0 && value != none)
        r = decode(value, IN_VALUE, err);
    if (r == 0)
        ret->query[ret->queries++] = (struct target_query){pair, value};
    return r;
}

static int parse_queries(char *text, struct target *ret, struct cay_error *err) {
    int r = 0;
    while (r == 0 && text != NULL) {
        char *end = strchr(text, '&');
        if (end != NULL)
            *end = '\0';
        r = parse_query(text, ret, err);
        text = end == NULL ? NULL : end + 1;
    }
    return r;
}

static int parse(const char *uri, struct target *ret, struct cay_error *err) {
    if (uri[0] != '/')
        return error_set(err, CAY_INVALID_ARGUMENT, "the path does not begin with '/'");
    if (str_copy(ret->text, sizeof ret->text, uri) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the path is longer than %d bytes",
                         TARGET_SIZE - 1);
    char *query = strchr(ret->text, '?');
    if (query != NULL)
        *query++ = '\0';
    int r = parse_segments(ret->text + 1, ret, err);
    return r < 0 ? r : parse_queries(query, ret, err);
}

int target_parse(const char *uri, struct target *ret, struct cay_error *err) {
    ret->segments = ret->queries = 0;
    int r = parse(uri, ret, err);
    if (r < 0)
        (void)error_remedy(err, "correct the path of the request; docs/api.md lists them");
    return r;
}

const char *target_query(const struct target *t, const char *key) {
    for (size_t i = 0; i < t->queries; i++)
        if (strcmp(t->query[i].key, key) == 0)
            return t->query[i].value;
    return NULL;
}

int target_flag(const struct target *t, const char *key, bool *ret, struct cay_error *err) {
    const char *value = target_query(t, key);
    *ret = value != NULL && (str_equal(value, "true") || str_equal(value, "1") || *value == '\0');
    if (*ret || value == NULL || str_equal(value, "false") || str_equal(value, "0"))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.40s' is neither true nor false", key, value);
    return error_remedy(err, "use %s=true or %s=false", key, key);
}

void target_encode(struct buf *out, const char *text) {
    for (const char *p = text; *p != '\0'; p++) {
        bool is_word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                       (*p >= '0' && *p <= '9') || strchr("-._~", *p) != NULL;
        if (is_word)
            (void)buf_putc(out, *p);
        else
            (void)buf_printf(out, "%%%02X", (unsigned)(unsigned char)*p);
    }
}
