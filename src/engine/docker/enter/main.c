/* cay-enter: what a container is started with. It takes cay-init, its socket and its orders from
 * the door (transport/handshake.h), gives up its rights, and becomes cay-init. The order is that of
 * the native engine (enter.c), without what the container engine has done already.
 *
 * Under gVisor (orders.is_gvisor) the kernel lacks ambient capabilities, securebits and some
 * limits. There cay-init stays root, with the capabilities that it has elsewhere and no others;
 * commands lose them when they give up theirs, since no_new_privs lets nobody gain any.
 *
 * Where no descriptor can be passed there is no door: `cay-enter wait` takes cay-init from beside
 * itself, makes its socket, and gets its orders by the first who connects to it, `cay-enter relay`
 * (transport/relay.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "confine/idrange.h"
#include "confine/landlock.h"
#include "confine/privilege.h"
#include "confine/syscalls.h"
#include "engine/docker/enter/walls.h"
#include "engine/docker/spec.h"
#include "engine/docker/transport/handshake.h"
#include "engine/docker/transport/relay.h"
#include "engine/init_memfd.h"

enum { DOOR_FD = ENTER_INIT_FD + 1, HIGH_FD = 32 };

struct entry {
    int door;
    int fds[2]; /* init, listener */
    struct docker_orders orders;
};

static bool orders_are_sane(const struct docker_orders *o) {
    return o->version == DOCKER_ORDERS_VERSION && o->volume_count <= SPEC_MOUNTS_MAX &&
           o->filter_count <= SECCOMP_MAX_INSNS && o->walls.server_count <= DOCKER_SERVERS_MAX &&
           o->walls.own_count <= DOCKER_OWN_MAX;
}

static int take_orders(struct entry *e) {
    struct sockaddr_un name = {.sun_family = AF_UNIX,
                               .sun_path = DOCKER_DOOR_INSIDE "/" DOCKER_DOOR_NAME};
    size_t count = 0;
    e->door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (e->door < 0 || connect(e->door, (const struct sockaddr *)&name, sizeof name) < 0)
        return -errno;
    ssize_t n =
        fd_receive(e->door, &e->orders, sizeof e->orders, e->fds, ARRAY_LEN(e->fds), &count);
    if (n < 0)
        return (int)n;
    bool whole = n == (ssize_t)sizeof e->orders && count == ARRAY_LEN(e->fds);
    return whole && orders_are_sane(&e->orders) ? 0 : -EPROTO;
}

/* The same by a stream. Nothing of the sandbox runs yet: who comes is the one that we sent. */
static int wait_for_orders(struct entry *e) {
    e->fds[0] = open(DOCKER_DOOR_INSIDE "/" DOCKER_INIT_NAME, O_RDONLY | O_CLOEXEC);
    if (e->fds[0] < 0)
        return -errno;
    e->fds[1] = relay_listen();
    if (e->fds[1] < 0)
        return e->fds[1];
    e->door = accept4(e->fds[1], NULL, NULL, SOCK_CLOEXEC);
    if (e->door < 0)
        return -errno;
    int r = fd_read_all(e->door, &e->orders, sizeof e->orders);
    if (r < 0)
        return r;
    return r == 1 && orders_are_sane(&e->orders) ? 0 : -EPROTO;
}

static int check_volumes(struct entry *e) {
    for (uint32_t i = 0; i < e->orders.volume_count; i++) {
        const struct docker_volume *v = &e->orders.volumes[i];
        struct stat st;
        if (stat(v->target, &st) < 0)
            return -errno;
        if (st.st_dev != v->device || st.st_ino != v->inode)
            return -ESTALE;
    }
    return 0;
}

static int close_network(struct entry *e) {
    return walls_put_up(&e->orders.walls);
}

/* A folder that images may lack; one that is there stays as it is. */
static int make_folder(const char *path, mode_t mode, uid_t uid, gid_t gid) {
    if (mkdir(path, mode) < 0)
        return errno == EEXIST || errno == EROFS ? 0 : -errno;
    if (chmod(path, mode) < 0 || ((uid != 0 || gid != 0) && chown(path, uid, gid) < 0))
        return -errno;
    return 0;
}

/* Podman makes a root that its owner cannot write to without a capability. */
static int open_root(void) {
    struct stat st;
    if (stat("/", &st) < 0)
        return -errno;
    if ((st.st_mode & S_IWUSR) != 0 || chmod("/", (st.st_mode & 07777) | S_IWUSR) == 0)
        return 0;
    return errno == EROFS ? 0 : -errno;
}

static int make_folders(struct entry *e) {
    int r = open_root();
    if (r < 0)
        return r;
    r = make_folder("/tmp", 01777, 0, 0);
    return r < 0 ? r
                 : make_folder(DOCKER_WORK_INSIDE, 0755, e->orders.work_uid, e->orders.work_gid);
}

/* As the native engine does: what a container engine writes there is nothing, or names of the host.
 * Who finds no name of the loopback lacks little, so no failure counts. */
