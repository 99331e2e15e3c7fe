#include "daemon/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/holder.h"
#include "base/path.h"
#include "base/program.h"
#include "base/str.h"

/* "PID LOCK LOCAL TCP IS_OURS FRONTS LAUNCHERS RETIRED...", for the process PID only. */
#define VARIABLE "CAYD_KEPT"

enum {
    NUMBERS = 7,
    ARGUMENTS_MAX = 32,
    CHECK_MS = 10 * 1000,
    REPLACED_MS = 60 * 1000,
    LOOK_US = 10 * 1000,
};

static const char *arguments[ARGUMENTS_MAX];
static int folder = -1;

void replace_remember(char **argv) {
    for (size_t i = 0; argv[i] != NULL && i < ARGUMENTS_MAX - 2; i++)
        arguments[i] = argv[i]; /* reading the options changes the array, not the words */
    folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* ---- from the program before ---- */

static size_t read_numbers(const char *text, int64_t *ret, size_t max) {
    char copy[512];
    size_t count = 0;
    char *rest = copy, *word;
    if (str_copy(copy, sizeof copy, text) < 0)
        return 0;
    while (count < max && (word = strsep(&rest, " ")) != NULL)
        if (str_to_i64(word, -1, INT32_MAX, &ret[count++]) < 0)
            return 0;
    return count;
}

static bool keep_closed(int fd) {
    return fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

bool replace_is_begun(void) {
    return getenv(VARIABLE) != NULL;
}

bool replace_inherit(struct replace_kept *ret) {
    int64_t n[NUMBERS + RETIRED_MAX];
    const char *text = getenv(VARIABLE);
    size_t count = text == NULL ? 0 : read_numbers(text, n, ARRAY_LEN(n));
    (void)unsetenv(VARIABLE);
    if (count < NUMBERS || n[0] != getpid())
        return false;
    *ret = (struct replace_kept){
        .lock = (int)n[1],
        .sockets = {.local = (int)n[2], .tcp = (int)n[3], .is_ours = n[4] != 0},
        .fronts = (unsigned)n[5],
        .launchers = (unsigned)n[6],
    };
    for (size_t i = NUMBERS; i < count; i++)
        ret->retired[i - NUMBERS] = (pid_t)n[i];
    return ret->lock >= 0 && ret->sockets.local >= 0 && keep_closed(ret->lock) &&
           keep_closed(ret->sockets.local) && keep_closed(ret->sockets.tcp);
}

/* ---- to the next program ---- */

static int find_program(char path[static PATH_MAX], const char *argv[static ARGUMENTS_MAX],
                        const char *more, struct cay_error *err) {
    size_t n = 0;
    memcpy(argv, arguments, sizeof arguments);
    while (argv[n] != NULL)
        n++;
    argv[n] = more;
    return program_find("cayd", path, PATH_MAX, err);
}

static int wait_for(pid_t pid, struct cay_error *err) {
    int64_t deadline = clock_deadline(CHECK_MS);
    int status;
    pid_t done;
    while ((done = waitpid(pid, &status, WNOHANG)) == 0 && !clock_expired(deadline))
        (void)usleep(LOOK_US);
    if (done == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (done == 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
    }
    error_set(err, CAY_UNAVAILABLE,
              "the installed cayd does not accept its options or its "
              "configuration");
    return error_remedy(err, "its message is in the log: correct what it names, and try again");
}

int replace_check(struct cay_error *err) {
    char path[PATH_MAX];
    const char *argv[ARGUMENTS_MAX];
    pid_t pid;
    int r = find_program(path, argv, "--check", err);
    if (r < 0)
        return r;
    _cleanup_(closep) int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || fchdir(folder) < 0) /* paths among the arguments are relative to it */
        return error_errno(err, "going back to the folder in which the daemon was started");
    r = posix_spawn(&pid, path, NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    if (fchdir(here) < 0)
        return error_errno(err, "going to the daemon's folder");
    return r != 0 ? error_sys(err, r, "starting %s", path) : wait_for(pid, err);
}

static int put_variable(const struct replace_kept *k) {
    char text[512];
    int len =
        snprintf(text, sizeof text, "%d %d %d %d %d %u %u", (int)getpid(), k->lock,
                 k->sockets.local, k->sockets.tcp, k->sockets.is_ours, k->fronts, k->launchers);
    for (size_t i = 0; i < ARRAY_LEN(k->retired); i++)
        if (k->retired[i] != 0)
            len += snprintf(text + len, sizeof text - (size_t)len, " %d", (int)k->retired[i]);
    return setenv(VARIABLE, text, 1);
}

static void let_pass(const struct replace_kept *k, bool is_wanted) {
    const int fds[] = {k->lock, k->sockets.local, k->sockets.tcp};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            (void)fcntl(fds[i], F_SETFD, is_wanted ? 0 : FD_CLOEXEC);
}

static void change_mask(int how) {
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        (void)sigaddset(&set, handled[i]);
    (void)sigprocmask(how, &set, NULL);
}

void replace_admit_signals(void) {
    change_mask(SIG_UNBLOCK);
}

int replace_exec(const struct replace_kept *kept, struct cay_error *err) {
    char path[PATH_MAX];
    const char *argv[ARGUMENTS_MAX];
    int r = find_program(path, argv, NULL, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || fchdir(folder) < 0 || put_variable(kept) < 0)
        return error_errno(err, "preparing to be replaced");
    change_mask(SIG_BLOCK);
    let_pass(kept, true);
    (void)execv(path, (char *const *)(uintptr_t)argv);
    (void)error_errno(err, "starting %s", path);
    let_pass(kept, false);
    change_mask(SIG_UNBLOCK);
    (void)unsetenv(VARIABLE);
    (void)!fchdir(here); /* it was there a moment ago */
    return error_remedy(err, "install cay again");
}

/* ---- asking for it ---- */

static bool has_changed(const struct stat *before, const char *path) {
    struct stat now;
    return stat(path, &now) == 0 && (now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
                                     now.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

static int wait_until_replaced(pid_t pid, const struct stat *before, const char *path,
                               struct cay_error *err) {
    int64_t deadline = clock_deadline(REPLACED_MS);
    while (!has_changed(before, path)) {
        if (kill(pid, 0) < 0 && errno == ESRCH) {
            error_set(err, CAY_UNAVAILABLE, "the daemon (process %d) has ended", (int)pid);
            return error_remedy(err, "see its log, and start it with 'cay serve'");
        }
        if (clock_expired(deadline)) {
            error_set(err, CAY_TIMEOUT, "the daemon was not replaced within %d s",
                      REPLACED_MS / 1000);
            return error_remedy(err, "see its log for the reason; it goes on as it was");
        }
        (void)usleep(LOOK_US);
    }
    return 0;
}

int replace_ask(const char *state_dir, struct cay_error *err) {
    char path[PATH_MAX];
    struct stat before;
    if (path_join(path, sizeof path, state_dir, "daemon/lock") < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the state folder's path is too long");
    struct holder found = holder_find(path);
    pid_t pid = found.is_ending ? 0 : found.pid;
    if (pid == 0 || stat(path, &before) < 0)
        return 1;
    if (kill(pid, SIGUSR2) < 0) {
        (void)error_errno(err, "asking process %d to replace itself", (int)pid);
        return error_remedy(err, "do it as the user who started that daemon");
    }
    return wait_until_replaced(pid, &before, path, err);
}
