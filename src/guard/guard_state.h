/* What the guard knows at a point of the command line. Internal to guard.c and guard_run.c. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "guard/guard.h"
#include "guard/shell_parse.h"
#include "guard/words.h"

/* The budget is in bytes that are parsed, those of nested texts (sh -c, eval) included. */
enum { GUARD_MAX_FRAMES = SHELL_MAX_DEPTH + 2, GUARD_BUDGET = 16 * 1024 * 1024 };

/* A list of commands that is inside of another command. */
struct guard_frame {
    char kind;          /* as SHELL_ENTER says */
    char *function;     /* the function whose body this is */
    char *piped_name;   /* the command on the left of the pipe */
    char *piped_tree;   /* the protected folder that a find on the left lists */
    struct words words; /* of the current command */
    char *outer_cwd;    /* to go back to where the frame ends, if has_cwd */
    bool has_cwd;
};

struct guard {
    struct guard_hit *hit;
    char *cwd; /* resolved; NULL if not known */
    size_t budget;
    struct guard_frame frames[GUARD_MAX_FRAMES];
    size_t depth;        /* of frames; the current one is the last */
    size_t runs;         /* commands that run commands (find, xargs) around the current one */
    char *next_function; /* whose body comes next */
};

struct guard_frame *guard_frame(struct guard *g);

/* Fills the hit; returns 1. */
int guard_refuse(struct guard *g, enum guard_rule rule, char *const *words, size_t count);

/* Checks a text that another shell (or eval, in_place) would run. 0, 1 a hit, or as shell_parse. */
int guard_text(struct guard *g, const char *marked, bool in_place);

/* guard_run.c: checks a command; `recursive` as in struct guard_command. As guard_text. */
int guard_run(struct guard *g, char *const *argv, size_t argc, bool recursive);

/* guard_run.c: true for an assignment word (NAME=, NAME+=). */
bool guard_assignment(const char *word);

/* guard_run.c: the start of a find command that visits a protected tree without a test that
 * narrows it, or NULL. */
const char *guard_find_broad(const struct guard *g, char *const *argv, size_t argc);
