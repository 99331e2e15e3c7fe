#include "guard/shell_words.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static int dollar(struct shell *s, struct buf *out, bool quoted);

int shell_peek(const struct shell *s, size_t ahead) {
    return (size_t)(s->end - s->at) > ahead ? (unsigned char)s->at[ahead] : -1;
}

void shell_put_literal(struct buf *out, int c) {
    bool control = c < 0x20 && c != '\t' && c != '\n';
    (void)buf_putc(out, control ? 0x7f : (char)c);
}

/* An unquoted byte: pattern and brace characters are active. */
static void put_active(struct buf *out, int c) {
    static const char active[] = "*?[{,}";
    static const char marks[] = {SHELL_STAR, SHELL_ANY,   SHELL_SET,
                                 SHELL_OPEN, SHELL_COMMA, SHELL_CLOSE};
    const char *at = strchr(active, c);
    if (at != NULL && c != '\0')
        (void)buf_putc(out, marks[at - active]);
    else
        shell_put_literal(out, c);
}

static int single_quotes(struct shell *s, struct buf *out) {
    for (s->at++; s->at < s->end; s->at++) {
        if (*s->at == '\'') {
            s->at++;
            return 0;
        }
        shell_put_literal(out, (unsigned char)*s->at);
    }
    return -EINVAL;
}

/* Up to max digits of the base at the current place. */
static int ansi_number(struct shell *s, int base, int max) {
    int v = 0;
    for (int i = 0; i < max; i++, s->at++) {
        int c = tolower(shell_peek(s, 0));
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
        if (digit >= base)
            break;
        v = v * base + digit;
    }
    /* Beyond ASCII it can be no part of a name that a rule knows. */
    return v < 0x80 ? v : 0x7f;
}

/* The escape after a backslash in $'...'. */
static void ansi_escape(struct shell *s, struct buf *out) {
    static const char letters[] = "abefnrtv";
    static const char values[] = "\a\b\033\f\n\r\t\v";
    int c = shell_peek(s, 0);
    if (c >= '0' && c <= '7') {
        shell_put_literal(out, ansi_number(s, 8, 3));
        return;
    }
    s->at++;
    const char *at = strchr(letters, c);
    if (at != NULL && c != '\0')
        shell_put_literal(out, values[at - letters]);
    else if (c == 'x')
        shell_put_literal(out, ansi_number(s, 16, 2));
    else if (c == 'u' || c == 'U')
        shell_put_literal(out, ansi_number(s, 16, c == 'u' ? 4 : 6));
    else
        shell_put_literal(out, c);
}

static int ansi_quotes(struct shell *s, struct buf *out) {
    s->at += 2;
    while (s->at < s->end) {
        int c = (unsigned char)*s->at++;
        if (c == '\'')
            return 0;
        if (c == '\\' && s->at < s->end)
            ansi_escape(s, out);
        else
            shell_put_literal(out, c);
    }
    return -EINVAL;
}

/* A backslash outside of quotes, or inside of double ones, where it escapes only a few. */
static void backslash(struct shell *s, struct buf *out, bool quoted) {
    int next = shell_peek(s, 1);
    s->at += next < 0 ? 1 : 2;
    if (next == '\n')
        return;
    if (next < 0 || (quoted && strchr("$`\"\\", next) == NULL))
        shell_put_literal(out, '\\');
    if (next >= 0)
        shell_put_literal(out, next);
}

/* A command whose output becomes text; the caller is at its first byte. */
static int substituted(struct shell *s, struct buf *out) {
    int r = s->fn(s->arg, SHELL_ENTER, "(");
    if (r == 0)
        r = shell_list(s, ')');
    if (r == 0)
        r = s->fn(s->arg, SHELL_LEAVE, "");
    (void)buf_putc(out, SHELL_UNKNOWN);
    return r;
}

/* Where the backquoted command that begins at `from` ends, or NULL. */
static const char *backtick_end(const struct shell *s, const char *from) {
    for (const char *p = from; p < s->end; p++) {
        if (*p == '`')
            return p;
        p += *p == '\\';
    }
    return NULL;
}

