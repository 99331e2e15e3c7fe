#include "base/json_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 40, INTEGER_MAX = 18 };

struct scan {
    const char *at, *end;
};

static char peek(const struct scan *s) {
    return s->at < s->end ? *s->at : '\0';
}

static void skip_space(struct scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* Takes the character, after space, if it comes next. */
static bool take(struct scan *s, char c) {
    skip_space(s);
    if (peek(s) != c)
        return false;
    s->at++;
    return true;
}

static bool take_word(struct scan *s, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    return true;
}

/* ---- strings ---- */

static bool take_hex(struct scan *s, unsigned *ret) {
    char digits[5] = "";
    for (int i = 0; i < 4; i++) {
        if (isxdigit((unsigned char)peek(s)) == 0)
            return false;
        digits[i] = *s->at++;
    }
    *ret = (unsigned)strtoul(digits, NULL, 16);
    return true;
}

/* What follows "\u": a character, or both halves of one. */
static bool take_code(struct scan *s) {
    unsigned first, second;
    if (!take_hex(s, &first) || first == 0)
        return false;
    if (first < 0xd800 || first > 0xdfff)
        return true;
    return first < 0xdc00 && take_word(s, "\\u") && take_hex(s, &second) && second >= 0xdc00 &&
           second <= 0xdfff;
}

static bool take_string(struct scan *s) {
    if (!take(s, '"'))
        return false;
    while (s->at < s->end) {
        unsigned char c = (unsigned char)*s->at++;
        if (c == '"')
            return true;
        if (c < ' ' || c > '~')
            return false;
        if (c != '\\')
            continue;
        char escape = peek(s);
        if (escape == '\0' || strchr("\"\\/bfnrtu", escape) == NULL)
            return false;
        s->at++;
        if (escape == 'u' && !take_code(s))
            return false;
    }
    return false;
}

/* ---- numbers ---- */

static size_t take_digits(struct scan *s) {
    const char *begin = s->at;
    while (isdigit((unsigned char)peek(s)) != 0)
        s->at++;
    return (size_t)(s->at - begin);
}

static bool take_exponent(struct scan *s) {
    s->at++;
    if (peek(s) == '+' || peek(s) == '-')
        s->at++;
    return take_digits(s) > 0;
}

static bool take_number(struct scan *s) {
    const char *begin = s->at;
    if (peek(s) == '-')
        s->at++;
    bool zero = peek(s) == '0';
    size_t digits = take_digits(s);
    bool whole = peek(s) != '.' && peek(s) != 'e' && peek(s) != 'E';
    if (digits == 0 || (zero && digits > 1) || (whole && digits > INTEGER_MAX))
        return false;
    if (peek(s) == '.') {
        s->at++;
        if (take_digits(s) == 0)
            return false;
    }
    if ((peek(s) == 'e' || peek(s) == 'E') && !take_exponent(s))
        return false;
    char text[NUMBER_MAX + 1] = "";
    if (s->at - begin > NUMBER_MAX)
        return false;
    memcpy(text, begin, (size_t)(s->at - begin));
    return isfinite(strtod(text, NULL)) != 0;
}

/* ---- structure ---- */

static bool take_scalar(struct scan *s) {
    switch (peek(s)) {
    case '"':
        return take_string(s);
    case 't':
        return take_word(s, "true");
    case 'f':
        return take_word(s, "false");
    case 'n':
        return take_word(s, "null");
    default:
        return take_number(s);
    }
}

/* The levels that are open; each ends with the character that is kept of it. */
struct levels {
    char end[JSON_TEXT_DEPTH_MAX];
    unsigned depth;
};

/* Ends what ends here, and goes over the comma to the next value if there is one. */
static bool leave(struct scan *s, struct levels *l) {
    while (l->depth > 0 && take(s, l->end[l->depth - 1]))
        l->depth--;
    return l->depth == 0 || take(s, ',');
}

static bool take_key(struct scan *s, const struct levels *l) {
    return l->end[l->depth - 1] == ']' || (take_string(s) && take(s, ':'));
}

/* Opens what begins here. True if a value or a key has to follow; false if it was empty, or too
 * deep, which then fails where a value is missing. */
static bool enter(struct scan *s, struct levels *l) {
    char begin = *s->at++;
    if (l->depth == JSON_TEXT_DEPTH_MAX) {
        s->at = s->end;
        return true;
    }
    l->end[l->depth++] = begin == '{' ? '}' : ']';
    skip_space(s);
    return peek(s) != l->end[l->depth - 1];
}

bool json_text_is_object(const char *text, size_t len) {
    struct scan s = {text, text + len};
    struct levels l = {.depth = 0};
    skip_space(&s);
    if (peek(&s) != '{')
        return false;
    bool open = enter(&s, &l);
    for (;;) {
        if (open) {
            if (!take_key(&s, &l))
                return false;
            skip_space(&s);
            if (peek(&s) == '{' || peek(&s) == '[') {
                open = enter(&s, &l);
                continue;
            }
            if (!take_scalar(&s))
                return false;
        }
        if (!leave(&s, &l))
            return false;
        if (l.depth == 0)
            break;
        open = true;
    }
    skip_space(&s);
    return s.at == s.end;
}
