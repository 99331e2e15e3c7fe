#include "init/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
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
    pid_t group;
    uint64_t started; /* in the kernel's ticks since boot */
    bool dead;        /* but not reaped */
    bool stopped;
    bool is_init; /* by its name, which anybody can take: he is not asked for anything then */
    bool on_terminal;
};

int tree_adopt_orphans(void) {
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 && errno != EINVAL ? -1 : 0;
}

/* The words after the name, which is in parentheses and may hold anything. */
static const char *word_at(const char *name_end, int number) {
    const char *at = name_end;
    for (int word = 0; word < number && at != NULL; word++)
        at = strchr(at + 1, ' ');
    return at;
}

static void read_process(int proc, const char *pid, struct tree_process *p) {
    enum { GROUP_WORD = 3, TERMINAL_WORD = 5, START_WORD = 20 };
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
    const char *group = word_at(at, GROUP_WORD);
    p->parent = (pid_t)strtol(at + 4, NULL, 10);
    p->group = group != NULL ? (pid_t)strtol(group, NULL, 10) : 0;
    p->dead = at[2] == 'Z' || at[2] == 'X';
    p->stopped = at[2] == 'T';
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

/* ---- interrupts ---- */

enum { STATUS_MAX = 4096 };

static bool read_status(pid_t pid, char text[static STATUS_MAX]) {
    char path[64];
    return str_format(path, sizeof path, "/proc/%d/status", (int)pid) == 0 &&
           fd_read_file_at(AT_FDCWD, path, text, STATUS_MAX) > 0;
}

static bool has_signal(const char *status, const char *mask, int number) {
    const char *at = strstr(status, mask);
    return at != NULL && (strtoull(at + strlen(mask), NULL, 16) >> (number - 1) & 1) != 0;
}

/* The first line is the name; the first thing that a program gets is another. */
static bool is_copy(const char *child, const char *leader) {
    size_t len = strcspn(leader, "\n") + 1;
    return strncmp(child, leader, len) == 0;
}

/* A child that is still a copy of its shell forgets an interrupt, unless it is one for good (a
 * subshell), as time shows; one that has ended already makes the shell forget its own. */
static bool child_takes_interrupt(const struct tree_process *p, const char *leader, bool late) {
    char status[STATUS_MAX];
    if (p->dead || !read_status(p->pid, status))
        return false;
    return late || !is_copy(status, leader) || !has_signal(status, "\nSigCgt:\t", SIGINT);
}

enum moment { MOMENT_GOOD, MOMENT_BAD, MOMENT_TOO_EARLY };

/* What an interrupt would find in the shell, which holds it back while it makes a child and ignores
 * it when it has just waited for one (SIGCHLD is blocked then), and in the children that it may be
 * waiting for. Best is a child that runs: a shell without one may just be going to make it, unless
 * it never does. All of them are to stand still. */
static enum moment look(pid_t leader, bool late) {
    _cleanup_(tree_free) struct tree now = tree_take();
    char status[STATUS_MAX];
    if (!read_status(leader, status))
        return MOMENT_GOOD; /* it is gone */
    bool good = !has_signal(status, "\nSigBlk:\t", SIGINT);
    bool needs_child = !late || has_signal(status, "\nSigBlk:\t", SIGCHLD);
    for (size_t i = 0; i < now.count; i++) {
        const struct tree_process *p = &now.list[i];
        bool is_child = p->parent == leader && p->group == leader;
        if ((is_child || p->pid == leader) && !p->stopped && !p->dead)
            return MOMENT_TOO_EARLY;
        good = good && (!is_child || child_takes_interrupt(p, status, late));
        needs_child = needs_child && !is_child;
    }
    return good && !needs_child ? MOMENT_GOOD : MOMENT_BAD;
}

static void pause_briefly(void) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 400000}, NULL);
}

/* Stops the group at a good moment, or at any if there is none. A shell that starts one short
 * program after the other has few: with 20 tries about one interrupt in 250 was lost. */
static void hold_still(pid_t leader) {
    enum { TRIES = 100, EARLY_TRIES = 40, LOOKS = 10, LONGEST_MS = 1000 };
    struct clock_patience patience = clock_patience_of(LONGEST_MS); /* many take long to look at */
    for (int i = 0;; i++) {
        (void)kill(-leader, SIGSTOP);
        enum moment moment = MOMENT_TOO_EARLY;
        for (int j = 0; j < LOOKS && moment == MOMENT_TOO_EARLY; j++)
            moment = look(leader, i >= EARLY_TRIES);
        if (moment == MOMENT_GOOD || i == TRIES || clock_patience_ends(&patience))
            return;
        (void)kill(-leader, SIGCONT);
        pause_briefly();
    }
}

/* Until the shell has heard of it, and waits again or is busy with that. */
static void interrupt_leader(pid_t leader) {
    enum { LOOKS = 50 };
    char status[STATUS_MAX];
    (void)kill(leader, SIGINT);
    (void)kill(leader, SIGCONT);
    for (int i = 0; i < LOOKS && read_status(leader, status); i++) {
        bool waits = strstr(status, "\nState:\tS") != NULL;
        if (waits && !has_signal(status, "\nShdPnd:\t", SIGINT))
            return;
        pause_briefly();
    }
}

static bool ends_by_interrupt(const char *status) {
    return !has_signal(status, "\nSigCgt:\t", SIGINT) && !has_signal(status, "\nSigIgn:\t", SIGINT);
}

