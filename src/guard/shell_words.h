/* The words of a shell text: quotes, escapes, substitutions. Internal to the parser. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "guard/shell_parse.h"

struct shell_heredoc {
    char delimiter[SHELL_MAX_DELIMITER];
    bool strip_tabs; /* <<- */
};

struct shell {
    const char *at;
    const char *end;
    int depth;
    shell_event_fn fn;
    void *arg;
    struct shell_heredoc heredocs[SHELL_MAX_HEREDOCS];
    size_t heredoc_count;
};

/* The byte `ahead` of the current one, or -1 beyond the end. */
int shell_peek(const struct shell *s, size_t ahead);

/* Appends the word at the current place, which must be no blank and no operator; *ret_quoted says
 * whether any of it was quoted, so that it cannot be a keyword. Commands that are substituted in it
 * are reported before this returns. 0 or as shell_parse. */
int shell_word(struct shell *s, struct buf *out, bool *ret_quoted);

/* shell_parse.c: reads commands up to `closer` (')', '}', 0 for the end of the text) and eats it.
 */
int shell_list(struct shell *s, char closer);
