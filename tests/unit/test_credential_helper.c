#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "imager/registry/credential_helper.h"
#include "imager/registry/credentials.h"

static char folder[] = "/tmp/helper-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    char path[sizeof folder + 32];
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    return setenv("PATH", path, 1);
}

static int remove_folder(void **state) {
    (void)state;
    return path_remove_tree(AT_FDCWD, folder);
}

static void write_helper(const char *script) {
    char path[sizeof folder + 64];
    (void)snprintf(path, sizeof path, "%s/docker-credential-test", folder);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, script, strlen(script)), 0);
}

/* The process that wrote its number into `pid` is gone; one that is dying may take a moment. */
static bool is_gone(void) {
    char path[sizeof folder + 8], text[32];
    (void)snprintf(path, sizeof path, "%s/pid", folder);
    assert_true(fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    assert_true(pid > 1);
    for (int64_t deadline = clock_deadline(30000); !clock_expired(deadline);) {
        char name[64], stat[512];
        (void)snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
        if (fd_read_file_at(AT_FDCWD, name, stat, sizeof stat) < 0 || strstr(stat, ") Z ") != NULL)
            return true;
        (void)usleep(10000);
    }
    return false;
}

static void test_answer(void **state) {
    (void)state;
    struct credential c;
    struct cay_error err = {0};
    write_helper("#!/bin/sh\nread s\nprintf '{\"Username\":\"%s\",\"Secret\":\"x\"}' \"$1 $s\"\n");
    assert_int_equal(credential_helper_get("test", "host:5000", 0, &c, &err), 0);
    assert_string_equal(c.user, "get host:5000");
    assert_string_equal(c.secret, "x");
    assert_null(c.identity_token);
    credential_clear(&c);
    assert_null(c.user);
}

/* Its children go with it. */
static void test_timeout(void **state) {
    (void)state;
    struct credential c;
    struct cay_error err = {0};
    char script[256];
    (void)snprintf(script, sizeof script, "#!/bin/sh\nsleep 300 &\necho $! > %s/pid\nwait\n",
                   folder);
    write_helper(script);
    int64_t start = clock_ms();
    assert_int_equal(credential_helper_get("test", "h", 1500, &c, &err), -CAY_TIMEOUT);
    assert_in_range(clock_ms() - start, 1400, 20000);
    assert_non_null(strstr(err.message, "docker-credential-test"));
    assert_true(is_gone());
}

/* One that closes its output and goes on is not waited for either. */
static void test_timeout_after_output(void **state) {
    (void)state;
    struct credential c;
    struct cay_error err = {0};
    write_helper("#!/bin/sh\nexec >&-\nexec sleep 300\n");
    assert_int_equal(credential_helper_get("test", "h", 500, &c, &err), -CAY_TIMEOUT);
}

/* It may end without a look at the question. */
static void test_unread_question(void **state) {
    (void)state;
    struct credential c;
    struct cay_error err = {0};
    write_helper("#!/bin/sh\necho credentials not found in native keychain\nexit 1\n");
    assert_int_equal(credential_helper_get("test", "h", 0, &c, &err), 0);
    assert_null(c.user);
    assert_null(c.identity_token);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_timeout_after_output),
        cmocka_unit_test(test_unread_question),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
