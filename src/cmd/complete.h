/* What the writers of completion scripts share; private to opt_complete*.c. */
#pragma once

#include "cmd/opt.h"

enum { OPT_WORDS_SIZE = 128 };

struct opt_program {
    const char *name;
    const struct opt_command *const *table;
    size_t count;
    const struct opt *common;
};

/* Called with the words that lead to a command ("image pull") and to its parent ("image"). */
typedef void (*opt_visit)(const struct opt_program *p, const char *parent, const char *words,
                          const struct opt_command *cmd, struct buf *b);

/* Visits every command that is not hidden, a group before its commands. */
void opt_walk(const struct opt_program *p, opt_visit visit, struct buf *b);

void opt_complete_bash(const struct opt_program *p, struct buf *b);
void opt_complete_zsh(const struct opt_program *p, struct buf *b);
void opt_complete_fish(const struct opt_program *p, struct buf *b);
