/* The completion script for bash: one function that walks the words to find the command and the
 * option that waits for a value, then offers words or file names. */
#include "cmd/complete.h"

/* ---- where are we ---- */

/* "'run|--memory' | 'run|-m'": a pattern for one option below `words`; "*" is any command. */
static void put_pattern(struct buf *b, const char *words, const struct opt *o, bool letter) {
    (void)buf_printf(b, "    %s'|--%s'", words, o->name);
    if (letter && o->letter != '\0')
        (void)buf_printf(b, " | %s'|-%c'", words, o->letter);
    (void)buf_puts(b, ") ");
}

static void quoted(char out[static OPT_WORDS_SIZE + 3], const char *words) {
    (void)snprintf(out, OPT_WORDS_SIZE + 3, "'%s'", words);
}

/* Own options come first, so that a flag hides a common option with a value. */
static void put_pending(const struct opt_program *p, const char *parent, const char *words,
                        const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)parent;
    char at[OPT_WORDS_SIZE + 3];
    quoted(at, words);
    for (const struct opt *o = cmd->options; o != NULL && o->name != NULL; o++) {
        put_pattern(b, at, o, true);
        (void)buf_puts(b, opt_takes_value(o) ? "option=$word ;;\n" : ";;\n");
    }
}

static void put_pending_function(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b, "_%s_pending() {\n    case \"$path|$word\" in\n", p->name);
    opt_walk(p, put_pending, b);
    for (const struct opt *o = p->common; o != NULL && o->name != NULL; o++) {
        put_pattern(b, "*", o, true);
        (void)buf_puts(b, opt_takes_value(o) ? "option=$word ;;\n" : ";;\n");
    }
    (void)buf_puts(b, "    *) ;;\n    esac\n}\n\n");
}

static void put_descent(const struct opt_program *p, const char *parent, const char *words,
                        const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)buf_printf(b, "    '%s|%s'", parent, cmd->name);
    for (const char *const *a = cmd->aliases; a != NULL && *a != NULL; a++)
        (void)buf_printf(b, " | '%s|%s'", parent, *a);
    (void)buf_printf(b, ") path='%s' ;;\n", words);
}

static void put_stop(const struct opt_program *p, const char *parent, const char *words,
                     const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)parent;
    if (cmd->stop_at_operand)
        (void)buf_printf(b, "    '%s') ended=1 ;;\n", words);
}

static void put_operand_function(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b,
                     "_%s_operand() {\n"
                     "    if ((operands == 0)); then\n"
                     "    case \"$path|$word\" in\n",
                     p->name);
    opt_walk(p, put_descent, b);
    (void)buf_puts(b, "    *) operands=1 ;;\n    esac\n    fi\n"
                      "    ((operands == 0)) && return\n"
                      "    case \"$path\" in\n");
    opt_walk(p, put_stop, b);
    (void)buf_puts(b, "    *) ;;\n    esac\n}\n\n");
}

/* ---- what to offer ---- */

static void put_value(struct buf *b, const char *words, const struct opt *o) {
    if (!opt_takes_value(o) || o->hidden)
        return;
    put_pattern(b, words, o, true);
    if (o->kind == OPT_CHOICE) {
        (void)buf_puts(b, "list=(");
        for (int i = 0; o->choices[i] != NULL; i++)
            (void)buf_printf(b, "%s'%s'", i > 0 ? " " : "", o->choices[i]);
        (void)buf_puts(b, ") ;;\n");
    } else if (o->complete == OPT_COMPLETE_NOTHING) {
        (void)buf_puts(b, ";;\n");
    } else {
        (void)buf_printf(b, "files=-%c ;;\n", o->complete == OPT_COMPLETE_FOLDER ? 'd' : 'f');
    }
}

static void put_own_values(const struct opt_program *p, const char *parent, const char *words,
                           const struct opt_command *cmd, struct buf *b) {
    (void)p;
    (void)parent;
    char at[OPT_WORDS_SIZE + 3];
    quoted(at, words);
    for (const struct opt *o = cmd->options; o != NULL && o->name != NULL; o++)
        put_value(b, at, o);
}

static void put_values_function(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b, "_%s_values() {\n    case \"$path|$option\" in\n", p->name);
    opt_walk(p, put_own_values, b);
    for (const struct opt *o = p->common; o != NULL && o->name != NULL; o++)
        put_value(b, "*", o);
    (void)buf_puts(b, "    *) ;;\n    esac\n}\n\n");
}

static void put_option_words(struct buf *b, const struct opt *table, const struct opt *over) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++) {
        if (!opt_is_shown(o, over))
            continue;
        (void)buf_printf(b, " --%s", o->name);
        if (o->letter != '\0' && !opt_has_letter(over, o->letter))
            (void)buf_printf(b, " -%c", o->letter);
    }
}

