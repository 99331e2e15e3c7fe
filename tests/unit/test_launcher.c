/* Tests of launcher_check: what the launcher refuses to act on, whoever sent it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "confine/idrange.h"
#include "engine/link/protocol.h"

static struct launcher_request sane(void) {
    struct launcher_request r = {.op = LAUNCHER_START, .fds = LAUNCHER_CONNECTION, .tag = 7};
    r.spec = (struct sandbox_spec){
        .memory_bytes = 64u << 20, .cpu_quota_us = 100000, .pids = 64, .tier = TIER_FULL};
    return r;
}

static void set_mount(struct mount_spec *m, const char *source, const char *target) {
    memset(m, 0, sizeof *m);
    memcpy(m->source, source, strlen(source) + 1);
    memcpy(m->target, target, strlen(target) + 1);
}

/* ---- requests that are fine ---- */

static void test_accepts_what_clients_send(void **state) {
    (void)state;
    struct launcher_request r = sane();
    const uint32_t fds[] = {LAUNCHER_CONNECTION, LAUNCHER_LISTENER,
                            LAUNCHER_CONNECTION | LAUNCHER_LISTENER};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        r.fds = fds[i];
        assert_int_equal(launcher_check(&r, launcher_request_size(0)), 0);
    }
    memcpy(r.spec.id, "0123456789abcdef", ID_SIZE);
    memcpy(r.spec.hostname, "lab-1.x", sizeof "lab-1.x");
    r.spec.read_only = true;
    r.spec.profile = PROFILE_BUILD;
    r.spec.run_uid = r.spec.run_gid = IDRANGE_SIZE - 1;
    r.ready = LAUNCHER_READY_MAX;
    r.wants_counter = 1;
    memset(r.fingerprint, 'a', sizeof r.fingerprint - 1);
    assert_int_equal(launcher_check(&r, launcher_request_size(0)), 0);
    struct launcher_request end = {.op = LAUNCHER_END, .tag = 7};
    assert_int_equal(launcher_check(&end, launcher_request_size(0)), 0);
}

static void test_accepts_any_number_of_mounts(void **state) {
    (void)state;
    static struct launcher_request r;
    r = sane();
    for (size_t i = 0; i < SPEC_MOUNTS_MAX; i++) {
        assert_int_equal(launcher_check(&r, launcher_request_size(i)), 0);
        set_mount(&r.mounts[i], "/", i % 2 == 0 ? "/workspace/a" : "/data");
        r.mounts[i].read_only = i % 3 == 0;
    }
    assert_int_equal(launcher_check(&r, launcher_request_size(SPEC_MOUNTS_MAX)), 0);
}

/* ---- lengths ---- */

static void test_refuses_every_other_length(void **state) {
    (void)state;
    static struct {
        struct launcher_request r;
        char beyond[2 * sizeof(struct mount_spec)];
    } in;
    in.r = sane();
    for (size_t i = 0; i < SPEC_MOUNTS_MAX; i++)
        set_mount(&in.r.mounts[i], "/usr", "/data");
    for (size_t len = 0; len <= sizeof in; len++) {
        size_t extra = len - launcher_request_size(0);
        bool fits = len >= launcher_request_size(0) && extra % sizeof(struct mount_spec) == 0 &&
                    extra / sizeof(struct mount_spec) <= SPEC_MOUNTS_MAX;
        assert_int_equal(launcher_check(&in.r, len), fits ? 0 : -EINVAL);
    }
}

static void test_end_is_a_bare_request(void **state) {
    (void)state;
    static struct launcher_request r;
    r = sane();
    r.op = LAUNCHER_END;
    assert_int_equal(launcher_check(&r, launcher_request_size(0)), -EINVAL); /* descriptors */
    r.fds = 0;
    assert_int_equal(launcher_check(&r, launcher_request_size(0)), 0);
    set_mount(&r.mounts[0], "/usr", "/data");
    assert_int_equal(launcher_check(&r, launcher_request_size(1)), -EINVAL);
    assert_int_equal(launcher_check(&r, launcher_request_size(0) - 1), -EINVAL);
}

