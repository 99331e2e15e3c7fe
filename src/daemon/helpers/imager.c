#include "daemon/helpers/imager.h"

#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "image/answer.h"
#include "image/store.h"

enum { ANSWER_MAX = 8192, SWEEP_WAIT_MS = 5000 };

static int spawn(const char *program, const char *const *argv, const struct imager_streams *s,
                 pid_t *ret, struct cay_error *err) {
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    int r = posix_spawn_file_actions_adddup2(&actions, s->answer, STDOUT_FILENO);
    if (r == 0 && s->progress >= 0)
        r = posix_spawn_file_actions_adddup2(&actions, s->progress, STDERR_FILENO);
    if (r == 0 && s->input >= 0)
        r = posix_spawn_file_actions_adddup2(&actions, s->input, STDIN_FILENO);
    if (r == 0 && s->more >= 0) /* the last: it may be in the way of none before */
        r = posix_spawn_file_actions_adddup2(&actions, s->more, IMAGER_MORE);
    if (r == 0)
        r = posix_spawn(ret, program, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r == 0 ? 0 : error_sys(err, r, "starting %s", program);
}

int imager_spawn(const char *const *argv, const struct imager_streams *streams, pid_t *ret,
                 struct cay_error *err) {
    char program[PATH_MAX];
    int r = program_find(argv[0], program, sizeof program, err);
    return r < 0 ? r : spawn(program, argv, streams, ret, err);
}

void imager_sweep(const char *state_dir) {
    if (fork() != 0)
        return; /* without it, the next prune removes the same */
    (void)close_range(STDERR_FILENO + 1, UINT_MAX, 0); /* the daemon's lock is not its business */
    image_store_sweep(state_dir, SWEEP_WAIT_MS);
    _exit(0);
}

void imager_sweep_after(int status, const char *state_dir) {
    if (WIFSIGNALED(status))
        imager_sweep(state_dir);
}

void imager_answer(int answer, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ANSWER_MAX);
    if (err->code == CAY_OK)
        (void)buf_puts(&b, "ok\n");
    else
        image_answer_error(&b, err, "");
    (void)fd_set_nonblocking(answer, true); /* whatever the front has made of it */
    (void)fd_write_all(answer, buf_text(&b), b.len);
}
