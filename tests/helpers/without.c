/* What makes `cay` the program cay_without: the variable CAY_TEST_WITHOUT names layers of a
 * sandbox's walls, separated by commas, and these are not put up. It is linked into that program of
 * the tests only, around the functions that put them up; no other program has it, and none of this
 * is installed. tests/hostile/test_layers.py says which attack each layer stops.
 *
 * Never left out, since what remains would not contain the attacks: the mount and pid namespaces,
 * the memory limit, the device limit. no_new_privs cannot be left out: the kernel demands it for
 * the filter and for Landlock. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "confine/idrange.h"
#include "confine/landlock.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"
#include "confine/spawn.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/native/rootfs/rootfs.h"

static const char *const layers[] = {
    "capabilities", "cgroup-namespace", "descriptors", "ids",  "ipc",     "landlock",
    "masks",        "network",          "nodev",       "pids", "rlimits", "ro",
    "seccomp",
};

static bool is_named(const char *list, const char *layer) {
    size_t len = strlen(layer);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, layer, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

static bool is_off(const char *layer) {
    return is_named(getenv("CAY_TEST_WITHOUT"), layer);
}

/* A name that is none would test nothing. */
__attribute__((constructor)) static void check_names(void) {
    const char *list = getenv("CAY_TEST_WITHOUT");
    size_t known = 0, named = list != NULL && list[0] != '\0';
    for (const char *at = list; at != NULL && *at != '\0'; at++)
        named += *at == ',';
    for (size_t i = 0; i < ARRAY_LEN(layers); i++)
        known += is_off(layers[i]);
    if (known != named)
        abort();
}

/* ---- one system call each ---- */

int __wrap_seccomp_load(const struct sock_fprog *program);
int __real_seccomp_load(const struct sock_fprog *program);
int __wrap_seccomp_load(const struct sock_fprog *program) {
    return is_off("seccomp") ? 0 : __real_seccomp_load(program);
}

int __wrap_landlock_restrict(int abi);
int __real_landlock_restrict(int abi);
int __wrap_landlock_restrict(int abi) {
    return is_off("landlock") ? 0 : __real_landlock_restrict(abi);
}

int __wrap_setns(int fd, int type);
int __real_setns(int fd, int type);
int __wrap_setns(int fd, int type) {
    return type == CLONE_NEWNET && is_off("network") ? 0 : __real_setns(fd, type);
}

int __wrap_unshare(int flags);
int __real_unshare(int flags);
int __wrap_unshare(int flags) {
    return flags == CLONE_NEWCGROUP && is_off("cgroup-namespace") ? 0 : __real_unshare(flags);
}

pid_t __wrap_spawn_shared(struct clone_args *args, int (*fn)(void *), void *arg);
pid_t __real_spawn_shared(struct clone_args *args, int (*fn)(void *), void *arg);
pid_t __wrap_spawn_shared(struct clone_args *args, int (*fn)(void *), void *arg) {
    if (is_off("ipc"))
        args->flags &= ~(uint64_t)CLONE_NEWIPC;
    return __real_spawn_shared(args, fn, arg);
}

static uint64_t without_attributes(uint64_t attributes) {
    if (is_off("ro"))
        attributes &= ~(uint64_t)MOUNT_ATTR_RDONLY;
    if (is_off("nodev"))
        attributes &= ~(uint64_t)MOUNT_ATTR_NODEV;
    return attributes;
}

/* A call takes six arguments at most; what it does not take is passed on as it is found. */
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long arg[6];
    va_list args;
    va_start(args, number);
    for (size_t i = 0; i < ARRAY_LEN(arg); i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_close_range && is_off("descriptors"))
        return 0;
    if (number == SYS_mount_setattr) {
        struct mount_attr *attr = (struct mount_attr *)(uintptr_t)arg[3];
        attr->attr_set = without_attributes(attr->attr_set);
    }
    if (number == SYS_fsmount)
        arg[2] = (long)without_attributes((uint64_t)arg[2]);
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* ---- more than one ---- */

/* Every capability of the sandbox's user namespace, for root inside. */
static int keep_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (__real_syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (int i = 0; i < 2; i++)
        data[i].inheritable = data[i].effective = data[i].permitted;
    if (__real_syscall(SYS_capset, &header, data) < 0)
        return -errno;
    for (int cap = 0; cap < 64; cap++)
        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0); /* beyond the last: fails */
    return 0;
}

int __wrap_privilege_limit_capabilities(bool build, bool set_file_capabilities);
int __real_privilege_limit_capabilities(bool build, bool set_file_capabilities);
int __wrap_privilege_limit_capabilities(bool build, bool set_file_capabilities) {
    return is_off("capabilities")
               ? keep_capabilities()
               : __real_privilege_limit_capabilities(build, set_file_capabilities);
}

int __wrap_privilege_set_common_rlimits(void);
int __real_privilege_set_common_rlimits(void);
int __wrap_privilege_set_common_rlimits(void) {
    return is_off("rlimits") ? 0 : __real_privilege_set_common_rlimits();
}

/* The sandbox's ids are those of the host. */
int __wrap_idrange_lease(struct idrange *ret, struct cay_error *err);
int __real_idrange_lease(struct idrange *ret, struct cay_error *err);
int __wrap_idrange_lease(struct idrange *ret, struct cay_error *err) {
    int r = __real_idrange_lease(ret, err);
    if (r == 0 && is_off("ids"))
        ret->base = 0;
    return r;
}

void __wrap_rootfs_find_masks(struct proc_masks *ret);
void __real_rootfs_find_masks(struct proc_masks *ret);
void __wrap_rootfs_find_masks(struct proc_masks *ret) {
    __real_rootfs_find_masks(ret);
    if (is_off("masks"))
        ret->count = 0;
}

int __wrap_cgroup_create(const struct cgroup_host *host, const char *id,
                         const struct cgroup_limits *limits, struct cgroup *ret,
                         struct cay_error *err);
int __real_cgroup_create(const struct cgroup_host *host, const char *id,
                         const struct cgroup_limits *limits, struct cgroup *ret,
                         struct cay_error *err);
int __wrap_cgroup_create(const struct cgroup_host *host, const char *id,
                         const struct cgroup_limits *limits, struct cgroup *ret,
                         struct cay_error *err) {
    struct cgroup_limits some = *limits;
    if (is_off("pids"))
        some.pids = 0;
    return __real_cgroup_create(host, id, &some, ret, err);
}
