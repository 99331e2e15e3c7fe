/* Tests of the queue of creations and starts: order, bounds, and what does not wait. */
#include "manager_env.h"

#include "manager/internal.h"

static const char key_a[] = "aaaaaaaaaaaaaaaa", key_b[] = "bbbbbbbbbbbbbbbb";

static void open_narrow(struct world *w, int64_t width, int64_t room) {
    w->options.limits.creating_max = width;
    w->options.limits.queue_max = room;
    open_manager(w);
}

static void join_as(struct world *w, enum queue_kind kind, const char *owner,
                    struct queue_ticket *t) {
    struct cay_error err = {0};
    if (queue_join(w->m, kind, owner, t, &err) < 0)
        fail_msg("%s", err.message);
}

static void join(struct world *w, const char *owner, struct queue_ticket *t) {
    join_as(w, QUEUE_CLIENT, owner, t);
}

static int try_join(struct world *w, const char *owner, struct queue_ticket *t) {
    struct cay_error err = {0};
    int r = queue_join(w->m, QUEUE_CLIENT, owner, t, &err);
    if (r == -CAY_LIMIT_REACHED)
        assert_int_equal(err.sys, EAGAIN);
    return r;
}

static void run(struct world *w, struct queue_ticket *t) {
    struct cay_error err = {0};
    if (queue_wait(w->m, t, &err) < 0)
        fail_msg("%s", err.message);
    queue_leave(w->m, t);
}

static void test_keys_take_turns(void **state) {
    struct world *w = *state;
    struct queue_ticket a[4], b[2];
    open_narrow(w, 1, 10);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        join(w, key_a, &a[i]);
    for (size_t i = 0; i < ARRAY_LEN(b); i++)
        join(w, key_b, &b[i]);
    struct queue_ticket *const order[] = {&a[0], &a[1], &b[0], &a[2], &b[1], &a[3]};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        assert_int_equal(order[i]->state, QUEUE_RUNNING);
        for (size_t k = i + 1; k < ARRAY_LEN(order); k++)
            assert_int_equal(order[k]->state, QUEUE_WAITING);
        run(w, order[i]);
    }
    assert_true(queue_is_empty(w->m));
}

static void test_a_full_queue_refuses(void **state) {
    struct world *w = *state;
    struct queue_ticket t[3], more;
    struct manager_totals totals;
    open_narrow(w, 1, 2);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        join(w, key_a, &t[i]);
    assert_int_equal(try_join(w, key_a, &more), -CAY_LIMIT_REACHED);
    assert_in_range(manager_retry_after(w->m), 1, 60);
    manager_totals(w->m, NULL, &totals);
    assert_int_equal(totals.queue.running, 1);
    assert_int_equal(totals.queue.waiting, 2);
    assert_int_equal(totals.queue.keys, 1);
    assert_int_equal(totals.queue.refused, 1);
    run(w, &t[0]);
    join(w, key_a, &more);
    for (size_t i = 1; i < ARRAY_LEN(t); i++)
        run(w, &t[i]);
    run(w, &more);
}

/* One key has filled the queue; another is let in for the youngest of the first. */
static void test_a_greedy_key_makes_room(void **state) {
    struct world *w = *state;
    struct queue_ticket a[4], b[2];
    struct cay_error err = {0};
    open_narrow(w, 1, 3);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        join(w, key_a, &a[i]);
    join(w, key_b, &b[0]);
    assert_int_equal(a[3].state, QUEUE_REFUSED);
    assert_int_equal(queue_wait(w->m, &a[3], &err), -CAY_LIMIT_REACHED);
    assert_int_equal(err.sys, EAGAIN);
    assert_int_equal(try_join(w, key_b, &b[1]), -CAY_LIMIT_REACHED); /* two and one: that is fair */
    assert_int_equal(try_join(w, key_a, &a[3]), -CAY_LIMIT_REACHED);
    run(w, &a[0]);
    run(w, &a[1]);
    run(w, &b[0]);
    run(w, &a[2]);
}

static void test_what_is_promised_is_not_refused(void **state) {
    struct world *w = *state;
    struct queue_ticket a[4], b;
    open_narrow(w, 1, 3);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        join_as(w, QUEUE_PROMISED, key_a, &a[i]);
    assert_int_equal(try_join(w, key_b, &b), -CAY_LIMIT_REACHED);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        run(w, &a[i]);
}

static void test_the_pool_is_one_of_many(void **state) {
    struct world *w = *state;
    struct queue_ticket a[3], ahead[2];
    open_narrow(w, 1, 2);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        join(w, key_a, &a[i]);
    for (size_t i = 0; i < ARRAY_LEN(ahead); i++) /* beyond the bound, which is for clients */
        join_as(w, QUEUE_AHEAD, "", &ahead[i]);
    struct queue_ticket *const order[] = {&a[0], &a[1], &ahead[0], &a[2], &ahead[1]};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        run(w, order[i]);
}

/* Whoever fetches an image lets others run, and does not wait behind them afterwards. */
static void test_stepping_out(void **state) {
    struct world *w = *state;
    struct queue_ticket a[3];
    open_narrow(w, 1, 10);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        join(w, key_a, &a[i]);
    queue_step_out(w->m, &a[0]);
    assert_int_equal(a[1].state, QUEUE_RUNNING);
    queue_leave(w->m, &a[1]);
    assert_int_equal(a[2].state, QUEUE_RUNNING);
    queue_leave(w->m, &a[2]);
    queue_step_in(w->m, &a[0]);
    assert_int_equal(a[0].state, QUEUE_RUNNING);
    queue_leave(w->m, &a[0]);
    struct manager_totals totals;
    manager_totals(w->m, NULL, &totals);
    assert_int_equal(totals.queue.running, 0);
}

