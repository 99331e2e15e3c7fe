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

static void clear_command(struct guard_frame *f) {
    words_free(&f->words);
    free(f->here_string);
    f->here_string = NULL;
    f->heredocs = 0;
}

static void clear_pipe(struct guard_frame *f) {
    words_free(&f->feed);
    f->feed_recursive = false;
    free(f->piped_name);
    f->piped_name = NULL;
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
    clear_command(f);
    clear_pipe(f);
    free(f->function);
    if (f->has_cwd) {
        free(g->cwd);
        g->cwd = TAKE_PTR(f->outer_cwd);
    }
    g->depth--;
}

/* Remembers NAME=value; the value is kept as the shell would, without active patterns. */
static int assign(struct guard *g, const char *word, size_t name_len) {
    struct buf value = BUF_INIT(GUARD_BUDGET), plain = BUF_INIT(GUARD_BUDGET);
    bool appends = word[name_len] == '+';
    int r = 0;
    if (appends) {
        (void)buf_putc(&value, SHELL_QUOTED_VAR);
        (void)buf_append(&value, word, name_len);
        (void)buf_putc(&value, SHELL_NAME_END);
    }
    (void)buf_puts(&value, word + name_len + 1 + appends);
    r = shell_expand_one(&g->vars, buf_text(&value), &g->budget, &plain);
    for (size_t i = 0; i < plain.len; i++) {
        char *c = &plain.data[i];
        *c = *c == SHELL_STAR ? '*' : *c == SHELL_ANY ? '?' : *c == SHELL_SET ? '[' : *c;
    }
    if (r == 0)
        r = shell_vars_set(&g->vars, word, name_len, buf_text(&plain));
    buf_free(&value);
    buf_free(&plain);
    return r;
}

/* for NAME in WORD...: the variable gets the worst of the words. */
static int assign_loop(struct guard *g, char *const *argv, size_t argc) {
    if (argc < 4)
        return 0;
    size_t worst = 3;
    while (worst < argc && !guard_rules_protected(argv[worst], g->cwd))
        worst++;
    return shell_vars_set(&g->vars, argv[1], strlen(argv[1]), argv[worst < argc ? worst : 3]);
}

/* A function that pipes into itself or starts itself in the background, or a script ($0) that
 * does. */
static bool is_fork_bomb(struct guard *g, const char *name, const char *op) {
    static const char script[] = {SHELL_VAR, '0', SHELL_NAME_END, '\0'};
    struct guard_frame *f = guard_frame(g);
    bool piped = f->piped_name != NULL && strcmp(f->piped_name, name) == 0;
    if (str_ends(name, script))
        return piped;
    if (!piped && strcmp(op, "&") != 0)
        return false;
    for (size_t i = 0; i < g->depth; i++)
        if (g->frames[i].function != NULL && strcmp(g->frames[i].function, name) == 0)
            return true;
    return false;
}

/* Keeps what the command is known to print, for the right side of its pipe. */
static int keep_feed(struct guard *g, const char *name, const struct words *argv) {
    struct guard_frame *f = guard_frame(g);
    clear_pipe(f);
    f->piped_name = strdup(name);
    if (f->piped_name == NULL)
        return -ENOMEM;
    if (argv->len == 0)
        return 0;
    if (strcmp(argv->v[0], "find") == 0) {
        const char *start = guard_find_broad(g, argv->v, argv->len);
        f->feed_recursive = start != NULL;
        return start != NULL ? words_push(&f->feed, start) : 0;
    }
    if (strcmp(argv->v[0], "echo") != 0 && strcmp(argv->v[0], "printf") != 0)
        return 0;
    int r = 0;
    for (size_t i = 1; i < argv->len && r == 0; i++)
        if (i > 1 || argv->v[i][0] != '-')
            r = words_push(&f->feed, argv->v[i]);
    return r;
}

/* Assignments before the command, and the words of the command itself. */
static int expand_command(struct guard *g, struct guard_frame *f, struct words *argv) {
    int r = 0;
    size_t i = 0;
    for (size_t len; i < f->words.len && r == 0; i++) {
        len = guard_assignment(f->words.v[i]);
        if (len == 0)
            break;
        r = assign(g, f->words.v[i], len);
    }
    for (; i < f->words.len && r == 0; i++)
        r = shell_expand(&g->vars, f->words.v[i], &g->budget, argv);
    return r;
}

