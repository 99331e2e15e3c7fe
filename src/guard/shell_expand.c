#include "guard/shell_expand.h"

#include <errno.h>
#include <string.h>

#include "guard/shell_parse.h"

/* A word that an expansion adds costs its memory, not just its few bytes of text. */
enum { MAX_BRACES = 16, WORD_COST = 64 };

struct expansion {
    const struct shell_vars *vars;
    size_t *budget;
    struct words *out;
};

static int charge(size_t *budget, size_t cost) {
    if (cost > *budget) {
        *budget = 0;
        return -E2BIG;
    }
    *budget -= cost;
    return 0;
}

static struct shell_var *find_var(struct shell_vars *vars, const char *name, size_t len) {
    for (size_t i = 0; i < SHELL_MAX_VARS; i++)
        if (strncmp(vars->v[i].name, name, len) == 0 && vars->v[i].name[len] == '\0')
            return &vars->v[i];
    return NULL;
}

int shell_vars_set(struct shell_vars *vars, const char *name, size_t len, const char *value) {
    if (len == 0 || len >= SHELL_MAX_NAME)
        return 0;
    struct shell_var *var = find_var(vars, name, len);
    if (var == NULL) {
        var = &vars->v[vars->next];
        vars->next = (vars->next + 1) % SHELL_MAX_VARS;
        memcpy(var->name, name, len);
        var->name[len] = '\0';
    }
    free(var->value);
    var->value = NULL;
    if (strlen(value) > SHELL_MAX_VALUE)
        return 0;
    var->value = strdup(value);
    return var->value == NULL ? -ENOMEM : 0;
}

void shell_vars_free(struct shell_vars *vars) {
    for (size_t i = 0; i < SHELL_MAX_VARS; i++)
        free(vars->v[i].value);
    *vars = (struct shell_vars){0};
}

/* The value of a variable that was assigned or that every shell has; "not known" is a mark. */
static const char *value_of(const struct shell_vars *vars, const char *name, size_t len) {
    static const char home[] = {SHELL_HOME, '\0'}, unknown[] = {SHELL_UNKNOWN, '\0'};
    for (size_t i = 0; i < SHELL_MAX_VARS && len < SHELL_MAX_NAME; i++) {
        const struct shell_var *var = &vars->v[i];
        if (strncmp(var->name, name, len) == 0 && var->name[len] == '\0')
            return var->value != NULL ? var->value : unknown;
    }
    if (len == 4 && memcmp(name, "HOME", 4) == 0)
        return home;
    if (len == 3 && memcmp(name, "IFS", 3) == 0)
        return " ";
    return unknown;
}

/* Pattern characters of a value become active where it is not quoted. */
static char activated(char c) {
    return c == '*' ? SHELL_STAR : c == '?' ? SHELL_ANY : c == '[' ? SHELL_SET : c;
}

static char without_brace(char c) {
    return c == SHELL_OPEN ? '{' : c == SHELL_COMMA ? ',' : c == SHELL_CLOSE ? '}' : c;
}

static int push_word(struct expansion *e, struct buf *word) {
    int r = words_push(e->out, buf_text(word));
    buf_clear(word);
    return r;
}

/* Appends an unquoted value; where it has blanks, words end. */
static int split_value(struct expansion *e, const char *value, struct buf *word) {
    for (; *value != '\0'; value++) {
        if (strchr(" \t\n", *value) == NULL) {
            (void)buf_putc(word, activated(*value));
            continue;
        }
        if (word->len == 0)
            continue;
        int r = charge(e->budget, WORD_COST);
        if (r == 0)
            r = push_word(e, word);
        if (r != 0)
            return r;
    }
    return 0;
}

/* The variable whose mark p is at: *ret_value, and where the text goes on. */
static const char *variable(const struct shell_vars *vars, const char *p, const char **ret_value) {
    size_t len = strcspn(p + 1, "\x0e");
    *ret_value = value_of(vars, p + 1, len);
    return p + 1 + len + (p[1 + len] == SHELL_NAME_END);
}

