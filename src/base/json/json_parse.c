/* The JSON reader.
 *
 * A document is one copy of the text and one array of values. A string is decoded in place, which
 * works because no escape is shorter than what it stands for, and the NUL goes where the closing
 * quote was. Values are collected on a stack; when an array or object ends, its part of the stack
 * moves to the document, so that the values of each container lie side by side and reading the
 * hundredth costs as much as the first. There is no recursion: open containers are levels of a
 * bounded array. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json/json_value.h"
#include "base/str.h"

enum { FEW_KEYS = 64 }; /* up to which they are not sorted to find equal ones */

struct values {
    struct json_value *v;
    size_t len, size;
};

/* An open array or object. */
struct level {
    size_t begin; /* of its values on the stack */
    char end;     /* the character that ends it */
};

struct parser {
    const struct json_rules *rules;
    const char *begin, *end; /* *end is NUL */
    char *at;
    struct values stack, done;
    struct level levels[JSON_DEPTH_MAX];
    size_t depth, count;
    char problem[80]; /* what is wrong at `at` */
};

/* ---- failing: each returns the errno that the parse ends with ---- */

static int wrong(struct parser *p, const char *problem) {
    (void)snprintf(p->problem, sizeof p->problem, "%s", problem);
    return -EINVAL;
}

static int unexpected(struct parser *p, const char *wanted) {
    char one[2] = {*p->at, '\0'}, shown[8];
    if (p->at == p->end)
        (void)snprintf(p->problem, sizeof p->problem, "the text ends; expected %s", wanted);
    else if (one[0] == '\0')
        return wrong(p, "unexpected NUL byte");
    else
        (void)snprintf(p->problem, sizeof p->problem, "unexpected '%s'; expected %s",
                       str_escape(shown, sizeof shown, one), wanted);
    return -EINVAL;
}

/* ---- values ---- */

static int reserve(struct values *a, size_t more) {
    if (a->len + more <= a->size)
        return 0;
    size_t size = MAX(a->len + more, MAX(a->size * 2, (size_t)64));
    struct json_value *v = realloc(a->v, size * sizeof *v);
    if (v == NULL)
        return -ENOMEM;
    a->v = v;
    a->size = size;
    return 0;
}

static int push(struct parser *p, const struct json_value *v) {
    if (reserve(&p->stack, 1) < 0)
        return -ENOMEM;
    p->stack.v[p->stack.len++] = *v;
    return 0;
}

/* ---- strings ---- */

/* ASCII without control characters, quotes and backslashes; most bytes of most texts. */
static bool is_plain(char c) {
    static const bool plain[256] = {
        [' ' ... '!'] = true, ['#' ... '['] = true, [']' ... 0x7f] = true};
    return plain[(unsigned char)c];
}

/* Four hexadecimal digits; -1 if there are none. */
static int32_t hex4(const char *text) {
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int digit = str_hex_digit(text[i]);
        if (digit < 0)
            return -1; /* also at the NUL that ends the text */
        v = v << 4 | digit;
    }
    return v;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

