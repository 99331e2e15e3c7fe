/* `cay snapshot create`: an image of a sandbox, made by cay-image while the sandbox stands still,
 * or by a daemon elsewhere. */
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/jsonw.h"
#include "base/program.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

static int post(struct sandbox_verb *v, const char *id, const char *after) {
    const struct sandbox_request req = {
        .method = "POST", .before = "/api/cay/sandbox/", .who = id, .after = after};
    _cleanup_(table_free) struct table t = {0};
    return sandbox_ask_table(v, &req, &t);
}

/* The exit code of cay-image, which tells its failures by itself. */
static int make_image(struct sandbox_verb *v, const char *id, const char *name, int *ret_code) {
    const struct verb_common *c = v->common;
    char program[PATH_MAX];
    const char *argv[12] = {"cay-image", "snapshot", "--output",
                            c->output == OUTPUT_JSON ? "json" : "table"};
    size_t n = 4;
    if (c->state_dir != NULL) {
        argv[n++] = "--state-dir";
        argv[n++] = c->state_dir;
    }
    if (c->quiet)
        argv[n++] = "--quiet";
    argv[n++] = "--";
    argv[n++] = id;
    argv[n] = name;
    int r = program_find(argv[0], program, sizeof program, &v->err);
    if (r < 0)
        return r;
    pid_t pid;
    int status;
    r = posix_spawn(&pid, program, NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    if (r != 0)
        return error_sys(&v->err, r, "starting %s", program);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(&v->err, "waiting for %s", program);
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

/* A running sandbox is paused meanwhile. */
static int snapshot(struct sandbox_verb *v, const char *who, const char *name, int *ret_code) {
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox/", .who = who};
    _cleanup_(table_free) struct table t = {0};
    char id[64], state[64];
    int r = sandbox_ask_table(v, &req, &t);
    if (r < 0)
        return r;
    if (str_copy(id, sizeof id, table_get(&t, 0, "id")) < 0 ||
        str_copy(state, sizeof state, table_get(&t, 0, "state")) < 0)
        return error_set(&v->err, CAY_INTERNAL, "the daemon answered against the protocol");
    bool runs = strcmp(state, "started") == 0;
    if (!runs && strcmp(state, "stopped") != 0 && strcmp(state, "paused") != 0) {
        error_set(&v->err, CAY_CONFLICT, "sandbox '%.80s' is %s", who, state);
        return error_remedy(&v->err, "wait until it is started, paused or stopped");
    }
    if (runs)
        r = post(v, id, "/pause");
    if (r == -CAY_UNSUPPORTED)
        return error_remedy(&v->err, "stop it first: cay stop %.80s", who);
    if (r < 0)
        return r;
    struct cay_error first;
    r = make_image(v, id, name, ret_code);
    first = v->err;
    int back = runs ? post(v, id, "/resume") : 0;
    if (r < 0)
        v->err = first;
    return r < 0 ? r : back;
}

/* What is elsewhere is made there. */
static int snapshot_there(struct sandbox_verb *v, const char *who, const char *name) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(8192);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", name);
    jsonw_end_object(&w);
    const struct sandbox_request req = {.method = "POST",
                                        .before = "/api/cay/sandbox/",
                                        .who = who,
                                        .after = "/snapshot",
                                        .body = &body};
    if (sandbox_ask(v, &req) < 0)
        return sandbox_fail(v);
    if (v->common->output == OUTPUT_JSON)
        return verb_print(&v->answer);
    _cleanup_(buf_free) struct buf line = BUF_INIT(8192);
    (void)buf_printf(&line, "%s\n", name);
    return verb_print(&line);
}

/* Its files are where only the daemon's engine reaches them. */
static bool is_container(struct sandbox_verb *v, const char *who) {
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox/", .who = who};
    _cleanup_(table_free) struct table t = {0};
    return sandbox_ask_table(v, &req, &t) == 0 && str_equal(table_get(&t, 0, "engine"), "docker");
}

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    int code = 0;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(values);
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    bool is_named = v.daemon.state_dir[0] == '\0'; /* its files may be anywhere */
    if (is_named || is_container(&v, argv[0]))
        return snapshot_there(&v, argv[0], argv[1]);
    return snapshot(&v, argv[0], argv[1], &code) < 0 ? sandbox_fail(&v) : code;
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay snapshot create",
    .synopsis = "[OPTIONS] SANDBOX NAME",
    .summary = "make an image of a sandbox",
    .help = "The image is the one that the sandbox was created from, with everything that was "
            "changed since. A running sandbox is paused meanwhile and goes on afterwards; its "
            "processes and its memory are not part of the image. With --host it is an image, or a "
            "snapshot, of that host.",
    .examples = "cay snapshot create lab lab:with-tools\n"
                "cay create --image lab:with-tools\n",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run_create,
};

static const struct opt_command *const commands[] = {&create, NULL};

static const struct opt_habit habits[] = {
    {"delete", "snapshots are images: use 'cay image rm NAME'"},
    {"list", "snapshots are images: use 'cay image ls'"},
    {"ls", "snapshots are images: use 'cay image ls'"},
    {"restore", "use 'cay create --image NAME'"},
    {"rm", "snapshots are images: use 'cay image rm NAME'"},
    {0},
};

static const struct verb_program program = {
    .path = "cay snapshot",
    .about = "Images of sandboxes.",
    .commands = commands,
    .habits = habits,
};

/* argv are the words after "snapshot". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_snapshot = {
    .name = "snapshot",
    .path = "cay snapshot",
    .synopsis = "COMMAND [ARG...]",
    .summary = "make images of sandboxes",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
