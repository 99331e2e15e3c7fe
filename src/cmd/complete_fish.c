/* The completion script for fish: a function that finds the command that the words lead to, and one
 * `complete` line per option and command, each on condition of it. */
#include "cmd/complete.h"

static void put_text(struct buf *b, const char *text) {
    (void)buf_putc(b, '\'');
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'' || *c == '\\')
            (void)buf_putc(b, '\\');
        (void)buf_putc(b, *c);
    }
    (void)buf_putc(b, '\'');
}

/* ---- where are we ---- */

static void put_patterns(struct buf *b, const char *words, const struct opt *table) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++) {
        (void)buf_printf(b, "                case '%s|--%s'", words, o->name);
        if (o->letter != '\0')
            (void)buf_printf(b, " '%s|-%c'", words, o->letter);
        (void)buf_printf(b, "\n                    set skip %d\n", opt_takes_value(o) ? 1 : 0);
    }
}

static void put_own_patterns(const struct opt_program *p, const char *parent, const char *words,
                             const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)parent;
    put_patterns(b, words, cmd->options);
}

static void put_descent(const struct opt_program *p, const char *parent, const char *words,
                        const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)buf_printf(b, "                case '%s|%s'", parent, cmd->name);
    for (const char *const *a = cmd->aliases; a != NULL && *a != NULL; a++)
        (void)buf_printf(b, " '%s|%s'", parent, *a);
    (void)buf_printf(b, "\n                    set path '%s'\n", words);
}

static void put_stop(const struct opt_program *p, const char *parent, const char *words,
                     const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)parent;
    if (cmd->stop_at_operand)
        (void)buf_printf(b, " '%s'", words);
}

/* The function prints the words of the command, and behind a '|' "open", "open-operands" once those
 * began, or "ended" where no option can follow. */
static void put_where(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b,
                     "function __%s_where\n"
                     "    set -l path ''\n"
                     "    set -l skip 0\n"
                     "    set -l state open\n"
                     "    set -l words (commandline -opc)\n"
                     "    for word in $words[2..-1]\n"
                     "        if test $skip = 1\n"
                     "            set skip 0\n"
                     "        else if test \"$word\" = --\n"
                     "            set state ended\n"
                     "            break\n"
                     "        else if string match -q -- '-*' $word\n"
                     "            switch \"$path|$word\"\n",
                     p->name);
    opt_walk(p, put_own_patterns, b);
    put_patterns(b, "*", p->common);
    (void)buf_puts(b, "            end\n"
                      "        else\n"
                      "            switch \"$path|$word\"\n");
    opt_walk(p, put_descent, b);
    (void)buf_puts(b, "                case '*'\n"
                      "                    set state open-operands\n"
                      "                    switch \"$path\"\n"
                      "                        case '|'");
    opt_walk(p, put_stop, b);
    (void)buf_puts(b, "\n                            set state ended\n"
                      "                            break\n"
                      "                    end\n"
                      "            end\n"
                      "        end\n"
                      "    end\n"
                      "    echo \"$path|$state\"\n"
                      "end\n\n");
    (void)buf_printf(b,
                     "function __%s_at\n"
                     "    string match -q -- $argv[1] (__%s_where)\n"
                     "end\n\n",
                     p->name, p->name);
}

/* ---- what to offer ---- */

static void put_condition(const struct opt_program *p, struct buf *b, const char *words,
                          const char *state) {
    (void)buf_printf(b, "complete -c %s -n '__%s_at \"%s|%s\"'", p->name, p->name, words, state);
}

static void put_value(struct buf *b, const struct opt *o) {
    if (!opt_takes_value(o))
        return;
    if (o->kind == OPT_CHOICE) {
        (void)buf_puts(b, " -x -a '");
        for (int i = 0; o->choices[i] != NULL; i++)
            (void)buf_printf(b, "%s%s", i > 0 ? " " : "", o->choices[i]);
        (void)buf_putc(b, '\'');
    } else if (o->complete == OPT_COMPLETE_FOLDER) {
        (void)buf_puts(b, " -x -a '(__fish_complete_directories)'");
    } else {
        (void)buf_puts(b, o->complete == OPT_COMPLETE_FILE ? " -r -F" : " -x");
    }
}

static void put_options(const struct opt_program *p, struct buf *b, const char *words,
                        const struct opt *table, const struct opt *over) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++) {
        if (!opt_is_shown(o, over))
            continue;
        put_condition(p, b, words, "open*");
        (void)buf_printf(b, " -l %s", o->name);
        if (o->letter != '\0' && !opt_has_letter(over, o->letter))
            (void)buf_printf(b, " -s %c", o->letter);
        put_value(b, o);
        (void)buf_puts(b, " -d ");
        put_text(b, o->help != NULL ? o->help : "");
        (void)buf_putc(b, '\n');
    }
}

static void put_operands(const struct opt_program *p, struct buf *b, const char *words,
                         const struct opt_command *cmd) {
    if (cmd->candidates != NULL) {
        put_condition(p, b, words, cmd->stop_at_operand ? "open" : "open*");
        (void)buf_printf(b, " -a '(%s %s 2>/dev/null)'\n", p->name, cmd->candidates);
    }
    if (cmd->max_operands != 0 && (cmd->candidates == NULL || cmd->stop_at_operand)) {
        put_condition(p, b, words, cmd->candidates != NULL ? "ended" : "*");
        (void)buf_puts(b, " -F\n");
    }
}

static void put_command(const struct opt_program *p, const char *parent, const char *words,
                        const struct opt_command *cmd, struct buf *b) {
    put_condition(p, b, parent, "open");
    (void)buf_printf(b, " -a %s -d ", cmd->name);
    put_text(b, cmd->summary);
    (void)buf_putc(b, '\n');
    if (cmd->subcommands != NULL)
        return;
    put_options(p, b, words, cmd->options, NULL);
    put_options(p, b, words, p->common, cmd->options);
    put_operands(p, b, words, cmd);
}

void opt_complete_fish(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b, "# fish completion of %s, written by '%s completion fish'\n\n", p->name,
                     p->name);
    put_where(p, b);
    (void)buf_printf(b, "complete -c %s -f\ncomplete -c %s -l help -d 'Show help'\n", p->name,
                     p->name);
    put_options(p, b, "", p->common, NULL);
    opt_walk(p, put_command, b);
}
