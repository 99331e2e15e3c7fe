#include "daemon/front/figures.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/path.h"
#include "daemon/control.h"

enum { ANSWER_MS = 2000, PROC_PATH_SIZE = 48, STAT_SIZE = 1024 };

struct figures_message {
    uint32_t count;
    struct vitals_process v[VITALS_PROCESSES];
};

/* ---- measuring ---- */

static bool read_memory(const char *path, struct vitals_process *ret) {
    char text[128], *end;
    if (fd_read_file_at(-1, path, text, sizeof text) <= 0)
        return false;
    (void)strtoull(text, &end, 10); /* the address space */
    ret->memory_bytes = strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

/* Fields 14 and 15 of proc_pid_stat(5); the name of the program may hold anything but its end. */
static void read_cpu(const char *path, struct vitals_process *ret) {
    char text[STAT_SIZE];
    unsigned long long user, kernel;
    if (fd_read_file_at(-1, path, text, sizeof text) <= 0)
        return;
    const char *rest = strrchr(text, ')');
    if (rest == NULL || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                               &user, &kernel) != 2)
        return;
    ret->cpu_us = (user + kernel) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void read_descriptors(pid_t pid, const char *folder, struct vitals_process *ret) {
    struct rlimit limit;
    ssize_t n = path_count_entries(folder);
    if (n < 0 || prlimit(pid, RLIMIT_NOFILE, NULL, &limit) < 0)
        return;
    ret->fds = (uint64_t)n;
    ret->fds_max = limit.rlim_cur;
}

bool figures_read(const struct figures_of *of, struct vitals_process *ret) {
    char path[PROC_PATH_SIZE];
    *ret = (struct vitals_process){0};
    (void)snprintf(ret->name, sizeof ret->name, "%s", of->name);
    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)of->pid);
    if (of->pid == 0 || !read_memory(path, ret))
        return false;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)of->pid);
    read_cpu(path, ret);
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)of->pid);
    read_descriptors(of->pid, path, ret);
    return true;
}

/* ---- telling ---- */

void figures_send(int sock, const struct figures_of *of, size_t count) {
    struct figures_message m = {0};
    for (size_t i = 0; i < count && m.count < VITALS_PROCESSES; i++)
        m.count += figures_read(&of[i], &m.v[m.count]);
    (void)send(sock, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL); /* gone: nobody wants it */
}

static int receive(int sock, struct figures_message *ret) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int n = poll(&p, 1, ANSWER_MS);
    if (n <= 0)
        return n < 0 ? -errno : -ETIMEDOUT;
    ssize_t got = recv(sock, ret, sizeof *ret, MSG_DONTWAIT);
    if (got < 0)
        return -errno;
    return got == (ssize_t)sizeof *ret && ret->count <= VITALS_PROCESSES ? 0 : -EPROTO;
}

int figures_ask(int control, struct vitals *v) {
    struct control_message m = {.op = CONTROL_FIGURES};
    struct figures_message answer;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    _cleanup_(closep) int mine = pair[0];
    int r = control_send(control, &m, &pair[1], 1);
    (void)close(pair[1]);
    if (r == 0)
        r = receive(mine, &answer);
    if (r < 0)
        return r;
    v->process_count = answer.count;
    memcpy(v->processes, answer.v, sizeof v->processes);
    return 0;
}