static int backticks(struct shell *s, struct buf *out, bool quoted) {
    const char *end = backtick_end(s, ++s->at);
    if (end == NULL)
        return -EINVAL;
    _cleanup_(freep) char *inner = malloc((size_t)(end - s->at) + 1);
    if (inner == NULL)
        return -ENOMEM;
    size_t len = 0;
    for (; s->at < end; s->at++) {
        if (*s->at == '\\' && strchr(quoted ? "$`\\\"" : "$`\\", s->at[1]) != NULL)
            s->at++;
        inner[len++] = *s->at;
    }
    s->at = end + 1;
    inner[len] = '\0';
    int r = s->fn(s->arg, SHELL_ENTER, "(");
    if (r == 0)
        r = shell_parse(inner, s->depth, s->fn, s->arg);
    if (r == 0)
        r = s->fn(s->arg, SHELL_LEAVE, "");
    (void)buf_putc(out, SHELL_UNKNOWN);
    return r;
}

/* Text as in double quotes, up to s->end, or to the quote that ends it. */
static int quoted_text(struct shell *s, struct buf *out, bool until_quote) {
    while (s->at < s->end) {
        int r = 0;
        switch (*s->at) {
        case '"':
            if (until_quote)
                return 0;
            s->at++;
            break;
        case '\\':
            backslash(s, out, true);
            break;
        case '`':
            r = backticks(s, out, true);
            break;
        case '$':
            r = dollar(s, out, true);
            break;
        default:
            shell_put_literal(out, (unsigned char)*s->at++);
        }
        if (r != 0)
            return r;
    }
    return until_quote ? -EINVAL : 0;
}

static int double_quotes(struct shell *s, struct buf *out) {
    s->at++;
    int r = quoted_text(s, out, true);
    s->at += r == 0;
    return r;
}

int shell_substitutions(struct shell *s, const char *end) {
    struct buf unused = BUF_INIT(SHELL_MAX_TEXT * 2);
    const char *outer_end = s->end;
    s->end = end;
    int r = quoted_text(s, &unused, false);
    s->end = outer_end;
    buf_free(&unused);
    return r;
}

/* Where "))" ends the arithmetic expression that begins at the current "$((", or NULL if it is a
 * command substitution that begins with a subshell. */
static const char *arithmetic_end(const struct shell *s) {
    int open = 0;
    for (const char *p = s->at + 3; p < s->end; p++) {
        if (*p == '(')
            open++;
        else if (*p == ')' && open-- == 0)
            return p + 1 < s->end && p[1] == ')' ? p : NULL;
    }
    return NULL;
}

static int arithmetic(struct shell *s, struct buf *out, const char *end) {
    if (++s->depth > SHELL_MAX_DEPTH)
        return -E2BIG;
    s->at += 3;
    int r = shell_substitutions(s, end);
    s->depth--;
    s->at = end + 2;
    (void)buf_putc(out, SHELL_UNKNOWN);
    return r;
}

static bool name_byte(int c) {
    return c == '_' || (c >= 0 && isalnum(c));
}

/* Length of the parameter name `ahead` of the current place: a name, digits, or one special. */
static size_t parameter(const struct shell *s, size_t ahead, bool braced) {
    int c = shell_peek(s, ahead);
    if (c > 0 && strchr("@*#?$!-", c) != NULL)
        return 1;
    if (!name_byte(c))
        return 0;
    size_t len = 1;
    if (isdigit(c) && !braced)
        return 1;
    while (name_byte(shell_peek(s, ahead + len)))
        len++;
    return len;
}

static void put_variable(struct buf *out, const char *name, size_t len, bool quoted) {
    (void)buf_putc(out, quoted ? SHELL_QUOTED_VAR : SHELL_VAR);
    (void)buf_append(out, name, len);
    (void)buf_putc(out, SHELL_NAME_END);
}

/* The part of ${name...} after the name and operator, with the brace that ends it. */
static int braced_rest(struct shell *s, struct buf *out, bool quoted) {
    while (s->at < s->end) {
        int r = 0;
        int c = (unsigned char)*s->at;
        if (c == '}') {
            s->at++;
            return 0;
        }
        if (c == '\\')
            backslash(s, out, quoted);
        else if (c == '\'' && !quoted)
            r = single_quotes(s, out);
        else if (c == '"')
            r = double_quotes(s, out);
        else if (c == '`')
            r = backticks(s, out, quoted);
        else if (c == '$')
            r = dollar(s, out, quoted);
        else {
            (quoted ? shell_put_literal : put_active)(out, c);
            s->at++;
        }
        if (r != 0)
            return r;
    }
    return -EINVAL;
}

