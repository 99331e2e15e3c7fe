/* Long outputs that the daemon keeps: whose they are, how much, how long. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/toolbox/outputs.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "manager/record/key.h"

static char folder[64];
static const struct outputs_rules small = {
    .one_bytes = 100, .owner_bytes = 150, .all_bytes = 200, .keep_ms = 3600 * 1000};

static int make_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/cay-outputs-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    return path_remove_tree(AT_FDCWD, folder);
}

static struct outputs *begin(const struct outputs_rules *rules) {
    struct outputs *o = NULL;
    struct cay_error err;
    assert_int_equal(outputs_open(folder, rules, &o, &err), 0);
    return o;
}

static size_t count_files(void) {
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    const struct dirent *e;
    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static struct output print(struct outputs *o, const char *owner, size_t len) {
    char data[256];
    memset(data, 'x', sizeof data);
    struct output w;
    output_begin(o, owner, &w);
    output_add(&w, data, len / 2);
    output_add(&w, data, len - len / 2);
    output_end(&w, true);
    return w;
}

static int look(struct outputs *o, const char *who, unsigned scopes, const char *id,
                uint64_t *ret_bytes) {
    struct cay_error err;
    struct key key = {.scopes = scopes};
    (void)snprintf(key.id, sizeof key.id, "%s", who);
    int fd = outputs_find(o, &key, id, ret_bytes, &err);
    int r = MIN(fd, 0);
    fd_close(&fd);
    return r;
}

static void test_whose_they_are(void **state) {
    (void)state;
    uint64_t bytes = 0;
    struct outputs *o = begin(&small);
    struct output w = print(o, "a", 30);
    assert_int_equal(look(o, "a", SCOPE_SANDBOXES, w.id, &bytes), 0);
    assert_int_equal(bytes, 30);
    assert_int_equal(look(o, "b", SCOPE_SANDBOXES, w.id, &bytes), -CAY_NOT_FOUND);
    assert_int_equal(look(o, "", SCOPE_ADMIN, w.id, &bytes), 0);
    static const char *const none[] = {"", ".", "..", "0123456789abcdef", "../outputs.c"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_int_equal(look(o, "a", SCOPE_ADMIN, none[i], &bytes), -CAY_NOT_FOUND);
    outputs_free(o);
}

static void test_how_much(void **state) {
    (void)state;
    struct outputs *o = begin(&small);
    static const struct {
        const char *owner;
        size_t len, kept;
    } cases[] = {{"a", 100, 100}, {"a", 60, 50}, {"a", 1, 0}, {"b", 120, 50}, {"c", 1, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct output w = print(o, cases[i].owner, cases[i].len);
        assert_int_equal(w.size, cases[i].kept);
        assert_int_equal(w.is_cut, cases[i].kept < cases[i].len);
    }
    outputs_free(o);
    o = begin(&small);
    assert_int_equal(count_files(), 0);
    assert_int_equal(print(o, "a", 101).size, 100);
    outputs_free(o);
}

/* A disk that is full, here by a limit of the process: what is not there is not counted. */
static void test_what_cannot_be_written(void **state) {
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit few = {.rlim_cur = 40, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct outputs *o = begin(&small);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    struct output w = print(o, "a", 60); /* in halves */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(w.size, 30);
    assert_true(w.is_cut);
    outputs_free(o);
}

static void test_how_many(void **state) {
    (void)state;
    struct outputs *o = begin(&outputs_rules);
    static const struct {
        const char *owner;
        int most; /* half of what is free */
    } cases[] = {{"a", 32}, {"b", 16}, {"c", 8}, {"a", 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (int n = 0; n < cases[i].most; n++)
            assert_int_equal(print(o, cases[i].owner, 1).size, 1);
        struct output w = print(o, cases[i].owner, 1);
        assert_string_equal(w.id, "");
        assert_int_equal(w.size, 0);
    }
    assert_int_equal(count_files(), 32 + 16 + 8);
    outputs_free(o);
}

static void test_what_is_not_kept(void **state) {
    (void)state;
    uint64_t bytes;
    struct outputs *o = begin(&small);
    struct output w;
    output_begin(o, "a", &w);
    output_add(&w, "abc", 3);
    assert_int_equal(look(o, "a", SCOPE_SANDBOXES, w.id, &bytes), -CAY_NOT_FOUND); /* not whole */
    output_end(&w, false);
    assert_int_equal(count_files(), 0);
    outputs_free(o);
}

static void test_how_long(void **state) {
    (void)state;
    struct outputs_rules rules = small;
    rules.keep_ms = 50;
    struct outputs *o = begin(&rules);
    struct output w = print(o, "a", 100);
    for (int i = 0; i < 2000 && count_files() > 0; i++) /* 20 s */
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    uint64_t bytes;
    assert_int_equal(count_files(), 0);
    assert_int_equal(look(o, "a", SCOPE_SANDBOXES, w.id, &bytes), -CAY_NOT_FOUND);
    assert_int_equal(print(o, "a", 100).size, 100); /* there is room again */
    outputs_free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whose_they_are, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_how_much, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_how_many, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_what_is_not_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_how_long, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
