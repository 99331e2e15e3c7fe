/* The walls of a container's network, in a namespace of our own: the kernel takes them as they are
 * sent, and who may not put them up hears of it. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "confine/netns.h"
#include "engine/docker/enter/walls.h"
#include "engine/docker/transport/handshake.h"

enum { NOBODY = 65534, CANNOT = 77 };

/* What f returns in a child with a new network namespace, negated; CANNOT if there is none. */
static int in_namespace(int (*f)(void)) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(unshare(CLONE_NEWNET) < 0 ? CANNOT : -f());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const struct docker_walls none;
static struct docker_walls most = {
    .wanted = 1, .server_count = DOCKER_SERVERS_MAX, .own_count = DOCKER_OWN_MAX};

static int alone(void) {
    return netns_raise_loopback() < 0 ? -1 : walls_put_up(&none);
}

static int put_up(void) {
    return walls_put_up(&most);
}

static int put_up_without_rights(void) {
    return setresuid(NOBODY, NOBODY, NOBODY) < 0 ? -1 : walls_put_up(&most);
}

static void test_walls(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DOCKER_OWN_MAX; i++)
        most.own[i] = i + 1;
    int r = in_namespace(put_up);
    if (r == CANNOT)
        skip();
    assert_int_equal(r, 0);
    assert_int_equal(in_namespace(put_up_without_rights), EPERM);
    assert_int_equal(in_namespace(alone), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
