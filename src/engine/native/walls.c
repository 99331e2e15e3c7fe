/* What isolates on this host, wall by wall, and the tier that follows. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/native/internal.h"

static struct native_wall *add(struct native *n, const char *name, bool ok, enum tier needed_for) {
    struct native_wall *w = &n->walls[n->wall_count++];
    *w = (struct native_wall){.name = name, .ok = ok, .needed_for = needed_for};
    return w;
}

#define DETAIL(w, ...) (void)snprintf((w)->detail, sizeof(w)->detail, __VA_ARGS__)
#define REMEDY(w, ...) (void)snprintf((w)->remedy, sizeof(w)->remedy, __VA_ARGS__)

static void add_namespaces(struct native *n) {
    struct native_wall *w = add(n, "namespaces", true, TIER_BASIC);
    DETAIL(w, "user, pid, mount, network, ipc, uts, cgroup");
    w = add(n, "host-owned namespaces", !n->own_userns, TIER_FULL);
    DETAIL(w, n->own_userns ? "they belong to your user namespace"
                            : "root inside has no power over any of them");
    if (n->own_userns)
        REMEDY(w, "run cay as root");
}

static void add_ids(struct native *n) {
    struct native_wall *w = add(n, "id range", !n->single_id, TIER_ROOTLESS);
    DETAIL(w, n->single_id ? "one id: commands and cay-init share it" : "65536 ids per sandbox");
    if (n->single_id)
        REMEDY(w, "install uidmap and give the user 65536 ids in /etc/subuid and /etc/subgid");
    w = add(n, "own id range", !n->own_userns, TIER_FULL);
    DETAIL(w, n->own_userns ? "shared by the sandboxes of this user" : "never shared");
    if (n->own_userns)
        REMEDY(w, "run cay as root");
}

static void add_controller(struct native *n, const char *name, enum cgroup_controller c,
                           enum tier needed_for) {
    const struct cgroup_support s = n->cgroups.support[c];
    struct native_wall *w = add(n, name, s.usable, needed_for);
    if (s.usable)
        DETAIL(w, "cgroup v%d", n->cgroups.version == CGROUP_V2 ? 2 : 1);
    else
        DETAIL(w, "%.159s", s.reason);
    if (!s.usable)
        REMEDY(w, "%s", s.remedy);
}

static void add_confinement(struct native *n) {
    struct native_wall *w = add(n, "no new privileges", true, TIER_BASIC);
    DETAIL(w, "set-user-id and file capabilities are void");
    w = add(n, "capabilities", true, TIER_BASIC);
    DETAIL(w, "commands have none");
    w = add(n, "seccomp", true, TIER_BASIC);
    DETAIL(w, "allow-list of %u instructions, native ABI only", n->filter.program.len);
    w = add(n, "Landlock", n->landlock_abi > 0, TIER_ROOTLESS);
    if (n->landlock_abi > 0)
        DETAIL(w, "ABI %d%s", n->landlock_abi, n->landlock_abi < 6 ? ", without scopes" : "");
    else
        DETAIL(w, "not in this kernel, or not enabled");
    if (n->landlock_abi == 0)
        REMEDY(w, "boot a kernel from 5.13 on with lsm=landlock,…");
    w = add(n, "disk and inode limit", true, TIER_BASIC);
    DETAIL(w, "tmpfs of its own, charged to the sandbox's memory");
}

void native_judge(struct native *n) {
    n->wall_count = 0;
    add_namespaces(n);
    add_ids(n);
    add_controller(n, "memory limit", CGROUP_MEMORY, TIER_ROOTLESS);
    add_controller(n, "cpu limit", CGROUP_CPU, TIER_ROOTLESS);
    add_controller(n, "process limit", CGROUP_PIDS, TIER_ROOTLESS);
    add_controller(n, "device limit", CGROUP_DEVICES, TIER_FULL);
    add_controller(n, "freezer", CGROUP_FREEZER, TIER_ROOTLESS);
    add_confinement(n);
    n->tier = TIER_FULL;
    for (size_t i = 0; i < n->wall_count; i++)
        if (!n->walls[i].ok && n->walls[i].needed_for <= n->tier)
            n->tier = (enum tier)(n->walls[i].needed_for - 1);
}
