/* Help texts from option tables. */
#include <string.h>

#include "cmd/opt.h"

enum { COLUMNS = 80, COLUMNS_MIN = 40, COLUMNS_MAX = 120, LEFT_MAX = 26, GAP = 2 };

static const struct opt help_rows[] = {{.letter = 'h', .name = "help", .help = "Show this help"},
                                       {0}};

/* Columns that a UTF-8 text takes, one per character. */
static size_t width(const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void put_spaces(struct buf *b, size_t n) {
    (void)buf_printf(b, "%*s", (int)n, "");
}

/* Writes one paragraph (up to `end`) from column `at` on, continued at column `indent`. */
static void put_wrapped(struct buf *b, const char *text, const char *end, size_t at, size_t indent,
                        size_t columns) {
    bool first = true;
    for (const char *p = text; p < end;) {
        p += strspn(p, " \n");
        size_t len = MIN(strcspn(p, " \n"), (size_t)(end - MIN(p, end)));
        if (len == 0)
            break;
        size_t w = width(p, len);
        if (!first && at + 1 + w > columns) {
            (void)buf_putc(b, '\n');
            put_spaces(b, indent);
            at = indent;
        } else if (!first) {
            (void)buf_putc(b, ' ');
            at++;
        }
        (void)buf_append(b, p, len);
        at += w;
        p += len;
        first = false;
    }
    (void)buf_putc(b, '\n');
}

/* Two columns: the left text, and the right one wrapped beside it or below it if it is long. */
static void put_row(struct buf *b, const char *left, const char *right, size_t left_width,
                    size_t columns) {
    size_t indent = GAP + left_width + GAP;
    size_t w = width(left, strlen(left));
    (void)buf_printf(b, "%*s%s", (int)GAP, "", left);
    if (w > left_width) {
        (void)buf_putc(b, '\n');
        put_spaces(b, indent);
    } else {
        put_spaces(b, indent - GAP - w);
    }
    put_wrapped(b, right, right + strlen(right), indent, indent, columns);
}

static void put_paragraphs(struct buf *b, const char *text, size_t columns) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        if (end == NULL)
            end = text + strlen(text);
        (void)buf_putc(b, '\n');
        put_wrapped(b, text, end, 0, 0, columns);
        text = end + strspn(end, "\n");
    }
}

/* ---- options ---- */

/* "-m, --memory SIZE"; the letter is left out where a command's own option took it. */
static void option_left(struct buf *b, const struct opt *o, bool show_letter) {
    buf_clear(b);
    if (o->letter != '\0' && show_letter)
        (void)buf_printf(b, "-%c, ", o->letter);
    else
        (void)buf_puts(b, "    ");
    (void)buf_printf(b, "--%s", o->name);
    if (opt_takes_value(o))
        (void)buf_printf(b, " %s", o->arg != NULL ? o->arg : "VALUE");
}

static void option_right(struct buf *b, const struct opt *o) {
    buf_clear(b);
    (void)buf_puts(b, o->help != NULL ? o->help : "");
    if (o->kind == OPT_CHOICE) {
        for (int i = 0; o->choices[i] != NULL; i++)
            (void)buf_printf(b, "%s%s", i == 0 ? " (" : ", ", o->choices[i]);
        (void)buf_putc(b, ')');
    } else if (o->kind == OPT_STRINGS) {
        (void)buf_puts(b, " (may be repeated)");
    }
}

static size_t options_width(const struct opt *table, const struct opt *over) {
    _cleanup_(buf_free) struct buf left = BUF_INIT(256);
    size_t widest = 0;
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++) {
        if (!opt_is_shown(o, over))
            continue;
        option_left(&left, o, true);
        if (left.len <= LEFT_MAX)
            widest = MAX(widest, left.len);
    }
    return widest;
}

static void put_option(struct buf *b, const struct opt *o, bool show_letter, size_t left_width,
                       size_t columns) {
    _cleanup_(buf_free) struct buf left = BUF_INIT(256);
    _cleanup_(buf_free) struct buf right = BUF_INIT(4096);
    option_left(&left, o, show_letter);
    option_right(&right, o);
    put_row(b, buf_text(&left), buf_text(&right), left_width, columns);
}

static void put_options(struct buf *b, const struct opt *table, const struct opt *over,
                        size_t left_width, size_t columns) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++)
        if (opt_is_shown(o, over))
            put_option(b, o, !opt_has_letter(over, o->letter), left_width, columns);
}

