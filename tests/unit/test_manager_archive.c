/* Tests of archived sandboxes in the manager: what is done in which order, and what a failure at
 * each step leaves. */
#include "manager_env.h"

/* ---- archives in memory ---- */

static struct {
    char id[ID_SIZE];                          /* of the one archive there is; "": none */
    int fail_write, fail_restore, fail_remove; /* codes; 0: works */
    unsigned writes, restores, removes;
    char seen[32]; /* the state of the row and of the engine when it was last called */
    bool leaves_half;
} store;

static void look(struct world *w, const struct sandbox_record *r) {
    (void)snprintf(store.seen, sizeof store.seen, "%s %s", sandbox_state_name(r->state),
                   fake_state(&w->fake, r->id));
}

static int refuse(int code, struct cay_error *err) {
    return error_set(err, (enum cay_code)code, "the archive does not want to");
}

static int store_write(void *user, const struct sandbox_record *r, int progress_fd,
                       uint64_t *ret_bytes, struct cay_error *err) {
    struct world *w = user;
    store.writes++;
    look(w, r);
    if (progress_fd >= 0)
        assert_int_equal(write(progress_fd, "archiving\n", 10), 10);
    if (store.leaves_half || store.fail_write == 0)
        memcpy(store.id, r->id, sizeof store.id);
    *ret_bytes = 4711;
    return store.fail_write != 0 ? refuse(store.fail_write, err) : 0;
}

static int store_restore(void *user, const struct sandbox_record *r, int progress_fd,
                         struct cay_error *err) {
    struct world *w = user;
    (void)progress_fd;
    store.restores++;
    look(w, r);
    if (store.fail_restore != 0)
        return refuse(store.fail_restore, err);
    assert_string_equal(store.id, r->id);
    (void)pthread_mutex_lock(&w->fake.lock);
    (void)fake_put(&w->fake, r->id, ENGINE_STOPPED);
    (void)pthread_mutex_unlock(&w->fake.lock);
    return 0;
}

static int store_remove(void *user, const char *id, struct cay_error *err) {
    (void)user;
    store.removes++;
    if (store.fail_remove != 0)
        return refuse(store.fail_remove, err);
    if (str_equal(store.id, id))
        store.id[0] = '\0';
    return 0;
}

static const struct archive_ops store_ops = {
    .write = store_write, .restore = store_restore, .remove = store_remove};

static int setup_archives(void **state) {
    memset(&store, 0, sizeof store);
    int r = setup(state);
    struct world *w = *state;
    w->options.archives = &store_ops;
    w->options.user = w;
    return r;
}

static int64_t size_of(struct world *w, const char *who) {
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, who, &r, NULL), 0);
    sandbox_record_free(&r);
    return r.archive_bytes;
}

static int archive(struct world *w, const char *who) {
    struct cay_error err = {0};
    return manager_archive(w->m, who, -1, &err);
}

static int start(struct world *w, const char *who) {
    struct cay_error err = {0};
    return manager_start_sandbox(w->m, who, &err);
}

/* ---- there and back ---- */

static void test_round(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), 0);
    assert_string_equal(store.seen, "archiving stopped");
    assert_string_equal(state_of(w, "lab"), "archived");
    assert_string_equal(fake_state(&w->fake, id), "nothing");
    assert_int_equal(size_of(w, "lab"), 4711);
    assert_int_equal(archive(w, "lab"), 0); /* again is fine */
    assert_int_equal(store.writes, 1);
    reopen_manager(w);
    assert_string_equal(state_of(w, "lab"), "archived");
    assert_int_equal(start(w, "lab"), 0);
    assert_string_equal(store.seen, "restoring nothing");
    assert_string_equal(fake_state(&w->fake, id), "running");
    assert_string_equal(store.id, "");
    assert_int_equal(size_of(w, "lab"), 0);
}

static void test_progress(void **state) {
    struct world *w = *state;
    int ends[2];
    char text[32] = "";
    struct cay_error err = {0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(manager_archive(w->m, "lab", ends[1], &err), 0);
    assert_int_equal(read(ends[0], text, sizeof text), 10);
    assert_string_equal(text, "archiving\n");
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_removal_takes_the_archive(void **state) {
    struct world *w = *state;
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), 0);
    store.fail_remove = CAY_UNAVAILABLE;
    struct cay_error err = {0};
    assert_int_equal(manager_remove(w->m, "lab", false, &err), -CAY_UNAVAILABLE);
    assert_string_equal(state_of(w, "lab"), "destroying"); /* tried again by the next */
    store.fail_remove = 0;
    reopen_manager(w);
    assert_string_equal(state_of(w, "lab"), "gone");
    assert_string_equal(store.id, "");
}

static void test_refused_while_archived(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct engine_stats stats;
    struct operation *op;
    struct sandbox_record r = {0};
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), -CAY_CONFLICT);
    assert_string_equal(err.remedy, "start it with: cay start lab");
    assert_int_equal(manager_pause(w->m, "lab", &err), -CAY_CONFLICT);
    assert_int_equal(manager_stats(w->m, "lab", &stats, &err), -CAY_CONFLICT);
    assert_int_equal(manager_begin(w->m, "lab", &op, &r, &err), -CAY_CONFLICT);
    assert_string_equal(err.remedy, "start it with: cay start lab");
    assert_int_equal(manager_rename(w->m, "lab", "den", &err), 0); /* a row is enough */
    assert_int_equal(start(w, "den"), 0);
}

