#include "init/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum { PROCESSES_MAX = 65536 };

struct tree_process {
    pid_t pid;
    pid_t parent;
    uint64_t started; /* in the kernel's ticks since boot */
    bool dead;        /* but not reaped */
    bool is_init;     /* by its name, which anybody can take: he is not asked for anything then */
    bool on_terminal;
};

/* The words after the name, which is in parentheses and may hold anything. */
static const char *word_at(const char *name_end, int number) {
    const char *at = name_end;
    for (int word = 0; word < number && at != NULL; word++)
        at = strchr(at + 1, ' ');
    return at;
}

static void read_process(int proc, const char *pid, struct tree_process *p) {
    enum { TERMINAL_WORD = 5, START_WORD = 20 };
    char path[64], text[1024];
    p->parent = -1;
    if (str_format(path, sizeof path, "%s/stat", pid) < 0 ||
        fd_read_file_at(proc, path, text, sizeof text) < 0)
        return;
    const char *at = strrchr(text, ')');
    if (at == NULL || strlen(at) < 5)
        return;
    const char *name = strchr(text, '(');
    const char *terminal = word_at(at, TERMINAL_WORD), *start = word_at(at, START_WORD);
    p->parent = (pid_t)strtol(at + 4, NULL, 10);
    p->dead = at[2] == 'Z' || at[2] == 'X';
    p->is_init = str_starts(name, "(cay-init)") && name + strlen("(cay-init") == at;
    p->on_terminal = terminal != NULL && strtol(terminal, NULL, 10) != 0;
    p->started = start != NULL ? strtoull(start, NULL, 10) : 0;
}

static size_t list_processes(struct tree_process **ret) {
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
            struct tree_process *more = realloc(*ret, cap * sizeof **ret);
            if (more == NULL)
                return n;
            *ret = more;
        }
        (*ret)[n] = (struct tree_process){.pid = (pid_t)pid};
        read_process(dirfd(d), e->d_name, &(*ret)[n++]);
    }
    return n;
}

/* Climbs from p to the root of the tree it is in. */
static bool descends_from(const struct tree_process *list, size_t n, const struct tree_process *p,
                          pid_t ancestor) {
    for (size_t steps = 0; steps < n; steps++) {
        if (p->parent == ancestor)
            return true;
        const struct tree_process *up = NULL;
        for (size_t i = 0; i < n && up == NULL; i++)
            if (list[i].pid == p->parent)
                up = &list[i];
        if (up == NULL)
            return false;
        p = up;
    }
    return false;
}

struct tree tree_take(void) {
    struct tree t;
    pid_t self = getpid();
    size_t n = list_processes(&t.list);
    _cleanup_(freep) bool *ours = calloc(n + 1, sizeof *ours);
    t.count = 0;
    for (size_t i = 0; ours != NULL && i < n; i++)
        ours[i] = descends_from(t.list, n, &t.list[i], self);
    for (size_t i = 0; ours != NULL && i < n; i++)
        if (ours[i])
            t.list[t.count++] = t.list[i];
    return t;
}

struct tree tree_take_commands(void) {
    struct tree t;
    size_t n = list_processes(&t.list);
    t.count = 0;
    for (size_t i = 0; i < n; i++)
        if (t.list[i].parent >= 0 && !t.list[i].dead && !t.list[i].is_init)
            t.list[t.count++] = t.list[i];
    return t;
}

void tree_free(struct tree *t) {
    free(t->list);
    *t = (struct tree){0};
}

/* A number may have been given to another process meanwhile, but not in the same tick. */
static bool has_process(const struct tree *t, const struct tree_process *p) {
    for (size_t i = 0; t != NULL && i < t->count; i++)
        if (t->list[i].pid == p->pid && t->list[i].started == p->started)
            return true;
    return false;
}

void tree_signal(int number, const struct tree *before) {
    _cleanup_(tree_free) struct tree now = tree_take();
    for (size_t i = 0; i < now.count; i++)
        if (!has_process(before, &now.list[i]))
            (void)kill(now.list[i].pid, number); /* gone already is fine */
}

void tree_ask_to_end(const struct tree *now, const struct tree *before) {
    for (size_t i = 0; i < now->count; i++) {
        if (has_process(before, &now->list[i]))
            continue;
        (void)kill(now->list[i].pid, SIGTERM); /* gone already is fine, here and below */
        if (now->list[i].on_terminal)          /* a shell at a prompt ignores the other */
            (void)kill(now->list[i].pid, SIGHUP);
        (void)kill(now->list[i].pid, SIGCONT); /* what stands still hears nothing */
    }
}

static unsigned count_children(void) {
    _cleanup_(tree_free) struct tree now = tree_take();
    return (unsigned)now.count;
}

unsigned tree_kill(int64_t deadline_ms) {
    for (;;) {
        tree_signal(SIGKILL, NULL);
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
