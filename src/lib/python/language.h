/* The languages that code can be run in: one row each, and how a shell of the image runs them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct strv;

enum { LANGUAGE_COMPILE_MS = 60 * 1000, LANGUAGE_NAME_MAX = 100 };

struct language {
    const char *name;
    const char *aliases[3];
    const char *suffixes[4]; /* of its files; the first is given to code without a name */
    bool any_name;           /* a file may be called anything */
    const char *image;       /* one of the Hub that has it */
    const char *script;      /* what the shell does, by the functions of language.c */
};

/* What --language takes: "auto" and all names and aliases; NULL-terminated. */
extern const char *const language_names[];

/* By name or alias; NULL if there is none. */
const struct language *language_find(const char *name);
/* By the end of a file's name; NULL if that tells nothing. */
const struct language *language_of_file(const char *path);
/* Fills err for a name that is none. */
int language_refuse(const char *name, struct cay_error *err);

struct language_request {
    const char *name;        /* of the file, as its owner calls it; NULL: none */
    size_t code_len;         /* so many bytes come first on standard input */
    int64_t compile_ms;      /* 0: LANGUAGE_COMPILE_MS */
    const char *const *args; /* NULL: none */
    bool merges;             /* both streams are one, and nobody reads descriptor 3 */
};

/* The words to execute. Standard input is the code, then the program's own. On descriptor 3 comes
 * what code_report_read() reads. */
int language_argv(const struct language *l, const struct language_request *q, struct strv *ret,
                  struct cay_error *err);

/* What is printed, with exit code 127, where streams are merged and nothing runs the language. */
extern const char language_missing[];
