/* Tests of what the manager does by itself or later: failures, changes, creations that nobody waits
 * for. */
#include "manager_env.h"

#include <signal.h>

/* ---- sandboxes that end unasked ---- */

static void kill_box(struct world *w, const char *id) {
    assert_int_equal(fake_set(&w->fake, id, ENGINE_STOPPED, NULL), 0);
    fake_tell(&w->fake, id, SIGKILL, false);
}

static const char *make_with(struct world *w, enum on_failure policy) {
    static char id[ID_SIZE];
    struct sandbox_record request = {.name = "lab", .on_failure = policy}, made = {0};
    struct cay_error err = {0};
    if (manager_create(w->m, &request, -1, &made, &err) < 0)
        fail_msg("%s", err.message);
    memcpy(id, made.id, ID_SIZE);
    sandbox_record_free(&made);
    return id;
}

static void await_starts(struct world *w, unsigned starts) {
    int64_t until = clock_ms() + 5000;
    for (;;) {
        (void)pthread_mutex_lock(&w->fake.lock);
        unsigned now = w->fake.starts;
        (void)pthread_mutex_unlock(&w->fake.lock);
        if (now >= starts)
            return;
        if (clock_ms() > until)
            fail_msg("%u starts, not %u", now, starts);
        sleep_ms(5);
    }
}

static void test_recreate(void **state) {
    struct world *w = *state;
    struct sandbox_record r = {0};
    w->options.limits.recover_ms = 10;
    open_manager(w);
    const char *id = make_with(w, FAILURE_RECREATE);
    for (unsigned n = 1; n <= 5; n++) {
        kill_box(w, id);
        await_starts(w, n + 1);
        await_state(w, id, "started", 2000);
    }
    kill_box(w, id); /* enough is enough */
    await_state(w, id, "error", 2000);
    sleep_ms(100);
    assert_string_equal(state_of(w, id), "error");
    assert_int_equal(manager_get(w->m, id, &r, NULL), 0);
    assert_non_null(strstr(r.reason, "6 times"));
    assert_non_null(strstr(r.remedy, "cay start"));
    sandbox_record_free(&r);
    assert_int_equal(manager_start_sandbox(w->m, id, NULL), 0);
}

/* Who comes meanwhile waits for it. */
static void test_recreate_is_waited_for(void **state) {
    struct world *w = *state;
    struct operation *op;
    w->options.limits.recover_ms = 300;
    open_manager(w);
    const char *id = make_with(w, FAILURE_RECREATE);
    kill_box(w, id);
    await_starts(w, 2);
    await_state(w, id, "started", 2000);
    set_knob(&w->fake, &w->fake.fail_start, CAY_INTERNAL);
    kill_box(w, id);
    await_starts(w, 3);
    set_knob(&w->fake, &w->fake.fail_start, 0);
    await_state(w, id, "error", 2000);
    int fd = begin(w, id, &op);
    end(w, fd, op);
    assert_string_equal(state_of(w, id), "started");
}

static void test_stop_is_no_failure(void **state) {
    struct world *w = *state;
    w->options.limits.cleanup_interval_ms = 20;
    open_manager(w);
    const char *id = make_with(w, FAILURE_RECREATE);
    assert_int_equal(manager_stop_sandbox(w->m, id, NULL), 0);
    sleep_ms(150);
    assert_string_equal(state_of(w, id), "stopped");
    assert_string_equal(fake_state(&w->fake, id), "stopped");
    assert_int_equal(w->fake.starts, 1);
}

static void test_remove_on_failure(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_with(w, FAILURE_REMOVE);
    kill_box(w, id);
    await_state(w, id, "gone", 2000);
    assert_int_equal(fake_count(&w->fake), 0);
}

/* The host was started anew: that is nobody's failure. */
static void test_restart_is_no_failure(void **state) {
    struct world *w = *state;
    open_manager(w);
    char id[ID_SIZE];
    memcpy(id, make_with(w, FAILURE_REMOVE), ID_SIZE);
    close_manager(w);
    assert_int_equal(fake_set(&w->fake, id, ENGINE_STOPPED, NULL), 0);
    open_manager(w);
    assert_string_equal(state_of(w, id), "stopped");
}

/* ---- removal that waits ---- */

static void *remove_when_idle(void *arg) {
    struct world *w = arg;
    return manager_remove_when_idle(w->m, "lab", NULL) == 0 ? w : NULL;
}

static void test_remove_when_idle(void **state) {
    struct world *w = *state;
    struct operation *one, *two;
    pthread_t remover;
    void *result;
    open_manager(w);
    (void)make_with(w, FAILURE_KEEP);
    int a = begin(w, "lab", &one), b = begin(w, "lab", &two);
    assert_int_equal(pthread_create(&remover, NULL, remove_when_idle, w), 0);
    sleep_ms(50);
    end(w, a, one);
    sleep_ms(50);
    assert_string_equal(state_of(w, "lab"), "started");
    end(w, b, two);
    assert_int_equal(pthread_join(remover, &result), 0);
    assert_non_null(result);
    assert_string_equal(state_of(w, "lab"), "gone");
    assert_int_equal(manager_remove_when_idle(w->m, "lab", NULL), -CAY_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recreate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recreate_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_is_no_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_on_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart_is_no_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_when_idle, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
