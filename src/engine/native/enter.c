/* The order of the steps is the security argument: limits first, so that nothing is ever unlimited;
 * the tree while there is still the right to mount; the user namespace late, so that the other
 * namespaces belong to the host and root inside has no power over them; then capabilities,
 * Landlock, descriptors, and seccomp last, because everything before it needs calls that it
 * forbids. */
#include "engine/native/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "confine/idrange.h"
#include "confine/landlock.h"
#include "confine/netns.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"
#include "confine/spawn.h"
#include "confine/syscalls.h"
#include "engine/native/cgroup/cgroup.h"

static int reset_priority(struct enter_plan *p) {
    (void)p;
    return privilege_reset_priority();
}

static int join_cgroup(struct enter_plan *p) {
    int r = p->cgroup == NULL ? 0 : cgroup_attach_self(p->cgroup);
    if (r < 0)
        return r;
    /* After joining, or /proc/self/cgroup would show the host's folders. */
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

static int join_network(struct enter_plan *p) {
    if (p->netns < 0)
        return netns_raise_loopback();
    return setns(p->netns, CLONE_NEWNET) < 0 ? -errno : 0;
}

static int enter_root(struct enter_plan *p) {
    return rootfs_enter(&p->fs, &p->err); /* has filled err by itself */
}

static int set_process(struct enter_plan *p) {
    const char *name = p->fs.spec->hostname;
    if (!p->plain_caller)
        privilege_reset_signals();
    privilege_unblock_signals();
    (void)umask(022);
    if (sethostname(name, strlen(name)) < 0 ||
        setdomainname(p->boot_id, strlen(p->boot_id)) < 0 || /* rootfs/enter.c shows it there */
        (!p->plain_caller && setsid() < 0) || personality(PER_LINUX) < 0)
        return -errno;
    int r = p->plain_oom_score ? 0 : privilege_reset_oom_score();
    if (r == 0 && !p->plain_caller)
        r = privilege_set_common_rlimits();
    return r < 0 ? r : privilege_set_own_rlimits(p->pids_rlimit);
}

static int join_user(struct enter_plan *p) {
    if (p->userns >= 0 && setns(p->userns, CLONE_NEWUSER) < 0)
        return -errno;
    unsigned id = p->single_id ? 0 : IDRANGE_INIT_ID;
    int r = privilege_set_ids(id, id, !p->single_id);
    if (r < 0)
        return r;
    /* Changing ids cleared it, so it comes after. */
    if (p->die_with_parent && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static int drop_privilege(struct enter_plan *p) {
    const struct sandbox_spec *spec = p->fs.spec;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    /* Capabilities of a file in a folder of the host's root would count on the host. */
    return privilege_limit_capabilities(spec->profile == PROFILE_BUILD,
                                        !spec_has_writable_mount(spec));
}

/* What is above is not needed any more. */
static int cut_descriptors(struct enter_plan *p) {
    if (!p->share_descriptors)
        return 0;
    return close_range(ENTER_LOW_FDS, ~0U, CLOSE_RANGE_UNSHARE) < 0 ? -errno : 0;
}

static int apply_landlock(struct enter_plan *p) {
    return p->landlock_abi > 0 ? landlock_restrict(p->landlock_abi) : 0;
}

/* Moves fd to its fixed number; the sources are above all of these. */
static int place(int fd, int number) {
    if (fd < 0)
        return close(number) < 0 && errno != EBADF ? -errno : 0;
    return dup2(fd, number) < 0 ? -errno : 0;
}

static int arrange_descriptors(struct enter_plan *p) {
    int source[] = {p->listener, p->connection, p->init};
    for (size_t i = 0; i < ARRAY_LEN(source); i++) {
        if (source[i] < 0)
            continue;
        source[i] = fcntl(source[i], F_DUPFD_CLOEXEC, ENTER_LOW_FDS);
        if (source[i] < 0)
            return -errno;
    }
    int r = place(source[0], ENTER_LISTENER_FD);
    if (r == 0)
        r = place(source[1], ENTER_CONNECTION_FD);
    if (r == 0)
        r = place(source[2], ENTER_INIT_FD);
    if (r < 0)
        return r;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return -errno;
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(null, fd) < 0)
            return -errno;
    if (close_range(ENTER_INIT_FD + 1, ~0U, 0) < 0)
        return -errno;
    /* The caller may have more open than this limit: earlier, nothing more could be opened. */
    int limited = privilege_limit_descriptors();
    if (limited < 0)
        return limited;
    return fcntl(ENTER_INIT_FD, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

static int load_filter(struct enter_plan *p) {
    return seccomp_load(p->filter);
}

static int exec_init(struct enter_plan *p) {
    (void)p;
    return privilege_exec_init(ENTER_INIT_FD);
}

static const struct {
    const char *name;
    int (*run)(struct enter_plan *p);
} steps[] = {
    {"taking back priority", reset_priority}, /* real-time processes cannot join a group */
    {"joining the control group", join_cgroup},
    {"setting up the network namespace", join_network},
    {"entering the root file system", enter_root},
    {"setting hostname and resource limits", set_process},
    {"entering the user namespace", join_user},
    {"dropping capabilities", drop_privilege},
    {"giving up the caller's descriptors", cut_descriptors},
    {"applying Landlock", apply_landlock},
    {"arranging descriptors", arrange_descriptors},
    {"loading the seccomp filter", load_filter},
    {"executing cay-init", exec_init},
};

static int first_process(void *arg) {
    struct enter_plan *p = arg;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        p->err.code = CAY_OK;
        int r = steps[i].run(p);
        if (r == 0)
            continue;
        if (p->err.code == CAY_OK)
            error_sys(&p->err, -r, "%s", steps[i].name);
        else
            error_prefix(&p->err, "%s", steps[i].name);
        break;
    }
    return 1; /* exec_init returns only when it failed */
}

/* A version 4 UUID, as the kernel prints its own. */
static int make_boot_id(char out[static ENTER_BOOT_ID_SIZE]) {
    uint16_t rnd[8];
    int r = id_random(rnd, sizeof rnd);
    if (r < 0)
        return r;
    return str_format(out, ENTER_BOOT_ID_SIZE, "%04x%04x-%04x-4%03x-a%03x-%04x%04x%04x", rnd[0],
                      rnd[1], rnd[2], rnd[3] & 0xfffU, rnd[4] & 0xfffU, rnd[5], rnd[6], rnd[7]);
}

pid_t enter_start(struct enter_plan *plan, int *ret_pidfd, struct cay_error *err) {
    int pidfd = -1;
    int r = make_boot_id(plan->boot_id);
    if (r < 0)
        return error_sys(err, -r, "making a boot id");
    struct clone_args args = {
        .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS,
        .pidfd = (uintptr_t)&pidfd,
    };
    if (ret_pidfd != NULL)
        args.flags |= CLONE_PIDFD;
    if (plan->for_parent)
        args.flags |= CLONE_PARENT;
    if (plan->share_descriptors)
        args.flags |= CLONE_FILES;
    if (plan->netns < 0)
        args.flags |= CLONE_NEWNET;
    if (!plan->ipcns_joined)
        args.flags |= CLONE_NEWIPC;
    if (plan->cgroup != NULL && plan->cgroup->dirfd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->cgroup->dirfd;
    }
    plan->err = (struct cay_error){.code = CAY_OK};
    pid_t pid = spawn_shared(&args, first_process, plan);
    if (pid < 0) {
        error_sys(err, -pid, "making the sandbox's namespaces");
        return error_remedy(err, "run 'cay doctor' to see what this host allows");
    }
    if (plan->err.code != CAY_OK) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        fd_close(&pidfd);
        *err = plan->err;
        return -(pid_t)err->code;
    }
    if (ret_pidfd != NULL)
        *ret_pidfd = pidfd;
    return pid;
}