/* Decodes \uXXXX, or both halves of a pair, at p->at. */
static int take_code(struct parser *p, char **to) {
    int32_t c = hex4(p->at + 2);
    if (c < 0)
        return wrong(p, "invalid escape; \\u needs four hexadecimal digits");
    if (c == 0)
        return wrong(p, "a string with a NUL (\\u0000)");
    if (c >= 0xd800 && c <= 0xdfff) {
        int32_t low = c < 0xdc00 && p->at[6] == '\\' && p->at[7] == 'u' ? hex4(p->at + 8) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(p, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p->at += 6;
    }
    p->at += 6;
    *to = put_utf8(*to, (uint32_t)c);
    return 0;
}

static int take_escape(struct parser *p, char **to) {
    static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = p->at[1];
    if (c == 'u')
        return take_code(p, to);
    const char *known = c != '\0' ? strchr(from, c) : NULL;
    if (known == NULL)
        return wrong(p, "invalid escape in a string");
    *(*to)++ = meant[known - from];
    p->at += 2;
    return 0;
}

/* One character that is not plain; 1 at the closing quote. */
static int take_character(struct parser *p, char **to) {
    if (*p->at == '"')
        return 1;
    if (*p->at == '\\')
        return take_escape(p, to);
    if (p->at == p->end)
        return wrong(p, "the text ends within a string");
    if ((unsigned char)*p->at < 0x20)
        return wrong(p, "control character in a string; escape it");
    size_t n = str_utf8_length(p->at, (size_t)(p->end - p->at));
    if (n == 0 || p->rules->is_ascii)
        return wrong(p, n == 0 ? "invalid UTF-8" : "a character beyond ASCII");
    memmove(*to, p->at, n);
    *to += n;
    p->at += n;
    return 0;
}

static int take_string(struct parser *p) {
    char *begin = ++p->at;
    while (is_plain(*p->at))
        p->at++;
    char *to = p->at;
    for (;;) {
        int r = take_character(p, &to);
        if (r < 0)
            return r;
        if (r > 0)
            break;
        while (is_plain(*p->at))
            *to++ = *p->at++;
    }
    p->at++;
    *to = '\0';
    return push(p, &(struct json_value){
                       .kind = JSON_KIND_STRING, .count = (uint32_t)(to - begin), .text = begin});
}

/* ---- numbers ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Up to 15 digits and a power of ten up to 15 are exact, and so is the nearest to their quotient:
 * the usual "0.5" needs no strtod. */
static bool is_short_decimal(const char *text, const char *end, double *ret) {
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    bool is_negative = *text == '-';
    const char *point = NULL;
    int64_t digits = 0;
    if (FLT_EVAL_METHOD != 0 || end - text > 16)
        return false;
    for (const char *c = text + is_negative; c < end; c++) {
        if (*c == '.')
            point = c;
        else if (is_digit(*c))
            digits = digits * 10 + (*c - '0');
        else
            return false;
    }
    if (point == NULL)
        return false;
    *ret = (double)digits / powers[end - point - 1];
    *ret = is_negative ? -*ret : *ret;
    return true;
}

static int push_real(struct parser *p, char *text, const char *end) {
    char *stop = NULL;
    double v;
    if (is_short_decimal(text, end, &v))
        return push(p, &(struct json_value){.kind = JSON_KIND_NUMBER, .number = v});
    v = strtod(text, &stop);
    if (stop < end && *stop == '.') { /* a program that uses libcay has set a locale */
        *stop = localeconv()->decimal_point[0];
        v = strtod(text, &stop);
    }
    if (stop != end)
        return wrong(p, "invalid number");
    if (!isfinite(v))
        return wrong(p, "a number that is too big");
    return push(p, &(struct json_value){.kind = JSON_KIND_NUMBER, .number = v});
}

static int push_integer(struct parser *p, char *text, const char *end) {
    bool is_negative = *text == '-', fits = true;
    uint64_t v = 0, limit = is_negative ? (uint64_t)INT64_MAX + 1 : UINT64_MAX;
    for (const char *d = text + is_negative; d < end && fits; d++) {
        uint64_t digit = (uint64_t)(*d - '0');
        fits = v <= (limit - digit) / 10;
        v = v * 10 + digit;
    }
    if (!is_negative && v > INT64_MAX && p->rules->integers == JSON_INTEGERS_INT64)
        fits = false;
    if (!fits && p->rules->integers == JSON_INTEGERS_ANY)
        return push_real(p, text, end);
    if (!fits)
        return wrong(p, "an integer that is too big");
    struct json_value value = {.kind = JSON_KIND_INTEGER,
                               .is_unsigned = !is_negative && v > INT64_MAX};
    if (value.is_unsigned)
        value.natural = v;
    else
        value.integer = is_negative ? (int64_t)(0 - v) : (int64_t)v;
    return push(p, &value);
}

static int take_number(struct parser *p) {
    char *begin = p->at;
    bool is_real = false;
    if (*p->at == '-')
        p->at++;
    if (!is_digit(*p->at))
        return unexpected(p, begin == p->at ? "a value" : "a digit");
    if (*p->at == '0' && is_digit(p->at[1]))
        return wrong(p, "a number that begins with 0");
    while (is_digit(*p->at))
        p->at++;
    if (*p->at == '.') {
        is_real = true;
        p->at++;
        if (!is_digit(*p->at))
            return unexpected(p, "a digit");
        while (is_digit(*p->at))
            p->at++;
    }
    if (*p->at == 'e' || *p->at == 'E') {
        is_real = true;
        p->at++;
        if (*p->at == '+' || *p->at == '-')
            p->at++;
        if (!is_digit(*p->at))
            return unexpected(p, "a digit");
        while (is_digit(*p->at))
            p->at++;
    }
    return is_real ? push_real(p, begin, p->at) : push_integer(p, begin, p->at);
}

/* ---- structure ---- */

static void skip_space(struct parser *p) {
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')
        p->at++;
}

static int take_word(struct parser *p, const char *word, const struct json_value *meant) {
    size_t len = strlen(word);
    if (strncmp(p->at, word, len) != 0)
        return unexpected(p, "a value");
    p->at += len;
    return push(p, meant);
}

static int take_scalar(struct parser *p) {
    switch (*p->at) {
    case '"':
        return take_string(p);
    case 't':
        return take_word(p, "true", &(struct json_value){.kind = JSON_KIND_BOOL, .is_true = true});
    case 'f':
        return take_word(p, "false", &(struct json_value){.kind = JSON_KIND_BOOL});
    case 'n':
        return take_word(p, "null", &(struct json_value){.kind = JSON_KIND_NULL});
    default:
        return take_number(p);
    }
}

static int take_key(struct parser *p) {
    skip_space(p);
    if (*p->at != '"')
        return unexpected(p, "a key");
    int r = take_string(p);
    if (r < 0)
        return r;
    skip_space(p);
    if (*p->at != ':')
        return unexpected(p, "':'");
    p->at++;
    return 0;
}

static int compare_keys(const void *a, const void *b) {
    const struct json_value *x = *(const struct json_value *const *)a;
    const struct json_value *y = *(const struct json_value *const *)b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return memcmp(x->text, y->text, x->count);
}

static bool equal_keys(const struct json_value *a, const struct json_value *b) {
    return a->count == b->count && memcmp(a->text, b->text, a->count) == 0;
}

/* Compares a key with those before it only if one of them had the same fingerprint. */
static bool has_duplicate_few(const struct json_value *members, size_t count) {
    uint64_t seen[4] = {0};
    for (size_t i = 0; i < count; i++) {
        const struct json_value *key = &members[2 * i];
        unsigned print = key->count * 37 + (unsigned char)key->text[0] * 11 +
                         (unsigned char)key->text[key->count / 2] * 3 +
                         (unsigned char)key->text[key->count - (key->count > 0)];
        uint64_t *word = &seen[print >> 6 & 3], bit = UINT64_C(1) << (print & 63);
        for (size_t j = 0; (*word & bit) != 0 && j < i; j++)
            if (equal_keys(key, &members[2 * j]))
                return true;
        *word |= bit;
    }
    return false;
}

/* 1 if two keys of an object are the same. */
static int has_duplicate(const struct json_value *members, size_t count) {
    if (count <= FEW_KEYS)
        return has_duplicate_few(members, count);
    _cleanup_(freep) const struct json_value **keys = calloc(count, sizeof *keys);
    if (keys == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        keys[i] = &members[2 * i];
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 1; i < count; i++)
        if (equal_keys(keys[i - 1], keys[i]))
            return 1;
    return 0;
}

static int open_level(struct parser *p) {
    if (p->depth == p->rules->depth_max)
        return -E2BIG;
    p->levels[p->depth++] = (struct level){.begin = p->stack.len, .end = *p->at == '{' ? '}' : ']'};
    p->at++;
    return 0;
}

/* Moves the values of the innermost container to the document; it becomes a value itself. */
static int close_level(struct parser *p) {
    const struct level *l = &p->levels[--p->depth];
    size_t len = p->stack.len - l->begin;
    bool is_object = l->end == '}';
    if (is_object && len > 0) { /* an empty stack has no address to add to */
        int r = has_duplicate(p->stack.v + l->begin, len / 2);
        if (r != 0)
            return r < 0 ? r : wrong(p, "duplicate key in the object that ends here");
    }
    if (reserve(&p->done, len) < 0)
        return -ENOMEM;
    if (len > 0)
        memcpy(p->done.v + p->done.len, p->stack.v + l->begin, len * sizeof *p->stack.v);
    p->stack.len = l->begin;
    p->done.len += len;
    p->at++;
    return push(p, &(struct json_value){.kind = is_object ? JSON_KIND_OBJECT : JSON_KIND_ARRAY,
                                        .count = (uint32_t)(is_object ? len / 2 : len),
                                        .first = p->done.len - len});
}

/* After a value: ends what ends here and goes to the next one; 1 when the root has ended. */
static int next_value(struct parser *p) {
    for (;;) {
        if (p->depth == 0)
            return 1;
        char end = p->levels[p->depth - 1].end;
        skip_space(p);
        if (*p->at == ',') {
            p->at++;
            return end == '}' ? take_key(p) : 0;
        }
        if (*p->at != end)
            return unexpected(p, end == '}' ? "',' or '}'" : "',' or ']'");
        int r = close_level(p);
        if (r < 0)
            return r;
    }
}

/* Opens a container; 1 if it is not empty, and its first value is to come. */
static int enter(struct parser *p) {
    int r = open_level(p);
    if (r < 0)
        return r;
    char end = p->levels[p->depth - 1].end;
    skip_space(p);
    if (*p->at == end)
        return close_level(p);
    if (end == '}') {
        r = take_key(p);
        if (r < 0)
            return r;
    }
    return 1;
}

static int parse_root(struct parser *p) {
    skip_space(p);
    if (*p->at != '{' && *p->at != '[')
        return unexpected(p, "an object or an array");
    for (;;) {
        skip_space(p);
        if (++p->count > p->rules->values_max)
            return -EFBIG;
        int r = *p->at == '{' || *p->at == '[' ? enter(p) : take_scalar(p);
        if (r == 0)
            r = next_value(p);
        else if (r > 0)
            continue;
        if (r < 0)
            return r;
        if (r > 0)
            break;
    }
    skip_space(p);
    return p->at == p->end ? 0 : unexpected(p, "the end of the text");
}

/* ---- documents ---- */

/* Puts the root behind the other values, and pointers in place of indexes. */
static int finish(struct parser *p, struct json_document *doc) {
    if (reserve(&p->done, 1) < 0)
        return -ENOMEM;
    p->done.v[p->done.len++] = p->stack.v[0];
    for (size_t i = 0; i < p->done.len; i++) {
        struct json_value *v = &p->done.v[i];
        if (v->kind == JSON_KIND_ARRAY || v->kind == JSON_KIND_OBJECT)
            v->values = p->done.v + v->first;
    }
    doc->root = &p->done.v[p->done.len - 1];
    doc->values = TAKE_PTR(p->done.v);
    return 0;
}

static int refuse(const char *what, const struct parser *p, const char *text, int r,
                  struct cay_error *err) {
    if (r == -ENOMEM)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    if (r == -E2BIG)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: the JSON is nested too deeply", what);
    if (r == -EFBIG)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: the JSON holds too many values", what);
    size_t line = 1, column = 1;
    for (const char *c = text; c < text + (p->at - p->begin); c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    error_set(err, CAY_INVALID_ARGUMENT, "%s: line %zu, column %zu: %s", what, line, column,
              p->problem);
    (void)error_remedy(err, "send one well-formed JSON object or array");
    return -CAY_INVALID_ARGUMENT; /* also where nobody wants the text: err may be NULL */
}

int json_parse_by(const struct json_rules *rules, const char *what, const char *text, size_t len,
                  struct json_document **ret, struct cay_error *err) {
    *ret = NULL;
    if (len > rules->text_max)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: more than %zu bytes of JSON", what,
                         rules->text_max);
    struct json_document *doc = malloc(sizeof *doc + len + 1);
    if (doc == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    doc->values = NULL;
    memcpy(doc->text, text, len);
    doc->text[len] = '\0';
    struct parser p = {.rules = rules, .begin = doc->text, .end = doc->text + len, .at = doc->text};
    int r = parse_root(&p);
    if (r == 0)
        r = finish(&p, doc);
    free(p.stack.v);
    free(p.done.v);
    if (r < 0) {
        json_free(doc);
        return refuse(what, &p, text, r, err);
    }
    *ret = doc;
    return 0;
}

int json_parse(const char *what, const char *text, size_t len, struct json_document **ret,
               struct cay_error *err) {
    static const struct json_rules rules = JSON_RULES;
    return json_parse_by(&rules, what, text, len, ret, err);
}

bool json_is_plain_object(const char *text, size_t len) {
    static const struct json_rules rules = {.text_max = JSON_TEXT_MAX,
                                            .values_max = JSON_VALUES_MAX,
                                            .depth_max = JSON_PLAIN_DEPTH_MAX,
                                            .integers = JSON_INTEGERS_INT64,
                                            .is_ascii = true};
    struct json_document *doc = NULL;
    struct cay_error ignored;
    int r = json_parse_by(&rules, "text", text, len, &doc, &ignored);
    bool is_object = r == 0 && doc->root->kind == JSON_KIND_OBJECT;
    json_free(doc);
    return is_object;
}

void json_free(struct json_document *doc) {
    if (doc == NULL)
        return;
    free(doc->values);
    free(doc);
}
