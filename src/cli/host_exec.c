#include "cli/host_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/command.h"

enum { GRACE_MS = 250, LIMITED = 124, PIECE = 64 * 1024 };

/* One command at work. */
struct child {
    const struct cay_exec *exec;
    struct cay_result *ret;
    pid_t pid;
    int out[2]; /* what it prints; -1 at the end */
    struct buf captured[2];
    uint64_t printed;
    int64_t deadline, quiet_at, kill_at; /* 0: never */
    bool limited, exited;
    int status;
};

/* ---- starting ---- */

static int spawn(const struct cay_exec *exec, const char *const *env, const int to[2], pid_t *ret) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    (void)sigemptyset(&none);
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGPIPE);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    int r =
        exec->stdin_fd >= 0
            ? posix_spawn_file_actions_adddup2(&actions, exec->stdin_fd, STDIN_FILENO)
            : posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = 0; r == 0 && i < 2; i++)
        r = posix_spawn_file_actions_adddup2(&actions, to[i], STDOUT_FILENO + i);
    if (r == 0 && exec->work_dir != NULL)
        r = posix_spawn_file_actions_addchdir_np(&actions, exec->work_dir);
    if (r == 0)
        r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(&attributes, &usual);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                      POSIX_SPAWN_SETSID);
    if (r == 0)
        r = posix_spawnp(ret, exec->argv[0], &actions, &attributes,
                         (char *const *)(uintptr_t)exec->argv, (char *const *)(uintptr_t)env);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* As shells do: 127 for what is not there, 126 for what cannot be executed. */
static int not_started(int number, const char *program, struct cay_result *ret,
                       struct cay_error *err) {
    ret->exit_code = number == ENOENT || number == ENOTDIR ? 127 : 126;
    error_sys(err, number, "executing '%.200s'", program);
    return error_remedy(err, "see whether it is there and may be executed, and --workdir too");
}

static int start(struct child *c, struct cay_error *err) {
    static const char *const home_only[] = {"HOME=/", NULL};
    char hostname[HOST_NAME_MAX + 1] = "localhost", entry[HOST_NAME_MAX + 16];
    (void)gethostname(hostname, sizeof hostname - 1);
    const char *home = getenv("HOME");
    char home_entry[PATH_MAX];
    const char *const own[] = {home_entry, NULL};
    bool known = home != NULL && str_format(home_entry, sizeof home_entry, "HOME=%s", home) == 0;
    const struct command_defaults defaults = {.hostname = hostname, .env = known ? own : home_only};
    _cleanup_(freep) const char **env = command_env(&defaults, c->exec, entry, sizeof entry, err);
    if (env == NULL)
        return -(int)err->code;
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    int r = pipe2(pipes[0], O_CLOEXEC) < 0 || pipe2(pipes[1], O_CLOEXEC) < 0 ? errno : 0;
    const int to[2] = {pipes[0][1], pipes[1][1]};
    if (r == 0)
        r = spawn(c->exec, env, to, &c->pid);
    for (int i = 0; i < 2; i++) {
        c->out[i] = pipes[i][0];
        fd_close(&pipes[i][1]);
    }
    return r == 0 ? 0 : not_started(r, c->exec->argv[0], c->ret, err);
}

/* ---- limits ---- */

/* Asked to end first, then made to. */
static void end(struct child *c) {
    if (c->kill_at != 0)
        return;
    c->limited = true;
    c->kill_at = clock_deadline(GRACE_MS);
    (void)kill(-c->pid, SIGTERM);
}

static void check_limits(struct child *c) {
    if (c->deadline != 0 && clock_expired(c->deadline)) {
        c->ret->timed_out = true;
        end(c);
    } else if (c->quiet_at != 0 && clock_expired(c->quiet_at)) {
        c->ret->timed_out = c->ret->idle_output = true;
        end(c);
    }
    if (c->kill_at != 0 && clock_expired(c->kill_at)) {
        (void)kill(-c->pid, SIGKILL);
        fd_close(&c->out[0]); /* what has left the group may hold them open for ever */
        fd_close(&c->out[1]);
    }
}

