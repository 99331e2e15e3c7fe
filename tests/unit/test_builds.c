/* Tests of builds: who runs them, what they say, how they end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/build/builds.h"
#include "api/images.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

/* What the Dockerfile says is what happens: "ok", "wait" until it is given up, or an error. */
static int fake_build(void *user, const struct image_build_order *order, char id[static HEX_SIZE],
                      struct cay_error *err) {
    (void)user;
    _cleanup_(buf_free) struct buf text = BUF_INIT(4096);
    assert_int_equal(fd_read_to_end(order->dockerfile, &text), 0);
    assert_int_equal(fd_write_all(order->log, "one\ntwo\x1b\n\n", 10), 0);
    if (str_equal(text.data, "wait")) {
        struct pollfd p = {.fd = order->cancel, .events = POLLIN};
        assert_int_equal(poll(&p, 1, -1), 1);
        return error_set(err, CAY_CONFLICT, "given up");
    }
    memset(id, 'a', HEX_SIZE - 1);
    id[HEX_SIZE - 1] = '\0';
    if (str_equal(text.data, "ok"))
        return 0;
    error_set(err, CAY_INTERNAL, "%s", text.data);
    return error_remedy(err, "do better");
}

/* Eight for each owner. */
static _Atomic int charged_ann;

static int fake_take(void *user, const char *owner, struct cay_error *err) {
    (void)user;
    if (!str_equal(owner, "ann"))
        return 0;
    if (charged_ann == 8)
        return error_set(err, CAY_LIMIT_REACHED, "no more");
    charged_ann++;
    return 0;
}

static void fake_give(void *user, const char *owner) {
    (void)user;
    charged_ann -= str_equal(owner, "ann");
}

static const struct image_ops ops = {
    .build = fake_build, .take_build = fake_take, .give_build = fake_give};
static const struct key admin = {.scopes = SCOPE_ADMIN};
static const struct key ann = {.id = "ann", .scopes = SCOPE_SANDBOXES};
static const struct key bob = {.id = "bob", .scopes = SCOPE_SANDBOXES};

static int setup(void **state) {
    return builds_new(&ops, (struct builds **)state, NULL);
}

static int teardown(void **state) {
    builds_free(*state);
    return 0;
}

static struct build *add(struct builds *b, const char *name, const char *text) {
    struct build *one = NULL;
    assert_int_equal(builds_add(b, "ann", "", name, text, &one, NULL), 0);
    return one;
}

static enum build_state state_of(struct build *one) {
    struct build_view view;
    build_look(one, &view);
    return view.state;
}

static enum build_state wait_for_end(struct build *one) {
    char piece[64];
    size_t at = 0;
    ssize_t n;
    while ((n = build_read_log(one, at, piece, sizeof piece, 60000)) > 0)
        at += (size_t)n;
    assert_int_equal(n, 0);
    return state_of(one);
}

static void test_for_a_sandbox(void **state) {
    char id[HEX_SIZE], log[64];
    struct build_view view;
    struct cay_error err = {0};
    _cleanup_(build_unrefp) struct build *one = add(*state, "", "ok");
    build_look(one, &view);
    assert_true(builds_is_name(view.name));
    assert_int_equal(view.state, BUILD_PENDING);
    assert_int_equal(build_read_log(one, 0, log, sizeof log, 0), -EAGAIN);
    assert_int_equal(builds_run(*state, view.name, -1, id, &err), 0);
    assert_int_equal(id[0], 'a');
    assert_int_equal(state_of(one), BUILD_DONE);
    assert_int_equal(build_read_log(one, 8, log, sizeof log, 0), 2);
    assert_int_equal(build_read_log(one, 10, log, sizeof log, 0), 0);
    /* once is enough */
    assert_int_equal(builds_run(*state, view.name, -1, id, &err), -CAY_NOT_FOUND);
    assert_int_equal(builds_run(*state, "cay-build/00", -1, id, &err), -CAY_NOT_FOUND);
    assert_false(builds_is_name("x"));
}

static void test_a_failure_says_why(void **state) {
    char id[HEX_SIZE], log[256] = "";
    struct build_view view;
    struct cay_error err = {0};
    _cleanup_(build_unrefp) struct build *one = add(*state, "", "it broke");
    build_look(one, &view);
    for (int i = 0; i < 2; i++) { /* who asks again is told the same */
        int r = builds_run(*state, view.name, -1, id, &err);
        assert_int_equal(r, i == 0 ? -CAY_INTERNAL : -CAY_CONFLICT);
        assert_string_equal(err.message, "it broke; its log ends with: two\\x1b");
        assert_string_not_equal(err.remedy, "");
    }
    build_look(one, &view);
    assert_int_equal(view.state, BUILD_FAILED);
    assert_string_equal(view.reason, err.message);
    assert_true(build_read_log(one, 0, log, sizeof log - 1, 0) > 0);
    assert_non_null(strstr(log, "error: it broke; do better\n"));
}

