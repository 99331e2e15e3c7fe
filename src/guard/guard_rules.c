#include "guard/guard_rules.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "guard/guard_path.h"
#include "guard/shell_parse.h"

const char *guard_rules_name(const char *word) {
    const char *slash = strrchr(word, '/');
    return slash != NULL ? slash + 1 : word;
}

static bool is_option(const char *arg) {
    return arg[0] == '-' && arg[1] != '\0';
}

/* Index of "--", or argc: options end there. */
static size_t options_end(const struct guard_command *c) {
    size_t i = 1;
    while (i < c->argc && strcmp(c->argv[i], "--") != 0)
        i++;
    return i;
}

/* Whether an option is given, as one of the letters or as the long name (GNU lets people shorten it
 * down to min bytes). */
static bool has_option(const struct guard_command *c, const char *letters, const char *name,
                       size_t min) {
    size_t end = options_end(c);
    for (size_t i = 1; i < end; i++) {
        const char *arg = c->argv[i];
        if (!is_option(arg))
            continue;
        if (arg[1] != '-' && strpbrk(arg + 1, letters) != NULL)
            return true;
        if (arg[1] == '-' && strlen(arg) >= min && str_starts(name, arg))
            return true;
    }
    return false;
}

/* The arguments that are no options. */
struct operands {
    const struct guard_command *c;
    size_t at;
    size_t end; /* of the options */
};

static struct operands operands_of(const struct guard_command *c) {
    return (struct operands){.c = c, .at = 1, .end = options_end(c)};
}

/* The next one; NULL at the end. */
static const char *next_operand(struct operands *o) {
    while (o->at < o->c->argc) {
        size_t i = o->at++;
        const char *arg = o->c->argv[i];
        if (i > o->end || (i < o->end && !is_option(arg)))
            return arg;
    }
    return NULL;
}

/* What the tree at this word is, counting "everything in it" as itself. */
static enum guard_place tree_place(const char *word, const char *cwd) {
    char path[PATH_MAX];
    if (!guard_path_resolve(word, cwd, path))
        return PLACE_OTHER;
    guard_path_drop_star(path);
    return guard_path_place(path);
}

bool guard_rules_protected(const char *word, const char *cwd) {
    return tree_place(word, cwd) != PLACE_OTHER;
}

enum guard_rule guard_rules_write(const char *word, const char *cwd, bool truncates) {
    char path[PATH_MAX];
    if (!guard_path_resolve(word, cwd, path))
        return GUARD_NONE;
    if (guard_path_is_disk(path))
        return GUARD_WRITE_DISK;
    return truncates && guard_path_is_critical(path) ? GUARD_CRITICAL_FILE : GUARD_NONE;
}

static enum guard_rule check_rm(const struct guard_command *c) {
    bool recursive = c->recursive || has_option(c, "rR", "--recursive", 3);
    if (has_option(c, "", "--no-preserve-root", 4))
        return GUARD_NO_PRESERVE_ROOT;
    struct operands o = operands_of(c);
    const char *word;
    while ((word = next_operand(&o)) != NULL) {
        if (recursive && guard_rules_protected(word, c->cwd))
            return GUARD_REMOVE_SYSTEM;
        if (guard_rules_write(word, c->cwd, true) == GUARD_CRITICAL_FILE)
            return GUARD_CRITICAL_FILE;
    }
    return GUARD_NONE;
}

/* chmod, chown and their kin. The mode or owner is no path that matters, so it is not told apart.
 */
static enum guard_rule check_change(const struct guard_command *c) {
    if (!c->recursive && !has_option(c, "R", "--recursive", 5))
        return GUARD_NONE;
    struct operands o = operands_of(c);
    const char *word;
    while ((word = next_operand(&o)) != NULL)
        if (tree_place(word, c->cwd) >= PLACE_SYSTEM)
            return GUARD_CHANGE_SYSTEM;
    return GUARD_NONE;
}

/* A folder of the system may not be moved away; into /dev/null nothing protected may. */
static enum guard_rule check_mv(const struct guard_command *c) {
    bool into_null = false;
    for (size_t i = 1; i < c->argc; i++)
        into_null = into_null || strcmp(c->argv[i], "/dev/null") == 0;
    struct operands o = operands_of(c);
    const char *word;
    while ((word = next_operand(&o)) != NULL) {
        char path[PATH_MAX];
        bool last = o.at == c->argc;
        if (into_null && guard_rules_protected(word, c->cwd))
            return GUARD_MOVE_SYSTEM;
        if (!guard_path_resolve(word, c->cwd, path))
            continue;
        if (!last && guard_path_place(path) >= PLACE_SYSTEM)
            return GUARD_MOVE_SYSTEM;
        if (last && guard_rules_write(word, c->cwd, true) != GUARD_NONE)
            return guard_rules_write(word, c->cwd, true);
        if (!last && guard_path_is_critical(path))
            return GUARD_CRITICAL_FILE;
    }
    return GUARD_NONE;
}

static bool is_endless(const char *file) {
    return strcmp(file, "/dev/zero") == 0 || strcmp(file, "/dev/urandom") == 0 ||
           strcmp(file, "/dev/random") == 0;
}