/* ---- fields ---- */

static void no_operation(struct launcher_request *r) {
    r->op = 0;
}
static void unknown_operation(struct launcher_request *r) {
    r->op = LAUNCHER_LIST + 1;
}
static void too_many_ready(struct launcher_request *r) {
    r->ready = LAUNCHER_READY_MAX + 1;
}

static void an_odd_wish(struct launcher_request *r) {
    r->wants_counter = 2;
}

static void an_endless_fingerprint(struct launcher_request *r) {
    memset(r->fingerprint, 'a', sizeof r->fingerprint);
}

static void an_image(struct launcher_request *r) {
    memset(r->image, 'a', HEX_SIZE - 1); /* only sandboxes that stay have one */
}
static void no_descriptor(struct launcher_request *r) {
    r->fds = 0;
}
static void unknown_descriptor(struct launcher_request *r) {
    r->fds |= 4;
}
static void highest_descriptor_bit(struct launcher_request *r) {
    r->fds |= 1u << 31;
}
static void endless_id(struct launcher_request *r) {
    memset(r->spec.id, 'a', sizeof r->spec.id);
}
static void id_with_a_path(struct launcher_request *r) {
    memcpy(r->spec.id, "../../../../etc/", ID_SIZE);
}
static void short_id(struct launcher_request *r) {
    memcpy(r->spec.id, "abc", sizeof "abc");
}
static void upper_case_id(struct launcher_request *r) {
    memcpy(r->spec.id, "0123456789ABCDEF", ID_SIZE);
}
static void endless_owner(struct launcher_request *r) {
    memset(r->spec.owner, 'a', sizeof r->spec.owner);
}
static void owner_that_is_no_id(struct launcher_request *r) {
    memcpy(r->spec.owner, "\"x\"", sizeof "\"x\"");
}
static void endless_hostname(struct launcher_request *r) {
    memset(r->spec.hostname, 'a', sizeof r->spec.hostname);
}
static void hostname_with_a_line(struct launcher_request *r) {
    memcpy(r->spec.hostname, "a\nb", sizeof "a\nb");
}
static void hostname_with_a_slash(struct launcher_request *r) {
    memcpy(r->spec.hostname, "a/b", sizeof "a/b");
}
static void unknown_tier(struct launcher_request *r) {
    r->spec.tier = (enum tier)(TIER_FULL + 1);
}
static void negative_tier(struct launcher_request *r) {
    memset(&r->spec.tier, 0xff, sizeof r->spec.tier);
}
static void unknown_profile(struct launcher_request *r) {
    r->spec.profile = (enum profile)(PROFILE_BUILD + 1);
}
static void user_outside_the_range(struct launcher_request *r) {
    r->spec.run_uid = IDRANGE_SIZE;
}
static void no_user(struct launcher_request *r) {
    r->spec.run_uid = (uid_t)-1;
}
static void group_outside_the_range(struct launcher_request *r) {
    r->spec.run_gid = IDRANGE_SIZE;
}
static void flag_of_two(struct launcher_request *r) {
    memset(&r->spec.read_only, 2, 1);
}

#define CASE(function)                                                                             \
    { #function, function }
static const struct {
    const char *name;
    void (*spoil)(struct launcher_request *r);
} fields[] = {
    CASE(no_operation),
    CASE(unknown_operation),
    CASE(an_image),
    CASE(too_many_ready),
    CASE(an_odd_wish),
    CASE(an_endless_fingerprint),
    CASE(no_descriptor),
    CASE(unknown_descriptor),
    CASE(highest_descriptor_bit),
    CASE(endless_id),
    CASE(id_with_a_path),
    CASE(short_id),
    CASE(upper_case_id),
    CASE(endless_owner),
    CASE(owner_that_is_no_id),
    CASE(endless_hostname),
    CASE(hostname_with_a_line),
    CASE(hostname_with_a_slash),
    CASE(unknown_tier),
    CASE(negative_tier),
    CASE(unknown_profile),
    CASE(user_outside_the_range),
    CASE(no_user),
    CASE(group_outside_the_range),
    CASE(flag_of_two),
};

static void test_refuses_spoilt_fields(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        struct launcher_request r = sane();
        fields[i].spoil(&r);
        if (launcher_check(&r, launcher_request_size(0)) != -EINVAL)
            fail_msg("accepted: %s", fields[i].name);
    }
}

