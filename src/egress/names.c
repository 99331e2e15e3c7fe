#include "egress/names.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"
#include "confine/syscalls.h"

enum { LOOK_MS = 2000, FOLDER_FD = 3, TIE_FD = 4, STEP = 64 * 1024 };

static const char *const names[] = {"hosts", "resolv.conf"};

static int open_original(const char *name) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "/etc/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int copy_all(int from, int to) {
    char piece[STEP];
    ssize_t n;
    while ((n = read(from, piece, sizeof piece)) > 0) {
        int r = fd_write_all(to, piece, (size_t)n);
        if (r < 0)
            return r;
    }
    return n < 0 ? -errno : 0;
}

/* A reader sees the old copy or the new one, whole. */
static int copy_one(int folder, const char *name) {
    _cleanup_(closep) int from = open_original(name);
    if (from == -ENOENT)
        return unlinkat(folder, name, 0) < 0 && errno != ENOENT ? -errno : 0;
    if (from < 0)
        return from;
    _cleanup_(closep) int to =
        openat(folder, "new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (to < 0)
        return -errno;
    int r = copy_all(from, to);
    if (r == 0 && (fchmod(to, 0644) < 0 || renameat(folder, "new", folder, name) < 0))
        r = -errno;
    if (r < 0)
        (void)unlinkat(folder, "new", 0);
    return r;
}

int names_copy(int folder, struct cay_error *err) {
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        int r = copy_one(folder, names[i]);
        if (r < 0)
            return error_sys(err, -r, "copying /etc/%s for the proxy", names[i]);
    }
    return 0;
}

/* ---- keeping them current ---- */

struct version {
    dev_t device;
    ino_t inode;
    struct timespec changed;
};

static bool look(const char *name, struct version *ret) {
    struct stat st;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "/etc/%s", name);
    if (stat(path, &st) < 0)
        return false;
    *ret = (struct version){.device = st.st_dev, .inode = st.st_ino, .changed = st.st_ctim};
    return true;
}

static bool is_same(const struct version *a, const struct version *b) {
    return a->device == b->device && a->inode == b->inode &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Until the proxy ends, which closes its end of the tie: a signal at its end would be refused,
 * since it has other ids. A file that could not be copied is tried again the next time. */
static void watch(int folder, int tie) {
    struct version copied[ARRAY_LEN(names)] = {0};
    struct pollfd p = {.fd = tie, .events = POLLIN};
    do {
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            struct version now = {0};
            (void)look(names[i], &now);
            if (!is_same(&now, &copied[i]) && copy_one(folder, names[i]) == 0)
                copied[i] = now;
        }
    } while (poll(&p, 1, LOOK_MS) == 0);
}

static int place(int folder, int tie) {
    int high = fcntl(tie, F_DUPFD_CLOEXEC, TIE_FD + 1);
    if (high < 0 || (folder != FOLDER_FD && dup2(folder, FOLDER_FD) < 0) || dup2(high, TIE_FD) < 0)
        return -errno;
    return 0;
}

static int confine(uid_t as) {
    struct cay_error err;
    if (dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDIN_FILENO) < 0 ||
        dup2(STDIN_FILENO, STDOUT_FILENO) < 0 || dup2(STDIN_FILENO, STDERR_FILENO) < 0 ||
        close_range(TIE_FD + 1, UINT_MAX, 0) < 0 || chdir("/") < 0)
        return -errno;
    (void)prctl(PR_SET_NAME, "cay-names", 0, 0, 0);
    int r = privilege_set_ids(as, as, true);
    if (r == 0)
        r = privilege_clear_capabilities();
    if (r < 0)
        return r;
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_FRONT}, &err);
}

int names_keep(int folder, uid_t as, struct cay_error *err) {
    int tie[2];
    if (pipe2(tie, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(tie[1]);
        if (place(folder, tie[0]) == 0 && confine(as) == 0)
            watch(FOLDER_FD, TIE_FD);
        _exit(0);
    }
    int sys = errno;
    (void)close(tie[0]);
    if (pid > 0)
        return 0; /* the other end stays open until this process ends */
    (void)close(tie[1]);
    return error_sys(err, sys, "starting what keeps the proxy's names");
}
