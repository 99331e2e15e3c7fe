#include "confine/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/idrange.h"
#include "confine/syscalls.h"

/* The word: a byte from the process that sits in the new namespace says that it is there; a byte to
 * it, to go on; closed, to end. */
void userns_give_up(struct userns_making *m) {
    if (m->pid <= 0)
        return;
    fd_close(&m->word);
    while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    m->pid = 0;
}

/* What the kernel counts for each user (inotify instances, pending signals, …) it counts once more
 * for the maker of his user namespace: were that root, one sandbox could use up the share of the
 * host and of all others. */
static int become_owner(uid_t owner) {
    if (owner == geteuid())
        return 0;
    /* Capabilities stay: where users may not make namespaces, they are needed. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return -errno;
    return setresuid(owner, owner, owner) < 0 ? -errno : 0;
}

uint32_t userns_process_ceiling(void) {
    enum { RESERVED_PART = 8 };
    static uint32_t ceiling; /* a launcher cannot read it again, from where it sees no /proc */
    char text[32];
    uint64_t total = 0;
    if (ceiling == 0 &&
        fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof text) > 0) {
        text[strcspn(text, "\n")] = '\0';
        if (str_to_u64(text, INT32_MAX, &total) == 0)
            ceiling = (uint32_t)(total - total / RESERVED_PART);
    }
    return ceiling != 0 ? ceiling : UINT32_MAX;
}

/* All processes of a namespace count for its maker too (from Linux 5.14 on), against the limit that
 * he had when he made it: so a sandbox that gets out of its control group still cannot take every
 * process of the host. */
static int limit_processes(uint32_t ceiling) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NPROC, &limit) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max = MIN(limit.rlim_max, (rlim_t)ceiling);
    return setrlimit(RLIMIT_NPROC, &limit) < 0 ? -errno : 0;
}

/* The maker's own limits become those of the whole namespace. */
static int raise_limits(void) {
    static const int counted[] = {RLIMIT_NPROC, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_MEMLOCK};
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        struct rlimit limit;
        if (getrlimit((unsigned)counted[i], &limit) < 0)
            return -errno;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit((unsigned)counted[i], &limit) < 0)
            return -errno;
    }
    return 0;
}

static int make_namespace(uid_t owner) {
    int r = become_owner(owner);
    if (r == 0)
        r = raise_limits();
    if (r == 0)
        r = limit_processes(userns_process_ceiling());
    if (r < 0)
        return r;
    return unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
}

/* Runs in the holder. How many user namespaces there may be below it is a property of a namespace
 * that can only be set from inside, once the ids are mapped. Ends with the errno of that. */
static _noreturn_ void hold(int word, uid_t owner) {
    int r = make_namespace(owner);
    char byte = (char)-r;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (fd_write_all(word, &byte, 1) < 0 || r < 0 || fd_read_all(word, &byte, 1) <= 0)
        _exit(ECHILD);
    _exit(-fd_write_file_at(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0"));
}

int userns_begin(const struct id_map *uids, const struct id_map *gids, struct userns_making *ret,
                 struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket pair");
    (void)userns_process_ceiling(); /* so that children know it */
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        hold(pair[1], uids->outside);
    }
    int sys = errno;
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return error_sys(err, sys, "making a process for a user namespace");
    }
    *ret = (struct userns_making){.pid = pid, .word = pair[0], .uids = *uids, .gids = *gids};
    return 0;
}

static int wait_for_namespace(const struct userns_making *m, struct cay_error *err) {
    unsigned char byte;
    int r = fd_read_all(m->word, &byte, 1) <= 0 ? -ECHILD : -(int)byte;
    if (r == 0)
        return 0;
    error_sys(err, -r, "making a user namespace");
    return error_remedy(err, "allow them: sysctl user.max_user_namespaces, "
                             "kernel.unprivileged_userns_clone=1, "
                             "kernel.apparmor_restrict_unprivileged_userns=0; or run as root");
}

static int write_map(pid_t pid, const char *file, const struct id_map *map, struct cay_error *err) {
    char path[64], text[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    (void)snprintf(text, sizeof text, "%u %u %u\n", map->inside, map->outside, map->count);
    int r = fd_write_file_at(AT_FDCWD, path, text);
    return r < 0 ? error_sys(err, -r, "writing %s", file) : 0;
}

static int open_namespace(pid_t pid, struct cay_error *err) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening the user namespace") : fd;
}

static int forbid_nested(struct userns_making *m, struct cay_error *err) {
    int status = 0, r = fd_write_all(m->word, "", 1);
    while (r == 0 && waitpid(m->pid, &status, 0) < 0)
        if (errno != EINTR)
            r = -errno;
    if (r == 0) {
        m->pid = 0;
        r = WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
    }
    fd_close(&m->word);
    return r < 0 ? error_sys(err, -r, "forbidding nested user namespaces") : 0;
}

