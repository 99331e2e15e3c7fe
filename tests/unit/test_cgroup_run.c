/* Tests of what happens to processes in a group: joining, limits at work, freezing, killing. */
#include "cgroup_env.h"

#include <sched.h>
#include <time.h>

static void attach(void **state) {
    (void)state;
    need(0);
    struct cay_error err = {0};
    struct cgroup_stats stats;
    struct cgroup cgroup = make(ID, limits_of(0, 0, 0));
    assert_int_equal(cgroup_is_empty(&cgroup), 1);
    assert_int_equal(run(&cgroup, nothing, NULL), 0);
    assert_int_equal(cgroup_is_empty(&cgroup), 1);
    pid_t pid = spawn(&cgroup, sleeper, NULL);
    while (cgroup_is_empty(&cgroup) == 1)
        sched_yield();
    assert_int_equal(cgroup_kill_all(cgroup.host, ID, clock_deadline(SOON_MS)), 0);
    int status = wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(cgroup_stats(&cgroup, &stats, &err), 0);
    assert_int_equal(stats.pids, 0);
    drop(&cgroup);
}

static int attach_only(void *arg) {
    return -cgroup_attach_self(arg);
}

/* As the launcher does it: a child that shares our memory. */
static void attach_with_shared_memory(void **state) {
    (void)state;
    need(0);
    struct cgroup cgroup = make(ID, limits_of(32 * MB, 0, 10));
    enum { STACK = 256 * 1024 };
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    pid_t pid = clone(attach_only, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &cgroup);
    assert_true(pid > 0);
    assert_int_equal(wait_for(pid), 0);
    assert_int_equal(munmap(stack, STACK), 0);
    drop(&cgroup);
}

static int hog(void *arg) {
    (void)arg;
    enum { SIZE = 64 * MB };
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < SIZE; i += 4096)
        p[i] = 1;
    return 0;
}

/* Files that are kept open tell the same as those that are opened each time. */
static void assert_counters(const struct cgroup *cgroup, uint64_t want_kills, bool want_idle) {
    struct cgroup kept = *cgroup;
    kept.oom = kept.members = -1;
    uint64_t kills;
    assert_int_equal(cgroup_keep_counters(&kept), 0);
    const struct cgroup *both[] = {cgroup, &kept, &kept};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        assert_int_equal(cgroup_oom_kills(both[i], &kills), 0);
        assert_int_equal(kills, want_kills);
        assert_int_equal(cgroup_is_idle(both[i]), want_idle);
    }
    fd_close(&kept.oom);
    fd_close(&kept.members);
}

static void memory_limit(void **state) {
    (void)state;
    need(M);
    struct cay_error err = {0};
    struct cgroup_stats stats;
    struct cgroup cgroup = make(ID, limits_of(16 * MB, 0, 0));
    pid_t bystander = spawn(&cgroup, sleeper, NULL);
    int status = wait_for(spawn(&cgroup, hog, NULL));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(cgroup_stats(&cgroup, &stats, &err), 0);
    assert_int_equal(stats.oom_kills, 1);
    assert_counters(&cgroup, 1, false);
    assert_true(stats.memory_peak_bytes > 8 * MB && stats.memory_peak_bytes <= 16 * MB);
    assert_true(stats.memory_bytes < 8 * MB);
    /* the hog alone was killed */
    assert_int_equal(waitpid(bystander, &status, WNOHANG), 0);
    assert_int_equal(cgroup_kill_all(cgroup.host, ID, clock_deadline(SOON_MS)), 0);
    (void)wait_for(bystander);
    drop(&cgroup);
    /* the next one of that name starts at zero */
    cgroup = make(ID, limits_of(20 * MB, 0, 3));
    assert_int_equal(cgroup_stats(&cgroup, &stats, &err), 0);
    assert_int_equal(stats.oom_kills, 0);
    assert_counters(&cgroup, 0, true);
    assert_true(stats.memory_peak_bytes < 2 * MB);
    assert_limits(ID, "20971520", env.host.version == CGROUP_V1 ? "-1" : "max 100000", "3");
    assert_int_equal(run(&cgroup, nothing, NULL), 0);
    drop(&cgroup);
}

