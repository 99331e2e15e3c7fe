/* Tests of the ids of the daemon's own processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/role_ids.h"

#define HALF (ROLE_IDS_FIRST + (uid_t)IDRANGE_SIZE / 2)

static void need_root(void) {
    if (geteuid() != 0)
        skip();
}

/* A state folder that no other process of this machine has. */
static const char *folder(void) {
    static char path[64];
    (void)snprintf(path, sizeof path, "/nowhere/%d", (int)getpid());
    return path;
}

static void test_a_folder_keeps_its_block(void **state) {
    (void)state;
    need_root();
    struct role_ids first = ROLE_IDS_EMPTY, again = ROLE_IDS_EMPTY;
    assert_int_equal(role_ids_lease(folder(), 0, &first, NULL), 0);
    assert_true(first.base >= ROLE_IDS_FIRST && first.base < HALF);
    assert_int_equal(first.base % ROLES_MAX, 0);
    uid_t former = role_id(&first, ROLE_FRONT);
    role_ids_release(&first);
    assert_int_equal(role_ids_lease("/another/path", former, &again, NULL), 0);
    assert_int_equal(again.base, former);
    role_ids_release(&again);
}

static void test_two_daemons_share_no_id(void **state) {
    (void)state;
    need_root();
    struct role_ids a = ROLE_IDS_EMPTY, b = ROLE_IDS_EMPTY;
    assert_int_equal(role_ids_lease(folder(), 0, &a, NULL), 0);
    assert_int_equal(role_ids_lease(folder(), role_id(&a, ROLE_FRONT), &b, NULL), 0);
    assert_int_not_equal(a.base, b.base);
    role_ids_release(&a);
    role_ids_release(&b);
}

/* Owners that no daemon has given. */
static void test_other_owners_do_not_count(void **state) {
    (void)state;
    need_root();
    static const uid_t owners[] = {0, 1000, ROLE_IDS_FIRST - 1, HALF, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        struct role_ids ids = ROLE_IDS_EMPTY;
        assert_int_equal(role_ids_lease(folder(), owners[i], &ids, NULL), 0);
        assert_true(ids.base >= ROLE_IDS_FIRST && ids.base < HALF);
        role_ids_release(&ids);
    }
}

static void test_runs_have_blocks_apart(void **state) {
    (void)state;
    need_root();
    struct role_ids a = ROLE_IDS_EMPTY, b = ROLE_IDS_EMPTY;
    assert_int_equal(role_ids_lease_run(&a, NULL), 0);
    assert_int_equal(role_ids_lease_run(&b, NULL), 0);
    assert_int_not_equal(a.base, b.base);
    assert_true(a.base >= HALF && b.base >= HALF);
    assert_true(MAX(a.base, b.base) + ROLES_MAX <= ROLE_IDS_FIRST + (uid_t)IDRANGE_SIZE);
    role_ids_release(&a);
    role_ids_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_folder_keeps_its_block),
        cmocka_unit_test(test_two_daemons_share_no_id),
        cmocka_unit_test(test_other_owners_do_not_count),
        cmocka_unit_test(test_runs_have_blocks_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