/* export NAME=value and its kin assign too. */
static int assign_declared(struct guard *g, const struct words *argv) {
    static const char *const names[] = {"export", "local", "declare", "readonly", "typeset"};
    bool declares = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        declares = declares || strcmp(argv->v[0], names[i]) == 0;
    int r = 0;
    for (size_t i = 1; declares && i < argv->len && r == 0; i++) {
        size_t len = guard_assignment(argv->v[i]);
        r = len > 0 ? assign(g, argv->v[i], len) : 0;
    }
    return r;
}

/* The text of <<< where a shell reads it. */
static int run_here_string(struct guard *g, struct guard_frame *f) {
    if (!g->reads_script || f->here_string == NULL)
        return 0;
    struct buf text = BUF_INIT(GUARD_BUDGET);
    int r = shell_expand_one(&g->vars, f->here_string, &g->budget, &text);
    if (r == 0)
        r = guard_text(g, buf_text(&text), false);
    g->reads_script = true;
    buf_free(&text);
    return r;
}

static int run_command(struct guard *g, const char *name, const char *op) {
    struct guard_frame *f = guard_frame(g);
    struct words argv = {0};
    if (is_fork_bomb(g, name, op))
        return guard_refuse(g, GUARD_FORK_BOMB, f->words.v, f->words.len);
    int r = expand_command(g, f, &argv);
    if (r == 0 && argv.len > 0) {
        bool loop = strcmp(argv.v[0], "for") == 0 || strcmp(argv.v[0], "select") == 0;
        r = loop ? assign_loop(g, argv.v, argv.len) : assign_declared(g, &argv);
        if (r == 0 && !loop)
            r = guard_run(g, argv.v, argv.len, false);
    }
    if (r == 0)
        r = run_here_string(g, f);
    if (r == 0 && strcmp(op, "|") == 0)
        r = keep_feed(g, name, &argv);
    else
        clear_pipe(f);
    words_free(&argv);
    return r;
}

static const char *first_word(const struct guard_frame *f) {
    size_t i = 0;
    while (i + 1 < f->words.len && guard_assignment(f->words.v[i]) > 0)
        i++;
    return f->words.v[i];
}

static int end_command(struct guard *g, const char *op) {
    struct guard_frame *f = guard_frame(g);
    int r = 0;
    g->reads_script = false;
    if (f->words.len > 0 && f->kind != '=')
        r = run_command(g, first_word(f), op);
    else
        clear_pipe(f);
    for (size_t i = 0; i < f->heredocs && r == 0; i++) {
        if (g->heredoc_count == SHELL_MAX_HEREDOCS)
            return -E2BIG;
        g->heredoc_scripts[g->heredoc_count++] = g->reads_script;
    }
    clear_command(f);
    return r;
}

/* The body of the oldest here-document: a script if a shell reads it. */
static int here_body(struct guard *g, const char *body) {
    bool script = true; /* its command has not ended yet: nothing is known about it */
    if (g->heredoc_count > 0) {
        script = g->heredoc_scripts[0];
        g->heredoc_count--;
        memmove(g->heredoc_scripts, g->heredoc_scripts + 1, g->heredoc_count);
    }
    return script ? guard_text(g, body, false) : 0;
}

static int check_write(struct guard *g, const char *word, bool truncates) {
    struct buf b = BUF_INIT(GUARD_BUDGET);
    int r = shell_expand_one(&g->vars, word, &g->budget, &b);
    if (r == 0) {
        enum guard_rule rule = guard_rules_write(buf_text(&b), g->cwd, truncates);
        char arrow[] = ">", *words[] = {arrow, b.data};
        if (rule != GUARD_NONE)
            r = guard_refuse(g, rule, words, ARRAY_LEN(words));
    }
    buf_free(&b);
    return r;
}

static int begin_function(struct guard *g) {
    struct guard_frame *f = guard_frame(g);
    free(g->next_function);
    g->next_function = strdup(f->words.len > 0 ? f->words.v[0] : "");
    clear_command(f);
    return g->next_function == NULL ? -ENOMEM : 0;
}

static int keep_here_string(struct guard_frame *f, const char *text) {
    free(f->here_string);
    f->here_string = strdup(text);
    return f->here_string == NULL ? -ENOMEM : 0;
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
    case SHELL_HERE_STRING:
        return keep_here_string(f, text);
    case SHELL_HERE_START:
        f->heredocs++;
        return 0;
    case SHELL_HERE_BODY:
        return here_body(g, text);
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
        if (g->cwd == NULL || shell_vars_set(&g->vars, "PWD", 3, path) < 0)
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
    shell_vars_free(&g->vars);
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
