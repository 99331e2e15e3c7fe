#include "lib/command.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "egress/control.h"
#include "wire/client_exec.h"

/* The inside asks, waits, kills; then the host stops believing it. */
enum { HOST_GRACE_MS = 5000 };

/* ---- its environment ---- */

static const char *const default_env[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
};

static bool overrides(const char *const *env, const char *entry) {
    size_t n = strcspn(entry, "=") + 1;
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, entry, n) == 0)
            return true;
    return false;
}

static size_t count_words(const char *const *v) {
    size_t n = 0;
    while (v != NULL && v[n] != NULL)
        n++;
    return n;
}

static int check_env(const char *const *env, struct cay_error *err) {
    for (; env != NULL && *env != NULL; env++) {
        if (strchr(*env, '=') != NULL && **env != '=')
            continue;
        char shown[64];
        error_set(err, CAY_INVALID_ARGUMENT, "environment entry '%s' has no '='",
                  str_escape(shown, sizeof shown, *env));
        return error_remedy(err, "write --env KEY=VALUE");
    }
    return 0;
}

const char **command_env(const struct command_defaults *d, const struct cay_exec *exec,
                         char *hostname, size_t size, struct cay_error *err) {
    static const char *const none[] = {NULL};
    if (check_env(exec->env, err) < 0)
        return NULL;
    const char *const *under = d->env != NULL ? d->env : none;
    (void)snprintf(hostname, size, "HOSTNAME=%s", d->hostname);
    const char *defaults[] = {default_env[0], default_env[1], hostname,
                              exec->tty ? "TERM=xterm-256color" : NULL};
    const char **env =
        calloc(ARRAY_LEN(defaults) + count_words(under) + count_words(exec->env) + 1, sizeof *env);
    if (env == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        if (defaults[i] != NULL && !overrides(exec->env, defaults[i]) &&
            !overrides(under, defaults[i]))
            env[n++] = defaults[i];
    for (; *under != NULL; under++)
        if (!overrides(exec->env, *under))
            env[n++] = *under;
    for (const char *const *p = exec->env; p != NULL && *p != NULL; p++)
        if (!overrides(p + 1, *p)) /* programs would look at the first, people mean the last */
            env[n++] = *p;
    return env;
}

/* ---- running it ---- */

static void window_size(const struct cay_exec *exec, struct exec_request *req) {
    struct winsize size;
    if (!exec->tty || ioctl(exec->stdin_fd, TIOCGWINSZ, &size) < 0)
        return;
    req->rows = size.ws_row;
    req->cols = size.ws_col;
}

static int64_t host_deadline(const struct cay_exec *exec) {
    return exec->timeout_ms > 0 ? clock_ms() + exec->timeout_ms + HOST_GRACE_MS : 0;
}

static void take_captured(struct buf *b, char **text, size_t *len, bool streamed) {
    if (streamed)
        return;
    *len = b->len;
    *text = buf_take(b);
}

static void fill_result(const struct exec_outcome *o, int64_t begin, struct cay_result *ret) {
    /* How long the command ran is the sandbox's word, but never more than we saw. */
    int64_t total = clock_us() - begin;
    int64_t ran = o->started ? MIN(MAX(o->elapsed_us, 0), total) : 0;
    if (o->started && o->elapsed_us == 0)
        ran = total; /* it ended without a word */
    ret->exit_code = o->exit_code;
    ret->signal = o->signal;
    ret->timed_out = o->reason == WIRE_REASON_TIMEOUT || o->reason == WIRE_REASON_QUIET;
    ret->idle_output = o->reason == WIRE_REASON_QUIET;
    ret->output_truncated = o->truncated;
    ret->duration_us = ran;
    ret->phases.exec_us = total - ran;
    ret->phases.run_us = ran;
}

/* Carries the streams of a command that was sent. */
static int carry(int fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                 const struct command_extras *extras, const struct buf *opening, int64_t begin,
                 struct cay_result *ret, struct cay_error *err) {
    struct exec_streams s = {
        .in = exec->stdin_fd,
        .out = {exec->stdout_fd, exec->stderr_fd},
        .captured = {BUF_INIT(exec->capture_max), BUF_INIT(exec->capture_max)},
        .signals = exec->signal_fd,
        .client = defaults->client,
        .more = defaults->more,
        .more_arg = defaults->more_arg,
        .first = extras->first,
        .first_len = extras->first_len,
        .opening = opening,
        .report = extras->report,
        .holds_input = extras->holds_input,
        .changed = extras->changed,
        .changed_arg = extras->changed_arg,
    };
    struct exec_outcome outcome;
    int r = exec_carry(fd, &s, host_deadline(exec), &outcome, err);
    fill_result(&outcome, begin, ret);
    if (extras->ret_all_changes != NULL)
        *extras->ret_all_changes = outcome.all_changes;
    take_captured(&s.captured[0], &ret->out, &ret->out_len, exec->stdout_fd >= 0);
    take_captured(&s.captured[1], &ret->err, &ret->err_len, exec->stderr_fd >= 0);
    buf_free(&s.captured[0]);
    buf_free(&s.captured[1]);
    return r;
}

/* Bytes for standard input as a file, whose end is theirs; -1 if there are none. */
static int open_input(const struct cay_exec *exec, int *ret, struct cay_error *err) {
    *ret = -1;
    if (exec->stdin_fd >= 0 || exec->input == NULL)
        return 0;
    _cleanup_(closep) int fd = memfd_create("cay-input", MFD_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "making a file in memory");
    int r = fd_write_all(fd, exec->input, exec->input_len);
    if (r < 0)
        return error_sys(err, -r, "keeping the input of a command");
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, "keeping the input of a command");
    *ret = TAKE_FD(fd);
    return 0;
}