static void test_cancelled_by_who_runs_it(void **state) {
    char id[HEX_SIZE];
    struct build_view view;
    _cleanup_(closep) int cancel = eventfd(1, EFD_CLOEXEC);
    _cleanup_(build_unrefp) struct build *one = add(*state, "", "wait");
    build_look(one, &view);
    assert_int_equal(builds_run(*state, view.name, cancel, id, NULL), -CAY_CONFLICT);
}

static void test_snapshots(void **state) {
    struct cay_error err = {0};
    struct build_view view;
    struct build *again = NULL;
    struct build *one = add(*state, "a", "wait"), *two = NULL, *three = add(*state, "c", "ok");
    assert_int_equal(builds_add(*state, "bob", "", "a", "wait", &two, &err), 0); /* his own "a" */
    assert_int_equal(builds_start(one, &view, NULL), 0);
    assert_int_equal(builds_start(two, &view, NULL), 0);
    assert_int_equal(builds_start(three, &view, NULL), 0);
    assert_int_equal(state_of(one), BUILD_RUNNING);
    assert_int_equal(state_of(two), BUILD_RUNNING);
    assert_int_equal(state_of(three), BUILD_PENDING); /* two at a time, one of each key */
    assert_int_equal(builds_start(one, &view, &err), -CAY_CONFLICT);
    assert_int_equal(builds_add(*state, "ann", "", "a", "ok", &again, &err), -CAY_CONFLICT);
    assert_int_equal(builds_drop(one), BUILD_FAILED);
    assert_int_equal(wait_for_end(three), BUILD_DONE);
    assert_null(builds_find(*state, &ann, "a"));
    struct build *other = builds_find(*state, &bob, "a");
    assert_ptr_equal(other, two);
    build_unref(other);
    assert_int_equal(builds_drop(two), BUILD_FAILED);
    assert_int_equal(builds_drop(three), BUILD_DONE);
    build_unref(one);
    build_unref(two);
    build_unref(three);
}

/* A key that has a place waits for it, though there is another one. */
static void test_a_key_has_one_place(void **state) {
    struct build_view view;
    struct build *one = add(*state, "a", "wait"), *two = add(*state, "b", "ok");
    assert_int_equal(builds_start(one, &view, NULL), 0);
    assert_int_equal(builds_start(two, &view, NULL), 0);
    assert_int_equal(state_of(two), BUILD_PENDING);
    assert_int_equal(builds_drop(one), BUILD_FAILED);
    assert_int_equal(wait_for_end(two), BUILD_DONE);
    build_unref(one);
    build_unref(two);
}

static void count(void *user, const struct build_view *view) {
    assert_string_equal(view->name, "a");
    ++*(int *)user;
}

static void test_who_sees_what(void **state) {
    static const struct {
        const struct key *key;
        int seen;
    } rows[] = {{&ann, 1}, {&bob, 0}, {&admin, 1}};
    struct build_view view;
    _cleanup_(build_unrefp) struct build *one = add(*state, "a", "x");
    _cleanup_(build_unrefp) struct build *other = add(*state, "", "x");
    assert_non_null(other); /* without a name it is in no list */
    assert_int_equal(builds_start(one, &view, NULL), 0);
    assert_int_equal(view.state, BUILD_RUNNING); /* although it may have ended already */
    assert_int_equal(wait_for_end(one), BUILD_FAILED);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int seen = 0;
        builds_each(*state, rows[i].key, count, &seen);
        assert_int_equal(seen, rows[i].seen);
        _cleanup_(build_unrefp) struct build *found = builds_find(*state, rows[i].key, "a");
        assert_int_equal(found != NULL, rows[i].seen);
    }
    /* a failed one is in nobody's way */
    _cleanup_(build_unrefp) struct build *again = add(*state, "a", "ok");
    assert_int_equal(state_of(again), BUILD_PENDING);
}

static void test_limits(void **state) {
    struct cay_error err = {0};
    struct build *one = NULL;
    for (int i = 0; i < 8; i++)
        build_unref(add(*state, "", "ok"));
    assert_int_equal(builds_add(*state, "ann", "", "", "ok", &one, &err), -CAY_LIMIT_REACHED);
    assert_int_equal(builds_add(*state, "bob", "", "", "ok", &one, &err), 0);
    build_unref(one);
    assert_int_equal(charged_ann, 8);
}