/* ---- with sandboxes ---- */

struct creator {
    pthread_t thread;
    struct world *w;
    const char *who; /* NULL: a new one, else this one is started */
    int result;
};

static void *create_or_start(void *arg) {
    struct creator *c = arg;
    struct sandbox_record request = {0}, made = {0};
    struct cay_error err = {0};
    c->result = c->who != NULL ? manager_start_sandbox(c->w->m, c->who, &err)
                               : manager_create(c->w->m, &request, -1, &made, &err);
    sandbox_record_free(&made);
    return NULL;
}

static void begin_creator(struct world *w, const char *who, struct creator *c) {
    *c = (struct creator){.w = w, .who = who};
    assert_int_equal(pthread_create(&c->thread, NULL, create_or_start, c), 0);
}

static void await_queue(struct world *w, size_t running, size_t waiting) {
    struct manager_totals t;
    int64_t until = clock_ms() + 60000;
    for (;;) {
        manager_totals(w->m, NULL, &t);
        if (t.queue.running == running && t.queue.waiting == waiting)
            return;
        if (clock_ms() > until)
            fail_msg("%zu run and %zu wait", t.queue.running, t.queue.waiting);
        sleep_ms(2);
    }
}

static void test_removals_do_not_wait(void **state) {
    struct world *w = *state;
    struct creator c[3];
    open_narrow(w, 1, 10);
    const char *there = make_box(w, "there");
    set_knob(&w->fake, &w->fake.delay_start, -1);
    for (size_t i = 0; i < ARRAY_LEN(c); i++)
        begin_creator(w, NULL, &c[i]);
    await_queue(w, 1, 2);
    assert_int_equal(manager_remove(w->m, there, true, NULL), 0);
    assert_string_equal(state_of(w, there), "gone");
    set_knob(&w->fake, &w->fake.delay_start, 0);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        (void)pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].result, 0);
    }
}

static void test_a_start_that_waits_is_given_up_for_a_removal(void **state) {
    struct world *w = *state;
    struct creator c, start;
    open_narrow(w, 1, 10);
    const char *there = make_box(w, "there");
    assert_int_equal(manager_stop_within(w->m, there, 0, NULL), 0);
    set_knob(&w->fake, &w->fake.delay_start, -1);
    begin_creator(w, NULL, &c);
    await_queue(w, 1, 0);
    begin_creator(w, there, &start);
    await_queue(w, 1, 1);
    assert_int_equal(manager_remove(w->m, there, true, NULL), 0);
    (void)pthread_join(start.thread, NULL);
    assert_int_equal(start.result, -CAY_CONFLICT);
    set_knob(&w->fake, &w->fake.delay_start, 0);
    (void)pthread_join(c.thread, NULL);
    assert_int_equal(c.result, 0);
}

static void test_closing_ends_the_waiting(void **state) {
    struct world *w = *state;
    struct creator c[2];
    open_narrow(w, 1, 10);
    set_knob(&w->fake, &w->fake.delay_start, -1);
    begin_creator(w, NULL, &c[0]);
    await_queue(w, 1, 0);
    begin_creator(w, NULL, &c[1]);
    await_queue(w, 1, 1);
    manager_drain(w->m, 0);
    (void)pthread_join(c[1].thread, NULL);
    assert_int_equal(c[1].result, -CAY_UNAVAILABLE);
    set_knob(&w->fake, &w->fake.delay_start, 0);
    (void)pthread_join(c[0].thread, NULL);
    assert_int_equal(c[0].result, 0);
}

/* Whoever has its turn at once does not wait; what was refused or has had its turn does not count.
 */
static void test_a_key_may_let_so_many_wait(void **state) {
    struct world *w = *state;
    struct queue_ticket t[3], more, other;
    struct budget_usage usage[BUDGET_ITEMS];
    struct key k = {.scopes = SCOPE_SANDBOXES, .name = "few", .max_waiting = 2};
    char text[KEY_TEXT_SIZE];
    struct cay_error err = {0};
    open_narrow(w, 1, 10);
    assert_int_equal(manager_key_add(w->m, &k, text, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        join(w, k.id, &t[i]);
    manager_budget_usage(w->m, &k, usage);
    assert_int_equal(usage[BUDGET_WAITING].used, 2);
    assert_int_equal(usage[BUDGET_WAITING].left, 0);
    assert_int_equal(queue_join(w->m, QUEUE_PROMISED, k.id, &more, &err), -CAY_LIMIT_REACHED);
    assert_int_equal(err.sys, EAGAIN);
    assert_non_null(strstr(err.message, "creations that wait (2) of key 'few'"));
    assert_non_null(strstr(err.remedy, "--max-waiting"));
    join(w, key_b, &other);
    run(w, &t[0]);
    join(w, k.id, &more);
    struct queue_ticket *const order[] = {&t[1], &other, &t[2], &more};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        run(w, order[i]);
    manager_budget_usage(w->m, &k, usage);
    assert_int_equal(usage[BUDGET_WAITING].used, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_queue_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_key_may_let_so_many_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_greedy_key_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_promised_is_not_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_pool_is_one_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stepping_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removals_do_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_start_that_waits_is_given_up_for_a_removal, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_closing_ends_the_waiting, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
