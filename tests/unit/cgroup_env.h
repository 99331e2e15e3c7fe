/* What the tests of the cgroup module share: the machine, a parent folder of their own below which
 * they make groups, and children that run in them. Each program includes it once. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum { MB = 1024 * 1024, SOON_MS = 30000 };

#define ID "00000000cafe0001"
#define M  CGROUP_BIT(CGROUP_MEMORY)
#define C  CGROUP_BIT(CGROUP_CPU)
#define A  CGROUP_BIT(CGROUP_CPUACCT)
#define P  CGROUP_BIT(CGROUP_PIDS)
#define D  CGROUP_BIT(CGROUP_DEVICES)
#define F  CGROUP_BIT(CGROUP_FREEZER)

/* The machine under test, and what was there before. */
struct env {
    struct cgroup_host host;
    char parent[32];
    const char *unified; /* NULL: as the probe finds it */
    int fds_before;
};
static struct env env;

_unused_ static int count_fds(void) {
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d) != NULL)
        count++;
    closedir(d);
    return count;
}

_unused_ static void probe(struct cgroup_host *host) {
    struct cay_error err = {0};
    if (cgroup_probe_at(env.unified, env.parent, host, &err) < 0)
        fail_msg("%s", err.message);
}

_unused_ static int open_machine(void) {
    env.fds_before = count_fds();
    if (str_format(env.parent, sizeof env.parent, "cay-test-%d", getpid()) < 0)
        return -1;
    probe(&env.host);
    static const char *const versions[] = {"none", "v1", "v2"};
    print_message("cgroups: %s\n", versions[env.host.version]);
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
        if (!env.host.support[c].usable)
            print_message("  without %s: %s (%s)\n", cgroup_controller_name(c),
                          env.host.support[c].reason, env.host.support[c].remedy);
    return 0;
}

_unused_ static int setup_machine(void **state) {
    (void)state;
    env = (struct env){0};
    return open_machine();
}

_unused_ static int setup_unified(void **state) {
    (void)state;
    env = (struct env){.unified = "/sys/fs/cgroup/unified"};
    return open_machine();
}

/* The parent folder can be removed only if nothing was left in it. */
_unused_ static int teardown_machine(void **state) {
    (void)state;
    char up[64];
    int failed = str_format(up, sizeof up, "../%s", env.parent);
    for (size_t i = 0; i < env.host.hierarchy_count; i++) {
        if (unlinkat(env.host.hierarchies[i].parent, up, AT_REMOVEDIR) == 0)
            continue;
        print_message("left behind in %s: %s\n", env.host.hierarchies[i].path,
                      strerrordesc_np(errno));
        failed = -1;
    }
    cgroup_host_close(&env.host);
    if (count_fds() != env.fds_before)
        failed = -1;
    return failed;
}

_unused_ static void need(unsigned controllers) {
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
        if ((controllers & CGROUP_BIT(c)) == 0 || env.host.support[c].usable)
            continue;
        print_message("skipped: no %s controller\n", cgroup_controller_name(c));
        skip();
    }
    if (env.host.version == CGROUP_NONE) {
        print_message("skipped: no usable cgroups (not root?)\n");
        skip();
    }
}

/* Limits as far as this machine has the controllers. */
_unused_ static struct cgroup_limits limits_of(uint64_t memory, uint64_t cpu, uint32_t pids) {
    return (struct cgroup_limits){
        .memory_bytes = env.host.support[CGROUP_MEMORY].usable ? memory : 0,
        .cpu_quota_us_per_100ms = env.host.support[CGROUP_CPU].usable ? cpu : 0,
        .pids = env.host.support[CGROUP_PIDS].usable ? pids : 0,
    };
}

_unused_ static struct cgroup make(const char *id, struct cgroup_limits limits) {
    struct cgroup cgroup;
    struct cay_error err = {0};
    if (cgroup_create(&env.host, id, &limits, &cgroup, &err) < 0)
        fail_msg("%s", err.message);
    return cgroup;
}

_unused_ static void drop(struct cgroup *cgroup) {
    char id[ID_SIZE];
    struct cay_error err = {0};
    memcpy(id, cgroup->id, sizeof id);
    cgroup_close(cgroup);
    if (cgroup_remove(&env.host, id, clock_deadline(SOON_MS), &err) < 0)
        fail_msg("%s", err.message);
}

/* How many hierarchies have a folder for the id. */
_unused_ static size_t folders(const char *id) {
    size_t count = 0;
    for (size_t i = 0; i < env.host.hierarchy_count; i++)
        count += faccessat(env.host.hierarchies[i].parent, id, F_OK, 0) == 0;
    return count;
}

/* Runs body in a child that is in the group from its first instruction. */
_unused_ static pid_t spawn(const struct cgroup *cgroup, int (*body)(void *), void *arg) {
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (cgroup->dirfd >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup->dirfd;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    _exit(cgroup_attach_self(cgroup) < 0 ? 99 : body(arg));
}

_unused_ static int wait_for(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

_unused_ static int run(const struct cgroup *cgroup, int (*body)(void *), void *arg) {
    int status = wait_for(spawn(cgroup, body, arg));
    if (!WIFEXITED(status))
        fail_msg("killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

_unused_ static void *shared_page(void) {
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

_unused_ static void assert_file(enum cgroup_controller c, const char *id, const char *file,
                                 const char *want) {
    char text[64];
    if (!env.host.support[c].usable)
        return;
    if (cgroup_read(&env.host, c, id, file, text, sizeof text) < 0)
        fail_msg("%s is not readable", file);
    assert_string_equal(text, want);
}

_unused_ static void assert_limits(const char *id, const char *memory, const char *cpu,
                                   const char *pids) {
    bool v1 = env.host.version == CGROUP_V1;
    assert_file(CGROUP_MEMORY, id, v1 ? "memory.limit_in_bytes" : "memory.max", memory);
    if (v1 && faccessat(env.host.hierarchies[env.host.where[CGROUP_MEMORY]].parent,
                        ID "/memory.memsw.limit_in_bytes", F_OK, 0) == 0)
        assert_file(CGROUP_MEMORY, id, "memory.memsw.limit_in_bytes", memory);
    assert_file(CGROUP_CPU, id, v1 ? "cpu.cfs_quota_us" : "cpu.max", cpu);
    assert_file(CGROUP_PIDS, id, "pids.max", pids);
}

_unused_ static int nothing(void *arg) {
    (void)arg;
    return 0;
}

_unused_ static int sleeper(void *arg) {
    (void)arg;
    while (pause() < 0)
        continue;
    return 0;
}

/* Runs the tests on what the probe finds and, where that is v1, also on the unified tree beside it.
 */
#define RUN_ON_EACH_TREE(tests)                                                                    \
    (cmocka_run_group_tests_name("this machine", tests, setup_machine, teardown_machine) +         \
     (access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) != 0                                     \
          ? 0                                                                                      \
          : cmocka_run_group_tests_name("unified tree", tests, setup_unified, teardown_machine)))