/* What has ended, or is forgotten, is charged no more. */
static void test_ends_are_discharged(void **state) {
    struct cay_error err = {0};
    char id[HEX_SIZE];
    struct build_view view;
    _cleanup_(build_unrefp) struct build *good = add(*state, "", "ok"),
                                         *bad = add(*state, "", "no");
    assert_int_equal(charged_ann, 2);
    build_look(good, &view);
    assert_int_equal(builds_run(*state, view.name, -1, id, &err), 0);
    assert_int_equal(charged_ann, 1);
    build_look(bad, &view);
    assert_true(builds_run(*state, view.name, -1, id, &err) < 0);
    assert_int_equal(charged_ann, 0);
}

/* A folder of builds, as a daemon and the next one have it. */
static struct builds *open_kept(const char *folder) {
    struct builds *b = NULL;
    assert_int_equal(builds_new(&ops, &b, NULL), 0);
    assert_int_equal(builds_keep(b, folder, NULL), 0);
    return b;
}

static void assert_log(struct build *one, const char *part) {
    char log[512] = "";
    assert_true(build_read_log(one, 0, log, sizeof log - 1, 60000) > 0);
    if (strstr(log, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, log);
}

static size_t count_files(const char *folder) {
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

/* The daemon of before ends at once: its files are copied as they are. */
static void copy_files(const char *from, const char *to) {
    DIR *dir = opendir(from);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char a[512], b[512];
        (void)snprintf(a, sizeof a, "%s/%s", from, e->d_name);
        (void)snprintf(b, sizeof b, "%s/%s", to, e->d_name);
        if (e->d_name[0] != '.')
            assert_int_equal(link(a, b), 0);
    }
    (void)closedir(dir);
}

static void test_after_a_restart(void **state) {
    (void)state;
    char folder[] = "/tmp/builds-XXXXXX", other[] = "/tmp/builds-XXXXXX";
    struct build_view view;
    assert_non_null(mkdtemp(folder));
    assert_non_null(mkdtemp(other));
    struct builds *b = open_kept(folder);
    struct build *bad = add(b, "bad", "it broke"), *good = add(b, "good", "ok"),
                 *long_one = add(b, "long", "wait");
    assert_int_equal(builds_start(bad, &view, NULL), 0);
    assert_int_equal(wait_for_end(bad), BUILD_FAILED);
    assert_int_equal(builds_start(good, &view, NULL), 0);
    assert_int_equal(wait_for_end(good), BUILD_DONE);
    assert_int_equal(builds_start(long_one, &view, NULL), 0);
    assert_log(long_one, "one");
    copy_files(folder, other);
    struct builds *next = open_kept(other);
    struct build *bad2 = builds_find(next, &ann, "bad"), *good2 = builds_find(next, &ann, "good"),
                 *long2 = builds_find(next, &ann, "long");
    assert_non_null(bad2);
    assert_non_null(good2);
    assert_non_null(long2);
    assert_null(builds_find(next, &bob, "bad"));
    build_look(bad2, &view);
    assert_int_equal(view.state, BUILD_FAILED);
    assert_non_null(strstr(view.reason, "it broke"));
    assert_log(bad2, "it broke");
    assert_int_equal(state_of(good2), BUILD_DONE);
    build_look(long2, &view);
    assert_int_equal(view.state, BUILD_FAILED);
    assert_non_null(strstr(view.reason, "the daemon ended"));
    assert_log(long2, "the daemon ended");
    assert_int_equal(builds_drop(bad2), BUILD_FAILED);
    assert_int_equal(count_files(other), 2);
    build_unref(bad);
    build_unref(good);
    build_unref(long_one);
    builds_free(b);
    assert_int_equal(count_files(folder), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(builds_drop(good2), BUILD_DONE);
    assert_int_equal(builds_drop(long2), BUILD_FAILED);
    assert_int_equal(rmdir(other), 0);
    build_unref(bad2);
    build_unref(good2);
    build_unref(long2);
    builds_free(next);
}

static void test_files_that_are_none(void **state) {
    (void)state;
    char folder[] = "/tmp/builds-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/0123456789abcdef", folder);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, "rubbish", 7), 0);
    builds_free(open_kept(folder));
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_for_a_sandbox, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_failure_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_by_who_runs_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_snapshots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_key_has_one_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_sees_what, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_are_discharged, setup, teardown),
        cmocka_unit_test(test_after_a_restart),
        cmocka_unit_test(test_files_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