/* A shell that finds later on that its child ended by an interrupt takes it for one of the command
 * that it runs then. So nothing is asked of it before it has waited for those. */
static void await_children(pid_t leader, const struct tree *now, const struct tree *before) {
    enum { LOOKS = 250 };
    char status[STATUS_MAX];
    for (size_t i = 0, looks = 0; i < now->count; i++) {
        const struct tree_process *p = &now->list[i];
        if (p->parent != leader || has_process(before, p))
            continue;
        while (looks < LOOKS && read_status(p->pid, status) && ends_by_interrupt(status)) {
            pause_briefly();
            looks++;
        }
    }
}

void tree_interrupt(pid_t leader, const struct tree *before) {
    hold_still(leader);
    interrupt_leader(leader);
    _cleanup_(tree_free) struct tree now = tree_take();
    for (size_t i = 0; i < now.count; i++)
        if (now.list[i].pid != leader && !has_process(before, &now.list[i]))
            (void)kill(now.list[i].pid, SIGINT); /* gone already is fine */
    (void)kill(-leader, SIGCONT);
    await_children(leader, &now, before);
}

/* A shell at a prompt, on a terminal or of a session, ignores SIGTERM, but not this. */
static bool needs_hangup(const struct tree_process *p) {
    char status[STATUS_MAX];
    return p->on_terminal ||
           (read_status(p->pid, status) && has_signal(status, "\nSigIgn:\t", SIGTERM) &&
            !has_signal(status, "\nSigIgn:\t", SIGHUP));
}

void tree_ask_to_end(const struct tree *now, const struct tree *before) {
    for (size_t i = 0; i < now->count; i++) {
        if (has_process(before, &now->list[i]))
            continue;
        (void)kill(now->list[i].pid, SIGTERM); /* gone already is fine, here and below */
        if (needs_hangup(&now->list[i]))
            (void)kill(now->list[i].pid, SIGHUP);
        (void)kill(now->list[i].pid, SIGCONT); /* what stands still hears nothing */
    }
}

/* ---- the end ---- */

static bool is_in(const struct tree *t, pid_t pid) {
    for (size_t i = 0; t != NULL && i < t->count; i++)
        if (t->list[i].pid == pid)
            return true;
    return false;
}

static bool has_group(const struct tree *t, pid_t group) {
    for (size_t i = 0; t != NULL && i < t->count; i++)
        if (t->list[i].group == group)
            return true;
    return false;
}

/* A group dies at one stroke: nobody in it can fork meanwhile. */
static bool end_alive(const struct tree_process *p, const struct tree *before) {
    bool at_once = p->group > 1 && p->group != getpgrp() && !has_group(before, p->group);
    return kill(at_once ? -p->group : p->pid, SIGKILL) == 0;
}

/* Reaps it, unless it is somebody else's to wait for; who dies as well leaves it to us soon. */
static bool end_dead(const struct tree_process *p, const struct tree *before) {
    return waitpid(p->pid, NULL, WNOHANG) <= 0 && !is_in(before, p->parent);
}

/* One look: how many were not gone then. */
static unsigned end_all(const struct tree *before) {
    unsigned left = 0;
    pid_t last_group = 0;
    _cleanup_(tree_free) struct tree now = tree_take();
    for (size_t i = 0; i < now.count; i++) {
        const struct tree_process *p = &now.list[i];
        if (has_process(before, p))
            continue;
        if (p->dead)
            left += end_dead(p, before);
        else if (p->group == last_group && !has_group(before, last_group))
            left++; /* it got its signal with the others */
        else
            left += end_alive(p, before);
        last_group = p->dead ? last_group : p->group;
    }
    return left;
}

unsigned tree_kill(pid_t group, int64_t patience_ms) {
    struct clock_patience patience = clock_patience_of(patience_ms);
    if (group > 1)
        (void)kill(-group, SIGKILL); /* gone already is fine */
    for (;;) {
        unsigned left = end_all(NULL);
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 && errno == ECHILD)
            return 0;
        if (clock_patience_ends(&patience))
            return left;
        pause_briefly();
    }
}

void tree_kill_since(pid_t group, const struct tree *before, int64_t patience_ms) {
    struct clock_patience patience = clock_patience_of(patience_ms);
    if (group > 1)
        (void)kill(-group, SIGSTOP); /* gone already is fine, here and below */
    while (end_all(before) > 0 && !clock_patience_ends(&patience))
        pause_briefly();
    if (group > 1)
        (void)kill(-group, SIGCONT);
}

/* ---- room ---- */

static bool is_killed(pid_t pid) {
    char status[STATUS_MAX];
    return read_status(pid, status) && (has_signal(status, "\nSigPnd:\t", SIGKILL) ||
                                        has_signal(status, "\nShdPnd:\t", SIGKILL));
}

/* The dead wait for their parents. Of those only cay-init's own are known to look after them. */
static bool is_reaped_soon(const struct tree *all, const struct tree_process *p) {
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].pid == p->parent)
            return all->list[i].is_init || all->list[i].dead || is_killed(p->parent);
    return true;
}

bool tree_makes_room(void) {
    bool some = false;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        some = true;
    _cleanup_(tree_free) struct tree all = {0};
    all.count = list_processes(&all.list);
    for (size_t i = 0; i < all.count && !some; i++) {
        const struct tree_process *p = &all.list[i];
        some = p->dead ? is_reaped_soon(&all, p) : is_killed(p->pid);
    }
    return some;
}
