/* `cay daemon`: the daemon as a thing: whether it runs, start, stop, restart, its log. The verbs
 * are about a daemon of this machine; the lock of its state folder says which process that is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/holder.h"
#include "base/json/jsonw.h"
#include "base/path.h"
#include "base/program.h"
#include "base/state.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/sandbox.h"
#include "client/start.h"

enum {
    NOT_RUNNING = 3,        /* the exit code of status, as `systemctl status` has it */
    STOPPED_MS = 90 * 1000, /* longer than a front waits for its last request */
    LOOK_MS = 20,
    FOLLOW_MS = 250,
    TAIL_MAX = 4 * 1024 * 1024, /* of a log, to find its last lines */
};

/* The daemon of a state folder, and its files. */
struct local_daemon {
    char state_dir[PATH_MAX], lock[PATH_MAX], log[PATH_MAX], key[PATH_MAX];
    struct holder holder;
};

/* CAY_HOST and --host name a daemon whose process is not ours to stop. */
static int find_local(const struct verb_common *o, struct local_daemon *ret,
                      struct cay_error *err) {
    const char *host = o->host != NULL ? o->host : getenv("CAY_HOST");
    if (host != NULL && host[0] != '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "'cay daemon' is about the daemon of this machine");
        return error_remedy(err, "omit --host and CAY_HOST; --state-dir names a state folder");
    }
    int r = state_dir_make(o->state_dir, ret->state_dir, sizeof ret->state_dir, err);
    if (r < 0)
        return r;
    if (path_join(ret->lock, sizeof ret->lock, ret->state_dir, "daemon/lock") < 0 ||
        path_join(ret->log, sizeof ret->log, ret->state_dir, "daemon/log") < 0 ||
        path_join(ret->key, sizeof ret->key, ret->state_dir, "admin.key") < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the state folder's path is too long");
    ret->holder = holder_find(ret->lock);
    return 0;
}

static const char *state_of(const struct local_daemon *d) {
    if (d->holder.pid == 0)
        return "stopped";
    return d->holder.is_ending ? "stopping" : "running";
}

/* ---- status ---- */

/* What the daemon says about itself; empty where it does not answer. */
struct said {
    struct reply status;
    char socket[PATH_MAX];
    struct cay_error health; /* CAY_OK, or what is wrong */
};

static void ask(const struct verb_common *o, struct said *ret) {
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(o);
    struct daemon_choice choice = sandbox_choice(o);
    choice.no_start = true;
    int r = daemon_open(&choice, &v.daemon, &v.err);
    if (str_copy(ret->socket, sizeof ret->socket, v.daemon.address.path) < 0)
        ret->socket[0] = '\0';
    if (r == 0) {
        v.daemon.start = false;
        const struct sandbox_request status = {.method = "GET", .before = "/api/cay/status"};
        const struct daemon_request health = {.method = "GET", .path = "/healthz"};
        r = sandbox_query(&v, &status, &ret->status);
        if (r == 0)
            r = daemon_call(&v.daemon, &health, &v.answer, &v.err);
    }
    ret->health = r < 0 ? v.err : (struct cay_error){.code = CAY_OK};
}

static void put_number(struct jsonw *w, const struct reply *t, const char *json, const char *name) {
    jsonw_put_unsigned(w, json, reply_unsigned(t, 0, name));
}

static void put_status(struct buf *b, const struct local_daemon *d, const struct said *s) {
    struct jsonw w = JSONW_INIT(b);
    bool is_ok = s->health.code == CAY_OK;
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "state", state_of(d));
    jsonw_put_unsigned(&w, "pid", (uint64_t)d->holder.pid);
    jsonw_put_bool(&w, "healthy", d->holder.pid != 0 && is_ok);
    jsonw_put_string(&w, "reason", d->holder.pid != 0 && !is_ok ? s->health.message : "");
    jsonw_put_string(&w, "version", reply_string(&s->status, 0, "version"));
    put_number(&w, &s->status, "sandboxes", "sandboxes");
    put_number(&w, &s->status, "started", "started");
    put_number(&w, &s->status, "limit", "limit");
    jsonw_put_string(&w, "stateDir", d->state_dir);
    jsonw_put_string(&w, "socket", s->socket);
    jsonw_put_string(&w, "keyFile", d->key);
    jsonw_put_string(&w, "logFile", d->log);
    jsonw_end_object(&w);
    (void)buf_putc(b, '\n');
}