static int write_hosts(struct entry *e) {
    struct utsname self;
    char text[256];
    _cleanup_(closep) int etc = open("/etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (e->orders.write_hosts == 0 || etc < 0 || uname(&self) < 0)
        return 0;
    _cleanup_(closep) int fd =
        openat(etc, "hosts", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    (void)snprintf(text, sizeof text, HOSTS_FORMAT, self.nodename);
    if (fd >= 0)
        (void)fd_write_all(fd, text, strlen(text));
    return 0;
}

/* Those limits that its kernel has. */
static int set_process_in_gvisor(void) {
    (void)privilege_set_common_rlimits();
    (void)privilege_set_own_rlimits(0);
    return privilege_limit_descriptors();
}

static int set_process(struct entry *e) {
    privilege_reset_signals();
    privilege_unblock_signals();
    (void)umask(022);
    (void)setsid(); /* it leads a session already, as a rule */
    if (e->orders.is_gvisor != 0)
        return set_process_in_gvisor();
    if (personality(PER_LINUX) < 0)
        return -errno;
    int r = privilege_set_common_rlimits();
    if (r == 0)
        r = privilege_set_own_rlimits(0);
    return r < 0 ? r : privilege_limit_descriptors();
}

static int change_ids(struct entry *e) {
    unsigned id = e->orders.is_gvisor != 0 ? 0 : IDRANGE_INIT_ID;
    int r = privilege_set_ids(id, id, true);
    if (r < 0)
        return r;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static int drop_privilege(struct entry *e) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (e->orders.is_gvisor != 0)
        return privilege_keep_init_capabilities();
    return privilege_limit_capabilities(e->orders.build != 0, e->orders.set_file_capabilities != 0);
}

/* Where the kernel and the container engine's own filter allow it. */
static int apply_landlock(struct entry *e) {
    (void)e;
    int abi = landlock_abi();
    return abi > 0 ? landlock_restrict(abi) : 0;
}

/* The sources are above all of these numbers. */
static int place(int fd, int number, int flags) {
    return dup3(fd, number, flags) < 0 ? -errno : 0;
}

/* gVisor refuses a range that has no end. */
static int close_above(int fd) {
    struct rlimit limit;
    if (close_range((unsigned)fd + 1, ~0U, 0) == 0)
        return 0;
    if (errno != EINVAL || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    for (rlim_t i = (rlim_t)fd + 1; i < limit.rlim_max; i++)
        (void)close((int)i);
    return 0;
}

static int arrange_descriptors(struct entry *e) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high[4], sources[] = {e->fds[1], e->fds[0], e->door, null};
    for (size_t i = 0; i < ARRAY_LEN(high); i++) {
        high[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, HIGH_FD);
        if (high[i] < 0)
            return -errno;
    }
    int r = 0;
    for (int fd = 0; r == 0 && fd <= 2; fd++)
        r = place(high[3], fd, 0);
    if (r == 0)
        r = place(high[0], ENTER_LISTENER_FD, 0);
    if (r == 0)
        r = place(high[1], ENTER_INIT_FD, O_CLOEXEC);
    if (r == 0)
        r = place(high[2], DOOR_FD, O_CLOEXEC);
    if (r < 0)
        return r;
    e->door = DOOR_FD;
    (void)close(ENTER_CONNECTION_FD); /* cay-init would take it for an operation */
    return close_above(DOOR_FD);
}

static int load_filter(struct entry *e) {
    struct sock_fprog program = {(unsigned short)e->orders.filter_count, e->orders.filter};
    return seccomp_load(&program);
}

static int exec_init(struct entry *e) {
    (void)e;
    return privilege_exec_init(ENTER_INIT_FD);
}

static const struct {
    const char *name;
    int (*run)(struct entry *e);
} steps[] = {
    {"taking orders", take_orders},
    {"looking whether the volumes are those that were checked", check_volumes},
    {DOCKER_WALLS_STEP, close_network},
    {"making the work folder", make_folders},
    {"writing /etc/hosts", write_hosts},
    {"setting resource limits", set_process},
    {"becoming cay-init's user", change_ids},
    {"dropping capabilities", drop_privilege},
    {"applying Landlock", apply_landlock},
    {"arranging descriptors", arrange_descriptors},
    {"loading the seccomp filter", load_filter},
    {"executing cay-init", exec_init},
};

static void report(const struct entry *e, const char *step, int sys) {
    struct docker_report r = {.sys = sys};
    (void)snprintf(r.step, sizeof r.step, "%s", step);
    (void)send(e->door, &r, sizeof r, MSG_NOSIGNAL); /* nobody there: nobody waits */
}

int main(int argc, char **argv) {
    struct entry e = {.door = -1};
    if (argc > 1 && strcmp(argv[1], "relay") == 0)
        return relay_run();
    bool waits = argc > 1 && strcmp(argv[1], "wait") == 0;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int r = (i == 0 && waits ? wait_for_orders : steps[i].run)(&e);
        if (r < 0) {
            report(&e, steps[i].name, -r);
            break;
        }
    }
    return 1; /* exec_init returns only when it failed */
}
