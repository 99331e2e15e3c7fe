/* Turns the marked words of shell_parse.h into the words that a command would get, as far as they
 * can be known without running anything: braces, and variables that the text itself assigned. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "guard/words.h"

enum { SHELL_MAX_VARS = 64, SHELL_MAX_NAME = 32, SHELL_MAX_VALUE = 4096 };

/* The last values assigned; the oldest is forgotten when it is full. Zero it to begin. */
struct shell_vars {
    struct shell_var {
        char name[SHELL_MAX_NAME];
        char *value; /* NULL: not known */
    } v[SHELL_MAX_VARS];
    size_t next;
};

/* Remembers a value (with marks); too long a name or value is remembered as not known. */
int shell_vars_set(struct shell_vars *vars, const char *name, size_t len, const char *value);
void shell_vars_free(struct shell_vars *vars);

/* Appends the words that `word` becomes. Pattern marks, SHELL_HOME and SHELL_UNKNOWN stay; no other
 * mark does. Takes what it costs from *budget. 0, -E2BIG beyond the budget, -ENOMEM. */
int shell_expand(const struct shell_vars *vars, const char *word, size_t *budget,
                 struct words *out);

/* As shell_expand for a place where the shell neither splits nor expands braces. */
int shell_expand_one(const struct shell_vars *vars, const char *word, size_t *budget,
                     struct buf *out);

/* Appends the word as shell source that means the same, for people or for another shell_parse. */
void shell_unmark(struct buf *out, const char *word);