/* Up to the limit; what is beyond ends it. */
static size_t admit(struct child *c, size_t len) {
    uint64_t max = c->exec->output_max;
    uint64_t left = max > c->printed ? max - c->printed : 0;
    if (max == 0 || len <= left) {
        c->printed += len;
        return len;
    }
    c->ret->output_truncated = true;
    c->printed = max;
    end(c);
    return (size_t)left;
}

/* ---- streams ---- */

static void pass(struct child *c, int stream) {
    char data[PIECE];
    ssize_t n = read(c->out[stream], data, sizeof data);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        fd_close(&c->out[stream]);
        return;
    }
    if (c->quiet_at != 0)
        c->quiet_at = clock_deadline(c->exec->idle_output_timeout_ms);
    size_t len = admit(c, (size_t)n);
    int fd = stream == 0 ? c->exec->stdout_fd : c->exec->stderr_fd;
    if (fd >= 0)
        (void)fd_write_all(fd, data, len); /* a reader who went away does not end the command */
    else if (buf_append(&c->captured[stream], data, len) < 0)
        c->ret->output_truncated = true;
}

static void pass_signals(const struct child *c) {
    struct signalfd_siginfo info;
    while (read(c->exec->signal_fd, &info, sizeof info) == sizeof info)
        (void)kill(-c->pid, (int)info.ssi_signo);
}

/* Nobody waits for what the command left in the background: a moment for what is on its way. It is
 * not reaped yet, so that its group's number stays its own. */
static void look_for_end(struct child *c) {
    siginfo_t info = {0};
    if (c->exited || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid != c->pid)
        return;
    c->exited = true;
    c->deadline = c->quiet_at = 0;
    if (c->kill_at == 0)
        c->kill_at = clock_deadline(GRACE_MS);
}

static void carry(struct child *c) {
    enum { LOOK_MS = 20 };
    while (!c->exited || c->out[0] >= 0 || c->out[1] >= 0) {
        struct pollfd fds[] = {{.fd = c->out[0], .events = POLLIN},
                               {.fd = c->out[1], .events = POLLIN},
                               {.fd = c->exec->signal_fd, .events = POLLIN}};
        (void)poll(fds, ARRAY_LEN(fds), LOOK_MS);
        for (int i = 0; i < 2; i++)
            if (fds[i].revents != 0)
                pass(c, i);
        if (fds[2].revents != 0)
            pass_signals(c);
        look_for_end(c);
        check_limits(c);
    }
    (void)kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
        ;
}

static void fill_result(struct child *c, int64_t begin) {
    struct cay_result *r = c->ret;
    r->signal = WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;
    r->exit_code = c->limited ? LIMITED : r->signal > 0 ? 128 + r->signal : WEXITSTATUS(c->status);
    r->duration_us = r->phases.run_us = clock_us() - begin;
    if (c->exec->stdout_fd < 0) {
        r->out_len = c->captured[0].len;
        r->out = buf_take(&c->captured[0]);
    }
    if (c->exec->stderr_fd < 0) {
        r->err_len = c->captured[1].len;
        r->err = buf_take(&c->captured[1]);
    }
}

int host_exec(const struct cay_exec *exec, struct cay_result *ret, struct cay_error *err) {
    *ret = (struct cay_result){.exit_code = 125, .tier = "none"};
    struct child c = {
        .exec = exec,
        .ret = ret,
        .out = {-1, -1},
        .captured = {BUF_INIT(exec->capture_max), BUF_INIT(exec->capture_max)},
    };
    int64_t begin = clock_us();
    int r = start(&c, err);
    if (r == 0) {
        c.deadline = exec->timeout_ms > 0 ? clock_deadline(exec->timeout_ms) : 0;
        c.quiet_at =
            exec->idle_output_timeout_ms > 0 ? clock_deadline(exec->idle_output_timeout_ms) : 0;
        carry(&c);
        fill_result(&c, begin);
    }
    for (int i = 0; i < 2; i++) {
        fd_close(&c.out[i]);
        buf_free(&c.captured[i]);
    }
    return r;
}
