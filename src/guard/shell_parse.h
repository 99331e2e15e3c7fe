/* Reads a text as `sh -c` would and reports what it finds, in order, without running anything.
 * POSIX shell with the common parts of bash. Time is linear in the text, nesting is bounded. */
#pragma once

#include <stddef.h>

enum { SHELL_MAX_TEXT = 1024 * 1024, SHELL_MAX_DEPTH = 16, SHELL_MAX_HEREDOCS = 16 };

/* Words are reported with quotes removed. What the shell would still expand is one byte below 0x20,
 * so that a quoted '*' is the letter and an unquoted one is SHELL_STAR; control bytes of the text
 * itself (but tab and newline) become 0x7f. A variable is SHELL_VAR name SHELL_NAME_END. */
enum shell_mark {
    SHELL_STAR = 0x01,
    SHELL_ANY = 0x02,     /* ? */
    SHELL_SET = 0x03,     /* [ */
    SHELL_OPEN = 0x04,    /* { */
    SHELL_COMMA = 0x05,   /* , */
    SHELL_CLOSE = 0x06,   /* } */
    SHELL_HOME = 0x07,    /* ~, ~name */
    SHELL_UNKNOWN = 0x08, /* what only running it would tell, such as $(date) */
    SHELL_VAR = 0x0b,     /* $name, outside of quotes: its value is split into words */
    SHELL_QUOTED_VAR = 0x0c,
    SHELL_NAME_END = 0x0e,
};

enum shell_event {
    SHELL_WORD,  /* text: a word of the current command, assignments included */
    SHELL_END,   /* the current command, perhaps empty, ends; text: ; & && || | */
    SHELL_ENTER, /* text: "(" subshell or substitution, "{" group, "=" array literal */
    SHELL_LEAVE,
    SHELL_FUNCTION,    /* the one word so far is the name of a function whose body is next */
    SHELL_WRITE,       /* text: the target of > >| &> <> */
    SHELL_APPEND,      /* text: the target of >> &>> */
    SHELL_HERE_STRING, /* text: the word after <<< */
    SHELL_HERE_START,  /* the current command has a here-document; its body comes after the line */
    SHELL_HERE_BODY,   /* text: the body of the oldest one that is still open */
};

/* Returns 0 to go on; anything else ends the parse and is its result. text is valid for the call.
 */
typedef int (*shell_event_fn)(void *arg, enum shell_event event, const char *text);

/* depth: how deep this text already is inside others. 0, what fn returned, -EINVAL if a shell would
 * not understand the text, -E2BIG if it is too large or nested too deeply, -ENOMEM. */
int shell_parse(const char *text, int depth, shell_event_fn fn, void *arg);
