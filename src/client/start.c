#include "client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/program.h"
#include "base/str.h"
#include "client/daemon.h"

/* What it says goes to `said`; signals are as in a fresh program. */
static int spawn(const char *program, const char *const *argv, int said, pid_t *ret,
                 struct cay_error *err) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, ignored;
    (void)sigemptyset(&none);
    (void)sigemptyset(&ignored);
    (void)sigaddset(&ignored, SIGPIPE);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    int r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    if (r == 0)
        r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(&attributes, &ignored);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0)
        r = posix_spawn(ret, program, &actions, &attributes, (char *const *)(uintptr_t)argv,
                        environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r == 0 ? 0 : error_sys(err, r, "starting %s", program);
}

/* Its line on standard error is "cay: what went wrong; what to do". */
static int explain(int said, struct cay_error *err) {
    char text[1024];
    ssize_t n = pread(said, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    const char *what = str_starts(text, "cay: ") ? text + 5 : text;
    char *remedy = strstr(text, "; ");
    if (remedy != NULL) {
        *remedy = '\0';
        remedy += 2;
    }
    if (what[0] == '\0')
        what = "it says nothing";
    error_set(err, CAY_UNAVAILABLE, "the daemon does not start: %.400s", what);
    (void)error_remedy(err, "%.250s", remedy != NULL ? remedy : "start it with 'cay serve'");
    error_sanitize(err);
    return -(int)err->code;
}

/* It goes to the background when it serves, and fails when it cannot. */
static int await(pid_t pid, int said, struct cay_error *err) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno == ECHILD)
            return 0; /* a caller that ignores its children learns it by connecting */
        else if (errno != EINTR)
            return error_errno(err, "waiting for the daemon");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : explain(said, err);
}

int daemon_start(const struct daemon_choice *choice, const char *state_dir, struct cay_error *err) {
    char program[PATH_MAX];
    int r = program_find("cayd", program, sizeof program, err);
    if (r < 0)
        return r;
    const char *argv[8] = {"cayd", "--background", "--state-dir", state_dir};
    if (choice->config != NULL) {
        argv[4] = "--config";
        argv[5] = choice->config;
    }
    _cleanup_(closep) int said = memfd_create("cayd", MFD_CLOEXEC);
    if (said < 0)
        return error_errno(err, "making a file in memory");
    pid_t pid;
    r = spawn(program, argv, said, &pid, err);
    return r < 0 ? r : await(pid, said, err);
}
