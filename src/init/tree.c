#include "init/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum { PROCESSES_MAX = 65536 };

struct process {
    pid_t pid;
    pid_t parent;
};

/* The parent is the second word after the name, which is in parentheses and may hold anything. */
static pid_t parent_of(int proc, const char *pid) {
    char path[64], text[1024];
    if (str_format(path, sizeof path, "%s/stat", pid) < 0 ||
        fd_read_file_at(proc, path, text, sizeof text) < 0)
        return -1;
    const char *end = strrchr(text, ')');
    if (end == NULL || strlen(end) < 5)
        return -1;
    return (pid_t)strtol(end + 4, NULL, 10);
}

static size_t list_processes(struct process **ret) {
    *ret = NULL;
    _cleanup_(closedirp) DIR *d = opendir("/proc");
    if (d == NULL)
        return 0;
    size_t n = 0, cap = 0;
    const struct dirent *e;
    while (n < PROCESSES_MAX && (e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        int64_t pid;
        if (str_to_i64(e->d_name, 1, INT32_MAX, &pid) < 0)
            continue;
        if (n == cap) {
            cap = cap == 0 ? 64 : cap * 2;
            struct process *more = realloc(*ret, cap * sizeof **ret);
            if (more == NULL)
                return n;
            *ret = more;
        }
        (*ret)[n++] = (struct process){(pid_t)pid, parent_of(dirfd(d), e->d_name)};
    }
    return n;
}

/* Climbs from p to the root of the tree it is in. */
static bool descends_from(const struct process *list, size_t n, const struct process *p,
                          pid_t ancestor) {
    for (size_t steps = 0; steps < n; steps++) {
        if (p->parent == ancestor)
            return true;
        const struct process *up = NULL;
        for (size_t i = 0; i < n && up == NULL; i++)
            if (list[i].pid == p->parent)
                up = &list[i];
        if (up == NULL)
            return false;
        p = up;
    }
    return false;
}

static void kill_descendants(void) {
    struct process *list;
    size_t n = list_processes(&list);
    pid_t self = getpid();
    for (size_t i = 0; i < n; i++)
        if (descends_from(list, n, &list[i], self))
            (void)kill(list[i].pid, SIGKILL); /* gone already is fine */
    free(list);
}

static unsigned count_children(void) {
    struct process *list;
    size_t n = list_processes(&list);
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += descends_from(list, n, &list[i], getpid());
    free(list);
    return count;
}

unsigned tree_kill(int64_t deadline_ms) {
    for (;;) {
        kill_descendants();
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 && errno == ECHILD)
            return 0;
        if (clock_expired(deadline_ms))
            return count_children();
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
