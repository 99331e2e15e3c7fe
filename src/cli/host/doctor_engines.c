#include "cli/host/doctor_engines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "config/config.h"
#include "engine/engines.h"

enum { ANSWER_MAX = 64 * 1024 };

/* `cay` itself has no library for it. */
static int start(const char *name, int out, pid_t *ret) {
    char program[PATH_MAX];
    const char *argv[] = {name, "probe", NULL};
    posix_spawn_file_actions_t actions;
    if (program_find(argv[0], program, sizeof program, NULL) < 0)
        return -ENOENT;
    (void)posix_spawn_file_actions_init(&actions);
    int r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn(ret, program, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* A configuration that cannot be read is another verb's to refuse. */
static void choose_keys(const char *path) {
    _cleanup_(config_freep) struct config *config = NULL;
    struct cay_error ignored;
    if (config_load_trusted(path, (const char *const *)environ, &config, &ignored) == 0)
        engine_keys_export(config->engine);
}

static void ask(const char *program, struct reply *ret) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    int pair[2], status = 1;
    pid_t pid = 0;
    *ret = (struct reply){0};
    if (pipe2(pair, O_CLOEXEC) < 0)
        return;
    int r = start(program, pair[1], &pid);
    (void)close(pair[1]);
    if (r == 0)
        r = fd_read_to_end(pair[0], &text);
    (void)close(pair[0]);
    while (pid != 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r == 0 && status == 0)
        (void)reply_parse_list(&text, ret, NULL);
}

void doctor_ask_engines(const char *config, struct doctor_engines *ret) {
    *ret = (struct doctor_engines){0};
    choose_keys(config);
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        if (engine_can(k, ENGINE_HAS_PROBE))
            ask(engine_type(k)->program, &ret->found[k]);
}

void doctor_engines_free(struct doctor_engines *e) {
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        reply_free(&e->found[k]);
}

static void print(struct buf *b, const char *title, struct reply *t) {
    if (t->rows > 0)
        (void)buf_printf(b, "\n%s\n", title);
    for (size_t i = 0; i < t->rows; i++) {
        (void)buf_printf(b, "  %-8s %-22s %s\n", reply_is_true(t, i, "ok") ? "ok" : "missing",
                         reply_text(t, i, "name"), reply_text(t, i, "detail"));
        if (!reply_is_true(t, i, "ok"))
            (void)buf_printf(b, "           %-22s %s\n", "", reply_text(t, i, "remedy"));
    }
}

static void put(struct jsonw *w, const char *name, struct reply *t) {
    static const char *const texts[] = {"name", "detail", "remedy"};
    jsonw_key(w, name);
    jsonw_begin_array(w);
    for (size_t i = 0; i < t->rows; i++) {
        jsonw_begin_object(w);
        jsonw_put_bool(w, "ok", reply_is_true(t, i, "ok"));
        for (size_t k = 0; k < ARRAY_LEN(texts); k++)
            jsonw_put_string(w, texts[k], reply_string(t, i, texts[k]));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

void doctor_print_engines(struct buf *b, struct doctor_engines *e) {
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        print(b, engine_type(k)->title, &e->found[k]);
}

void doctor_put_engines(struct jsonw *w, struct doctor_engines *e) {
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        if (engine_can(k, ENGINE_HAS_PROBE))
            put(w, engine_kind_name(k), &e->found[k]);
}
