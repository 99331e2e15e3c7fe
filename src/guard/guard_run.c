#include "guard/guard_state.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "guard/guard_path.h"
#include "guard/guard_rules.h"

/* A program that runs another one: its own options and operands are skipped. */
struct wrapper {
    const char *name;
    const char *letters; /* options that take a value */
    const char *longs;   /* the same, each with a blank behind it */
    int operands;        /* before the command */
    bool assignments;    /* NAME=value may stand before the command */
};

static const struct wrapper wrappers[] = {
    {"sudo", "ugpCTrtUhRD", "--user --group --prompt --close-from --host --chroot --chdir ", 0,
     true},
    {"doas", "uC", "", 0, false},
    {"pkexec", "", "--user ", 0, false},
    {"env", "uC", "--unset --chdir ", 0, true},
    {"nice", "n", "--adjustment ", 0, false},
    {"ionice", "cnpPu", "--class --classdata ", 0, false},
    {"chrt", "TPD", "", 1, false},
    {"taskset", "", "", 1, false},
    {"nohup", "", "", 0, false},
    {"setsid", "", "", 0, false},
    {"timeout", "sk", "--signal --kill-after ", 1, false},
    {"xargs", "adEILnPs", "--arg-file --delimiter --max-args --max-procs --max-chars ", 0, false},
    {"parallel", "jIn", "--jobs ", 0, false},
    {"exec", "a", "", 0, false},
    {"command", "", "", 0, false},
    {"builtin", "", "", 0, false},
    {"time", "of", "--output --format ", 0, false},
    {"stdbuf", "ioe", "--input --output --error ", 0, false},
    {"unbuffer", "", "", 0, false},
    {"busybox", "", "", 0, false},
    {"toybox", "", "", 0, false},
    {"chroot", "", "", 1, false},
    {"unshare", "", "", 0, false},
    {"nsenter", "tSG", "--target ", 0, false},
    {"strace", "aeEIoOpPsSuX", "", 0, false},
    {"fakeroot", "lfsib", "", 0, false},
    {"gosu", "", "", 1, false},
    {"su-exec", "", "", 1, false},
    {"flock", "wE", "--timeout ", 1, false},
    {"tini", "epg", "", 0, false},
    {"dumb-init", "r", "", 0, false},
    {"watch", "n", "--interval ", 0, false},
};

static const struct wrapper *find_wrapper(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++)
        if (strcmp(wrappers[i].name, name) == 0)
            return &wrappers[i];
    return NULL;
}

static bool in_list(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

bool guard_assignment(const char *word) {
    size_t len = 0;
    while (isalnum((unsigned char)word[len]) || word[len] == '_')
        len++;
    if (len == 0 || isdigit((unsigned char)word[0]))
        return false;
    return word[len] == '=' || (word[len] == '+' && word[len + 1] == '=');
}

/* True if the value of this option is the next word. */
static bool takes_next(const struct wrapper *w, const char *option) {
    if (option[1] == '-') {
        size_t len = strlen(option);
        for (const char *at = w->longs; (at = strstr(at, option)) != NULL; at += len)
            if (at[len] == ' ')
                return true;
        return false;
    }
    const char *letter = strpbrk(option + 1, w->letters);
    return letter != NULL && letter[1] == '\0';
}

/* How many words belong to the wrapper itself. */
static size_t wrapper_words(const struct wrapper *w, char *const *argv, size_t argc) {
    size_t i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        i += takes_next(w, argv[i]);
    }
    i += (size_t)w->operands;
    while (w->assignments && i < argc && guard_assignment(argv[i]))
        i++;
    return MIN(i, argc);
}

/* Joins words as eval does. NULL: no memory. */
static char *join(char *const *words, size_t count) {
    struct buf b = BUF_INIT(GUARD_BUDGET);
    (void)buf_puts(&b, "");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            (void)buf_putc(&b, ' ');
        (void)buf_puts(&b, words[i]);
    }
    return buf_take(&b);
}

static int run_joined(struct guard *g, char *const *words, size_t count, bool in_place) {
    _cleanup_(freep) char *text = join(words, count);
    return text == NULL ? -ENOMEM : guard_text(g, text, in_place);
}

static int run_shell(struct guard *g, char *const *argv, size_t argc) {
    bool text = false;
    size_t i = 1;
    for (; i < argc && (argv[i][0] == '-' || argv[i][0] == '+') && argv[i][1] != '\0'; i++) {
        bool is_long = argv[i][1] == '-';
        if (is_long) {
            i += strcmp(argv[i], "--rcfile") == 0 || strcmp(argv[i], "--init-file") == 0;
            continue;
        }
        text = text || strchr(argv[i], 'c') != NULL;
        i += argv[i][strlen(argv[i]) - 1] == 'o' || argv[i][strlen(argv[i]) - 1] == 'O';
    }
    return text && i < argc ? guard_text(g, argv[i], false) : 0;
}

