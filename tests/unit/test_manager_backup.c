/* Tests of backups in the manager: what stands still meanwhile, what a failure leaves, and what a
 * next manager makes of one that was cut off. */
#include "manager_env.h"

#include "manager/db/db.h"

static struct {
    int fail; /* code; 0: works */
    unsigned restores, removes, ends;
    bool has_file;
    char seen[32]; /* the state of the row and of the engine while it was made */
} store;

static int make(void *user, const struct sandbox_record *r, uint64_t max_bytes, uint64_t *ret_bytes,
                struct cay_error *err) {
    struct world *w = user;
    (void)max_bytes;
    (void)snprintf(store.seen, sizeof store.seen, "%s %s", sandbox_state_name(r->state),
                   fake_state(&w->fake, r->id));
    *ret_bytes = 4711;
    if (store.fail != 0)
        return error_set(err, (enum cay_code)store.fail, "the backup does not want to");
    store.has_file = true;
    return 0;
}

static int restore(void *user, const struct sandbox_record *r, int progress_fd, bool *ret,
                   struct cay_error *err) {
    struct world *w = user;
    (void)progress_fd, (void)err;
    *ret = str_equal(fake_state(&w->fake, r->id), "nothing");
    store.restores += *ret;
    return 0;
}

static int end_it(void *user, const char *id, struct cay_error *err) {
    (void)user, (void)id, (void)err;
    store.ends++;
    return 0;
}

static int forget(void *user, const char *id, struct cay_error *err) {
    (void)user, (void)id, (void)err;
    store.removes++;
    store.has_file = false;
    return 0;
}

static const struct archive_ops store_ops = {
    .backup = make, .restore_backup = restore, .end_backup = end_it, .remove_backup = forget};

static int setup_backups(void **state) {
    memset(&store, 0, sizeof store);
    int r = setup(state);
    struct world *w = *state;
    w->options.archives = &store_ops;
    w->options.user = w;
    return r;
}

static struct sandbox_record look(struct world *w, const char *who) {
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, who, &r, NULL), 0);
    sandbox_record_free(&r);
    return r;
}

static void set_fail_resume(struct world *w, int code) {
    (void)pthread_mutex_lock(&w->fake.lock);
    w->fake.fail_resume = code;
    (void)pthread_mutex_unlock(&w->fake.lock);
}

static unsigned count_resumes(struct world *w) {
    (void)pthread_mutex_lock(&w->fake.lock);
    unsigned n = w->fake.resumes;
    (void)pthread_mutex_unlock(&w->fake.lock);
    return n;
}

static enum backup_state wait_for_end(struct world *w, const char *who) {
    int64_t until = clock_ms() + 30000;
    while (look(w, who).backup == BACKUP_PENDING || look(w, who).backup == BACKUP_IN_PROGRESS) {
        assert_true(clock_ms() < until);
        sleep_ms(1);
    }
    return look(w, who).backup;
}

/* Its state when it has come to its end. */
static enum backup_state back_up(struct world *w, const char *who) {
    struct cay_error err = {0};
    assert_int_equal(manager_backup(w->m, who, &err), 0);
    return wait_for_end(w, who);
}

static void test_what_runs_stands_still(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_int_equal(look(w, "lab").backup, BACKUP_NONE);
    assert_int_equal(back_up(w, "lab"), BACKUP_COMPLETED);
    assert_string_equal(store.seen, "started paused");
    assert_string_equal(fake_state(&w->fake, id), "running");
    assert_string_equal(state_of(w, "lab"), "started");
    int64_t made_ms = look(w, "lab").backup_ms;
    assert_true(made_ms > 0);
    assert_int_equal(look(w, "lab").backup_bytes, 4711);
    reopen_manager(w);
    assert_int_equal(look(w, "lab").backup, BACKUP_COMPLETED);
    assert_int_equal(look(w, "lab").backup_ms, made_ms);
    store.fail = CAY_RESOURCE_EXHAUSTED;
    assert_int_equal(back_up(w, "lab"), BACKUP_ERROR);
    assert_string_equal(fake_state(&w->fake, id), "running");
    assert_int_equal(look(w, "lab").backup_ms, made_ms); /* there still is the one before */
    assert_int_equal(manager_remove(w->m, "lab", true, NULL), 0);
    assert_int_equal(store.removes, 1);
}