static void test_without_archives(void **state) {
    struct world *w = *state;
    w->options.archives = NULL;
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), -CAY_UNSUPPORTED);
    assert_string_equal(state_of(w, "lab"), "started"); /* and not stopped for it */
}

/* ---- failures ---- */

static void test_archiving_fails(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *id = make_box(w, "lab");
    store.fail_write = CAY_RESOURCE_EXHAUSTED;
    store.leaves_half = true;
    assert_int_equal(manager_archive(w->m, "lab", -1, &err), -CAY_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.message, "archiving sandbox 'lab'"));
    assert_string_equal(state_of(w, "lab"), "stopped");
    assert_string_equal(fake_state(&w->fake, id), "stopped");
    assert_int_equal(start(w, "lab"), 0);
    assert_string_equal(store.id, ""); /* half of one is of no use */
    assert_int_equal(size_of(w, "lab"), 0);
}

static void test_restoring_fails(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), 0);
    store.fail_restore = CAY_INVALID_ARGUMENT;
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "restoring sandbox 'lab'"));
    assert_string_equal(state_of(w, "lab"), "archived");
    assert_string_equal(store.id, id); /* it stays */
    assert_int_equal(size_of(w, "lab"), 4711);
    store.fail_restore = 0;
    assert_int_equal(start(w, "lab"), 0);
}

static void test_start_after_restoring_fails(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), 0);
    set_knob(&w->fake, &w->fake.fail_start, CAY_RESOURCE_EXHAUSTED);
    assert_int_equal(start(w, "lab"), -CAY_RESOURCE_EXHAUSTED);
    assert_string_equal(state_of(w, "lab"), "error");
    assert_string_equal(store.id, id); /* until it has run */
    set_knob(&w->fake, &w->fake.fail_start, 0);
    assert_int_equal(start(w, "lab"), 0);
    assert_string_equal(store.id, "");
}

static void test_files_that_stay_are_removed_later(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_box(w, "lab");
    set_knob(&w->fake, &w->fake.fail_remove, CAY_INTERNAL);
    assert_int_equal(archive(w, "lab"), 0);
    assert_string_equal(fake_state(&w->fake, id), "stopped");
    set_knob(&w->fake, &w->fake.fail_remove, 0);
    reopen_manager(w);
    assert_string_equal(state_of(w, "lab"), "archived");
    assert_string_equal(fake_state(&w->fake, id), "nothing");
    assert_string_equal(store.id, id);
}

static void test_archive_that_stays_is_removed_later(void **state) {
    struct world *w = *state;
    w->options.limits.cleanup_interval_ms = 10;
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(archive(w, "lab"), 0);
    store.fail_remove = CAY_UNAVAILABLE;
    assert_int_equal(start(w, "lab"), 0);
    assert_string_equal(state_of(w, "lab"), "started");
    assert_true(size_of(w, "lab") != 0);
    store.fail_remove = 0;
    for (int64_t until = clock_ms() + 30000; size_of(w, "lab") != 0; sleep_ms(5))
        assert_true(clock_ms() < until);
}

/* ---- by itself ---- */

static void test_auto_archive(void **state) {
    struct world *w = *state;
    struct sandbox_record request = {.name = "lab", .auto_archive_minutes = 1}, made = {0};
    struct cay_error err = {0};
    w->options.limits.minute_ms = 50;
    w->options.limits.cleanup_interval_ms = 10;
    open_manager(w);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), 0);
    sandbox_record_free(&made);
    (void)make_box(w, "never"); /* the default of the tests */
    sleep_ms(150);
    assert_string_equal(state_of(w, "lab"), "started"); /* what runs is left alone */
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "never", &err), 0);
    await_state(w, "lab", "archived");
    assert_string_equal(state_of(w, "never"), "stopped");
}

static void test_auto_archive_that_fails_waits(void **state) {
    struct world *w = *state;
    struct sandbox_record request = {.name = "lab", .auto_archive_minutes = 1}, made = {0};
    struct cay_error err = {0};
    w->options.limits.minute_ms = 3600 * 1000;
    w->options.limits.cleanup_interval_ms = 10;
    open_manager(w);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), 0);
    sandbox_record_free(&made);
    store.fail_write = CAY_RESOURCE_EXHAUSTED;
    assert_int_equal(manager_archive(w->m, "lab", -1, &err), -CAY_RESOURCE_EXHAUSTED);
    sleep_ms(100);
    assert_string_equal(state_of(w, "lab"), "stopped");
    assert_int_equal(store.writes, 1); /* not at every clean-up */
}

static void test_auto_delete_of_archived(void **state) {
    struct world *w = *state;
    struct sandbox_record request = {.name = "lab", .auto_delete_minutes = 1}, made = {0};
    struct cay_error err = {0};
    w->options.limits.minute_ms = 50;
    w->options.limits.cleanup_interval_ms = 10;
    open_manager(w);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), 0);
    sandbox_record_free(&made);
    assert_int_equal(archive(w, "lab"), 0);
    await_state(w, "lab", "gone");
    assert_string_equal(store.id, "");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup_archives, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_round),
        CASE(test_progress),
        CASE(test_removal_takes_the_archive),
        CASE(test_refused_while_archived),
        CASE(test_without_archives),
        CASE(test_archiving_fails),
        CASE(test_restoring_fails),
        CASE(test_start_after_restoring_fails),
        CASE(test_files_that_stay_are_removed_later),
        CASE(test_archive_that_stays_is_removed_later),
        CASE(test_auto_archive),
        CASE(test_auto_archive_that_fails_waits),
        CASE(test_auto_delete_of_archived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
