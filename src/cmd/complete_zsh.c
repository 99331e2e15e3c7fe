/* The completion script for zsh: one function per command, each a call of _arguments. */
#include "cmd/complete.h"

/* Text inside single quotes where _arguments and _describe give [ ] : and \ a meaning. */
static void put_text(struct buf *b, const char *text) {
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'')
            (void)buf_puts(b, "'\\''");
        else if (*c == '[' || *c == ']' || *c == ':' || *c == '\\')
            (void)buf_printf(b, "\\%c", *c);
        else
            (void)buf_putc(b, *c);
    }
}

/* "_cay_image_pull" */
static void put_function(struct buf *b, const struct opt_program *p, const char *words) {
    (void)buf_printf(b, "_%s%s", p->name, *words != '\0' ? "_" : "");
    for (const char *c = words; *c != '\0'; c++)
        (void)buf_putc(b, *c == ' ' ? '_' : *c);
}

/* ":SIZE: ", ":MODE:(none bridge)", ":FILE:_files" */
static void put_action(struct buf *b, const struct opt *o) {
    (void)buf_putc(b, ':');
    put_text(b, o->arg != NULL ? o->arg : "VALUE");
    (void)buf_putc(b, ':');
    if (o->kind == OPT_CHOICE) {
        for (int i = 0; o->choices[i] != NULL; i++)
            (void)buf_printf(b, "%s%s", i == 0 ? "(" : " ", o->choices[i]);
        (void)buf_putc(b, ')');
    } else if (o->complete == OPT_COMPLETE_NOTHING) {
        (void)buf_putc(b, ' ');
    } else {
        (void)buf_puts(b, o->complete == OPT_COMPLETE_FOLDER ? "_files -/" : "_files");
    }
}

/* One spec for one spelling; the other spelling is no longer offered then, unless repeatable. */
static void put_spelling(struct buf *b, const struct opt *o, bool letter, bool both) {
    (void)buf_puts(b, "        '");
    if (o->kind == OPT_STRINGS || o->kind == OPT_CALL)
        (void)buf_putc(b, '*');
    else if (both)
        (void)buf_printf(b, "(-%c --%s)", o->letter, o->name);
    if (letter)
        (void)buf_printf(b, "-%c%s[", o->letter, opt_takes_value(o) ? "+" : "");
    else
        (void)buf_printf(b, "--%s%s[", o->name, opt_takes_value(o) ? "=" : "");
    put_text(b, o->help != NULL ? o->help : "");
    (void)buf_putc(b, ']');
    if (opt_takes_value(o))
        put_action(b, o);
    (void)buf_puts(b, "' \\\n");
}

static void put_options(struct buf *b, const struct opt *table, const struct opt *over) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++) {
        if (!opt_is_shown(o, over))
            continue;
        bool both = o->letter != '\0' && !opt_has_letter(over, o->letter);
        put_spelling(b, o, false, both);
        if (both)
            put_spelling(b, o, true, both);
    }
}

static void put_names(struct buf *b, const struct opt_command *const *table, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (table[i]->hidden)
            continue;
        (void)buf_printf(b, "            '%s:", table[i]->name);
        put_text(b, table[i]->summary);
        (void)buf_puts(b, "'\n");
    }
}

static void put_dispatch(const struct opt_program *p, struct buf *b, const char *words,
                         const struct opt_command *const *table, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (table[i]->hidden)
            continue;
        (void)buf_printf(b, "        %s", table[i]->name);
        for (const char *const *a = table[i]->aliases; a != NULL && *a != NULL; a++)
            (void)buf_printf(b, "|%s", *a);
        (void)buf_puts(b, ") ");
        put_function(b, p, words);
        (void)buf_printf(b, "_%s ;;\n", table[i]->name);
    }
}

/* A function that completes the name of a command and hands over to the command's own. */
static void put_group(const struct opt_program *p, struct buf *b, const char *words,
                      const struct opt_command *const *table, size_t count) {
    put_function(b, p, words);
    (void)buf_puts(b, "() {\n"
                      "    local context state state_descr line\n"
                      "    local -A opt_args\n"
                      "    _arguments -C -s \\\n");
    put_options(b, p->common, NULL);
    (void)buf_puts(b, "        '--help[Show help]' \\\n"
                      "        '1: :->command' \\\n"
                      "        '*:: :->rest'\n"
                      "    case $state in\n"
                      "    command)\n"
                      "        local -a commands\n"
                      "        commands=(\n");
    put_names(b, table, count);
    (void)buf_puts(b, "        )\n"
                      "        _describe -t commands command commands\n"
                      "        ;;\n"
                      "    rest)\n"
                      "        case $words[1] in\n");
    put_dispatch(p, b, words, table, count);
    (void)buf_puts(b, "        esac\n        ;;\n    esac\n}\n\n");
}

/* "(-)" ends the options at the first operand. */
static void put_operands(const struct opt_program *p, struct buf *b,
                         const struct opt_command *cmd) {
    const char *stop = cmd->stop_at_operand ? "(-)" : "";
    if (cmd->candidates != NULL)
        (void)buf_printf(b, "        '%s%s:name:{compadd -- ${(f)\"$(%s %s 2>/dev/null)\"}}' \\\n",
                         stop, cmd->max_operands == 1 || cmd->stop_at_operand ? "1" : "*", p->name,
                         cmd->candidates);
    if (cmd->max_operands != 0 && (cmd->candidates == NULL || cmd->stop_at_operand))
        (void)buf_printf(b, "        '%s*:argument:_files' \\\n", stop);
}

static void put_command(const struct opt_program *p, const char *parent, const char *words,
                        const struct opt_command *cmd, struct buf *b) {
    (void)parent;
    if (cmd->subcommands != NULL) {
        put_group(p, b, words, cmd->subcommands, opt_count_commands(cmd->subcommands));
        return;
    }
    put_function(b, p, words);
    (void)buf_puts(b, "() {\n    _arguments -s -S \\\n");
    put_options(b, cmd->options, NULL);
    put_options(b, p->common, cmd->options);
    put_operands(p, b, cmd);
    (void)buf_puts(b, "        '--help[Show help]'\n}\n\n");
}

void opt_complete_zsh(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b, "#compdef %s\n# zsh completion of %s, written by '%s completion zsh'\n\n",
                     p->name, p->name, p->name);
    opt_walk(p, put_command, b);
    put_group(p, b, "", p->table, p->count);
    /* autoloaded from a file it runs at once, evaluated it only registers */
    (void)buf_printf(b,
                     "if [[ ${funcstack[1]} == _%s ]]; then\n    _%s \"$@\"\n"
                     "else\n    compdef _%s %s\nfi\n",
                     p->name, p->name, p->name, p->name);
}
