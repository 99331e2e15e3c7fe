/* The shell of a session, or the driver of a context. A driver is a program of the host's, given
 * as its arguments: it reads lines "r NUMBER INPUT ECHO FOLDER" from its standard input, opens
 * the streams of the command in the folder (INPUT 1: NUMBER.in too), runs what is in NUMBER.sh with
 * the environment of NUMBER.env added, and reports as a shell does. "i NUMBER" follows a SIGINT.
 * One that came along as a program that has been started once says "w" when it is awake.
 *
 * A shell reads lines of ours from its standard input, each telling it to run a
 * file, in itself, with the streams of that command, and to report how that ended. It is called
 * interactive, because such a shell survives what ends others (errors of syntax and of special
 * built-ins) and an interrupt takes it out of whatever it does. Nothing of ours is seen by
 * commands: the descriptor of the reports is closed for them, our lines are not theirs to read. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/session/keeper.h"
#include "init/user.h"

enum { REPORT_MAX = 8192, LINE_MAX_ = 2048 };

/* Reports move to 9, so that prompts and notices of jobs have somewhere to go. A noclobber or an
 * alias of the user's does not touch the lines that follow. */
static const char preparation[] = "exec 9>&1 >/dev/null 2>&1; unset HISTFILE; PS1= PS2=; set +m; "
                                  "[ -z \"$BASH_VERSION\" ] || set +H\n";

static void set_streams_nonblocking(const struct spawned *s) {
    (void)fd_set_nonblocking(s->in, true);
    (void)fd_set_nonblocking(s->out, true);
    (void)fd_set_nonblocking(s->err, true);
}

static int try_shell(struct keeper *k, const char *const *argv, int program, const char *cwd,
                     struct cay_error *err) {
    int code;
    const struct spawn_request req = {.argv = argv,
                                      .program = program,
                                      .env = k->start->env,
                                      .cwd = cwd,
                                      .user = k->start->user,
                                      .want_stdin = true};
    return spawn_command(&req, &k->shell, &code, err);
}

/* The last folder may be gone, or closed to the user. */
static int try_folders(struct keeper *k, const char *const *argv, int program,
                       struct cay_error *err) {
    const char *const folders[] = {k->cwd, k->start->cwd, "/"};
    int r = -1;
    for (size_t i = 0; i < ARRAY_LEN(folders) && r < 0; i++)
        r = try_shell(k, argv, program, folders[i], err);
    return r;
}

static bool is_bash(const char *shell) {
    const char *slash = strrchr(shell, '/');
    return strcmp(slash != NULL ? slash + 1 : shell, "bash") == 0;
}

static int try_named(struct keeper *k, const char *shell, struct cay_error *err) {
    const char *bash[] = {shell, "--norc", "--noprofile", "--noediting", "-i", NULL};
    const char *other[] = {shell, "-i", NULL};
    return try_folders(k, is_bash(shell) ? bash : other, 0, err);
}

static void began(struct keeper *k) {
    set_streams_nonblocking(&k->shell);
    buf_clear(&k->report);
    k->had_shell = true;
    k->group = k->shell.pid;
}

int shell_start(struct keeper *k, struct cay_error *err) {
    const char *named = k->start->shell;
    k->shell = (struct spawned){0, -1, -1, -1, -1};
    int r = k->start->driver != NULL ? try_folders(k, k->start->driver, 0, err)
                                     : try_named(k, named != NULL ? named : "bash", err);
    if (r < 0 && named == NULL && k->start->driver == NULL && err->code == CAY_NOT_FOUND)
        r = try_named(k, "sh", err);
    if (r < 0)
        return r;
    began(k);
    if (k->start->driver != NULL)
        return 0;
    r = fd_write_all(k->shell.in, preparation, sizeof preparation - 1); /* an empty pipe takes it */
    return r < 0 ? error_sys(err, -r, "preparing the shell of the session") : 0;
}

/* Its first line is "w"; whatever else it says, or its end, is not what was asked for. */
static bool says_awake(const struct keeper *k) {
    static const char line[] = "\nw\n";
    char said[sizeof line] = "";
    size_t len = 0;
    int64_t deadline = clock_ms() + KEEPER_WAKE_MS;
    while (len < sizeof line - 1) {
        struct pollfd p = {.fd = k->shell.out, .events = POLLIN};
        if (poll(&p, 1, clock_poll_timeout(deadline)) == 0)
            return false;
        ssize_t n = read(k->shell.out, said + len, sizeof line - 1 - len);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        len += n > 0 ? (size_t)n : 0;
    }
    return strcmp(said, line) == 0;
}

bool shell_wake(struct keeper *k) {
    struct cay_error ignored; /* it is started in the usual way then */
    int status = 0;
    k->shell = (struct spawned){0, -1, -1, -1, -1};
    if (try_folders(k, k->start->woken, k->start->program, &ignored) < 0)
        return false;
    began(k);
    k->is_woken = says_awake(k);
    if (k->is_woken)
        return true;
    (void)kill(k->shell.pid, SIGKILL); /* it may have ended by itself, and that is told */
    if (waitpid(k->shell.pid, &status, 0) > 0 && WIFEXITED(status))
        k->woken_exit = WEXITSTATUS(status);
    shell_close(k);
    k->had_shell = false; /* no code has been there */
    return false;
}

