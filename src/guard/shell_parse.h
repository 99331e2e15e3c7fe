/* Splits a text into commands and words as `sh -c` would and reports them, in order, without
 * running anything. It follows quotes, operators, groups and substitutions; it expands nothing but
 * the home folder, and skips here-documents. Time is linear in the text, nesting is bounded. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

enum {
    SHELL_MAX_TEXT = 1024 * 1024,
    SHELL_MAX_DEPTH = 16,
    SHELL_MAX_HEREDOCS = 16,
    SHELL_MAX_DELIMITER = 64,
};

/* Words are reported with quotes removed. What the shell would still expand is one byte below 0x20,
 * so that a quoted '*' is the letter and an unquoted one is SHELL_STAR; control bytes of the text
 * itself (but tab and newline) become 0x7f. */
enum shell_mark {
    SHELL_STAR = 0x01,
    SHELL_ANY = 0x02,     /* ? */
    SHELL_SET = 0x03,     /* [ */
    SHELL_HOME = 0x07,    /* ~, ~name, $HOME */
    SHELL_UNKNOWN = 0x08, /* a variable or the output of a command */
};

enum shell_event {
    SHELL_WORD,  /* text: a word of the current command, assignments included */
    SHELL_END,   /* the current command, perhaps empty, ends; text: ; & && || | */
    SHELL_ENTER, /* text: "(" subshell or substitution, "{" group, "=" array literal */
    SHELL_LEAVE,
    SHELL_FUNCTION, /* the one word so far is the name of a function whose body is next */
    SHELL_WRITE,    /* text: the target of > >| &> <> */
    SHELL_APPEND,   /* text: the target of >> &>> */
};

/* Returns 0 to go on; anything else ends the parse and is its result. text is valid for the call.
 */
typedef int (*shell_event_fn)(void *arg, enum shell_event event, const char *text);

/* depth: how deep this text already is inside others. 0, what fn returned, -EINVAL if a shell would
 * not understand the text, -E2BIG if it is too large or nested too deeply, -ENOMEM. */
int shell_parse(const char *text, int depth, shell_event_fn fn, void *arg);

/* Appends the word as shell source that means the same, for people or for another shell_parse. */
void shell_unmark(struct buf *out, const char *word);