/* Where a command runs and with what variables. */
struct place {
    char cwd[PATH_MAX], hostname[NAME_MAX_LEN + 16];
    const char **env;
};

static void place_free(struct place *p) {
    free(p->env);
}

static int find_place(const struct cay_exec *exec, const struct command_defaults *defaults,
                      struct place *ret, struct cay_error *err) {
    if (exec->argv == NULL || exec->argv[0] == NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "no command given");
    int r =
        path_normalize("--workdir", exec->work_dir != NULL ? exec->work_dir : defaults->work_dir,
                       ret->cwd, sizeof ret->cwd, err);
    if (r < 0)
        return r;
    ret->env = command_env(defaults, exec, ret->hostname, sizeof ret->hostname, err);
    return ret->env == NULL ? -(int)err->code : 0;
}

static struct exec_request make_request(const struct cay_exec *exec, const struct place *place,
                                        const struct command_defaults *defaults,
                                        const struct command_extras *extras) {
    struct exec_request req = {
        .argv = exec->argv,
        .env = place->env,
        .cwd = place->cwd,
        .user = exec->user != NULL ? exec->user : defaults->user,
        .tty = exec->tty,
        .want_stdin = exec->stdin_fd >= 0 || extras->first_len > 0,
        .timeout_ms = exec->timeout_ms,
        .quiet_ms = exec->idle_output_timeout_ms,
        .output_max = exec->output_max,
        .program = extras->program,
        .door = defaults->door,
        .proxy_port = EGRESS_PORT,
        .report = extras->report != NULL,
        .watch = extras->changed != NULL,
    };
    window_size(exec, &req);
    return req;
}

int command_send(int fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                 const struct command_extras *extras, struct cay_error *err) {
    _cleanup_(place_free) struct place place = {0};
    int r = find_place(exec, defaults, &place, err);
    if (r < 0)
        return r;
    struct exec_request req = make_request(exec, &place, defaults, extras);
    req.want_stdin = true;
    req.timeout_ms = req.quiet_ms = 0;
    req.output_max = 0;
    return exec_send(fd, &req, err);
}

int command_exec(int *fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                 struct cay_result *ret, struct cay_error *err) {
    static const struct command_extras none;
    return command_exec_with(fd, exec, defaults, &none, ret, err);
}

int command_exec_with(int *fd, const struct cay_exec *asked,
                      const struct command_defaults *defaults, const struct command_extras *extras,
                      struct cay_result *ret, struct cay_error *err) {
    struct cay_exec exec = *asked;
    _cleanup_(place_free) struct place place = {0};
    _cleanup_(closep) int input = -1;
    int r = find_place(&exec, defaults, &place, err);
    if (r == 0)
        r = open_input(&exec, &input, err);
    if (r < 0)
        return r;
    if (input >= 0)
        exec.stdin_fd = input;
    struct exec_request req = make_request(&exec, &place, defaults, extras);
    int64_t begin = clock_us();
    _cleanup_(buf_free) struct buf opening = BUF_INIT(WIRE_DATA_MAX);
    if (extras->waits)
        exec_put_limits(&req, &opening);
    else
        r = exec_send(*fd, &req, err);
    if (opening.failed)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r < 0)
        return r;
    r = carry(*fd, &exec, defaults, extras, &opening, begin, ret, err);
    fd_close(fd);
    return r;
}
