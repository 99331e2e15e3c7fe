/* Tests of what the helper does when its maker dies. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/native/helper.h"

enum { SOON_MS = 30000 };

/* The answer stays unread, as in a launcher that is killed while it waits for something else. The
 * helper is stopped, so that it hears the last request only after that. */
static int die_with_an_answer_unread(const char *id, int tell) {
    struct cay_error err;
    struct helper helper;
    if (helper_start(-1, "/", &helper, &err) < 0 || helper_ask(&helper, HELPER_INIT, 0, &err) < 0)
        return 1;
    struct pollfd answer = {.fd = helper.sock, .events = POLLIN};
    if (poll(&answer, 1, SOON_MS) != 1)
        return 2;
    if (kill(helper.pid, SIGSTOP) < 0 ||
        write(tell, &helper.pid, sizeof helper.pid) != (ssize_t)sizeof helper.pid)
        return 3;
    return helper_watch(&helper, id, &err) < 0 ? 4 : 0;
}

static void what_was_said_last_is_cleaned_up(void **state) {
    (void)state;
    struct cgroup_host host;
    struct cgroup_limits limits = {0};
    struct cgroup cgroup;
    struct cay_error err;
    char id[ID_SIZE];
    assert_int_equal(cgroup_probe(&host, &err), 0);
    if (host.version == CGROUP_NONE) {
        print_message("skipped: no usable cgroups (not root?)\n");
        cgroup_host_close(&host);
        skip();
    }
    assert_int_equal(id_new(id, &err), 0);
    assert_int_equal(cgroup_create(&host, id, &limits, &cgroup, &err), 0);
    cgroup_close(&cgroup);
    int pipe_fds[2], status;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork(), helper;
    if (pid == 0)
        _exit(die_with_an_answer_unread(id, pipe_fds[1]));
    assert_int_equal(read(pipe_fds[0], &helper, sizeof helper), sizeof helper);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(kill(helper, SIGCONT), 0);
    assert_int_equal(status, 0);
    int64_t deadline = clock_deadline(SOON_MS);
    int r;
    while ((r = cgroup_open(&host, id, &cgroup, &err)) == 0 && !clock_expired(deadline)) {
        cgroup_close(&cgroup);
        usleep(1000);
    }
    assert_int_equal(r, -CAY_NOT_FOUND);
    cgroup_host_close(&host);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_said_last_is_cleaned_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