/* ---- sandboxes that stay ---- */

static const uint32_t bare_ops[] = {LAUNCHER_STOP,   LAUNCHER_PAUSE,  LAUNCHER_RESUME,
                                    LAUNCHER_REMOVE, LAUNCHER_RESIZE, LAUNCHER_STATS};

static struct launcher_request sane_kept(uint32_t op) {
    struct launcher_request r = sane();
    r.op = op;
    r.fds = op == LAUNCHER_KEEP ? LAUNCHER_LISTENER : 0;
    memcpy(r.spec.id, "0123456789abcdef", ID_SIZE);
    return r;
}

static int check_bare(const struct launcher_request *r) {
    return launcher_check(r, launcher_request_size(0));
}

static void test_keep_has_a_listener_an_id_and_an_image(void **state) {
    (void)state;
    static struct launcher_request r;
    r = sane_kept(LAUNCHER_KEEP);
    assert_int_equal(check_bare(&r), 0);
    memset(r.image, 'a', HEX_SIZE - 1);
    assert_int_equal(check_bare(&r), 0);
    set_mount(&r.mounts[0], "/usr", "/data");
    assert_int_equal(launcher_check(&r, launcher_request_size(1)), 0);
    set_mount(&r.mounts[0], "/usr", "/proc");
    assert_int_equal(launcher_check(&r, launcher_request_size(1)), -EINVAL);
    r.image[3] = '/';
    assert_int_equal(check_bare(&r), -EINVAL);
    memset(r.image, 'a', HEX_SIZE);
    assert_int_equal(check_bare(&r), -EINVAL);
    for (uint32_t fds = 0; fds < 8; fds++) {
        r = sane_kept(LAUNCHER_KEEP);
        r.fds = fds;
        assert_int_equal(check_bare(&r), fds == LAUNCHER_LISTENER ? 0 : -EINVAL);
    }
    r = sane_kept(LAUNCHER_KEEP);
    r.spec.id[0] = '\0';
    assert_int_equal(check_bare(&r), -EINVAL);
}

static void test_the_others_name_one_and_bring_nothing(void **state) {
    (void)state;
    static struct launcher_request r;
    for (size_t i = 0; i < ARRAY_LEN(bare_ops); i++) {
        r = sane_kept(bare_ops[i]);
        assert_int_equal(check_bare(&r), 0);
        set_mount(&r.mounts[0], "/usr", "/data");
        assert_int_equal(launcher_check(&r, launcher_request_size(1)), -EINVAL);
        assert_int_equal(launcher_check(&r, launcher_request_size(0) - 1), -EINVAL);
        r.fds = LAUNCHER_LISTENER;
        assert_int_equal(check_bare(&r), -EINVAL);
        r = sane_kept(bare_ops[i]);
        id_with_a_path(&r);
        assert_int_equal(check_bare(&r), -EINVAL);
        r.spec.id[0] = '\0';
        assert_int_equal(check_bare(&r), -EINVAL);
    }
}

static void test_a_list_begins_anywhere(void **state) {
    (void)state;
    static struct launcher_request r;
    r = sane_kept(LAUNCHER_LIST);
    assert_int_equal(check_bare(&r), 0);
    memset(r.spec.id, 0, sizeof r.spec.id);
    assert_int_equal(check_bare(&r), 0);
    endless_id(&r);
    assert_int_equal(check_bare(&r), -EINVAL);
}

/* ---- mounts ---- */

