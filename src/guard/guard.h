/* The command guard: an optional policy that refuses command lines which are almost certainly a
 * mistake, such as `rm -rf /`. It reads the command line as a shell would; it runs nothing and asks
 * the system nothing. It is advice, not a wall: what a sandbox cannot do is decided by the kernel.
 */
#pragma once

#include <stdbool.h>

enum guard_rule {
    GUARD_NONE,
    GUARD_REMOVE_SYSTEM,
    GUARD_NO_PRESERVE_ROOT,
    GUARD_FORMAT_DISK,
    GUARD_WRITE_DISK,
    GUARD_ENDLESS_COPY,
    GUARD_FORK_BOMB,
    GUARD_CHANGE_SYSTEM,
    GUARD_MOVE_SYSTEM,
    GUARD_POWER,
    GUARD_KILL_ALL,
    GUARD_CRITICAL_FILE,
    GUARD_UNPARSABLE, /* not understood: unterminated quote, too long, nested too deeply */
};

struct guard_hit {
    enum guard_rule rule;
    const char *name;    /* of the rule, "remove-system" */
    const char *reason;  /* why it is refused, a sentence for people */
    const char *instead; /* what to do instead */
    char words[256];     /* the offending words, escaped for terminals and logs, perhaps cut */
};

/* Checks a text that would be given to `sh -c`. work_dir is where it would run, NULL if unknown.
 * 0: allowed. 1: *hit says which rule. A text that a shell would not understand is a hit of
 * GUARD_UNPARSABLE, since anything could hide in it. -ENOMEM: not checked, treat as refused. */
int guard_check_shell(const char *command_line, const char *work_dir, struct guard_hit *hit);

/* Checks a command that would be executed without a shell; argv ends with NULL. As above. */
int guard_check_argv(const char *const *argv, const char *work_dir, struct guard_hit *hit);
