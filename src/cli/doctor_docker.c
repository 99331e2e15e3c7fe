#include "cli/doctor_docker.h"

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
#include "engine/docker/docker_runtime.h"

enum { ANSWER_MAX = 64 * 1024 };

/* `cay` itself has no library for it. */
static int start(int out, pid_t *ret) {
    char program[PATH_MAX];
    const char *argv[] = {"cay-docker", "probe", NULL};
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
static void choose_runtime(const char *path) {
    _cleanup_(config_freep) struct config *config = NULL;
    struct cay_error ignored;
    if (config_load_trusted(path, (const char *const *)environ, &config, &ignored) == 0)
        docker_runtime_choose(config->docker.runtime);
}

void doctor_ask_docker(const char *config, struct table *ret) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    int pair[2], status = 1;
    pid_t pid = 0;
    *ret = (struct table){0};
    if (pipe2(pair, O_CLOEXEC) < 0)
        return;
    choose_runtime(config);
    int r = start(pair[1], &pid);
    (void)close(pair[1]);
    if (r == 0)
        r = fd_read_to_end(pair[0], &text);
    (void)close(pair[0]);
    while (pid != 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r == 0 && status == 0 && table_parse(buf_text(&text), ret, NULL) < 0)
        *ret = (struct table){0};
}

static bool is_ok(const struct table *t, size_t row) {
    return str_equal(table_get(t, row, "ok"), "yes");
}

void doctor_print_docker(struct buf *b, const struct table *t) {
    if (t->rows > 0)
        (void)buf_puts(b, "\nDocker engine\n");
    for (size_t i = 0; i < t->rows; i++) {
        (void)buf_printf(b, "  %-8s %-22s %s\n", is_ok(t, i) ? "ok" : "missing",
                         table_get(t, i, "name"), table_get(t, i, "detail"));
        if (!is_ok(t, i))
            (void)buf_printf(b, "           %-22s %s\n", "", table_get(t, i, "remedy"));
    }
}

void doctor_put_docker(struct jsonw *w, const struct table *t) {
    static const char *const texts[] = {"name", "detail", "remedy"};
    jsonw_key(w, "docker");
    jsonw_begin_array(w);
    for (size_t i = 0; i < t->rows; i++) {
        jsonw_begin_object(w);
        jsonw_put_bool(w, "ok", is_ok(t, i));
        for (size_t k = 0; k < ARRAY_LEN(texts); k++)
            jsonw_put_string(w, texts[k], table_get(t, i, texts[k]));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}