static const struct {
    const char *source, *target;
} mounts[] = {
    {"", "/data"},          {"relative", "/data"}, {"../usr", "/data"},
    {"/usr", ""},           {"/usr", "data"},      {"/usr", "/"},
    {"/usr", "//"},         {"/usr", "/."},        {"/usr", "/.."},
    {"/usr", "/data/.."},   {"/usr", "/../data"},  {"/usr", "/data/../../etc"},
    {"/usr", "/data/."},    {"/usr", "/data/"},    {"/usr", "//data"},
    {"/usr", "/proc"},      {"/usr", "/proc/sys"}, {"/usr", "/dev"},
    {"/usr", "/dev/shm/x"}, {"/usr", "/sys/fs"},
};

static void test_refuses_mounts(void **state) {
    (void)state;
    static struct launcher_request r;
    for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
        for (size_t at = 0; at < 2; at++) { /* the first, and one behind a good one */
            r = sane();
            set_mount(&r.mounts[0], "/usr", "/data");
            set_mount(&r.mounts[at], mounts[i].source, mounts[i].target);
            if (launcher_check(&r, launcher_request_size(at + 1)) != -EINVAL)
                fail_msg("accepted: '%s' at '%s'", mounts[i].source, mounts[i].target);
        }
}

static void test_names_near_reserved_ones_are_fine(void **state) {
    (void)state;
    static const char *const targets[] = {"/proc2", "/device", "/system",  "/data/proc",
                                          "/a..b",  "/...",    "/data/..x"};
    static struct launcher_request r;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        r = sane();
        set_mount(&r.mounts[0], "/usr", targets[i]);
        if (launcher_check(&r, launcher_request_size(1)) != 0)
            fail_msg("refused: '%s'", targets[i]);
    }
}

static void test_refuses_endless_paths_and_odd_flags(void **state) {
    (void)state;
    static struct launcher_request r;
    r = sane();
    set_mount(&r.mounts[0], "/usr", "/data");
    memset(r.mounts[0].source, '/', sizeof r.mounts[0].source);
    assert_int_equal(launcher_check(&r, launcher_request_size(1)), -EINVAL);
    set_mount(&r.mounts[0], "/usr", "/data");
    memset(r.mounts[0].target + 1, 'a', sizeof r.mounts[0].target - 1);
    assert_int_equal(launcher_check(&r, launcher_request_size(1)), -EINVAL);
    set_mount(&r.mounts[0], "/usr", "/data");
    memset(&r.mounts[0].read_only, 0x80, 1);
    assert_int_equal(launcher_check(&r, launcher_request_size(1)), -EINVAL);
}

static void test_what_is_kept_has_an_image(void **state) {
    (void)state;
    static const uint32_t ops[] = {LAUNCHER_ARCHIVE, LAUNCHER_SNAPSHOT};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct launcher_request r = {.op = ops[i]};
        memcpy(r.spec.id, "0123456789abcdef", ID_SIZE);
        assert_int_equal(launcher_check(&r, launcher_request_size(0)), -EINVAL);
        memset(r.image, 'a', HEX_SIZE - 1);
        assert_int_equal(launcher_check(&r, launcher_request_size(0)), 0);
        r.image[HEX_SIZE - 1] = 'a';
        assert_int_equal(launcher_check(&r, launcher_request_size(0)), -EINVAL);
        r.image[HEX_SIZE - 1] = '\0';
        r.spec.id[0] = '\0';
        assert_int_equal(launcher_check(&r, launcher_request_size(0)), -EINVAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_what_clients_send),
        cmocka_unit_test(test_accepts_any_number_of_mounts),
        cmocka_unit_test(test_refuses_every_other_length),
        cmocka_unit_test(test_end_is_a_bare_request),
        cmocka_unit_test(test_refuses_spoilt_fields),
        cmocka_unit_test(test_keep_has_a_listener_an_id_and_an_image),
        cmocka_unit_test(test_the_others_name_one_and_bring_nothing),
        cmocka_unit_test(test_a_list_begins_anywhere),
        cmocka_unit_test(test_what_is_kept_has_an_image),
        cmocka_unit_test(test_refuses_mounts),
        cmocka_unit_test(test_names_near_reserved_ones_are_fine),
        cmocka_unit_test(test_refuses_endless_paths_and_odd_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
