#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"

/* Everything that the child does is in here: it shares our memory until it executes. */
static pid_t start(const struct command *c, int null, int ns) {
    static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", NULL};
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    if (dup2(null, STDOUT_FILENO) < 0 || (ns >= 0 && setns(ns, CLONE_NEWNS) < 0))
        _exit(126);
    (void)execve(c->argv[0], (char **)(uintptr_t)c->argv, (char **)(uintptr_t)env);
    _exit(127);
}

int command_run(const struct command *c, int64_t *ret_us, struct cay_error *err) {
    _cleanup_(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, "opening /dev/null");
    _cleanup_(closep) int ns = c->mount_ns != NULL ? open(c->mount_ns, O_RDONLY | O_CLOEXEC) : -1;
    if (c->mount_ns != NULL && ns < 0)
        return error_errno(err, "opening '%s'", c->mount_ns);
    int64_t begin = clock_us();
    pid_t pid = start(c, null, ns);
    if (pid < 0)
        return error_errno(err, "starting '%s'", c->argv[0]);
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, "waiting for '%s'", c->argv[0]);
    *ret_us = clock_us() - begin;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, CAY_INTERNAL, "'%s' ended with %d", c->argv[0],
                         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
