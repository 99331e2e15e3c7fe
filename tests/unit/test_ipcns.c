/* Tests of engine/native/ipcns.c: what makes a namespace unfit for another sandbox. */
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/ipcns.h"

struct fixture {
    int home, ns, queues;
};

static int set_up(void **state) {
    static struct fixture f;
    struct cay_error err;
    f.home = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
    f.queues = -1;
    f.ns = ipcns_create(&f.queues, &err);
    if (f.ns < 0)
        print_message("skipped: %s\n", err.message);
    *state = &f;
    return f.home < 0 ? -1 : 0;
}

/* For what follows: there is something to test, and it is clean. */
static struct fixture *begin(void **state) {
    struct fixture *f = *state;
    if (f->ns < 0)
        skip();
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 1);
    return f;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    int r = f->ns < 0 ? 0 : setns(f->home, CLONE_NEWIPC);
    fd_close(&f->ns);
    fd_close(&f->queues);
    fd_close(&f->home);
    return r;
}

static void shared_memory(void **state) {
    struct fixture *f = begin(state);
    int id = shmget(4711, 4096, IPC_CREAT | 0600);
    assert_true(id >= 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 0);
    assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 1);
}

static void semaphores(void **state) {
    struct fixture *f = begin(state);
    int id = semget(4711, 1, IPC_CREAT | 0600);
    assert_true(id >= 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 0);
    assert_int_equal(semctl(id, 0, IPC_RMID), 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 1);
}

static void messages(void **state) {
    struct fixture *f = begin(state);
    int id = msgget(4711, IPC_CREAT | 0600);
    assert_true(id >= 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 0);
    assert_int_equal(msgctl(id, IPC_RMID, NULL), 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 1);
}

/* One that is gone counts, too. */
static void posix_queues(void **state) {
    struct fixture *f = begin(state);
    mqd_t queue = mq_open("/cay-test", O_CREAT | O_RDWR, 0600, NULL);
    assert_true(queue >= 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 0);
    assert_int_equal(mq_close(queue), 0);
    assert_int_equal(mq_unlink("/cay-test"), 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 0);
}

static void objects_of_others_do_not_count(void **state) {
    struct fixture *f = begin(state);
    assert_int_equal(unshare(CLONE_NEWIPC), 0);
    assert_true(shmget(4711, 4096, IPC_CREAT | 0600) >= 0);
    assert_int_equal(ipcns_is_clean(f->ns, f->queues), 1);
    assert_int_equal(shmget(4711, 0, 0), -1); /* it is where it looked */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shared_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(semaphores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(posix_queues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(objects_of_others_do_not_count, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