static int hold_memory(void *arg) {
    enum { SIZE = 12 * MB };
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, SIZE);
    *(volatile int *)arg = 1;
    return sleeper(NULL);
}

static void memory_in_use(void **state) {
    (void)state;
    need(M);
    if (env.host.version != CGROUP_V1) {
        print_message("skipped: v2 takes any limit and kills instead\n");
        skip();
    }
    struct cay_error err = {0};
    volatile int *ready = shared_page();
    struct cgroup cgroup = make(ID, limits_of(32 * MB, 0, 0));
    pid_t pid = spawn(&cgroup, hold_memory, (void *)(uintptr_t)ready);
    while (*ready == 0)
        sched_yield();
    struct cgroup_limits l = limits_of(4 * MB, 0, 0);
    assert_int_equal(cgroup_set_limits(&cgroup, &l, &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.remedy, "larger limit"));
    assert_limits(ID, "33554432", "-1", "max");
    l = limits_of(64 * MB, 0, 0);
    assert_int_equal(cgroup_set_limits(&cgroup, &l, &err), 0);
    assert_limits(ID, "67108864", "-1", "max");
    drop(&cgroup);
    (void)wait_for(pid);
    (void)munmap((void *)(uintptr_t)ready, 4096);
}

/* Forks until it is refused; the status is how often it worked, with the failure's kind. */
static int fork_all(void *arg) {
    int *failed_with = arg;
    for (int count = 0; count < 50; count++) {
        pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            return sleeper(NULL);
        if (pid < 0) {
            *failed_with = errno;
            return count;
        }
    }
    return 50;
}

static void pids_limit(void **state) {
    (void)state;
    need(P);
    int *failed_with = shared_page();
    struct cay_error err = {0};
    struct cgroup_stats stats;
    struct cgroup cgroup = make(ID, limits_of(0, 0, 8));
    assert_int_equal(run(&cgroup, fork_all, failed_with), 7);
    assert_int_equal(*failed_with, EAGAIN);
    assert_int_equal(cgroup_stats(&cgroup, &stats, &err), 0);
    assert_int_equal(stats.pids, 7);
    assert_int_equal(cgroup_is_empty(&cgroup), 0);
    assert_int_equal(cgroup_kill_all(cgroup.host, ID, clock_deadline(SOON_MS)), 0);
    assert_int_equal(cgroup_is_empty(&cgroup), 1);
    drop(&cgroup);
    (void)munmap(failed_with, 4096);
}

/* For a while, and for more than it gets in several periods, whoever else wants the processor. */
static int spin(void *arg) {
    int64_t end = clock_ms() + 400;
    volatile uint64_t *counter = arg;
    while (clock_ms() < end || clock() < 5 * (CLOCKS_PER_SEC / 1000))
        (*counter)++;
    return 0;
}

static void cpu_limit(void **state) {
    (void)state;
    need(C | A);
    struct cay_error err = {0};
    struct cgroup_stats stats;
    void *counter = shared_page();
    /* a millisecond of 100: on a busy machine too it gets that at a stretch, and wants more */
    struct cgroup cgroup = make(ID, limits_of(0, 1000, 0));
    assert_int_equal(run(&cgroup, spin, counter), 0);
    assert_int_equal(cgroup_stats(&cgroup, &stats, &err), 0);
    assert_true(stats.cpu_us > 1000 && stats.cpu_us < 200000);
    assert_true(stats.throttled_periods > 0 && stats.throttled_us > 0);
    drop(&cgroup);
    (void)munmap(counter, 4096);
}

static int count_up(void *arg) {
    volatile uint64_t *counter = arg;
    while (usleep(100) == 0)
        (*counter)++;
    return 0;
}

static void wait_beyond(const volatile uint64_t *counter, uint64_t value) {
    int64_t deadline = clock_deadline(SOON_MS);
    while (*counter <= value && !clock_expired(deadline))
        (void)usleep(100);
    assert_true(*counter > value);
}

