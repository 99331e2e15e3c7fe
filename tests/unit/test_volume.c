/* Tests of what the launcher shows of the host, to whoever asks: a front that was taken over gets
 * no more. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/volume/volume.h"

enum { SOMEBODY = 4711 };

struct place {
    char top[64], state[96], of_root[96], of_user[96], link[96];
    int state_dir;
};

static void make(char out[static 96], const struct place *p, const char *name, uid_t owner) {
    assert_int_equal(str_format(out, 96, "%s/%s", p->top, name), 0);
    assert_int_equal(mkdir(out, 0755), 0);
    assert_int_equal(chown(out, owner, owner), 0);
}

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    *state = p;
    assert_non_null(p);
    if (geteuid() != 0)
        return 0;
    assert_int_equal(str_copy(p->top, sizeof p->top, "/tmp/cay-volume-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(p->top));
    make(p->state, p, "state", 0);
    make(p->of_root, p, "root", 0);
    make(p->of_user, p, "user", SOMEBODY);
    assert_int_equal(str_format(p->link, sizeof p->link, "%s/link", p->of_user), 0);
    assert_int_equal(symlink(p->of_root, p->link), 0);
    p->state_dir = open(p->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(p->state_dir >= 0);
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    if (p->top[0] != '\0') {
        (void)close(p->state_dir);
        assert_int_equal(path_remove_tree(AT_FDCWD, p->top), 0);
    }
    free(p);
    return 0;
}

static int ask(const struct volume_rules *rules, const char *source, bool read_only,
               enum volume_kind *ret, struct cay_error *err) {
    struct mount_spec m = {.read_only = read_only};
    assert_int_equal(str_copy(m.source, sizeof m.source, source), 0);
    _cleanup_(closep) int fd = volume_open(rules, &m, ret, err);
    return MIN(fd, 0);
}

static void test_no_folder_is_the_default(void **state) {
    const struct place *p = *state;
    const char *const none[] = {NULL};
    struct volume_rules rules = {.roots = none, .state_dir = p->state_dir};
    struct cay_error err = {0};
    enum volume_kind kind;
    if (geteuid() != 0)
        skip();
    for (int read_only = 0; read_only < 2; read_only++) {
        assert_int_equal(ask(&rules, p->of_user, read_only, &kind, &err), -CAY_FORBIDDEN);
        assert_non_null(strstr(err.message, "this daemon shows none"));
        assert_non_null(strstr(err.remedy, "volume_folders"));
    }
}

static void test_root_is_not_mapped(void **state) {
    const struct place *p = *state;
    const char *const roots[] = {p->top, NULL};
    struct volume_rules rules = {.roots = roots, .state_dir = p->state_dir};
    struct cay_error err = {0};
    enum volume_kind kind;
    if (geteuid() != 0)
        skip();
    assert_int_equal(ask(&rules, p->of_root, false, &kind, &err), -CAY_FORBIDDEN);
    assert_non_null(strstr(err.remedy, "volume_root_folders"));
    assert_int_equal(ask(&rules, p->link, false, &kind, &err), -CAY_FORBIDDEN);
    assert_int_equal(ask(&rules, p->of_root, true, &kind, &err), 0);
    assert_int_equal(kind, VOLUME_UNMAPPED);
    assert_int_equal(ask(&rules, p->of_user, false, &kind, &err), 0);
    assert_int_equal(kind, VOLUME_FOLDER);
    /* with Docker root inside is root outside, whoever owns the folder */
    rules.own_userns = rules.shares_root = true;
    assert_int_equal(ask(&rules, p->of_user, false, &kind, &err), -CAY_FORBIDDEN);
    assert_int_equal(ask(&rules, p->of_user, true, &kind, &err), -CAY_FORBIDDEN);
}

static void test_root_is_mapped_by_name(void **state) {
    const struct place *p = *state;
    char named[128];
    const char *const roots[] = {p->top, named, NULL};
    struct volume_rules rules = {.roots = roots, .state_dir = p->state_dir};
    struct cay_error err = {0};
    enum volume_kind kind;
    if (geteuid() != 0)
        skip();
    assert_int_equal(str_format(named, sizeof named, VOLUME_ROOT_PREFIX "%s", p->of_root), 0);
    assert_true(volume_root_is_valid(named) && volume_root_is_valid("/"));
    assert_false(volume_root_is_valid("root:tmp") || volume_root_is_valid("tmp"));
    assert_int_equal(ask(&rules, p->of_root, false, &kind, &err), 0);
    assert_int_equal(kind, VOLUME_FOLDER);
    assert_int_equal(ask(&rules, p->state, false, &kind, &err), -CAY_FORBIDDEN);
    rules.own_userns = rules.shares_root = true;
    assert_int_equal(ask(&rules, p->of_root, false, &kind, &err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_folder_is_the_default, setup, teardown),
        cmocka_unit_test_setup_teardown(test_root_is_not_mapped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_root_is_mapped_by_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
