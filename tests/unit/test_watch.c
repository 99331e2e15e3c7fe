/* Tests of watching: who hears what of which sandbox, in which order, and how much at most. */
#include "manager_env.h"

#include "manager/watch.h"

static struct watch *watch(struct world *w, const struct key *key) {
    struct cay_error err = {0};
    struct watch *ret = NULL;
    if (manager_watch(w->m, key, &ret, &err) < 0)
        fail_msg("%s", err.message);
    return ret;
}

static bool is_readable(const struct watch *v) {
    struct pollfd p = {.fd = watch_fd(v), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* "new:creating creating:started …" of all that waits. */
static void hear(struct world *w, struct watch *v, char *out, size_t size) {
    struct watch_news *n;
    size_t len = 0;
    out[0] = '\0';
    while ((n = watch_take(w->m, v)) != NULL) {
        len += (size_t)snprintf(out + len, size - len, "%s%s:%s", len > 0 ? " " : "",
                                n->old_state != NULL ? n->old_state : "new", n->new_state);
        watch_news_free(n);
        assert_true(len < size);
    }
    assert_false(is_readable(v));
}

static const struct key admin = {.name = "admin", .scopes = SCOPE_ADMIN};

static void hears_every_state(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    char heard[512];
    open_manager(w);
    struct watch *v = watch(w, &admin);
    assert_false(is_readable(v));
    const char *id = make_box(w, "lab");
    assert_true(is_readable(v));
    hear(w, v, heard, sizeof heard);
    assert_string_equal(heard, "new:creating creating:started");
    assert_int_equal(manager_stop_sandbox(w->m, id, &err), 0);
    assert_int_equal(manager_start_sandbox(w->m, id, &err), 0);
    hear(w, v, heard, sizeof heard);
    assert_string_equal(heard,
                        "started:stopping stopping:stopped stopped:starting starting:started");
    assert_int_equal(manager_remove(w->m, id, true, &err), 0);
    hear(w, v, heard, sizeof heard);
    assert_string_equal(heard, "started:destroying destroying:destroyed");
    manager_unwatch(w->m, v);
}

static void hears_only_what_the_key_sees(void **state) {
    struct world *w = *state;
    struct key mine = {.name = "mine", .scopes = SCOPE_SANDBOXES};
    const struct key other = {.id = "fedcba9876543210", .scopes = SCOPE_SANDBOXES};
    struct sandbox_record request = {0}, made = {0};
    struct cay_error err = {0};
    char heard[512], text[KEY_TEXT_SIZE];
    open_manager(w);
    assert_int_equal(manager_key_add(w->m, &mine, text, &err), 0);
    struct watch *a = watch(w, &mine), *b = watch(w, &other), *c = watch(w, &admin);
    memcpy(request.owner, mine.id, sizeof request.owner);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), 0);
    hear(w, a, heard, sizeof heard);
    assert_string_equal(heard, "new:creating creating:started");
    hear(w, b, heard, sizeof heard);
    assert_string_equal(heard, "");
    hear(w, c, heard, sizeof heard);
    assert_string_equal(heard, "new:creating creating:started");
    sandbox_record_free(&made);
    manager_unwatch(w->m, b);
    manager_unwatch(w->m, a);
    manager_unwatch(w->m, c);
}

/* Who does not listen costs no more than the queue, and finds the newest in it. */
static void keeps_the_newest(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct watch_news *n, *last = NULL;
    size_t count = 0;
    open_manager(w);
    struct watch *v = watch(w, &admin);
    const char *id = make_box(w, "lab");
    for (size_t i = 0; i < WATCH_QUEUE_MAX / 2; i++) {
        assert_int_equal(manager_pause(w->m, id, &err), 0);
        assert_int_equal(manager_resume(w->m, id, &err), 0);
    }
    assert_int_equal(manager_remove(w->m, id, true, &err), 0);
    while ((n = watch_take(w->m, v)) != NULL) {
        watch_news_free(last);
        last = n;
        count++;
    }
    assert_int_equal(count, WATCH_QUEUE_MAX);
    assert_string_equal(last->new_state, "destroyed");
    watch_news_free(last);
    manager_unwatch(w->m, v);
}

static void ends_with_the_manager(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct watch *none = NULL;
    open_manager(w);
    struct watch *v = watch(w, &admin);
    assert_false(watch_is_over(w->m));
    manager_drain(w->m, 1000);
    assert_true(is_readable(v));
    assert_true(watch_is_over(w->m));
    assert_int_equal(manager_watch(w->m, &admin, &none, &err), -CAY_UNAVAILABLE);
    assert_null(none);
    manager_unwatch(w->m, v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hears_every_state, setup, teardown),
        cmocka_unit_test_setup_teardown(hears_only_what_the_key_sees, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_with_the_manager, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