static void freeze(void **state) {
    (void)state;
    need(F);
    struct cay_error err = {0};
    volatile uint64_t *counter = shared_page();
    struct cgroup cgroup = make(ID, limits_of(0, 0, 0));
    pid_t pid = spawn(&cgroup, count_up, (void *)(uintptr_t)counter);
    wait_beyond(counter, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cgroup_freeze(&cgroup, SOON_MS, &err), 0);
        uint64_t frozen_at = *counter;
        (void)usleep(20000);
        assert_int_equal(*counter, frozen_at);
        assert_int_equal(cgroup_thaw(&cgroup, &err), 0);
        wait_beyond(counter, frozen_at);
    }
    /* killed although frozen */
    assert_int_equal(cgroup_freeze(&cgroup, SOON_MS, &err), 0);
    assert_int_equal(cgroup_kill_all(cgroup.host, ID, clock_deadline(SOON_MS)), 0);
    assert_int_equal(cgroup_is_empty(&cgroup), 1);
    int status = wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    drop(&cgroup);
    (void)munmap((void *)(uintptr_t)counter, 4096);
}

/* Processes that want to stay: their own sessions, deaf to signals, and one that never stops
 * replacing itself. */
static int stubborn(void *arg) {
    for (int i = 0; i < 12; i++) {
        if ((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) != 0)
            continue;
        (void)setsid();
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        return sleeper(NULL);
    }
    for (volatile uint64_t *generation = arg;; (*generation)++) {
        pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid > 0)
            _exit(0);
    }
}

static void kill_hostile(void **state) {
    (void)state;
    need(0);
    volatile uint64_t *generation = shared_page();
    struct cgroup cgroup = make(ID, limits_of(64 * MB, 50000, 40));
    assert_int_equal(run(&cgroup, stubborn, (void *)(uintptr_t)generation), 0);
    wait_beyond(generation, 10);
    assert_int_equal(cgroup_kill_all(cgroup.host, ID, clock_deadline(SOON_MS)), 0);
    assert_int_equal(cgroup_is_empty(&cgroup), 1);
    uint64_t last = *generation;
    (void)usleep(20000);
    assert_int_equal(*generation, last);
    /* and the same by removing it */
    drop(&cgroup);
    cgroup = make(ID, limits_of(64 * MB, 50000, 40));
    assert_int_equal(run(&cgroup, stubborn, (void *)(uintptr_t)generation), 0);
    wait_beyond(generation, last + 10);
    drop(&cgroup);
    assert_int_equal(folders(ID), 0);
    (void)munmap((void *)(uintptr_t)generation, 4096);
}

static void kill_without_freezer(void **state) {
    (void)state;
    need(P);
    if (env.host.version != CGROUP_V1) {
        print_message("skipped: v2 always has a freezer\n");
        skip();
    }
    struct cay_error err = {0};
    volatile uint64_t *generation = shared_page();
    struct cgroup_host weaker = env.host;
    weaker.where[CGROUP_FREEZER] = -1;
    weaker.support[CGROUP_FREEZER].usable = false;
    struct cgroup cgroup = make(ID, limits_of(0, 0, 20));
    assert_int_equal(run(&cgroup, stubborn, (void *)(uintptr_t)generation), 0);
    struct cgroup blind = cgroup;
    blind.host = &weaker;
    assert_int_equal(cgroup_freeze(&blind, 0, &err), -CAY_UNSUPPORTED);
    assert_int_equal(cgroup_write(&env.host, CGROUP_PIDS, ID, "pids.max", "0"), 0);
    assert_int_equal(cgroup_kill_all(blind.host, ID, clock_deadline(SOON_MS)), 0);
    assert_int_equal(cgroup_is_empty(&cgroup), 1);
    drop(&cgroup);
    (void)munmap((void *)(uintptr_t)generation, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attach),
        cmocka_unit_test(attach_with_shared_memory),
        cmocka_unit_test(memory_limit),
        cmocka_unit_test(memory_in_use),
        cmocka_unit_test(pids_limit),
        cmocka_unit_test(cpu_limit),
        cmocka_unit_test(freeze),
        cmocka_unit_test(kill_hostile),
        cmocka_unit_test(kill_without_freezer),
    };
    return RUN_ON_EACH_TREE(tests);
}