static void put_lines(struct buf *b, const struct local_daemon *d, const struct said *s) {
    const struct reply *t = &s->status;
    (void)buf_printf(b, "%-11s%s", "daemon", state_of(d));
    if (d->holder.pid != 0)
        (void)buf_printf(b, ", process %d", (int)d->holder.pid);
    if (t->rows > 0)
        (void)buf_printf(b, ", version %s\n%-11s%llu, %llu of them running, at most %llu",
                         reply_string(t, 0, "version"), "sandboxes",
                         (unsigned long long)reply_unsigned(t, 0, "sandboxes"),
                         (unsigned long long)reply_unsigned(t, 0, "started"),
                         (unsigned long long)reply_unsigned(t, 0, "limit"));
    (void)buf_putc(b, '\n');
    if (d->holder.pid != 0)
        (void)buf_printf(b, "%-11s%s\n", "health",
                         s->health.code == CAY_OK ? "ok" : s->health.message);
    (void)buf_printf(b, "%-11s%s\n%-11s%s\n%-11s%s\n", "socket", s->socket, "state", d->state_dir,
                     "key", d->key);
    if (access(d->log, F_OK) == 0)
        (void)buf_printf(b, "%-11s%s\n", "log", d->log);
}

static int run_status(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct verb_common *o = values;
    struct cay_error err;
    struct local_daemon d;
    struct said said = {.health = {.code = CAY_OK}};
    _cleanup_(buf_free) struct buf b = BUF_INIT(64 * 1024);
    if (find_local(o, &d, &err) < 0)
        return verb_fail(&err);
    ask(o, &said);
    if (o->output == OUTPUT_JSON)
        put_status(&b, &d, &said);
    else
        put_lines(&b, &d, &said);
    reply_free(&said.status);
    int code = verb_print(&b);
    if (code != 0)
        return code;
    return d.holder.pid == 0 ? NOT_RUNNING : cay_code_exit(said.health.code);
}

static const struct opt_command status = {
    .name = "status",
    .path = "cay daemon status",
    .synopsis = "[OPTIONS]",
    .summary = "whether the daemon runs, where it listens, and whether it can do its work",
    .help = "Exits with 0 if it runs and is healthy, 3 if none runs, and 10 if it cannot do its "
            "work. It starts none.",
    .examples = "cay daemon status\n"
                "cay daemon status -o json",
    .values_size = sizeof(struct verb_common),
    .run = run_status,
};

/* ---- start and restart ---- */

static int run_start(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct verb_common *o = values;
    const struct daemon_choice choice = sandbox_choice(o);
    struct cay_error err;
    struct local_daemon d;
    if (find_local(o, &d, &err) < 0)
        return verb_fail(&err);
    if (d.holder.pid != 0 && !d.holder.is_ending) {
        if (!o->quiet)
            verb_note("the daemon runs already (process %d)", (int)d.holder.pid);
        return 0;
    }
    return daemon_start(&choice, d.state_dir, &err) < 0 ? verb_fail(&err) : 0;
}

static const struct opt_command start = {
    .name = "start",
    .path = "cay daemon start",
    .synopsis = "[OPTIONS]",
    .summary = "start the daemon in the background",
    .help = "Verbs that need it do this by themselves. 'cay serve' runs it in the foreground "
            "and takes options.",
    .values_size = sizeof(struct verb_common),
    .run = run_start,
};

/* cayd knows how to replace one that runs. */
static int run_restart(const struct opt_command *cmd, void *values, int argc, char **argv) {
    const struct verb_common *o = values;
    struct cay_error err;
    struct local_daemon d;
    char path[PATH_MAX];
    if (find_local(o, &d, &err) < 0)
        return verb_fail(&err);
    if (d.holder.pid == 0 || d.holder.is_ending)
        return run_start(cmd, values, argc, argv);
    if (program_find("cayd", path, sizeof path, &err) < 0)
        return verb_fail(&err);
    const char *words[] = {"cayd", "--replace", "--state-dir", d.state_dir, NULL};
    (void)execv(path, (char *const *)(uintptr_t)words);
    (void)error_errno(&err, "starting %s", path);
    return verb_fail(&err);
}

static const struct opt_command restart = {
    .name = "restart",
    .path = "cay daemon restart",
    .synopsis = "[OPTIONS]",
    .summary = "restart the daemon as the installed version, without refusing a connection",
    .help = "It keeps its sockets and options; sandboxes, terminals and sessions go on. If none "
            "runs, one is started.",
    .values_size = sizeof(struct verb_common),
    .run = run_restart,
};

/* ---- stop ---- */

