/* What a process may still open that restricted itself, tried in children. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/path.h"
#include "confine/landlock.h"

struct place {
    char folder[32];
    int fd; /* of the folder "own" in it */
};

/* 0, or errno of the attempt. */
static int opens(const char *path, int flags) {
    _cleanup_(closep) int fd = open(path, flags | O_CLOEXEC, 0700);
    return fd < 0 ? errno : 0;
}

static int setup(void **state) {
    static struct place p;
    memcpy(p.folder, "/tmp/landlock-test-XXXXXX", sizeof "/tmp/landlock-test-XXXXXX");
    assert_non_null(mkdtemp(p.folder));
    assert_int_equal(chdir(p.folder), 0);
    assert_int_equal(mkdir("own", 0700), 0);
    assert_int_equal(mkdir("own/more", 0700), 0);
    assert_int_equal(opens("secret", O_WRONLY | O_CREAT), 0);
    assert_int_equal(opens("own/file", O_WRONLY | O_CREAT), 0);
    p.fd = open("own", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(p.fd >= 0);
    *state = &p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    fd_close(&p->fd);
    return chdir("/") | path_remove_tree(AT_FDCWD, p->folder);
}

static int try_node(void) {
    return mknod("own/null", S_IFCHR | 0600, 0) < 0 ? errno : 0; /* 0:0, a mark of overlayfs */
}

static int try_program(void) {
    (void)execl("own/file", "file", NULL);
    return errno;
}

struct attempt {
    const char *path;
    int flags;
    int (*other)(void); /* in place of opening the path */
    int expected[4];    /* by right */
};

static const struct attempt attempts[] = {
    {"own/file", O_RDONLY, NULL, {0, 0, 0, 0}},
    {"own", O_RDONLY | O_DIRECTORY, NULL, {EACCES, 0, 0, 0}},
    {"own/file", O_WRONLY, NULL, {EACCES, EACCES, 0, 0}},
    {"own/file", O_RDWR | O_TRUNC, NULL, {EACCES, EACCES, 0, 0}},
    {"own/more/new", O_WRONLY | O_CREAT, NULL, {EACCES, EACCES, 0, 0}},
    {"secret", O_RDONLY, NULL, {EACCES, EACCES, EACCES, EACCES}},
    {"own/../secret", O_RDONLY, NULL, {EACCES, EACCES, EACCES, EACCES}},
    {"/etc/passwd", O_RDONLY, NULL, {EACCES, EACCES, EACCES, EACCES}},
    {"/", O_RDONLY | O_DIRECTORY, NULL, {EACCES, EACCES, EACCES, EACCES}},
    {"a node", 0, try_node, {EACCES, EACCES, EACCES, 0}},
    {"a program", 0, try_program, {EACCES, EACCES, EACCES, EACCES}},
};

static int make_attempt(const struct place *p, const struct attempt *a, enum landlock_right right) {
    const struct landlock_place places[] = {{p->fd, right}, {-1, LANDLOCK_FILL}};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        landlock_restrict_to(landlock_abi(), places, ARRAY_LEN(places)) < 0)
        return 255;
    return a->other != NULL ? a->other() : opens(a->path, a->flags);
}

static int in_child(const struct place *p, const struct attempt *a, enum landlock_right right) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(make_attempt(p, a, right));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_places(void **state) {
    if (landlock_abi() == 0)
        skip();
    for (size_t i = 0; i < ARRAY_LEN(attempts); i++)
        for (int right = LANDLOCK_READ; right <= LANDLOCK_FILL; right++) {
            bool needs_root = attempts[i].other == try_node && right == LANDLOCK_FILL;
            if (needs_root && geteuid() != 0)
                continue;
            int seen = in_child(*state, &attempts[i], (enum landlock_right)right);
            if (seen != attempts[i].expected[right])
                fail_msg("%s (%#x), right %d: %s", attempts[i].path, (unsigned)attempts[i].flags,
                         right, strerror(seen));
            (void)unlink("own/null");
        }
}

static int open_nothing(void) {
    return landlock_restrict_to(landlock_abi(), NULL, 0) < 0 ? 255 : opens("own/file", O_RDONLY);
}

static void test_no_place(void **state) {
    (void)state;
    if (landlock_abi() == 0)
        skip();
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? 255 : open_nothing());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), EACCES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_place, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