static enum guard_rule check_dd(const struct guard_command *c) {
    bool endless = false, bounded = false;
    enum guard_rule written = GUARD_NONE;
    for (size_t i = 1; i < c->argc; i++) {
        const char *arg = c->argv[i];
        if (str_starts(arg, "if="))
            endless = is_endless(arg + 3);
        else if (str_starts(arg, "count="))
            bounded = true;
        else if (str_starts(arg, "of="))
            written = guard_rules_write(arg + 3, c->cwd, true);
    }
    if (written != GUARD_NONE)
        return written;
    return endless && !bounded ? GUARD_ENDLESS_COPY : GUARD_NONE;
}

/* tee, truncate, shred: every operand is written to. */
static enum guard_rule check_write_all(const struct guard_command *c) {
    bool tee = strcmp(guard_rules_name(c->argv[0]), "tee") == 0;
    bool appends = tee && has_option(c, "a", "--append", 3);
    struct operands o = operands_of(c);
    const char *word;
    while ((word = next_operand(&o)) != NULL) {
        enum guard_rule rule = guard_rules_write(word, c->cwd, !appends);
        if (rule != GUARD_NONE)
            return rule;
    }
    return GUARD_NONE;
}

/* cp, install: the last operand is written to. */
static enum guard_rule check_write_last(const struct guard_command *c) {
    struct operands o = operands_of(c);
    size_t count = 0;
    const char *word, *last = NULL;
    for (; (word = next_operand(&o)) != NULL; count++)
        last = word;
    return count > 1 ? guard_rules_write(last, c->cwd, true) : GUARD_NONE;
}

static enum guard_rule check_format(const struct guard_command *c) {
    (void)c;
    return GUARD_FORMAT_DISK;
}

static enum guard_rule check_power(const struct guard_command *c) {
    (void)c;
    return GUARD_POWER;
}

static enum guard_rule check_any_of(const struct guard_command *c, const char *const *words) {
    struct operands o = operands_of(c);
    const char *word;
    while ((word = next_operand(&o)) != NULL)
        for (size_t i = 0; words[i] != NULL; i++)
            if (strcmp(word, words[i]) == 0)
                return GUARD_POWER;
    return GUARD_NONE;
}

static enum guard_rule check_init(const struct guard_command *c) {
    static const char *const levels[] = {"0", "6", NULL};
    return check_any_of(c, levels);
}

static enum guard_rule check_systemctl(const struct guard_command *c) {
    static const char *const verbs[] = {"poweroff", "reboot",    "halt",      "kexec",  "exit",
                                        "suspend",  "hibernate", "emergency", "rescue", NULL};
    return check_any_of(c, verbs);
}

/* kill [-signal] pid...: the process "-1" is every one. A first "-1" alone is the signal. */
static enum guard_rule check_kill(const struct guard_command *c) {
    size_t i = 1;
    if (i < c->argc && strcmp(c->argv[i], "--") != 0 && is_option(c->argv[i])) {
        bool separate = strcmp(c->argv[i], "-s") == 0 || strcmp(c->argv[i], "-n") == 0 ||
                        strcmp(c->argv[i], "--signal") == 0;
        i += separate ? 2 : 1;
    }
    for (; i < c->argc; i++)
        if (strcmp(c->argv[i], "-1") == 0)
            return GUARD_KILL_ALL;
    return GUARD_NONE;
}

static enum guard_rule check_kill_all(const struct guard_command *c) {
    (void)c;
    return GUARD_KILL_ALL;
}

/* The name of the command is only known when it runs ($(which rm) -rf /). */
static enum guard_rule check_unknown(const struct guard_command *c) {
    bool both = has_option(c, "rR", "--recursive", 3) && has_option(c, "f", "--force", 3);
    return both ? check_rm(c) : GUARD_NONE;
}

static const struct {
    const char *name;
    enum guard_rule (*check)(const struct guard_command *c);
} checks[] = {
    {"rm", check_rm},
    {"chmod", check_change},
    {"chown", check_change},
    {"chgrp", check_change},
    {"chattr", check_change},
    {"setfacl", check_change},
    {"mv", check_mv},
    {"dd", check_dd},
    {"tee", check_write_all},
    {"truncate", check_write_all},
    {"shred", check_write_all},
    {"cp", check_write_last},
    {"install", check_write_last},
    {"mkfs", check_format},
    {"mke2fs", check_format},
    {"wipefs", check_format},
    {"blkdiscard", check_format},
    {"shutdown", check_power},
    {"reboot", check_power},
    {"halt", check_power},
    {"poweroff", check_power},
    {"init", check_init},
    {"telinit", check_init},
    {"systemctl", check_systemctl},
    {"kill", check_kill},
    {"killall5", check_kill_all},
};

enum guard_rule guard_rules_command(const struct guard_command *c) {
    const char *name = guard_rules_name(c->argv[0]);
    if (strchr(c->argv[0], SHELL_UNKNOWN) != NULL)
        return check_unknown(c);
    if (str_starts(name, "mkfs."))
        return GUARD_FORMAT_DISK;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (strcmp(name, checks[i].name) == 0)
            return checks[i].check(c);
    return GUARD_NONE;
}