static int finish(struct userns_making *m, struct cay_error *err) {
    int r = wait_for_namespace(m, err);
    if (r == 0)
        r = write_map(m->pid, "uid_map", &m->uids, err);
    if (r == 0)
        r = write_map(m->pid, "gid_map", &m->gids, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int ns = open_namespace(m->pid, err);
    if (ns < 0)
        return ns;
    r = m->is_map ? 0 : forbid_nested(m, err);
    return r < 0 ? r : TAKE_FD(ns);
}

int userns_finish(struct userns_making *m, struct cay_error *err) {
    int ns = finish(m, err);
    userns_give_up(m);
    fd_close(&m->word);
    return ns;
}

int userns_create(const struct id_map *uids, const struct id_map *gids, struct cay_error *err) {
    struct userns_making m = USERNS_MAKING_NONE;
    int r = userns_begin(uids, gids, &m, err);
    return r < 0 ? r : userns_finish(&m, err);
}

/* ---- an ordinary user ---- */

/* The name that /etc/passwd gives to the user: what /etc/subuid is most often written with. A user
 * of another directory is who the environment says; the mapper checks it. */
static void find_user_name(char *out, size_t size) {
    _cleanup_(fclosep) FILE *f = fopen("/etc/passwd", "re");
    char line[1024], name[128];
    unsigned uid;
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "%127[^:]:%*[^:]:%u:", name, &uid) == 2 && uid == getuid() &&
            str_copy(out, size, name) == 0)
            return;
    const char *user = getenv("USER");
    if (user == NULL || str_copy(out, size, user) < 0)
        out[0] = '\0';
}

/* The first range of at least IDRANGE_SIZE - 1 ids that /etc/subuid or /etc/subgid gives to the
 * user, by number or name. */
static bool find_subids(const char *file, const char *user, uint32_t *ret_first) {
    _cleanup_(fclosep) FILE *f = fopen(file, "re");
    char line[256], name[128];
    unsigned first, count;
    char number[16];
    (void)snprintf(number, sizeof number, "%u", getuid());
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%127[^:]:%u:%u", name, &first, &count) != 3 || count < IDRANGE_SIZE - 1)
            continue;
        if (strcmp(name, number) != 0 && strcmp(name, user) != 0)
            continue;
        *ret_first = first;
        return true;
    }
    return false;
}

/* Own id as root, subordinate ids for the rest; by the set-uid helper, since only it may. */
static int run_mapper(const char *program, pid_t pid, unsigned self, uint32_t first) {
    char target[16], own[16], sub[16], rest[16];
    (void)snprintf(target, sizeof target, "%d", pid);
    (void)snprintf(own, sizeof own, "%u", self);
    (void)snprintf(sub, sizeof sub, "%u", first);
    (void)snprintf(rest, sizeof rest, "%d", IDRANGE_SIZE - 1);
    const char *argv[] = {program, target, "0", own, "1", "1", sub, rest, NULL};
    const char *env[] = {"PATH=/usr/bin:/bin", NULL};
    pid_t child;
    int status;
    posix_spawn_file_actions_t quiet; /* what it complains about is no error: one id is left */
    if (posix_spawn_file_actions_init(&quiet) != 0)
        return -ENOMEM;
    int r = posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawnp(&child, program, &quiet, NULL, (char **)(uintptr_t)argv,
                         (char **)(uintptr_t)env);
    (void)posix_spawn_file_actions_destroy(&quiet);
    if (r != 0)
        return -r;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int map_ranges(pid_t pid) {
    uint32_t uid_first, gid_first;
    char user[128];
    find_user_name(user, sizeof user);
    if (!find_subids("/etc/subuid", user, &uid_first) ||
        !find_subids("/etc/subgid", user, &gid_first))
        return -ENOENT;
    int r = run_mapper("newuidmap", pid, getuid(), uid_first);
    return r < 0 ? r : run_mapper("newgidmap", pid, getgid(), gid_first);
}

static int map_self(pid_t pid, struct cay_error *err) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
    int r = fd_write_file_at(AT_FDCWD, path, "deny");
    if (r < 0)
        return error_sys(err, -r, "denying setgroups");
    r = write_map(pid, "uid_map", &(struct id_map){0, getuid(), 1}, err);
    return r < 0 ? r : write_map(pid, "gid_map", &(struct id_map){0, getgid(), 1}, err);
}

/* In the user namespace already. */
static int become(bool ranges, struct cay_error *err) {
    if (ranges && setgroups(0, NULL) < 0)
        return error_errno(err, "dropping supplementary groups");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_errno(err, "becoming root of the user namespace");
    if (unshare(CLONE_NEWNS) < 0)
        return error_errno(err, "making a mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, "making the mounts private");
    return 0;
}

int userns_become_root(struct userns_self *ret, struct cay_error *err) {
    _cleanup_(userns_give_up) struct userns_making m = USERNS_MAKING_NONE;
    struct id_map self = {0, geteuid(), 1};
    int r = userns_begin(&self, &self, &m, err);
    if (r == 0)
        r = wait_for_namespace(&m, err);
    if (r < 0)
        return r;
    bool ranges = map_ranges(m.pid) == 0;
    r = ranges ? 0 : map_self(m.pid, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int ns = open_namespace(m.pid, err);
    if (ns < 0)
        return ns;
    r = forbid_nested(&m, err);
    if (r < 0)
        return r;
    ret->ranges = ranges;
    if (setns(ns, CLONE_NEWUSER) < 0)
        return error_errno(err, "entering the user namespace");
    return become(ranges, err);
}

/* With one id the map has one line. */
static int has_ranges(bool *ret, struct cay_error *err) {
    char text[4096];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text);
    if (n < 0)
        return error_sys(err, (int)-n, "reading uid_map");
    *ret = strchr(text, '\n') != NULL;
    return 0;
}

int userns_join_root(int ns, struct userns_self *ret, struct cay_error *err) {
    if (setns(ns, CLONE_NEWUSER) < 0)
        return error_errno(err, "entering the user namespace");
    int r = has_ranges(&ret->ranges, err);
    return r < 0 ? r : become(ret->ranges, err);
}
