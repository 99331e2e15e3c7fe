#include "guard/shell_words.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static int dollar(struct shell *s, struct buf *out, bool quoted);

int shell_peek(const struct shell *s, size_t ahead) {
    return (size_t)(s->end - s->at) > ahead ? (unsigned char)s->at[ahead] : -1;
}

/* Appends a byte that means only itself. */
static void put_literal(struct buf *out, int c) {
    bool control = c < 0x20 && c != '\t' && c != '\n';
    (void)buf_putc(out, control ? 0x7f : (char)c);
}

/* Appends an unquoted byte: pattern characters are active. */
static void put_active(struct buf *out, int c) {
    if (c == '*' || c == '?' || c == '[')
        (void)buf_putc(out, c == '*' ? SHELL_STAR : c == '?' ? SHELL_ANY : SHELL_SET);
    else
        put_literal(out, c);
}

static int single_quotes(struct shell *s, struct buf *out) {
    for (s->at++; s->at < s->end; s->at++) {
        if (*s->at == '\'') {
            s->at++;
            return 0;
        }
        put_literal(out, (unsigned char)*s->at);
    }
    return -EINVAL;
}

/* $'...' is skipped: people do not write command names or paths in it. */
static int ansi_quotes(struct shell *s, struct buf *out) {
    (void)buf_putc(out, SHELL_UNKNOWN);
    for (s->at += 2; s->at < s->end; s->at++) {
        if (*s->at == '\'') {
            s->at++;
            return 0;
        }
        s->at += *s->at == '\\' && s->at + 1 < s->end;
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
        put_literal(out, '\\');
    if (next >= 0)
        put_literal(out, next);
}

/* A command whose output becomes text; the caller is at its first byte. */
static int substituted(struct shell *s, struct buf *out) {
    (void)buf_putc(out, SHELL_UNKNOWN);
    int r = s->fn(s->arg, SHELL_ENTER, "(");
    if (r != 0)
        return r;
    r = shell_list(s, ')');
    return r != 0 ? r : s->fn(s->arg, SHELL_LEAVE, "");
}

static int backticks(struct shell *s, struct buf *out, bool quoted) {
    struct buf inner = BUF_INIT(SHELL_MAX_TEXT);
    for (s->at++; s->at < s->end && *s->at != '`'; s->at++) {
        if (*s->at == '\\' && s->at + 1 < s->end &&
            strchr(quoted ? "$`\\\"" : "$`\\", s->at[1]) != NULL)
            s->at++;
        (void)buf_putc(&inner, *s->at);
    }
    bool closed = s->at < s->end;
    s->at += closed;
    (void)buf_putc(out, SHELL_UNKNOWN);
    int r = inner.failed ? -ENOMEM : closed ? s->fn(s->arg, SHELL_ENTER, "(") : -EINVAL;
    if (r == 0)
        r = shell_parse(buf_text(&inner), s->depth, s->fn, s->arg);
    if (r == 0)
        r = s->fn(s->arg, SHELL_LEAVE, "");
    buf_free(&inner);
    return r;
}

static int double_quotes(struct shell *s, struct buf *out) {
    s->at++;
    while (s->at < s->end) {
        int r = 0;
        switch (*s->at) {
        case '"':
            s->at++;
            return 0;
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
            put_literal(out, (unsigned char)*s->at++);
        }
        if (r != 0)
            return r;
    }
    return -EINVAL;
}

/* Where "))" ends the arithmetic expression that begins at the current "$((", or NULL if it is a
 * command substitution that begins with a subshell. */
static const char *arithmetic_end(const struct shell *s) {
    int open = 0;
    for (const char *p = s->at + 3; p < s->end; p++) {
        if (*p == '(')
            open++;
        else if (*p == ')' && open-- == 0)
            return p + 1 < s->end && p[1] == ')' ? p + 2 : NULL;
    }
    return NULL;
}

/* Length of the parameter name `ahead` of the current place: a name, a digit, or one special. */
static size_t parameter(const struct shell *s, size_t ahead) {
    int c = shell_peek(s, ahead);
    if (c > 0 && (strchr("@*#?$!-", c) != NULL || isdigit(c)))
        return 1;
    size_t len = 0;
    while (c == '_' || (c >= 0 && isalnum(c)))
        c = shell_peek(s, ahead + ++len);
    return len;
}

/* Three variables are known: the home folder, the current one, and $0, for fork bombs. */
static void put_variable(struct buf *out, const char *name, size_t len) {
    if (len == 4 && memcmp(name, "HOME", len) == 0)
        (void)buf_putc(out, SHELL_HOME);
    else if (len == 3 && memcmp(name, "PWD", len) == 0)
        (void)buf_putc(out, '.');
    else if (len == 1 && name[0] == '0')
        (void)buf_puts(out, "$0");
    else
        (void)buf_putc(out, SHELL_UNKNOWN);
}

/* ${name} and everything with an operator; commands in the operator's word are reported. */
static int braced(struct shell *s, struct buf *out, bool quoted) {
    if (++s->depth > SHELL_MAX_DEPTH)
        return -E2BIG;
    s->at += 2;
    put_variable(out, s->at, parameter(s, 0));
    struct buf unused = BUF_INIT(SHELL_MAX_TEXT);
    int r = 0;
    while (r == 0 && s->at < s->end && *s->at != '}') {
        int c = (unsigned char)*s->at;
        if (c == '\\')
            backslash(s, &unused, quoted);
        else if (c == '\'' && !quoted)
            r = single_quotes(s, &unused);
        else if (c == '"')
            r = double_quotes(s, &unused);
        else if (c == '`')
            r = backticks(s, &unused, quoted);
        else if (c == '$')
            r = dollar(s, &unused, quoted);
        else
            s->at++;
    }
    buf_free(&unused);
    s->depth--;
    if (r == 0 && s->at == s->end)
        return -EINVAL;
    s->at++;
    return r;
}

/* Whatever begins with '$'. */
static int dollar(struct shell *s, struct buf *out, bool quoted) {
    int next = shell_peek(s, 1);
    if (next == '(') {
        const char *end = shell_peek(s, 2) == '(' ? arithmetic_end(s) : NULL;
        if (end == NULL) {
            s->at += 2;
            return substituted(s, out);
        }
        (void)buf_putc(out, SHELL_UNKNOWN);
        s->at = end;
        return 0;
    }
    if (next == '{')
        return braced(s, out, quoted);
    if (next == '\'' && !quoted)
        return ansi_quotes(s, out);
    size_t len = parameter(s, 1);
    if (len == 0)
        put_literal(out, '$');
    else
        put_variable(out, s->at + 1, len);
    s->at += 1 + len;
    return 0;
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
    default:
        put_active(out, c);
        s->at++;
        return 0;
    }
}