/* su, runuser, script: the command is the value of -c, or stands behind "--". */
static int run_c_option(struct guard *g, char *const *argv, size_t argc) {
    for (size_t i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "--command") == 0)
            return guard_text(g, argv[i + 1], false);
        if (strcmp(argv[i], "--") == 0)
            return guard_run(g, argv + i + 1, argc - i - 1, false);
    }
    return 0;
}

static int set_cwd(struct guard *g, const char *path) {
    free(g->cwd);
    g->cwd = NULL;
    if (path == NULL)
        return 0;
    g->cwd = strdup(path);
    return g->cwd == NULL ? -ENOMEM : 0;
}

static int run_cd(struct guard *g, char *const *argv, size_t argc) {
    static const char home[] = {SHELL_HOME, '\0'};
    size_t i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0')
        i++;
    char path[PATH_MAX];
    bool known = guard_path_resolve(i < argc ? argv[i] : home, g->cwd, path);
    bool back = i < argc && strcmp(argv[i], "-") == 0;
    return set_cwd(g, known && !back ? path : NULL);
}

/* True for a test of find that leaves out most files: -name '*.pyc', -mtime +3. */
static bool narrows(char *const *argv, size_t argc, size_t i) {
    static const char *const tests[] = {
        "-name",  "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex",   "-lname",
        "-newer", "-mtime", "-mmin", "-atime", "-amin",      "-ctime", "-cmin",     "-size",
        "-user",  "-group", "-uid",  "-gid",   "-perm",      "-inum",  "-samefile", "-links",
    };
    static const char *const bare[] = {"-empty", "-nouser", "-nogroup"};
    bool negated = strcmp(argv[i - 1], "!") == 0 || strcmp(argv[i - 1], "-not") == 0;
    if (negated)
        return false;
    if (in_list(argv[i], bare, ARRAY_LEN(bare)))
        return true;
    /* A pattern of stars and dots leaves nothing out. */
    return in_list(argv[i], tests, ARRAY_LEN(tests)) && i + 1 < argc &&
           strspn(argv[i + 1], "*?./\x01\x02") < strlen(argv[i + 1]);
}

const char *guard_find_broad(const struct guard *g, char *const *argv, size_t argc) {
    const char *start = NULL;
    size_t i = 1;
    while (i < argc &&
           (strcmp(argv[i], "-H") == 0 || strcmp(argv[i], "-L") == 0 || strcmp(argv[i], "-P") == 0))
        i++;
    bool named = i < argc && strchr("-(!,", argv[i][0]) == NULL;
    if (!named && guard_rules_protected(".", g->cwd))
        start = ".";
    for (; i < argc && (argv[i][0] == '\0' || strchr("-(!,", argv[i][0]) == NULL); i++)
        if (start == NULL && guard_rules_protected(argv[i], g->cwd))
            start = argv[i];
    for (; i < argc && start != NULL; i++)
        if (narrows(argv, argc, i))
            return NULL;
    return start;
}

/* Runs what stands after -exec, with {} as the place where find begins. */
static int run_find_exec(struct guard *g, char *const *argv, size_t argc, const char *broad) {
    struct words words = {0};
    int r = 0;
    for (size_t i = 0; i < argc && r == 0; i++)
        r = words_push(&words, strcmp(argv[i], "{}") != 0 ? argv[i]
                               : broad != NULL            ? broad
                                                          : "\x08");
    if (r == 0)
        r = guard_run(g, words.v, words.len, broad != NULL);
    words_free(&words);
    return r;
}

static int run_find(struct guard *g, char *const *argv, size_t argc) {
    const char *broad = guard_find_broad(g, argv, argc);
    for (size_t i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-delete") == 0 && broad != NULL)
            return guard_refuse(g, GUARD_REMOVE_SYSTEM, argv, argc);
        static const char *const actions[] = {"-exec", "-execdir", "-ok", "-okdir"};
        if (!in_list(argv[i], actions, ARRAY_LEN(actions)))
            continue;
        size_t end = ++i;
        while (end < argc && strcmp(argv[end], ";") != 0 && strcmp(argv[end], "+") != 0)
            end++;
        int r = run_find_exec(g, argv + i, end - i, broad);
        if (r != 0)
            return r;
        i = end;
    }
    return 0;
}

