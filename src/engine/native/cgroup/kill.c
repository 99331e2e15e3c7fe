/* Freezing and killing what runs in a group. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/native/cgroup/backend.h"

enum {
    PAUSE_FIRST_US = 20,
    PAUSE_LAST_US = 5000,
    /* How long one round of killing waits for a freeze before it goes on without. */
    KILL_FREEZE_MS = 50,
};

void cgroup_pause(unsigned *us) {
    *us = *us == 0 ? PAUSE_FIRST_US : MIN(*us * 2, (unsigned)PAUSE_LAST_US);
    struct timespec t = {.tv_nsec = (long)*us * 1000};
    (void)nanosleep(&t, NULL);
}

static int wait_frozen(const struct cgroup_host *host, const char *id, int64_t patience_ms) {
    struct clock_patience patience = clock_patience_of(patience_ms);
    unsigned us = 0;
    for (;;) {
        int r = cgroup_backend_of(host)->is_frozen(host, id);
        if (r != 0)
            return r < 0 ? r : 0;
        if (clock_patience_ends(&patience))
            return -ETIMEDOUT;
        cgroup_pause(&us);
    }
}

int cgroup_freeze(const struct cgroup *cgroup, int64_t patience_ms, struct cay_error *err) {
    const struct cgroup_host *host = cgroup->host;
    int r = cgroup_require(host, CGROUP_FREEZER, err);
    if (r < 0)
        return r;
    r = cgroup_backend_of(host)->set_frozen(host, cgroup->id, true);
    if (r == 0)
        r = wait_frozen(host, cgroup->id, patience_ms);
    if (r == 0)
        return 0;
    (void)cgroup_backend_of(host)->set_frozen(host, cgroup->id, false);
    error_sys(err, -r, "freezing the processes of %s", cgroup->id);
    return r == -ETIMEDOUT ? error_remedy(err, "a process waits for the disk or the network file "
                                               "system; try again")
                           : -(int)error_class(-r);
}

int cgroup_thaw(const struct cgroup *cgroup, struct cay_error *err) {
    int r = cgroup_require(cgroup->host, CGROUP_FREEZER, err);
    if (r < 0)
        return r;
    r = cgroup_backend_of(cgroup->host)->set_frozen(cgroup->host, cgroup->id, false);
    return r < 0 ? error_sys(err, -r, "thawing the processes of %s", cgroup->id) : 0;
}

int cgroup_is_frozen(const struct cgroup *cgroup) {
    if (!cgroup->host->support[CGROUP_FREEZER].usable)
        return 0;
    return cgroup_backend_of(cgroup->host)->is_frozen(cgroup->host, cgroup->id);
}

/* Calls fn for each process in cgroup.procs until it says nonzero. Those of other pid namespaces
 * are listed as 0 and left out; so are we, who would not come back to finish. */
static int each_process(const struct cgroup_hierarchy *h, const char *id,
                        int (*fn)(pid_t pid, void *arg), void *arg) {
    _cleanup_(closep) int fd = cgroup_open_file(h, id, "cgroup.procs", O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    pid_t pid = 0, self = getpid();
    char text[4096];
    for (;;) {
        ssize_t n = read(fd, text, sizeof text);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t i = 0; i < n; i++) {
            if (isdigit((unsigned char)text[i])) {
                pid = pid * 10 + (text[i] - '0'); /* the kernel's, at most seven digits */
                continue;
            }
            int r = pid > 1 && pid != self ? fn(pid, arg) : 0;
            if (r != 0)
                return r;
            pid = 0;
        }
    }
}

static int is_process(pid_t pid, void *arg) {
    return pid == *(const pid_t *)arg;
}

/* What kill_one needs to know. */
struct kill_round {
    const struct cgroup_hierarchy *hierarchy;
    const char *id;
    bool frozen;
};

/* While they are frozen no process can end and give its number to another one. Otherwise the
 * number is held by a pidfd and looked up again before the signal. */
static int kill_one(pid_t pid, void *arg) {
    const struct kill_round *round = arg;
    if (round->frozen) {
        (void)kill(pid, SIGKILL);
        return 0;
    }
    _cleanup_(closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && each_process(round->hierarchy, round->id, is_process, &pid) == 1)
        (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    return 0;
}

/* One round of freezing, signalling and thawing: a process that forks faster than we signal could
 * win otherwise. */
static int kill_round(const struct cgroup_host *host, const char *id) {
    const struct cgroup_backend *backend = cgroup_backend_of(host);
    bool frozen =
        backend->set_frozen(host, id, true) == 0 && wait_frozen(host, id, KILL_FREEZE_MS) == 0;
    int result = 0;
    for (size_t i = 0; i < host->hierarchy_count; i++) {
        struct kill_round round = {.hierarchy = &host->hierarchies[i], .id = id, .frozen = frozen};
        int r = round.hierarchy->shared ? 0 : each_process(round.hierarchy, id, kill_one, &round);
        if (r < 0)
            result = r;
    }
    (void)backend->set_frozen(host, id, false);
    return result;
}

int cgroup_kill_all(const struct cgroup_host *host, const char *id, int64_t deadline_ms) {
    const struct cgroup_backend *backend = cgroup_backend_of(host);
    unsigned us = 0;
    for (;;) {
        int r = backend->is_empty(host, id);
        if (r != 0)
            return r < 0 ? r : 0;
        r = backend->kill_all(host, id);
        if (r == -EOPNOTSUPP)
            r = kill_round(host, id);
        if (r < 0)
            return r;
        if (backend->is_empty(host, id) == 1)
            return 0;
        if (clock_expired(deadline_ms))
            return -ETIMEDOUT;
        cgroup_pause(&us);
    }
}
