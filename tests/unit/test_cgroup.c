/* Tests of making, limiting, listing and removing the groups of sandboxes, against the real
 * controllers of this machine. */
#include "cgroup_env.h"

#include <sys/stat.h>

static void limits(void **state) {
    (void)state;
    need(0);
    bool v1 = env.host.version == CGROUP_V1;
    static const char none[] = "9223372036854771712";
    struct cay_error err = {0};
    struct cgroup_limits l = limits_of(32 * MB, 50000, 10);
    struct cgroup cgroup = make(ID, l);
    assert_limits(ID, "33554432", v1 ? "50000" : "50000 100000", "10");
    static const struct {
        uint64_t memory, cpu;
        uint32_t pids;
        const char *memory_text, *cpu_v1, *cpu_v2, *pids_text;
    } cases[] = {
        {64 * MB, 200000, 10, "67108864", "200000", "200000 100000", "10"}, /* raised */
        {16 * MB, 1000, 5, "16777216", "1000", "1000 100000", "5"},         /* lowered */
        {0, 0, 0, NULL, "-1", "max 100000", "max"},                         /* lifted */
        {16 * MB, 0, 7, "16777216", "-1", "max 100000", "7"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        l = limits_of(cases[i].memory, cases[i].cpu, cases[i].pids);
        assert_int_equal(cgroup_set_limits(&cgroup, &l, &err), 0);
        const char *memory = cases[i].memory_text;
        assert_limits(ID,
                      memory != NULL ? memory
                      : v1           ? none
                                     : "max",
                      v1 ? cases[i].cpu_v1 : cases[i].cpu_v2, cases[i].pids_text);
    }
    /* one that was opened anew does not know the limits and writes all of them */
    struct cgroup again;
    assert_int_equal(cgroup_open(&env.host, ID, &again, &err), 0);
    l = limits_of(48 * MB, 20000, 0);
    assert_int_equal(cgroup_set_limits(&again, &l, &err), 0);
    assert_limits(ID, "50331648", v1 ? "20000" : "20000 100000", "max");
    cgroup_close(&again);
    drop(&cgroup);
}

static void limits_only_what_differs(void **state) {
    (void)state;
    need(P | M);
    struct cay_error err = {0};
    struct cgroup cgroup = make(ID, limits_of(32 * MB, 0, 10));
    /* changed behind its back: a write that is not needed would undo it */
    assert_int_equal(cgroup_write(&env.host, CGROUP_PIDS, ID, "pids.max", "77"), 0);
    struct cgroup_limits l = limits_of(64 * MB, 0, 10);
    assert_int_equal(cgroup_set_limits(&cgroup, &l, &err), 0);
    assert_file(CGROUP_PIDS, ID, "pids.max", "77");
    drop(&cgroup);
}

static void refusals(void **state) {
    (void)state;
    need(0);
    static const char *const ids[] = {
        "", "..", "../../x", "00000000CAFE0001", "cafe", "00000000cafe00011", "00000000/afe0001"};
    struct cay_error err = {0};
    struct cgroup_limits l = {0};
    struct cgroup cgroup;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        assert_int_equal(cgroup_create(&env.host, ids[i], &l, &cgroup, &err),
                         -CAY_INVALID_ARGUMENT);
        assert_null(cgroup.host);
        assert_int_equal(cgroup_open(&env.host, ids[i], &cgroup, &err), -CAY_INVALID_ARGUMENT);
        assert_int_equal(cgroup_remove(&env.host, ids[i], 0, &err), -CAY_INVALID_ARGUMENT);
    }
    assert_int_equal(cgroup_open(&env.host, ID, &cgroup, &err), -CAY_NOT_FOUND);
    assert_int_equal(cgroup_attach_self(&cgroup), -EBADF);
    /* a limit without its controller is not dropped silently */
    static const struct cgroup_limits each[] = {
        {.memory_bytes = 32 * MB}, {.cpu_quota_us_per_100ms = 50000}, {.pids = 5}};
    static const enum cgroup_controller of[] = {CGROUP_MEMORY, CGROUP_CPU, CGROUP_PIDS};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        if (env.host.support[of[i]].usable)
            continue;
        assert_int_equal(cgroup_create(&env.host, ID, &each[i], &cgroup, &err), -CAY_UNSUPPORTED);
        assert_true(err.message[0] != '\0' && err.remedy[0] != '\0');
        assert_int_equal(folders(ID), 0);
    }
}