void shell_close(struct keeper *k) {
    spawned_close(&k->shell);
    k->shell.pid = 0;
}

/* ---- lines for it ---- */

static bool give_line(struct keeper *k, const char *line) {
    return k->shell.pid > 0 && fd_write_all(k->shell.in, line, strlen(line)) == 0;
}

void shell_ask_report(struct keeper *k, const struct command *c) {
    char line[LINE_MAX_];
    if (k->start->driver == NULL && /* which an interrupt does not make forget */
        str_format(line, sizeof line, "\\printf 'e %llu %%s %%s\\n' \"$?\" \"${PWD-}\" >&9\n",
                   (unsigned long long)c->number) == 0)
        (void)give_line(k, line); /* without a shell there is no report to wait for */
}

void shell_say_interrupt(struct keeper *k, const struct command *c) {
    char line[LINE_MAX_];
    if (str_format(line, sizeof line, "i %llu\n", (unsigned long long)c->number) == 0)
        (void)give_line(k, line); /* one that reads no lines hears the signal */
}

static bool drive(struct keeper *k, const struct command *c) {
    char line[LINE_MAX_];
    return str_format(line, sizeof line, "r %llu %d %d %s\n", (unsigned long long)c->number,
                      c->reads, c->echoes, k->start->io_path) == 0 &&
           give_line(k, line);
}

/* Commands before may have removed the folder that the next one is to run in. Only the kernel tells
 * that from one that was moved, and asking it takes a program. */
static const char find_folder[] =
    "{ \\command test . -ef \"${PWD:-/}\"; } 2>/dev/null || "
    "case $(\\command readlink /proc/self/cwd) in *' (deleted)') "
    "{ \\command mkdir -p \"${PWD:-/}\" && \\command cd \"${PWD:-/}\" || \\command cd /; } "
    ">/dev/null 2>&1; "
    "\\printf '[cay: the work folder was removed; this runs in %s]\\n' \"${PWD-}\" >&2;; esac; ";

bool shell_give(struct keeper *k, const struct command *c) {
    if (k->start->driver != NULL)
        return drive(k, c);
    char line[LINE_MAX_], in[PLACE_PATH_MAX + 32] = "/dev/null";
    char status[PLACE_PATH_MAX + 64] = "";
    const char *io = k->start->io_path;
    unsigned long long n = c->number;
    if (c->reads && str_format(in, sizeof in, "%s/%llu.in", io, n) < 0)
        return false;
    /* It fails with that status, which set -e forgives in this place. */
    if (k->last_code != 0 &&
        str_format(status, sizeof status, "\\command . %s/%llu.rc || ", io, n) < 0)
        return false;
    if (str_format(line, sizeof line,
                   "{ \\printf 's %llu\\n' >&9; { %s%s\\command . %s/%llu.sh; } 9>&-; } "
                   "<%s >|%s/%llu.out 2>|%s/%llu.err\n",
                   n, find_folder, status, io, n, in, io, n, io, n) < 0 ||
        !give_line(k, line))
        return false;
    shell_ask_report(k, c);
    return true;
}

/* ---- what it says ---- */

static void take_end(struct keeper *k, struct command *c, char *text) {
    char *folder = strchr(text, ' ');
    int64_t status = 0;
    if (folder == NULL)
        return;
    *folder++ = '\0';
    if (str_to_i64(text, 0, 255, &status) < 0)
        return;
    if (folder[0] == '/' && str_copy(k->cwd, sizeof k->cwd, folder) < 0)
        k->cwd[0] = '\0'; /* too long to go back to */
    command_end(k, c, (int)status, 0);
}

/* "s NUMBER" or "e NUMBER STATUS FOLDER"; anything else is noise of the shell's start. */
static void take_line(struct keeper *k, char *line) {
    struct command *c = command_running(k);
    char prefix[32];
    if (c == NULL || str_format(prefix, sizeof prefix, "%llu", (unsigned long long)c->number) < 0)
        return;
    size_t len = strlen(prefix);
    if (strlen(line) < 2 + len || line[1] != ' ' || strncmp(line + 2, prefix, len) != 0)
        return;
    char *rest = line + 2 + len;
    if (line[0] == 's' && *rest == '\0')
        command_opened(k, c);
    else if (line[0] == 'e' && *rest == ' ')
        take_end(k, c, rest + 1);
}

static void take_lines(struct keeper *k) {
    char *end;
    while (k->report.len > 0 && (end = memchr(k->report.data, '\n', k->report.len)) != NULL) {
        *end = '\0';
        size_t len = (size_t)(end - k->report.data) + 1;
        take_line(k, k->report.data);
        buf_consume(&k->report, len);
    }
}

void shell_read(struct keeper *k) {
    char data[REPORT_MAX / 2];
    ssize_t n;
    while (k->shell.out >= 0 && (n = read(k->shell.out, data, sizeof data)) >= 0) {
        if (n == 0) {
            fd_close(&k->shell.out); /* its end is told by its death */
            return;
        }
        if (k->report.len > REPORT_MAX / 2)
            buf_clear(&k->report); /* no report is that long */
        (void)buf_append(&k->report, data, (size_t)n);
        take_lines(k);
    }
}

void shell_discard_errors(struct keeper *k) {
    ssize_t n = read(k->shell.err, k->data, WIRE_DATA_MAX);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        fd_close(&k->shell.err);
}
