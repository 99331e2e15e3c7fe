/* Tests of id ranges and of the marks of those that outlive their lease, on the host's own lease
 * file: what is leased here is given back at once. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/idrange.h"
#include "confine/process.h"

static void need_root(void) {
    if (geteuid() != 0)
        skip(); /* /run is root's */
}

static struct idrange lease(void) {
    struct idrange r = IDRANGE_EMPTY;
    struct cay_error err = {0};
    if (idrange_lease(&r, &err) < 0)
        fail_msg("%s", err.message);
    return r;
}

static uid_t take(int file, unsigned *hint) {
    uid_t base = 0;
    assert_int_equal(idrange_take(file, hint, NULL, &base, NULL), 0);
    return base;
}

/* What somebody gets who begins to look at this range. */
static uid_t take_from(uid_t base) {
    unsigned hint = (base - IDRANGE_FIRST) / IDRANGE_SIZE;
    _cleanup_(closep) int file = idrange_open(NULL);
    return take(file, &hint);
}

static void mark(const struct idrange *r, pid_t pid, uint64_t start) {
    assert_int_equal(idrange_mark(r, pid, start, NULL), 0);
}

static uint64_t start_of(pid_t pid) {
    uint64_t start = 0;
    assert_int_equal(process_start_time(pid, &start), 0);
    return start;
}

static void test_leases_exclude_each_other(void **state) {
    (void)state;
    need_root();
    struct idrange a = lease(), b = lease();
    assert_int_not_equal(a.base, b.base);
    assert_int_not_equal(take_from(a.base), a.base);
    idrange_release(&a);
    idrange_release(&b);
}

static void test_one_of_many_is_given_back(void **state) {
    (void)state;
    need_root();
    unsigned hint = (unsigned)getpid();
    int file = idrange_open(NULL);
    uid_t a = take(file, &hint), b = take(file, &hint);
    assert_int_not_equal(a, b);
    assert_int_not_equal(take_from(a), a);
    idrange_give_back(file, a);
    assert_int_not_equal(take_from(b), b);
    struct idrange again;
    assert_int_equal(idrange_lease_again(a, &again, NULL), 0);
    idrange_release(&again);
    (void)close(file);
}

static unsigned index_of(uid_t base) {
    assert_true(base >= IDRANGE_FIRST && base < IDRANGE_HIGH && base % IDRANGE_SIZE == 0);
    return (base - IDRANGE_FIRST) / IDRANGE_SIZE;
}

/* Others have leases meanwhile, so what comes next is not known, only where it cannot be. */
static void test_behind_the_last_comes_the_first(void **state) {
    (void)state;
    need_root();
    _cleanup_(closep) int file = idrange_open(NULL);
    unsigned hint = IDRANGE_LOW - 1;
    unsigned last = index_of(take(file, &hint)), next = index_of(take(file, &hint));
    assert_in_range(last, 0, IDRANGE_LOW - 1);
    assert_in_range(next, 0, IDRANGE_LOW - 2);
    assert_int_not_equal(last, next);
}

static bool holds_low(const void *user, uid_t base) {
    (void)user;
    return base < IDRANGE_HIGH;
}

static void test_who_has_the_low_ones_gets_high_ones(void **state) {
    (void)state;
    need_root();
    _cleanup_(closep) int file = idrange_open(NULL);
    const struct idrange_holder holder = {holds_low, NULL};
    struct idrange again = IDRANGE_EMPTY;
    unsigned hint = 0;
    uid_t base, next;
    assert_int_equal(idrange_take(file, &hint, &holder, &base, NULL), 0);
    assert_int_equal(idrange_take(file, &hint, &holder, &next, NULL), 0);
    assert_true(base >= IDRANGE_HIGH && next >= IDRANGE_HIGH && base != next);
    assert_int_equal((base - IDRANGE_HIGH) % IDRANGE_SIZE, 0);
    assert_int_equal(idrange_lease_again(base, &again, NULL), -CAY_CONFLICT);
    idrange_give_back(file, base);
    assert_int_equal(idrange_lease_again(base, &again, NULL), 0);
    idrange_release(&again);
    assert_int_equal(idrange_lease_again(ROLE_IDS_FIRST, &again, NULL), -CAY_INVALID_ARGUMENT);
    assert_int_equal(idrange_lease_again(IDRANGE_HIGH - IDRANGE_SIZE, &again, NULL),
                     -CAY_INVALID_ARGUMENT);
}