/* xargs and parallel: the command gets the folder that a find on the left of the pipe lists. */
static int run_xargs(struct guard *g, char *const *argv, size_t argc) {
    const char *tree = guard_frame(g)->piped_tree;
    if (tree == NULL)
        return guard_run(g, argv, argc, false);
    struct words words = {0};
    int r = 0;
    for (size_t i = 0; i < argc && r == 0; i++)
        r = words_push(&words, argv[i]);
    if (r == 0)
        r = words_push(&words, tree);
    if (r == 0)
        r = guard_run(g, words.v, words.len, true);
    words_free(&words);
    return r;
}

/* Commands whose arguments are commands. *ret_known: it was one of them. */
static int run_special(struct guard *g, const char *name, char *const *argv, size_t argc,
                       bool *ret_known) {
    static const char *const shells[] = {"sh",  "bash", "dash", "zsh",  "ksh",
                                         "ash", "mksh", "fish", "rbash"};
    *ret_known = true;
    if (in_list(name, shells, ARRAY_LEN(shells)))
        return run_shell(g, argv, argc);
    if (strcmp(name, "eval") == 0)
        return run_joined(g, argv + 1, argc - 1, true);
    if (strcmp(name, "trap") == 0)
        return argc > 2 ? guard_text(g, argv[1], true) : 0;
    if (strcmp(name, "cd") == 0 || strcmp(name, "pushd") == 0)
        return run_cd(g, argv, argc);
    if (strcmp(name, "popd") == 0)
        return set_cwd(g, NULL);
    if (strcmp(name, "find") == 0)
        return run_find(g, argv, argc);
    if (strcmp(name, "su") == 0 || strcmp(name, "runuser") == 0 || strcmp(name, "script") == 0)
        return run_c_option(g, argv, argc);
    *ret_known = false;
    return 0;
}

/* What a wrapper runs; `own` words are the wrapper's. */
static int run_wrapped(struct guard *g, const char *name, char *const *argv, size_t argc,
                       size_t own) {
    if (strcmp(name, "xargs") == 0 || strcmp(name, "parallel") == 0)
        return run_xargs(g, argv + own, argc - own);
    if (strcmp(name, "flock") == 0 && own + 1 < argc && strcmp(argv[own], "-c") == 0)
        return guard_text(g, argv[own + 1], false);
    /* watch joins its words and gives them to a shell; env -S splits its one. */
    bool text = strcmp(name, "watch") == 0 ||
                (strcmp(name, "env") == 0 && own < argc && strchr(argv[own], ' ') != NULL);
    return text ? run_joined(g, argv + own, argc - own, false) : 0;
}

static bool only_asks(const char *name, char *const *argv, size_t argc) {
    return strcmp(name, "command") == 0 && argc > 1 &&
           (strcmp(argv[1], "-v") == 0 || strcmp(argv[1], "-V") == 0);
}

static int check_command(struct guard *g, char *const *argv, size_t argc, bool recursive) {
    struct guard_command c = {.argv = argv, .argc = argc, .cwd = g->cwd, .recursive = recursive};
    enum guard_rule rule = guard_rules_command(&c);
    return rule != GUARD_NONE ? guard_refuse(g, rule, argv, argc) : 0;
}

static int run_unwrapped(struct guard *g, char *const *argv, size_t argc, bool recursive) {
    while (argc > 0) {
        const char *name = guard_rules_name(argv[0]);
        bool known;
        int r = run_special(g, name, argv, argc, &known);
        if (r != 0 || known)
            return r;
        r = check_command(g, argv, argc, recursive);
        if (r != 0 || only_asks(name, argv, argc))
            return r;
        const struct wrapper *w = find_wrapper(name);
        size_t own = w != NULL ? wrapper_words(w, argv, argc) : 1;
        if (w != NULL)
            r = run_wrapped(g, name, argv, argc, own);
        /* An unknown word may be empty or a wrapper ($SUDO rm); "-p" is left over from `time -p`.
         */
        else if (argv[0][0] != SHELL_UNKNOWN && argv[0][0] != '-')
            return 0;
        if (r != 0)
            return r;
        argv += own;
        argc -= own;
    }
    return 0;
}

int guard_run(struct guard *g, char *const *argv, size_t argc, bool recursive) {
    if (g->runs == SHELL_MAX_DEPTH)
        return -E2BIG;
    g->runs++;
    int r = run_unwrapped(g, argv, argc, recursive);
    g->runs--;
    return r;
}
