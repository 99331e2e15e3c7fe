#include "engine/native/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/native/cgroup.h"

enum { CLEAN_UP_MS = 30000 };

static bool is_needed(const struct cgroup_host *cgroups, int keep, int fd) {
    if (fd == keep || fd == cgroups->shared_tasks)
        return true;
    for (size_t i = 0; i < cgroups->hierarchy_count; i++)
        if (fd == cgroups->hierarchies[i].parent)
            return true;
    return false;
}

/* Whatever else is open would keep somebody waiting for its end. */
static void close_others(const struct cgroup_host *cgroups, int keep, int pipe) {
    enum { LOOKED_AT = 64 };
    for (int fd = 0; fd < LOOKED_AT; fd++)
        if (fd != pipe && !is_needed(cgroups, keep, fd))
            (void)close(fd);
    int from = LOOKED_AT;
    for (size_t i = 0; i < cgroups->hierarchy_count; i++)
        from = MAX(from, cgroups->hierarchies[i].parent + 1);
    from = MAX(MAX(from, keep + 1), pipe + 1);
    (void)close_range((unsigned)from, ~0U, 0);
}

static _noreturn_ void watch(const struct cgroup_host *cgroups, const struct watchdog_ids *ids,
                             int keep, int pipe) {
    /* Signals of the terminal are for the command, and for cay; this must live through them. */
    sigset_t all;
    (void)setsid();
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_NAME, "cay-watchdog", 0, 0, 0);
    close_others(cgroups, keep, pipe);
    char byte;
    if (fd_read_all(pipe, &byte, 1) == 1)
        _exit(0);
    for (size_t i = 0; i < ids->count; i++) /* nobody is left to tell of a failure */
        (void)cgroup_remove(cgroups, ids->id[i], clock_ms() + CLEAN_UP_MS, NULL);
    _exit(1);
}

int watchdog_start(const struct cgroup_host *cgroups, const struct watchdog_ids *ids, int keep,
                   struct watchdog *ret, struct cay_error *err) {
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(p[1]);
        watch(cgroups, ids, keep, p[0]);
    }
    (void)close(p[0]);
    if (pid < 0) {
        (void)close(p[1]);
        return error_errno(err, "starting the watchdog");
    }
    *ret = (struct watchdog){.pid = pid, .pipe = p[1]};
    return 0;
}

void watchdog_stop(struct watchdog *w) {
    if (w->pid == 0)
        return;
    (void)fd_write_all(w->pipe, "", 1); /* if it is gone there is nothing to tell */
    fd_close(&w->pipe);
    while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *w = WATCHDOG_EMPTY;
}