struct holder {
    uid_t v[4];
    size_t count;
};

static bool holds(const void *user, uid_t base) {
    const struct holder *h = user;
    for (size_t i = 0; i < h->count; i++)
        if (h->v[i] == base)
            return true;
    return false;
}

/* A lock lets its own descriptor in again: two sandboxes would have the same ids. */
static void test_who_comes_around_gets_none_of_its_own(void **state) {
    (void)state;
    need_root();
    _cleanup_(closep) int file = idrange_open(NULL);
    struct holder h = {.count = 0};
    const struct idrange_holder holder = {holds, &h};
    unsigned start = (unsigned)getpid();
    while (h.count < ARRAY_LEN(h.v)) {
        unsigned hint = start + IDRANGE_COUNT * (unsigned)h.count; /* at the same place again */
        uid_t base;
        assert_int_equal(idrange_take(file, &hint, &holder, &base, NULL), 0);
        assert_false(holds(&h, base));
        h.v[h.count++] = base;
    }
}

static bool holds_all(const void *user, uid_t base) {
    (void)user;
    (void)base;
    return true;
}

static void test_who_has_all_gets_no_more(void **state) {
    (void)state;
    need_root();
    _cleanup_(closep) int file = idrange_open(NULL);
    const struct idrange_holder holder = {holds_all, NULL};
    struct cay_error err = {0};
    unsigned hint = 0;
    uid_t base;
    assert_int_equal(idrange_take(file, &hint, &holder, &base, &err), -CAY_LIMIT_REACHED);
    assert_string_not_equal(err.remedy, "");
}

static void test_a_mark_counts_without_the_lease(void **state) {
    (void)state;
    need_root();
    struct idrange r = lease(), again = IDRANGE_EMPTY;
    uid_t base = r.base;
    mark(&r, getpid(), start_of(getpid()));
    idrange_release(&r);
    assert_int_not_equal(take_from(base), base);
    assert_int_not_equal(take_from(base), base); /* looking does not take it away */
    assert_int_equal(idrange_lease_again(base, &again, NULL), 0);
    mark(&again, 0, 0);
    idrange_release(&again);
}

static void test_a_mark_of_the_dead_counts_not(void **state) {
    (void)state;
    need_root();
    struct idrange r = lease();
    uid_t base = r.base;
    mark(&r, getpid(), start_of(getpid()) + 1); /* another one with this number */
    idrange_release(&r);
    assert_int_equal(take_from(base), base);
    r = (struct idrange)IDRANGE_EMPTY;
    assert_int_equal(idrange_lease_again(base, &r, NULL), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(pause());
    mark(&r, pid, start_of(pid));
    idrange_release(&r);
    assert_int_not_equal(take_from(base), base);
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(take_from(base), base);
}

static void test_a_lease_cannot_be_had_twice(void **state) {
    (void)state;
    need_root();
    struct idrange r = lease(), again = IDRANGE_EMPTY;
    struct cay_error err = {0};
    assert_int_equal(idrange_lease_again(r.base, &again, &err), -CAY_CONFLICT);
    assert_int_equal(again.lock, -1);
    idrange_release(&r);
}

static void test_bases_that_are_none(void **state) {
    (void)state;
    need_root();
    const uid_t bases[] = {
        0, 1, IDRANGE_FIRST - IDRANGE_SIZE, IDRANGE_FIRST + 1, ROLE_IDS_FIRST, UINT32_MAX};
    struct idrange r = IDRANGE_EMPTY;
    for (size_t i = 0; i < ARRAY_LEN(bases); i++)
        assert_int_equal(idrange_lease_again(bases[i], &r, NULL), -CAY_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leases_exclude_each_other),
        cmocka_unit_test(test_one_of_many_is_given_back),
        cmocka_unit_test(test_behind_the_last_comes_the_first),
        cmocka_unit_test(test_who_has_the_low_ones_gets_high_ones),
        cmocka_unit_test(test_who_comes_around_gets_none_of_its_own),
        cmocka_unit_test(test_who_has_all_gets_no_more),
        cmocka_unit_test(test_a_mark_counts_without_the_lease),
        cmocka_unit_test(test_a_mark_of_the_dead_counts_not),
        cmocka_unit_test(test_a_lease_cannot_be_had_twice),
        cmocka_unit_test(test_bases_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
