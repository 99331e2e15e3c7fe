#include "guard/guard.h"

#include <errno.h>
#include <string.h>

#include "guard/guard_path.h"
#include "guard/guard_rules.h"
#include "guard/guard_state.h"

static const struct {
    const char *name;
    const char *reason;
    const char *instead;
} texts[] = {
    [GUARD_NONE] = {"none", "", ""},
    [GUARD_REMOVE_SYSTEM] = {"remove-system",
                             "It would remove the root, a system folder or a whole home folder.",
                             "Name the exact folder below the workspace, such as rm -rf ./build."},
    [GUARD_NO_PRESERVE_ROOT] = {"no-preserve-root",
                                "It switches off the protection of the root folder.",
                                "Leave --no-preserve-root out and name the exact folder."},
    [GUARD_FORMAT_DISK] = {"format-disk", "It would erase a file system.",
                           "Remove the files that are in the way by name."},
    [GUARD_WRITE_DISK] = {"write-disk", "It would write over a disk or the memory of the machine.",
                          "Write to a file in the workspace."},
    [GUARD_ENDLESS_COPY] = {"endless-copy",
                            "It copies from an endless device until the disk is full.",
                            "Give dd a bound, such as bs=1M count=10."},
    [GUARD_FORK_BOMB] = {"fork-bomb",
                         "It starts itself again and again until nothing else can run.",
                         "Start a fixed number of processes, for example with xargs -P."},
    [GUARD_CHANGE_SYSTEM] = {"change-system",
                             "It would change the rights or the owner of the whole system.",
                             "Name the folder below the workspace that needs the change."},
    [GUARD_MOVE_SYSTEM] = {"move-system", "It would move a system folder away.",
                           "Copy what you need with cp -a."},
    [GUARD_POWER] = {"power", "It would switch off or restart the machine.",
                     "Stop or restart the sandbox from outside."},
    [GUARD_KILL_ALL] = {"kill-all", "It would kill every process.",
                        "Kill the processes by their ids or names."},
    [GUARD_CRITICAL_FILE] = {"critical-file",
                             "It would destroy a file that the system needs to work.",
                             "Use the tool that edits it (useradd, visudo), or append with >>."},
    [GUARD_UNPARSABLE] =
        {"unparsable",
         "It was not understood, so anything could hide in it: a quote or bracket that "
         "does not end, or too long or too deeply nested.",
         "Close quotes and brackets, or put the commands into a script file."},
};

struct guard_frame *guard_frame(struct guard *g) {
    return &g->frames[g->depth - 1];
}

int guard_refuse(struct guard *g, enum guard_rule rule, char *const *words, size_t count) {
    struct buf b = BUF_INIT(4 * sizeof g->hit->words);
    for (size_t i = 0; i < count && !b.failed; i++) {
        if (i > 0)
            (void)buf_putc(&b, ' ');
        shell_unmark(&b, words[i]);
    }
    *g->hit = (struct guard_hit){.rule = rule,
                                 .name = texts[rule].name,
                                 .reason = texts[rule].reason,
                                 .instead = texts[rule].instead};
    (void)str_escape(g->hit->words, sizeof g->hit->words, buf_text(&b));
    buf_free(&b);
    return 1;
}

static void clear_pipe(struct guard_frame *f) {
    free(f->piped_name);
    free(f->piped_tree);
    f->piped_name = f->piped_tree = NULL;
}

static int enter(struct guard *g, char kind) {
    if (g->depth == GUARD_MAX_FRAMES)
        return -E2BIG;
    struct guard_frame *f = &g->frames[g->depth++];
    *f = (struct guard_frame){.kind = kind, .function = TAKE_PTR(g->next_function)};
    if (kind != '(')
        return 0;
    f->has_cwd = true; /* what happens to the folder in a subshell stays there */
    f->outer_cwd = g->cwd != NULL ? strdup(g->cwd) : NULL;
    return g->cwd != NULL && f->outer_cwd == NULL ? -ENOMEM : 0;
}

static void leave(struct guard *g) {
    struct guard_frame *f = guard_frame(g);
    words_free(&f->words);
    clear_pipe(f);
    free(f->function);
    if (f->has_cwd) {
        free(g->cwd);
        g->cwd = TAKE_PTR(f->outer_cwd);
    }
    g->depth--;
}

/* A function that pipes into itself or starts itself in the background, or a script ($0) that
 * does. */
static bool is_fork_bomb(struct guard *g, const char *name, const char *op) {
    struct guard_frame *f = guard_frame(g);
    bool piped = f->piped_name != NULL && strcmp(f->piped_name, name) == 0;
    if (strcmp(name, "$0") == 0)
        return piped;
    if (!piped && strcmp(op, "&") != 0)
        return false;
    for (size_t i = 0; i < g->depth; i++)
        if (g->frames[i].function != NULL && strcmp(g->frames[i].function, name) == 0)
            return true;
    return false;
}

/* Keeps what the right side of the pipe may need to know about the left one. */
static int keep_pipe(struct guard *g, const char *name, char *const *argv, size_t argc) {
    struct guard_frame *f = guard_frame(g);
    clear_pipe(f);
    f->piped_name = strdup(name);
    if (f->piped_name == NULL)
        return -ENOMEM;
    bool finds = argc > 0 && strcmp(argv[0], "find") == 0;
    const char *start = finds ? guard_find_broad(g, argv, argc) : NULL;
    if (start == NULL)
        return 0;
    f->piped_tree = strdup(start);
    return f->piped_tree == NULL ? -ENOMEM : 0;
}

