/* The rules that look at one command and its arguments, wrappers such as sudo removed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guard/guard.h"

struct guard_command {
    char *const *argv; /* words with pattern marks (shell_parse.h); argv[0] names the command */
    size_t argc;
    const char *cwd; /* resolved; NULL if unknown */
    bool recursive;  /* something else (find) walks the tree and runs this on everything in it */
};

/* The rule that refuses the command, or GUARD_NONE. */
enum guard_rule guard_rules_command(const struct guard_command *c);

/* The rule that refuses writing to this word's file; truncates: not just appending. */
enum guard_rule guard_rules_write(const char *word, const char *cwd, bool truncates);

/* True if removing the tree at this word is refused. */
bool guard_rules_protected(const char *word, const char *cwd);

/* The part of a command word that names it: "/bin/rm" is rm. */
const char *guard_rules_name(const char *word);
