/* Tests of what the cgroup module reads: mount tables and the kernel's counters. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/native/cgroup/backend.h"

#define M  CGROUP_BIT(CGROUP_MEMORY)
#define C  CGROUP_BIT(CGROUP_CPU)
#define A  CGROUP_BIT(CGROUP_CPUACCT)
#define P  CGROUP_BIT(CGROUP_PIDS)
#define D  CGROUP_BIT(CGROUP_DEVICES)
#define F  CGROUP_BIT(CGROUP_FREEZER)
#define IO CGROUP_BIT(CGROUP_IO)

static const struct {
    const char *text;
    size_t v1_count;
    unsigned controllers[4];
    const char *path; /* of the first v1 mount */
    const char *v2;
    enum cgroup_version version;
} mount_tables[] = {
    {"", 0, {0}, "", "", CGROUP_NONE},
    {"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", 0, {0}, "", "", CGROUP_NONE},
    {"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
     0,
     {0},
     "",
     "/sys/fs/cgroup",
     CGROUP_V2},
    /* co-mounted, optional fields, blkio under its v1 name */
    {"33 31 0:30 / /cg/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
     "34 31 0:31 / /cg/blkio rw - cgroup cgroup rw,blkio\n",
     2,
     {C | A, IO},
     "/cg/cpu,cpuacct",
     "",
     CGROUP_V1},
    /* named hierarchies and unknown controllers are none of ours */
    {"40 31 0:37 / /cg/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
     "41 31 0:38 / /cg/net rw - cgroup cgroup rw,net_cls,net_prio\n",
     0,
     {0},
     "",
     "",
     CGROUP_NONE},
    {"40 31 0:37 / /cg/x rw - cgroup cgroup rw,name=memory\n", 0, {0}, "", "", CGROUP_NONE},
    /* hybrid: the controllers are on v1 */
    {"35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
     "36 31 0:32 / /cg/pids rw - cgroup cgroup rw,pids\n"
     "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n",
     2,
     {M, P},
     "/cg/memory",
     "/cg/unified",
     CGROUP_V1},
    /* hybrid: v1 has nothing that matters */
    {"37 31 0:34 / /cg/freezer rw - cgroup cgroup rw,freezer\n"
     "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n",
     1,
     {F},
     "/cg/freezer",
     "/cg/unified",
     CGROUP_V2},
    /* a second mount of the same controller is not used; the last line has no newline */
    {"35 31 0:32 / /a rw - cgroup cgroup rw,memory\n35 31 0:32 / /b rw - cgroup cgroup "
     "rw,memory",
     1,
     {M},
     "/a",
     "",
     CGROUP_V1},
    /* escapes in the mount point */
    {"35 31 0:32 / /a\\040b\\134c rw - cgroup cgroup rw,devices\n",
     1,
     {D},
     "/a b\\c",
     "",
     CGROUP_V1},
    /* broken lines */
    {"35 31 0:32 /\n- cgroup\n 35 - cgroup cgroup rw,memory\n35 31 0:32 / /a rw - cgroup\n",
     0,
     {0},
     "",
     "",
     CGROUP_NONE},
    {"1 1 0:1 / /a rw - cgroup3 x rw,memory\n", 0, {0}, "", "", CGROUP_NONE},
};

static void mounts(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(mount_tables); i++) {
        struct cgroup_mounts got;
        cgroup_parse_mounts(mount_tables[i].text, &got);
        assert_int_equal(got.v1_count, mount_tables[i].v1_count);
        for (size_t k = 0; k < got.v1_count; k++)
            assert_int_equal(got.v1[k].controllers, mount_tables[i].controllers[k]);
        if (got.v1_count > 0)
            assert_string_equal(got.v1[0].path, mount_tables[i].path);
        assert_string_equal(got.v2, mount_tables[i].v2);
        assert_int_equal(cgroup_choose(&got), mount_tables[i].version);
    }
}

static void mounts_many(void **state) {
    (void)state;
    char text[8192], path[CGROUP_PATH_SIZE + 1];
    struct cgroup_mounts got;
    /* a mount point that does not fit is not used, one that just fits is */
    memset(path, 'x', sizeof path);
    for (int fits = 0; fits <= 1; fits++) {
        assert_int_equal(str_format(text, sizeof text, "1 1 0:1 / %.*s rw - cgroup c rw,memory\n",
                                    CGROUP_PATH_SIZE - fits, path),
                         0);
        cgroup_parse_mounts(text, &got);
        assert_int_equal(got.v1_count, fits);
    }
    cgroup_parse_mounts("1 1 0:1 / /a rw - cgroup c rw,cpuset,cpu\n", &got);
    assert_true(got.v1[0].cpuset);
}

static void fields(void **state) {
    (void)state;
    static const struct {
        const char *text, *key;
        int result;
        uint64_t value;
    } cases[] = {
        {"populated 1\nfrozen 0\n", "populated", 0, 1},
        {"populated 1\nfrozen 0", "frozen", 0, 0},
        {"oom_kill_disable 0\nunder_oom 0\noom_kill 7", "oom_kill", 0, 7},
        {"oom 1\n", "oom_kill", -ENOENT, 0},
        {"", "x", -ENOENT, 0},
        {"\n\nx 3", "x", 0, 3},
        {"x\nx 4", "x", 0, 4},
        {"x max", "x", -EINVAL, 0},
        {"x ", "x", -EINVAL, 0},
        {"x 18446744073709551615", "x", 0, UINT64_MAX},
        {"x 18446744073709551616", "x", -ERANGE, 0},
        {"x 000000000000000000000000000000000001", "x", -ERANGE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t value = 0;
        assert_int_equal(cgroup_field(cases[i].text, cases[i].key, &value), cases[i].result);
        if (cases[i].result == 0)
            assert_int_equal(value, cases[i].value);
    }
    assert_true(cgroup_has_word("cpuset cpu io memory", "cpu"));
    assert_true(cgroup_has_word("cpuset cpu io memory", "memory"));
    assert_false(cgroup_has_word("cpuset io", "cpu"));
    assert_false(cgroup_has_word("", "cpu"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mounts), cmocka_unit_test(mounts_many),
                                       cmocka_unit_test(fields)};
    return cmocka_run_group_tests_name("cgroup_parse", tests, NULL, NULL);
}