/* "~" or "~name" as a whole component at the start of a word. */
static void tilde(struct shell *s, struct buf *out) {
    size_t len = 1;
    int c;
    while ((c = shell_peek(s, len)) == '-' || c == '_' || (c >= 0 && isalnum(c)))
        len++;
    if (c > 0 && strchr("/ \t\n;&|<>()", c) == NULL)
        return;
    (void)buf_putc(out, SHELL_HOME);
    s->at += len;
}

int shell_word(struct shell *s, struct buf *out, bool *ret_quoted) {
    *ret_quoted = false;
    int c = shell_peek(s, 0);
    if ((c == '<' || c == '>') && shell_peek(s, 1) == '(') {
        s->at += 2;
        return substituted(s, out);
    }
    if (c == '~')
        tilde(s, out);
    while (s->at < s->end && strchr(" \t\n;&|<>()", *s->at) == NULL) {
        int r = element(s, out, ret_quoted);
        if (r != 0)
            return r;
    }
    return out->failed ? -E2BIG : 0;
}

void shell_unmark(struct buf *out, const char *word) {
    for (; *word != '\0'; word++) {
        switch (*word) {
        case SHELL_STAR:
            (void)buf_putc(out, '*');
            break;
        case SHELL_ANY:
            (void)buf_putc(out, '?');
            break;
        case SHELL_SET:
            (void)buf_putc(out, '[');
            break;
        case SHELL_HOME:
            (void)buf_puts(out, "$HOME");
            break;
        case SHELL_UNKNOWN:
            (void)buf_puts(out, "${_}");
            break;
        default:
            (void)buf_putc(out, *word);
        }
    }
}