static void test_what_does_not_run(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_int_equal(manager_pause(w->m, "lab", &err), 0);
    assert_int_equal(back_up(w, "lab"), BACKUP_COMPLETED);
    assert_string_equal(fake_state(&w->fake, id), "paused");
    assert_int_equal(manager_resume(w->m, "lab", &err), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), 0);
    assert_int_equal(back_up(w, "lab"), BACKUP_COMPLETED);
    assert_string_equal(store.seen, "stopped stopped");
    assert_string_equal(fake_state(&w->fake, id), "stopped");
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), 0);
    assert_int_equal(store.restores, 0);
}

static void test_lost_files(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_int_equal(back_up(w, "lab"), BACKUP_COMPLETED);
    close_manager(w);
    assert_int_equal(fake_remove(&w->fake.engine, id, &err), 0);
    open_manager(w);
    assert_string_equal(state_of(w, "lab"), "error");
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), 0);
    assert_int_equal(store.restores, 1);
    assert_string_equal(state_of(w, "lab"), "started");
}

/* The note and the engine as a manager that is killed while it copies leaves them. */
static void test_cut_off(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct db *db = NULL;
    open_manager(w);
    const char *id = make_box(w, "lab");
    close_manager(w);
    assert_int_equal(db_open("cay.db", &db, &err), 0);
    assert_int_equal(db_secret_set(db, id, "backup", "InProgress 5 6", true, &err), 0);
    db_close(db);
    (void)pthread_mutex_lock(&w->fake.lock);
    (void)fake_put(&w->fake, id, ENGINE_PAUSED);
    (void)pthread_mutex_unlock(&w->fake.lock);
    open_manager(w);
    assert_string_equal(state_of(w, "lab"), "started");
    assert_string_equal(fake_state(&w->fake, id), "running");
    assert_int_equal(look(w, "lab").backup, BACKUP_ERROR);
    assert_int_equal(look(w, "lab").backup_ms, 5);
}

/* The engine goes away before it can let the sandbox go on: it does when the engine is back. */
static void begin_without_end(struct world *w) {
    struct cay_error err = {0};
    set_fail_resume(w, CAY_INTERNAL); /* which is not tried again at once */
    assert_int_equal(manager_backup(w->m, "lab", &err), 0);
    int64_t until = clock_ms() + 30000;
    while (count_resumes(w) == 0) {
        assert_true(clock_ms() < until);
        sleep_ms(1);
    }
}

static void test_frozen_for_the_next_manager(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_box(w, "lab");
    begin_without_end(w);
    close_manager(w);
    assert_string_equal(fake_state(&w->fake, id), "paused");
    set_fail_resume(w, 0);
    open_manager(w);
    assert_string_equal(state_of(w, "lab"), "started");
    assert_string_equal(fake_state(&w->fake, id), "running");
    assert_int_equal(look(w, "lab").backup, BACKUP_ERROR);
    assert_int_equal(back_up(w, "lab"), BACKUP_COMPLETED);
}

static void test_frozen_until_the_engine_is_back(void **state) {
    struct world *w = *state;
    w->options.limits.cleanup_interval_ms = 5;
    open_manager(w);
    const char *id = make_box(w, "lab");
    begin_without_end(w);
    set_fail_resume(w, 0);
    assert_int_equal(wait_for_end(w, "lab"), BACKUP_ERROR);
    assert_string_equal(fake_state(&w->fake, id), "running");
    assert_string_equal(state_of(w, "lab"), "started");
    assert_int_equal(back_up(w, "lab"), BACKUP_COMPLETED);
}

static void test_refused(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    assert_int_equal(manager_backup(w->m, "none", &err), -CAY_NOT_FOUND);
    close_manager(w);
    w->options.archives = NULL;
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(manager_backup(w->m, "lab", &err), -CAY_UNSUPPORTED);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup_backups, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_what_runs_stands_still),
        CASE(test_what_does_not_run),
        CASE(test_lost_files),
        CASE(test_cut_off),
        CASE(test_frozen_for_the_next_manager),
        CASE(test_frozen_until_the_engine_is_back),
        CASE(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
