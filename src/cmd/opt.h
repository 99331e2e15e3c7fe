/* Options and subcommands from tables. One table drives parsing, help and shell completion, so the
 * three cannot disagree. Everything here is pure: nothing is printed, nothing exits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct cay_error;
struct opt;
struct opt_command;

/* What an option writes to its place in the values. */
enum opt_kind {
    OPT_FLAG,     /* bool; --no-NAME clears it */
    OPT_STRING,   /* const char *, pointing into argv */
    OPT_INTEGER,  /* int64_t */
    OPT_NUMBER,   /* double */
    OPT_SIZE,     /* uint64_t: bytes, in the notation of str_to_size */
    OPT_DURATION, /* int64_t: milliseconds, in the notation of str_to_duration */
    OPT_CHOICE,   /* int: the index of the word in choices */
    OPT_STRINGS,  /* struct strv: every occurrence appends a copy */
    OPT_CALL,     /* whatever call() does; takes a value if arg is set */
};

/* Kind and place of an option; a member of another type than the kind needs does not compile. */
#define OPT_PLACE(k, s, m, ...) .kind = (k), .offset = _Generic(((s *)0)->m, __VA_ARGS__)
#define OPT_TO_FLAG(s, m)       OPT_PLACE(OPT_FLAG, s, m, bool : offsetof(s, m))
#define OPT_TO_STRING(s, m)     OPT_PLACE(OPT_STRING, s, m, const char * : offsetof(s, m))
#define OPT_TO_INTEGER(s, m)    OPT_PLACE(OPT_INTEGER, s, m, int64_t : offsetof(s, m))
#define OPT_TO_NUMBER(s, m)     OPT_PLACE(OPT_NUMBER, s, m, double : offsetof(s, m))
#define OPT_TO_SIZE(s, m)       OPT_PLACE(OPT_SIZE, s, m, uint64_t : offsetof(s, m))
#define OPT_TO_DURATION(s, m)   OPT_PLACE(OPT_DURATION, s, m, int64_t : offsetof(s, m))
#define OPT_TO_CHOICE(s, m)     OPT_PLACE(OPT_CHOICE, s, m, int : offsetof(s, m))
#define OPT_TO_STRINGS(s, m)    OPT_PLACE(OPT_STRINGS, s, m, struct strv : offsetof(s, m))

/* text is NULL for an option without a value. 0, or a negative code with err filled. */
typedef int (*opt_call)(const struct opt *o, const char *text, void *values, struct cay_error *err);

/* How the shell completes the value. */
enum opt_complete { OPT_COMPLETE_NOTHING, OPT_COMPLETE_FILE, OPT_COMPLETE_FOLDER };

/* One option. A table of them ends with a row without a name. */
struct opt {
    char letter;      /* 0: no short form */
    const char *name; /* without the dashes: lower case letters, digits, '-' */
    enum opt_kind kind;
    size_t offset;
    const char *arg;            /* what the value is called in the help: "SIZE" */
    const char *help;           /* one line, no full stop */
    double min, max;            /* bounds of a number, of bytes or of milliseconds; equal: none */
    const char *const *choices; /* OPT_CHOICE: NULL-terminated */
    opt_call call;              /* OPT_CALL */
    enum opt_complete complete;
    bool hidden; /* parsed, but in no help and no completion */
};

enum { OPT_OPERANDS_ANY = -1 };

/* A word that users of other programs type, and what to type here. A table of them ends with a row
 * without a word. */
struct opt_habit {
    const char *typed; /* "inspect", "--privileged", "-d" */
    const char *answer;
};

/* One command, or one group of commands (`subcommands` set: then it has no options of its own and
 * the caller looks the next word up in it). */
struct opt_command {
    const char *name;
    const char *const *aliases;     /* NULL-terminated, or NULL */
    const char *path;               /* what people type to get here: "cay image pull" */
    const char *synopsis;           /* what follows it: "[OPTIONS] [--] COMMAND [ARG...]" */
    const char *summary;            /* one line, no full stop */
    const char *help;               /* paragraphs, separated by an empty line; NULL if none */
    const char *examples;           /* lines, shown as they are; NULL if none */
    const char *group;              /* heading in the overview; NULL: "Commands" */
    const struct opt *options;      /* NULL if none */
    const struct opt_habit *habits; /* options of other programs; NULL if none */
    bool stop_at_operand;           /* all words from the first operand on are operands */
    bool is_destructive;            /* never suggested for a word that was mistyped */
    bool hidden;
    int min_operands, max_operands; /* OPT_OPERANDS_ANY: no upper bound */
    const char *candidates; /* arguments with which the program lists the first operand's candidates
                             * for completion ("ls -q"); NULL: file names */
    const struct opt_command *const *subcommands; /* NULL-terminated, or NULL */
    size_t values_size;
    const void *defaults; /* values_size bytes to start from; NULL: zeroes */
    int (*run)(const struct opt_command *cmd, void *values, int argc, char **argv);
};

/* The operands: argc words, argv[argc] is NULL. */
struct opt_rest {
    int argc;
    char **argv;
};

/* Fresh values of a command, from its defaults; NULL on OOM. Release with opt_values_free. */
void *opt_values_new(const struct opt_command *cmd);
void opt_values_free(const struct opt_command *cmd, const struct opt *common, void *values);

/* Reads the words after the command's name; argv[argc] must be NULL. The places of the common
 * options (NULL if none) are offsets into values too: a command's values start with them. A row of
 * the command hides a common one with the same name or letter. Operands are moved to the front of
 * argv. Returns 0, 1 if --help or -h was met (nothing after it is looked at), or
 * -CAY_INVALID_ARGUMENT. Abbreviated names are refused: they would break with the next option. */
int opt_parse(const struct opt_command *cmd, const struct opt *common, int argc, char **argv,
              void *values, struct opt_rest *rest, struct cay_error *err);

/* How many commands a NULL-terminated table has; 0 for NULL. */
size_t opt_count_commands(const struct opt_command *const *table);

/* The command with this name or alias, or NULL. */
const struct opt_command *opt_find_command(const struct opt_command *const *table, size_t count,
                                           const char *name);

/* Fills err for a word that is not a command of `path` ("cay"): with the answer of the habits (NULL
 * if none), or else with the nearest command that destroys nothing. */
int opt_unknown_command(const char *path, const struct opt_command *const *table, size_t count,
                        const struct opt_habit *habits, const char *name, struct cay_error *err);

bool opt_takes_value(const struct opt *o);

/* True if a row of the table has this name (or letter, if not 0). */
bool opt_has_name(const struct opt *table, const char *name);
bool opt_has_letter(const struct opt *table, char letter);

/* True if a row is shown to people where the rows of `over` (NULL if none) come first. */
bool opt_is_shown(const struct opt *o, const struct opt *over);

/* The help of one command, wrapped at `columns` (0: 80). Failures are sticky in b->failed. */
void opt_print_help(struct buf *b, const struct opt_command *cmd, const struct opt *common,
                    unsigned columns);

/* The overview of all commands that are not hidden, by group. */
void opt_print_commands(struct buf *b, const char *path, const char *about,
                        const struct opt_command *const *table, size_t count,
                        const struct opt *common, unsigned columns);

/* The completion script of a shell ("bash", "zsh", "fish") for a program. */
int opt_completion(const char *shell, const char *program, const struct opt_command *const *table,
                   size_t count, const struct opt *common, struct buf *b, struct cay_error *err);