/* True if the operator at the current place puts another word in (${x:-word}, ${x+word}). */
static bool substitutes_word(struct shell *s) {
    size_t colon = shell_peek(s, 0) == ':';
    int c = shell_peek(s, colon);
    if (c != '-' && c != '=' && c != '+')
        return false;
    s->at += colon + 1;
    return true;
}

static int braced(struct shell *s, struct buf *out, bool quoted) {
    if (++s->depth > SHELL_MAX_DEPTH)
        return -E2BIG;
    s->at += 2;
    int first = shell_peek(s, 0);
    /* ${#name} and ${!name}: a length, an indirect value */
    bool derived = (first == '#' || first == '!') && name_byte(shell_peek(s, 1));
    s->at += derived;
    size_t len = parameter(s, 0, true);
    if (len == 0)
        return -EINVAL;
    const char *name = s->at;
    s->at += len;
    int r;
    if (substitutes_word(s)) {
        r = braced_rest(s, out, quoted);
    } else {
        struct buf unused = BUF_INIT(SHELL_MAX_TEXT * 2);
        r = braced_rest(s, &unused, quoted);
        buf_free(&unused);
        if (derived)
            (void)buf_putc(out, SHELL_UNKNOWN);
        else
            put_variable(out, name, len, quoted);
    }
    s->depth--;
    return r;
}

/* Whatever begins with '$'. */
static int dollar(struct shell *s, struct buf *out, bool quoted) {
    int next = shell_peek(s, 1);
    if (next == '(') {
        const char *end = shell_peek(s, 2) == '(' ? arithmetic_end(s) : NULL;
        if (end != NULL)
            return arithmetic(s, out, end);
        s->at += 2;
        return substituted(s, out);
    }
    if (next == '{')
        return braced(s, out, quoted);
    if (next == '\'' && !quoted)
        return ansi_quotes(s, out);
    if (next == '"' && !quoted) {
        s->at++;
        return double_quotes(s, out);
    }
    size_t len = parameter(s, 1, false);
    if (len == 0)
        shell_put_literal(out, '$');
    else
        put_variable(out, s->at + 1, len, quoted);
    s->at += 1 + len;
    return 0;
}

/* "~" or "~name" at the start of a word or of an assigned value. */
static bool tilde(struct shell *s, struct buf *out) {
    size_t len = 1;
    while (name_byte(shell_peek(s, len)) || shell_peek(s, len) == '-')
        len++;
    int next = shell_peek(s, len);
    if (next > 0 && strchr("/ \t\n;&|<>()", next) == NULL)
        return false;
    (void)buf_putc(out, SHELL_HOME);
    s->at += len;
    return true;
}

static bool tilde_place(const struct buf *out) {
    return out->len == 0 || out->data[out->len - 1] == '=';
}

/* One element of a word: a quoted part, an expansion or a byte. */
static int element(struct shell *s, struct buf *out, bool *quoted) {
    int c = (unsigned char)*s->at;
    *quoted = *quoted || c == '\\' || c == '\'' || c == '"';
    switch (c) {
    case '\\':
        backslash(s, out, false);
        return 0;
    case '\'':
        return single_quotes(s, out);
    case '"':
        return double_quotes(s, out);
    case '`':
        return backticks(s, out, false);
    case '$':
        return dollar(s, out, false);
    case '~':
        if (tilde_place(out) && tilde(s, out))
            return 0;
        break;
    default:
        break;
    }
    put_active(out, c);
    s->at++;
    return 0;
}

int shell_word(struct shell *s, struct buf *out, bool *ret_quoted) {
    *ret_quoted = false;
    int c = shell_peek(s, 0);
    if ((c == '<' || c == '>') && shell_peek(s, 1) == '(') {
        s->at += 2;
        return substituted(s, out);
    }
    while (s->at < s->end && strchr(" \t\n;&|<>()", *s->at) == NULL) {
        int r = element(s, out, ret_quoted);
        if (r != 0)
            return r;
    }
    return out->failed ? -E2BIG : 0;
}