static int run_command(struct guard *g, const char *op) {
    struct guard_frame *f = guard_frame(g);
    size_t i = 0;
    while (i < f->words.len && guard_assignment(f->words.v[i]))
        i++;
    char *const *argv = f->words.v + i;
    size_t argc = f->words.len - i;
    const char *name = argc > 0 ? argv[0] : "";
    if (is_fork_bomb(g, name, op))
        return guard_refuse(g, GUARD_FORK_BOMB, f->words.v, f->words.len);
    int r = guard_run(g, argv, argc, false);
    if (r != 0)
        return r;
    if (strcmp(op, "|") == 0)
        return keep_pipe(g, name, argv, argc);
    clear_pipe(f);
    return 0;
}

static int end_command(struct guard *g, const char *op) {
    struct guard_frame *f = guard_frame(g);
    int r = 0;
    if (f->words.len > 0 && f->kind != '=')
        r = run_command(g, op);
    else
        clear_pipe(f);
    words_free(&f->words);
    return r;
}

static int check_write(struct guard *g, const char *word, bool truncates) {
    enum guard_rule rule = guard_rules_write(word, g->cwd, truncates);
    if (rule == GUARD_NONE)
        return 0;
    _cleanup_(freep) char *copy = strdup(word);
    if (copy == NULL)
        return -ENOMEM;
    char arrow[] = ">", *words[] = {arrow, copy};
    return guard_refuse(g, rule, words, ARRAY_LEN(words));
}

static int begin_function(struct guard *g) {
    struct guard_frame *f = guard_frame(g);
    free(g->next_function);
    g->next_function = strdup(f->words.len > 0 ? f->words.v[0] : "");
    words_free(&f->words);
    return g->next_function == NULL ? -ENOMEM : 0;
}

static int on_event(void *arg, enum shell_event event, const char *text) {
    struct guard *g = arg;
    struct guard_frame *f = guard_frame(g);
    switch (event) {
    case SHELL_WORD:
        return words_push(&f->words, text);
    case SHELL_END:
        return end_command(g, text);
    case SHELL_ENTER:
        return enter(g, text[0]);
    case SHELL_LEAVE:
        leave(g);
        return 0;
    case SHELL_FUNCTION:
        return begin_function(g);
    case SHELL_WRITE:
    case SHELL_APPEND:
        return check_write(g, text, event == SHELL_WRITE);
    }
    return 0;
}

int guard_text(struct guard *g, const char *marked, bool in_place) {
    struct buf text = BUF_INIT(SHELL_MAX_TEXT);
    shell_unmark(&text, marked);
    int r = text.failed || text.len > g->budget ? -E2BIG : enter(g, in_place ? '{' : '(');
    if (r == 0) {
        g->budget -= text.len;
        r = shell_parse(buf_text(&text), (int)g->depth - 1, on_event, g);
        if (r == 0)
            leave(g);
    }
    buf_free(&text);
    return r;
}

static int begin(struct guard *g, const char *work_dir) {
    char path[PATH_MAX];
    if (work_dir != NULL && guard_path_resolve(work_dir, NULL, path)) {
        g->cwd = strdup(path);
        if (g->cwd == NULL)
            return -ENOMEM;
    }
    return enter(g, '{');
}

/* Releases everything, however deep the check was when it ended, and makes what was not understood
 * a hit. */
static int finish(struct guard *g, int r, const char *shown) {
    while (g->depth > 0)
        leave(g);
    free(g->next_function);
    free(g->cwd);
    if (r != -EINVAL && r != -E2BIG)
        return r;
    r = guard_refuse(g, GUARD_UNPARSABLE, NULL, 0);
    (void)str_escape(g->hit->words, sizeof g->hit->words, shown);
    return r;
}

int guard_check_shell(const char *command_line, const char *work_dir, struct guard_hit *hit) {
    struct guard g = {.hit = hit, .budget = GUARD_BUDGET};
    *hit = (struct guard_hit){.name = texts[GUARD_NONE].name, .reason = "", .instead = ""};
    int r = begin(&g, work_dir);
    if (r == 0)
        r = shell_parse(command_line, 0, on_event, &g);
    return finish(&g, r, command_line);
}

int guard_check_argv(const char *const *argv, const char *work_dir, struct guard_hit *hit) {
    struct guard g = {.hit = hit, .budget = GUARD_BUDGET};
    struct words words = {0};
    *hit = (struct guard_hit){.name = texts[GUARD_NONE].name, .reason = "", .instead = ""};
    int r = begin(&g, work_dir);
    for (size_t i = 0; argv[i] != NULL && r == 0; i++) {
        r = words_push(&words, argv[i]);
        /* Bytes that would be marks are no part of a name that a rule knows. */
        for (char *c = r == 0 ? words.v[i] : NULL; c != NULL && *c != '\0'; c++)
            if ((unsigned char)*c < 0x20 && *c != '\t' && *c != '\n')
                *c = 0x7f;
    }
    if (r == 0)
        r = guard_run(&g, words.v, words.len, false);
    r = finish(&g, r, argv[0] != NULL ? argv[0] : "");
    words_free(&words);
    return r;
}