/* The lock is free when the last process of the daemon has ended. */
static int await_end(const struct local_daemon *d, struct cay_error *err) {
    int64_t deadline = clock_deadline(STOPPED_MS);
    while (holder_find(d->lock).pid == d->holder.pid) {
        if (clock_expired(deadline)) {
            error_set(err, CAY_TIMEOUT, "the daemon (process %d) has not ended after %d s",
                      (int)d->holder.pid, STOPPED_MS / 1000);
            return error_remedy(err, "see its log; a request may still be under way");
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

static int run_stop(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct verb_common *o = values;
    struct cay_error err;
    struct local_daemon d;
    if (find_local(o, &d, &err) < 0)
        return verb_fail(&err);
    if (d.holder.pid == 0) {
        if (!o->quiet)
            verb_note("no daemon runs in %s", d.state_dir);
        return 0;
    }
    if (kill(d.holder.pid, SIGTERM) < 0 && errno != ESRCH) {
        (void)error_errno(&err, "asking process %d to end", (int)d.holder.pid);
        (void)error_remedy(&err, "do it as the user who started that daemon");
        return verb_fail(&err);
    }
    if (await_end(&d, &err) < 0)
        return verb_fail(&err);
    if (!o->quiet)
        verb_note("the daemon has stopped; sandboxes keep running");
    return 0;
}

static const struct opt_command stop = {
    .name = "stop",
    .path = "cay daemon stop",
    .synopsis = "[OPTIONS]",
    .summary = "stop the daemon; sandboxes keep running",
    .help =
        "It answers the requests that are under way and ends. The next verb that needs a daemon "
        "starts one again. A daemon that a service manager runs is stopped there.",
    .values_size = sizeof(struct verb_common),
    .run = run_stop,
};

/* ---- logs ---- */

struct log_options {
    struct verb_common common;
    int64_t lines;
    bool follow;
};

static const struct log_options log_defaults = {.lines = 100};

static const struct opt log_options[] = {
    {.letter = 'n',
     .name = "lines",
     OPT_TO_INTEGER(struct log_options, lines),
     .arg = "N",
     .min = 0,
     .max = 1000000,
     .help = "the last so many lines (100)"},
    {.letter = 'f',
     .name = "follow",
     OPT_TO_FLAG(struct log_options, follow),
     .help = "go on with what is added"},
    {0},
};

static int open_log(const struct local_daemon *d, struct cay_error *err) {
    int fd = open(d->log, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    int sys = fd < 0 ? errno : EINVAL;
    if (fd >= 0)
        (void)close(fd);
    if (sys != ENOENT)
        return error_sys(err, sys, "opening %s", d->log);
    error_set(err, CAY_NOT_FOUND, "no daemon has run in the background in %s", d->state_dir);
    return error_remedy(err, "'cay serve' logs to its standard error; under systemd see "
                             "'journalctl -u cayd'");
}

/* Where the last lines of a log begin. */
static off_t find_tail(int fd, off_t size, int64_t lines) {
    char block[16 * 1024];
    off_t at = size, least = MAX(size - TAIL_MAX, (off_t)0);
    int64_t ends = 0;
    while (at > least) {
        size_t n = (size_t)MIN((off_t)sizeof block, at - least);
        if (pread(fd, block, n, at - (off_t)n) != (ssize_t)n)
            return least;
        for (size_t i = n; i > 0; i--)
            if (block[i - 1] == '\n' && ++ends > lines)
                return at - (off_t)(n - i);
        at -= (off_t)n;
    }
    return least;
}

/* Copies what is behind *at and moves it on. A log that became shorter has been rotated. */
static int copy_from(int fd, off_t *at) {
    char block[64 * 1024];
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size < *at)
        *at = 0;
    for (;;) {
        ssize_t n = pread(fd, block, sizeof block, *at);
        if (n <= 0)
            return 0;
        if (fd_write_all(STDOUT_FILENO, block, (size_t)n) < 0)
            return -errno;
        *at += n;
    }
}

static int run_logs(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct log_options *o = values;
    struct cay_error err;
    struct local_daemon d;
    struct stat st;
    if (find_local(&o->common, &d, &err) < 0)
        return verb_fail(&err);
    _cleanup_(closep) int fd = open_log(&d, &err);
    if (fd < 0)
        return verb_fail(&err);
    off_t at = fstat(fd, &st) == 0 ? find_tail(fd, st.st_size, o->lines) : 0;
    int r = copy_from(fd, &at);
    while (r == 0 && o->follow) {
        (void)poll(NULL, 0, FOLLOW_MS);
        r = copy_from(fd, &at);
    }
    if (r == 0 || r == -EPIPE)
        return 0;
    (void)error_sys(&err, -r, "writing to standard output");
    return verb_fail(&err);
}

static const struct opt_command logs = {
    .name = "logs",
    .path = "cay daemon logs",
    .synopsis = "[OPTIONS]",
    .summary = "what the daemon in the background has logged",
    .help = "'cay serve' logs to its standard error instead.",
    .examples = "cay daemon logs -f",
    .options = log_options,
    .values_size = sizeof(struct log_options),
    .defaults = &log_defaults,
    .run = run_logs,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {&status, &start, &stop, &restart, &logs, NULL};

static const struct verb_program program = {
    .path = "cay daemon",
    .about = "The daemon that looks after persistent sandboxes. Verbs that need it start it.",
    .commands = commands,
};

/* argv are the words after "daemon". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_daemon = {
    .name = "daemon",
    .path = "cay daemon",
    .synopsis = "COMMAND [ARG...]",
    .summary = "see, stop and restart the daemon",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