static int split_word(struct expansion *e, const char *p, struct buf *word) {
    bool vanishes = false;
    int r = 0;
    while (r == 0 && *p != '\0') {
        const char *value;
        if (*p != SHELL_VAR && *p != SHELL_QUOTED_VAR) {
            (void)buf_putc(word, without_brace(*p++));
            continue;
        }
        bool quoted = *p == SHELL_QUOTED_VAR;
        p = variable(e->vars, p, &value);
        r = charge(e->budget, strlen(value) + 1);
        if (r == 0 && quoted)
            (void)buf_puts(word, value);
        else if (r == 0)
            r = split_value(e, value, word);
        vanishes = vanishes || !quoted;
    }
    /* An unquoted empty variable is no word. */
    return r == 0 && (word->len > 0 || !vanishes) ? push_word(e, word) : r;
}

static int expand_variables(struct expansion *e, const char *word) {
    struct buf b = BUF_INIT(*e->budget + 1);
    int r = split_word(e, word, &b);
    if (r == 0 && b.failed)
        r = -E2BIG;
    buf_free(&b);
    return r;
}

/* The first group that closes and has a comma: true, with its braces. Nested groups close first,
 * which yields the same words, some of them twice. -E2BIG if they are nested too deeply. */
static int find_group(const char *word, const char **ret_open, const char **ret_close) {
    const char *open[MAX_BRACES];
    bool comma[MAX_BRACES];
    size_t depth = 0;
    for (const char *p = word; *p != '\0'; p++) {
        if (*p == SHELL_OPEN) {
            if (depth == MAX_BRACES)
                return -E2BIG;
            comma[depth] = false;
            open[depth++] = p;
        } else if (*p == SHELL_COMMA && depth > 0) {
            comma[depth - 1] = true;
        } else if (*p == SHELL_CLOSE && depth > 0 && comma[--depth]) {
            *ret_open = open[depth];
            *ret_close = p;
            return true;
        }
    }
    return false;
}

/* The end of the alternative that begins at p. */
static const char *alternative_end(const char *p, const char *close) {
    int depth = 0;
    for (; p < close; p++) {
        if (*p == SHELL_COMMA && depth == 0)
            break;
        depth += (*p == SHELL_OPEN) - (*p == SHELL_CLOSE);
    }
    return p;
}

static int expand_braces(struct expansion *e, const char *word, int depth) {
    const char *open = NULL, *close = NULL;
    int r = charge(e->budget, strlen(word) + (depth > 0 ? WORD_COST : 1));
    if (r == 0)
        r = depth > MAX_BRACES ? -E2BIG : find_group(word, &open, &close);
    if (r < 0)
        return r;
    if (r == 0)
        return expand_variables(e, word);
    r = 0;
    const char *end = open;
    while (r == 0 && end < close) {
        const char *start = end + 1;
        end = alternative_end(start, close);
        struct buf b = BUF_INIT(SIZE_MAX / 2);
        (void)buf_append(&b, word, (size_t)(open - word));
        (void)buf_append(&b, start, (size_t)(end - start));
        (void)buf_puts(&b, close + 1);
        r = b.failed ? -ENOMEM : expand_braces(e, buf_text(&b), depth + 1);
        buf_free(&b);
    }
    return r;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is counted down through the expansion */
int shell_expand(const struct shell_vars *vars, const char *word, size_t *budget,
                 struct words *out) {
    struct expansion e = {.vars = vars, .budget = budget, .out = out};
    return expand_braces(&e, word, 0);
}

int shell_expand_one(const struct shell_vars *vars, const char *word, size_t *budget,
                     struct buf *out) {
    int r = charge(budget, strlen(word) + 1);
    while (r == 0 && *word != '\0') {
        const char *value;
        if (*word != SHELL_VAR && *word != SHELL_QUOTED_VAR) {
            (void)buf_putc(out, without_brace(*word++));
            continue;
        }
        word = variable(vars, word, &value);
        r = charge(budget, strlen(value) + 1);
        (void)buf_puts(out, value);
    }
    return r == 0 && out->failed ? -E2BIG : r;
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