static void failure_undoes(void **state) {
    (void)state;
    need(C);
    int fds = count_fds();
    struct cay_error err = {0};
    struct cgroup cgroup;
    struct cgroup_limits l = limits_of(32 * MB, 999, 5);
    assert_int_equal(cgroup_create(&env.host, ID, &l, &cgroup, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(folders(ID), 0);
    l.cpu_quota_us_per_100ms = UINT64_C(1) << 62; /* refused by the kernel, after the folders */
    assert_int_equal(cgroup_create(&env.host, ID, &l, &cgroup, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, ID));
    assert_int_equal(folders(ID), 0);
    assert_int_equal(count_fds(), fds);
}

static void existing_is_kept(void **state) {
    (void)state;
    need(0);
    struct cay_error err = {0};
    struct cgroup_limits l = {0};
    struct cgroup cgroup;
    for (size_t i = 0; i < env.host.hierarchy_count; i++) {
        const struct cgroup_hierarchy *h = &env.host.hierarchies[i];
        if (h->shared)
            continue;
        assert_int_equal(mkdirat(h->parent, ID, 0755), 0);
        assert_int_equal(cgroup_create(&env.host, ID, &l, &cgroup, &err), -CAY_CONFLICT);
        assert_int_equal(folders(ID), 1);
        assert_int_equal(unlinkat(h->parent, ID, AT_REMOVEDIR), 0);
    }
}

static void few_descriptors(void **state) {
    (void)state;
    need(0);
    int before = count_fds();
    struct cgroup cgroup = make(ID, limits_of(32 * MB, 50000, 10));
    assert_true(count_fds() - before <= (env.host.version == CGROUP_V1 ? 6 : 2));
    for (size_t i = 0; i < ARRAY_LEN(cgroup.tasks); i++)
        assert_true(cgroup.tasks[i] < 0 || fcntl(cgroup.tasks[i], F_GETFD) == FD_CLOEXEC);
    assert_true(cgroup.dirfd < 0 || fcntl(cgroup.dirfd, F_GETFD) == FD_CLOEXEC);
    drop(&cgroup);
    assert_int_equal(count_fds(), before);
}

/* Gone already, or only half there, is fine. */
static void remove_again(void **state) {
    (void)state;
    need(0);
    static const char other[] = "00000000cafe0002", half[] = "00000000cafe0003";
    struct cay_error err = {0};
    struct cgroup a = make(ID, limits_of(0, 0, 0)), b = make(other, limits_of(0, 0, 0));
    const struct cgroup_hierarchy *last = &env.host.hierarchies[env.host.hierarchy_count - 1];
    assert_int_equal(mkdirat(last->parent, half, 0755), 0); /* a crash left it */
    cgroup_close(&b);
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(cgroup_remove(&env.host, other, clock_deadline(SOON_MS), &err), 0);
        assert_int_equal(cgroup_remove(&env.host, half, clock_deadline(SOON_MS), &err), 0);
        assert_int_equal(folders(other), 0);
    }
    if (last->shared) /* sandboxes have no folder of their own there, so none is looked for */
        assert_int_equal(unlinkat(last->parent, half, AT_REMOVEDIR), 0);
    assert_int_equal(folders(half), 0);
    assert_true(folders(ID) > 0);
    drop(&a);
}

/* What limits is joined, what only counts or freezes is not; removing knows the difference. */
static void limiting_only(void **state) {
    (void)state;
    need(0);
    struct cay_error err = {0};
    struct cgroup_host less;
    cgroup_host_limiting(&env.host, &less);
    size_t left_out = 0;
    for (size_t i = 0; i < env.host.hierarchy_count; i++)
        left_out += env.host.version == CGROUP_V1 &&
                    (env.host.hierarchies[i].controllers & (M | C | P | D)) == 0;
    assert_int_equal(less.hierarchy_count, env.host.hierarchy_count - left_out);
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
        bool limits = (CGROUP_BIT(c) & (M | C | P | D)) != 0;
        int there = env.host.where[c], here = less.where[c];
        assert_true(!limits || less.support[c].usable == env.host.support[c].usable);
        assert_true(here < 0 ? !less.support[c].usable || there < 0
                             : less.hierarchies[here].parent == env.host.hierarchies[there].parent);
        assert_true(less.support[c].usable || less.support[c].remedy[0] != '\0');
    }
    struct cgroup whole = make(ID, limits_of(0, 0, 0));
    size_t all = folders(ID);
    drop(&whole);
    struct cgroup cgroup;
    struct cgroup_limits some = limits_of(16 * MB, 50000, 8);
    assert_int_equal(cgroup_create(&less, ID, &some, &cgroup, &err), 0);
    assert_int_equal(folders(ID), all - left_out);
    assert_limits(ID, "16777216", env.host.version == CGROUP_V1 ? "50000" : "50000 100000", "8");
    drop(&cgroup); /* by the host with everything */
    assert_int_equal(folders(ID), 0);
}

static void probe_twice(void **state) {
    (void)state;
    need(0);
    struct cgroup_host again;
    probe(&again);
    assert_int_equal(again.version, env.host.version);
    assert_int_equal(again.hierarchy_count, env.host.hierarchy_count);
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
        assert_int_equal(again.support[c].usable, env.host.support[c].usable);
    cgroup_host_close(&again);
    /* deadlines that are over do not hang, nor do they break what works at once */
    struct cay_error err = {0};
    struct cgroup cgroup = make(ID, limits_of(0, 0, 0));
    assert_int_equal(cgroup_remove(&env.host, ID, 1, &err), 0);
    cgroup_close(&cgroup);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),           cmocka_unit_test(limits_only_what_differs),
        cmocka_unit_test(refusals),         cmocka_unit_test(failure_undoes),
        cmocka_unit_test(existing_is_kept), cmocka_unit_test(few_descriptors),
        cmocka_unit_test(remove_again),     cmocka_unit_test(probe_twice),
        cmocka_unit_test(limiting_only),
    };
    return RUN_ON_EACH_TREE(tests);
}