static void put_own_options(const struct opt_program *p, const char *parent, const char *words,
                            const struct opt_command *cmd, struct buf *b) {
    (void)parent;
    (void)buf_printf(b, "    '%s') list=(--help", words);
    put_option_words(b, cmd->options, NULL);
    put_option_words(b, p->common, cmd->options);
    (void)buf_puts(b, ") ;;\n");
}

static void put_options_function(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b, "_%s_options() {\n    case \"$path\" in\n", p->name);
    opt_walk(p, put_own_options, b);
    (void)buf_puts(b, "    *) list=(--help");
    put_option_words(b, p->common, NULL);
    (void)buf_puts(b, ") ;;\n    esac\n}\n\n");
}

static void put_names(struct buf *b, const char *words, const struct opt_command *const *table,
                      size_t count) {
    (void)buf_printf(b, "    '%s') list=(", words);
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        if (table[i]->hidden)
            continue;
        (void)buf_printf(b, "%s%s", first ? "" : " ", table[i]->name);
        first = false;
    }
    (void)buf_puts(b, ") ;;\n");
}

static void put_own_words(const struct opt_program *p, const char *parent, const char *words,
                          const struct opt_command *cmd, struct buf *b) {
    (void)parent;
    if (cmd->subcommands != NULL)
        put_names(b, words, cmd->subcommands, opt_count_commands(cmd->subcommands));
    else if (cmd->max_operands == 0)
        (void)buf_printf(b, "    '%s') ;;\n", words);
    else if (cmd->candidates != NULL)
        (void)buf_printf(b, "    '%s') mapfile -t list < <(%s %s 2>/dev/null) ;;\n", words, p->name,
                         cmd->candidates);
}

static void put_words_function(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b,
                     "_%s_words() {\n"
                     "    if ((ended)); then\n        files=-f\n        return\n    fi\n"
                     "    case \"$path\" in\n",
                     p->name);
    put_names(b, "", p->table, p->count);
    opt_walk(p, put_own_words, b);
    (void)buf_puts(b, "    *) files=-f ;;\n    esac\n}\n\n");
}

/* ---- the whole ---- */

/* bash cuts words at '=' and ':' too: "--name=value" comes as three words, "a:b" as three. */
/* bash cuts words at colons, which image names and volumes have: those of the word that is being
 * typed are joined again, and the shell gets what follows the last colon. */
static const char main_function[] =
    "() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} path='' option='' files='' word i\n"
    "    local operands=0 ended=0 list=() last=$COMP_CWORD prefix=''\n"
    "    COMPREPLY=()\n"
    "    while ((last > 1)) && [[ ${COMP_WORDS[last]} == : || ${COMP_WORDS[last - 1]} == : ]]; do\n"
    "        last=$((last - 1))\n"
    "        cur=${COMP_WORDS[last]}$cur\n"
    "    done\n"
    "    [[ $COMP_WORDBREAKS == *:* ]] && prefix=${cur%\"${cur##*:}\"}\n"
    "    for ((i = 1; i < last; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ $word == = && -n $option ]]; then\n"
    "            continue\n"
    "        elif [[ $word == [=:] ]]; then\n"
    "            i=$((i + 1))\n"
    "        elif [[ -n $option ]]; then\n"
    "            option=''\n"
    "        elif [[ $word == -- ]]; then\n"
    "            ended=1\n"
    "        elif [[ $word == -* ]]; then\n"
    "            _@_pending\n"
    "        else\n"
    "            _@_operand\n"
    "        fi\n"
    "        ((ended)) && break\n"
    "    done\n"
    "    [[ $cur == = ]] && cur=''\n"
    "    if ((i > last)); then\n"
    "        files=-f\n"
    "    elif [[ -n $option ]]; then\n"
    "        _@_values\n"
    "    elif [[ $cur == -* ]] && ((!ended)); then\n"
    "        _@_options\n"
    "    else\n"
    "        _@_words\n"
    "    fi\n"
    "    if [[ -n $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen \"$files\" -- \"${cur#\"$prefix\"}\")\n"
    "        return\n"
    "    fi\n"
    "    for word in \"${list[@]}\"; do\n"
    "        [[ $word == \"$cur\"* && $word =~ ^[A-Za-z0-9._/@:-]+$ ]] &&\n"
    "            COMPREPLY+=(\"${word#\"$prefix\"}\")\n"
    "    done\n"
    "}\n\n";

void opt_complete_bash(const struct opt_program *p, struct buf *b) {
    (void)buf_printf(b, "# bash completion of %s, written by '%s completion bash'\n\n", p->name,
                     p->name);
    put_pending_function(p, b);
    put_operand_function(p, b);
    put_values_function(p, b);
    put_options_function(p, b);
    put_words_function(p, b);
    (void)buf_printf(b, "_%s", p->name);
    for (const char *c = main_function; *c != '\0'; c++)
        (void)(*c == '@' && c[-1] == '_' ? buf_puts(b, p->name) : buf_putc(b, *c));
    (void)buf_printf(b, "complete -F _%s %s\n", p->name, p->name);
}