/* The command's own options with --help, then those that all commands share. */
static void put_all_options(struct buf *b, const struct opt *own, const struct opt *common,
                            size_t columns) {
    size_t left = options_width(help_rows, own);
    left = MAX(left, options_width(own, NULL));
    left = MAX(left, options_width(common, own));
    bool letter = !opt_has_letter(own, 'h') && !opt_has_letter(common, 'h');
    (void)buf_puts(b, "\nOptions:\n");
    put_options(b, own, NULL, left, columns);
    if (opt_is_shown(help_rows, own) && opt_is_shown(help_rows, common))
        put_option(b, help_rows, letter, left, columns);
    if (options_width(common, own) > 0)
        (void)buf_puts(b, "\nCommon options:\n");
    put_options(b, common, own, left, columns);
}

/* ---- commands ---- */

static size_t commands_width(const struct opt_command *const *table, size_t count) {
    size_t widest = 0;
    for (size_t i = 0; i < count; i++)
        if (!table[i]->hidden && strlen(table[i]->name) <= LEFT_MAX)
            widest = MAX(widest, strlen(table[i]->name));
    return widest;
}

static const char *group_of(const struct opt_command *cmd) {
    return cmd->group != NULL ? cmd->group : "Commands";
}

static void put_group(struct buf *b, const struct opt_command *const *table, size_t count,
                      const char *group, size_t columns) {
    size_t left_width = commands_width(table, count);
    (void)buf_printf(b, "\n%s:\n", group);
    for (size_t i = 0; i < count; i++)
        if (!table[i]->hidden && strcmp(group_of(table[i]), group) == 0)
            put_row(b, table[i]->name, table[i]->summary, left_width, columns);
}

/* Groups in the order in which they first occur. */
static void put_commands(struct buf *b, const struct opt_command *const *table, size_t count,
                         size_t columns) {
    for (size_t i = 0; i < count; i++) {
        bool seen = table[i]->hidden;
        for (size_t j = 0; j < i && !seen; j++)
            seen = !table[j]->hidden && strcmp(group_of(table[j]), group_of(table[i])) == 0;
        if (!seen)
            put_group(b, table, count, group_of(table[i]), columns);
    }
}

static size_t usable(unsigned columns) {
    if (columns == 0)
        return COLUMNS;
    return MIN(MAX(columns, (unsigned)COLUMNS_MIN), (unsigned)COLUMNS_MAX);
}

static void put_aliases(struct buf *b, const struct opt_command *cmd) {
    for (const char *const *a = cmd->aliases; a != NULL && *a != NULL; a++)
        (void)buf_printf(b, "%s%s", a == cmd->aliases ? "\nAlso: " : ", ", *a);
    if (cmd->aliases != NULL && cmd->aliases[0] != NULL)
        (void)buf_putc(b, '\n');
}

static void put_examples(struct buf *b, const char *text) {
    (void)buf_puts(b, "\nExamples:\n");
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        if (len > 0)
            (void)buf_printf(b, "%*s%.*s", (int)GAP, "", (int)len, text);
        (void)buf_putc(b, '\n');
        text += len + (text[len] == '\n');
    }
}

void opt_print_help(struct buf *b, const struct opt_command *cmd, const struct opt *common,
                    unsigned columns) {
    size_t wide = usable(columns);
    (void)buf_printf(b, "Usage: %s %s\n\n", cmd->path, cmd->synopsis != NULL ? cmd->synopsis : "");
    put_wrapped(b, cmd->summary, cmd->summary + strlen(cmd->summary), 0, 0, wide);
    if (cmd->help != NULL)
        put_paragraphs(b, cmd->help, wide);
    put_aliases(b, cmd);
    if (cmd->subcommands != NULL)
        put_commands(b, cmd->subcommands, opt_count_commands(cmd->subcommands), wide);
    put_all_options(b, cmd->options, common, wide);
    if (cmd->examples != NULL)
        put_examples(b, cmd->examples);
}

void opt_print_commands(struct buf *b, const char *path, const char *about,
                        const struct opt_command *const *table, size_t count,
                        const struct opt *common, unsigned columns) {
    size_t wide = usable(columns);
    (void)buf_printf(b, "Usage: %s [OPTIONS] COMMAND [ARG...]\n\n", path);
    put_wrapped(b, about, about + strlen(about), 0, 0, wide);
    put_commands(b, table, count, wide);
    put_all_options(b, common, NULL, wide);
    (void)buf_printf(b, "\nSee '%s COMMAND --help' for one command.\n", path);
}
