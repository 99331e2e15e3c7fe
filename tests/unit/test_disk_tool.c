/* Tests of how programs are confined that read a file system of a sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/disk/tool.h"

enum { UID = 0x7fff0000, SIZE = 4096 };

/* What a shell says in the file that it was given, which is descriptor 3 there. */
static int ask(const char *script, char said[static SIZE]) {
    struct cay_error err = {0};
    const char *const words[] = {"-c", script, NULL};
    _cleanup_(closep) int file = memfd_create("disk", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, SIZE), 0);
    int r = disk_tool_run_confined("sh", words, file, UID, &err);
    assert_int_equal(pread(file, said, SIZE - 1, 0), SIZE - 1);
    said[SIZE - 1] = '\0';
    struct stat st;
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_uid, 0); /* again */
    assert_int_equal(st.st_size, SIZE);
    return r;
}

static void test_it_has_no_rights(void **state) {
    char said[SIZE];
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(ask("cat /proc/self/status >&3", said), 0);
    assert_non_null(strstr(said, "Uid:\t2147418112\t2147418112\t2147418112\t2147418112\n"));
    assert_non_null(strstr(said, "Gid:\t2147418112\t2147418112\t2147418112\t2147418112\n"));
    assert_non_null(strstr(said, "Groups:\t \n"));
    assert_non_null(strstr(said, "CapPrm:\t0000000000000000\n"));
    assert_non_null(strstr(said, "NoNewPrivs:\t1\n"));
    assert_non_null(strstr(said, "Seccomp:\t2\n"));
}

static void test_it_reaches_nothing(void **state) {
    char said[SIZE];
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(ask("cat /proc/net/dev >&3", said), 0);
    assert_null(strstr(said, "eth"));
    assert_int_equal(ask("ls /proc/self/fd >&3", said), 0);
    assert_null(strstr(said, "5\n")); /* streams, the file, and what ls opens */
    assert_int_not_equal(ask("head -c 8192 /dev/zero >&3", said), 0); /* the file does not grow */
    assert_int_equal(ask("exit 4", said), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_has_no_rights),
        cmocka_unit_test(test_it_reaches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
