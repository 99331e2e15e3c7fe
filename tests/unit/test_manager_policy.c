/* Tests of what the manager does by itself or later: failures, changes, creations that nobody waits
 * for. */
#include "manager_env.h"

#include <signal.h>

#include "manager/engines.h"
#include "manager/record/volume.h"

/* ---- sandboxes that end unasked ---- */

static void kill_box(struct world *w, const char *id) {
    assert_int_equal(fake_set(&w->fake, id, ENGINE_STOPPED, NULL), 0);
    fake_report(&w->fake, id, ENGINE_END_UNASKED, SIGKILL, false);
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
    int64_t until = clock_ms() + 30000;
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
        await_state(w, id, "started");
    }
    kill_box(w, id); /* enough is enough */
    await_state(w, id, "error");
    sleep_ms(100);
    assert_string_equal(state_of(w, id), "error");
    assert_int_equal(manager_get(w->m, id, &r, NULL), 0);
    assert_non_null(strstr(r.reason, "6 times"));
    assert_non_null(strstr(r.remedy, "cay start"));
    sandbox_record_free(&r);
    assert_int_equal(manager_start_sandbox(w->m, id, NULL), 0);
}

/* Restarts of the daemon are no new beginning. */
static void test_failures_are_counted_across_restarts(void **state) {
    struct world *w = *state;
    struct sandbox_record r = {0};
    w->options.limits.recover_ms = 10;
    open_manager(w);
    char id[ID_SIZE];
    memcpy(id, make_with(w, FAILURE_RECREATE), ID_SIZE);
    for (unsigned n = 1; n <= 5; n++) {
        kill_box(w, id);
        await_starts(w, n + 1);
        await_state(w, id, "started");
        close_manager(w);
        open_manager(w);
    }
    kill_box(w, id);
    await_state(w, id, "error");
    assert_int_equal(manager_get(w->m, id, &r, NULL), 0);
    assert_non_null(strstr(r.reason, "6 times"));
    sandbox_record_free(&r);
    close_manager(w);
    open_manager(w);
    assert_string_equal(state_of(w, id), "error");
}

static void test_a_planned_start_survives_a_restart(void **state) {
    struct world *w = *state;
    w->options.limits.recover_ms = 3600 * 1000;
    open_manager(w);
    char id[ID_SIZE];
    memcpy(id, make_with(w, FAILURE_RECREATE), ID_SIZE);
    kill_box(w, id);
    await_starts(w, 2); /* the first time at once */
    await_state(w, id, "started");
    kill_box(w, id);
    await_state(w, id, "error");
    close_manager(w);
    open_manager(w);
    assert_string_equal(state_of(w, id), "error"); /* not at once: it waits as it did */
    close_manager(w);
    w->options.limits.recover_ms = 1; /* what bounds it, whatever the clock says */
    open_manager(w);
    await_starts(w, 3);
    await_state(w, id, "started");
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
    await_state(w, id, "started");
    set_knob(&w->fake, &w->fake.fail_start, CAY_INTERNAL);
    kill_box(w, id);
    await_starts(w, 3);
    set_knob(&w->fake, &w->fake.fail_start, 0);
    await_state(w, id, "error");
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
    await_state(w, id, "gone");
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
    struct cay_error err = {0};
    assert_int_equal(manager_remove_when_idle(w->m, "lab", &err), -CAY_NOT_FOUND);
}

/* ---- creations that nobody waits for ---- */

static void make_later(struct world *w, const char *image) {
    struct sandbox_record request = {.name = "lab"}, made = {0};
    struct cay_error err = {0};
    assert_int_equal(str_copy(request.image_name, sizeof request.image_name, image), 0);
    if (manager_create_later(w->m, &request, &made, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(made.state, SANDBOX_CREATING);
    assert_true(made.reason[0] != '\0');
    sandbox_record_free(&made);
}

static void assert_reason(struct world *w, const char *part) {
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    if (strstr(r.reason, part) == NULL)
        fail_msg("%s", r.reason);
    sandbox_record_free(&r);
}

static void test_later(void **state) {
    struct world *w = *state;
    open_manager(w);
    make_later(w, "slow:3000");
    int64_t until = clock_ms() + 30000;
    struct sandbox_record r = {0};
    for (bool seen = false; !seen && clock_ms() < until; sleep_ms(5)) {
        assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
        seen = str_equal(r.reason, "layer 1 of 7") || r.state != SANDBOX_CREATING;
        sandbox_record_free(&r);
    }
    assert_int_equal(r.state, SANDBOX_CREATING);
    await_state(w, "lab", "started");
    assert_reason(w, "");
    assert_int_equal(w->fake.starts, 1);
}

static void test_later_fails(void **state) {
    struct world *w = *state;
    open_manager(w);
    make_later(w, "bad");
    await_state(w, "lab", "error");
    assert_reason(w, "no such image");
    assert_int_equal(manager_start_sandbox(w->m, "lab", NULL), -CAY_NOT_FOUND); /* still not */
    assert_string_equal(state_of(w, "lab"), "error");
    assert_int_equal(manager_remove(w->m, "lab", false, NULL), 0);

    set_knob(&w->fake, &w->fake.fail_start, CAY_RESOURCE_EXHAUSTED);
    make_later(w, "good");
    await_state(w, "lab", "error");
    set_knob(&w->fake, &w->fake.fail_start, 0);
    assert_int_equal(manager_start_sandbox(w->m, "lab", NULL), 0);
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_int_equal(r.image[0], 'c');
    sandbox_record_free(&r);
}

static void test_removal_cancels_a_pull(void **state) {
    struct world *w = *state;
    open_manager(w);
    int64_t before = clock_ms();
    make_later(w, "slow:60000");
    assert_int_equal(manager_remove(w->m, "lab", false, NULL), 0);
    assert_true(clock_ms() - before < 50000);
    assert_string_equal(state_of(w, "lab"), "gone");
    assert_int_equal(fake_count(&w->fake), 0);
    (void)make_with(w, FAILURE_KEEP); /* the name is free */
}

static void *create_slowly(void *arg) {
    struct world *w = arg;
    struct sandbox_record request = {.name = "lab", .image_name = "slow:60000"}, made = {0};
    return manager_create(w->m, &request, -1, &made, NULL) < 0 ? w : NULL;
}

static void test_removal_cancels_who_waits(void **state) {
    struct world *w = *state;
    pthread_t creator;
    void *result;
    open_manager(w);
    int64_t before = clock_ms();
    assert_int_equal(pthread_create(&creator, NULL, create_slowly, w), 0);
    await_state(w, "lab", "creating");
    assert_int_equal(manager_remove(w->m, "lab", false, NULL), 0);
    assert_int_equal(pthread_join(creator, &result), 0);
    assert_non_null(result);
    assert_true(clock_ms() - before < 50000);
    assert_string_equal(state_of(w, "lab"), "gone");
}

/* What was promised does not vanish with the daemon. */
static void test_interrupted_later(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct db *db;
    struct sandbox_record r = {.id = "0123456789abcdef",
                               .name = "lab",
                               .state = SANDBOX_CREATING,
                               .reason = "layer 3 of 7",
                               .image_name = "good",
                               .memory_bytes = 64 * MEGABYTE,
                               .cpu_quota_us = 100000,
                               .pids = 64,
                               .tier = TIER_BASIC};
    assert_int_equal(db_open("cay.db", &db, &err), 0);
    assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
    db_close(db);
    open_manager(w);
    assert_string_equal(state_of(w, "lab"), "error");
    assert_reason(w, "daemon ended");
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), 0);
}

/* ---- changes ---- */

static void test_update(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record r = {0};
    open_manager(w);
    const char *id = make_with(w, FAILURE_KEEP);
    struct manager_update u = MANAGER_UPDATE_INIT;
    UPDATE_SET(&u, memory_bytes, 128 * MEGABYTE);
    UPDATE_SET(&u, auto_stop_minutes, 7);
    UPDATE_SET(&u, auto_delete_minutes, 0);
    UPDATE_SET(&u, on_failure, FAILURE_RECREATE);
    UPDATE_SET(&u, is_public, true);
    UPDATE_SET(&u, destroy_ms, INT64_MAX);
    assert_int_equal(strv_push(&u.to.labels, "a=1"), 0);
    assert_int_equal(strv_push(&u.to.labels, "b=2"), 0);
    assert_int_equal(manager_update(w->m, id, &u, &err), 0);
    assert_true(w->fake.resized.memory_bytes == 128 * MEGABYTE);
    manager_update_free(&u);

    u = MANAGER_UPDATE_INIT;
    assert_int_equal(strv_push(&u.unlabel, "a"), 0);
    assert_int_equal(strv_push(&u.to.labels, "b=3"), 0);
    assert_int_equal(manager_update(w->m, id, &u, &err), 0);
    manager_update_free(&u);
    reopen_manager(w); /* and it is remembered */
    assert_int_equal(manager_get(w->m, id, &r, NULL), 0);
    assert_true(r.memory_bytes == 128 * MEGABYTE && r.cpu_quota_us == 100000 && r.pids == 64);
    assert_int_equal(r.auto_stop_minutes, 7);
    assert_int_equal(r.auto_delete_minutes, 0);
    assert_int_equal(r.on_failure, FAILURE_RECREATE);
    assert_true(r.is_public && r.destroy_ms == INT64_MAX);
    assert_int_equal(r.labels.len, 1);
    assert_string_equal(r.labels.v[0], "b=3");
    sandbox_record_free(&r);
}

/* At its time, whatever it does; and what is changed counts. */
static void test_destroyed_at_a_time(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct operation *op;
    struct sandbox_record request = {.name = "soon"}, r = {0};
    struct manager_update never = MANAGER_UPDATE_INIT, now = MANAGER_UPDATE_INIT;
    open_manager(w);
    request.destroy_ms = clock_wall_ms() + 2000; /* time enough to begin something in it */
    assert_int_equal(manager_create(w->m, &request, -1, &r, &err), 0);
    sandbox_record_free(&r);
    int fd = begin(w, "soon", &op);
    await_state(w, "soon", "gone");
    end(w, fd, op);

    const char *id = make_with(w, FAILURE_KEEP);
    UPDATE_SET(&now, destroy_ms, clock_wall_ms());
    assert_int_equal(manager_update(w->m, id, &now, &err), 0);
    await_state(w, id, "gone");

    id = make_with(w, FAILURE_KEEP);
    UPDATE_SET(&now, destroy_ms, clock_wall_ms() + 3600 * 1000);
    UPDATE_SET(&never, destroy_ms, 0);
    assert_int_equal(manager_update(w->m, id, &now, &err), 0);
    assert_int_equal(manager_update(w->m, id, &never, &err), 0);
    assert_int_equal(manager_get(w->m, id, &r, &err), 0);
    assert_int_equal(r.destroy_ms, 0);
    sandbox_record_free(&r);
}

static void test_touch(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record before = {0}, after = {0};
    open_manager(w);
    const char *id = make_with(w, FAILURE_KEEP);
    assert_int_equal(manager_get(w->m, id, &before, &err), 0);
    sleep_ms(5);
    assert_int_equal(manager_touch(w->m, id, &err), 0);
    assert_int_equal(manager_get(w->m, id, &after, &err), 0);
    assert_true(after.active_ms > before.active_ms);
    assert_int_equal(manager_touch(w->m, "nobody", &err), -CAY_NOT_FOUND);
    sandbox_record_free(&before);
    sandbox_record_free(&after);
}

static void assert_memory(struct world *w, const char *id, uint64_t bytes) {
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, id, &r, NULL), 0);
    assert_true(r.memory_bytes == bytes);
    sandbox_record_free(&r);
}

static void test_bad_updates(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *id = make_with(w, FAILURE_KEEP);
    const struct manager_update start = MANAGER_UPDATE_INIT;
    struct manager_update cases[5] = {start, start, start, start, start};
    UPDATE_SET(&cases[0], memory_bytes, 1);
    UPDATE_SET(&cases[1], memory_bytes, UINT64_MAX);
    UPDATE_SET(&cases[2], cpu_quota_us, UINT32_MAX);
    UPDATE_SET(&cases[3], pids, UINT32_MAX);
    UPDATE_SET(&cases[4], auto_stop_minutes, INT64_MAX);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (i > 0) /* nothing of it is done */
            UPDATE_SET(&cases[i], memory_bytes,
                       MAX(cases[i].to.memory_bytes, (uint64_t)65 * MEGABYTE));
        assert_int_equal(manager_update(w->m, id, &cases[i], &err), -CAY_INVALID_ARGUMENT);
        assert_memory(w, id, 64 * MEGABYTE);
    }
    struct manager_update u = MANAGER_UPDATE_INIT;
    UPDATE_SET(&u, memory_bytes, 128 * MEGABYTE);
    set_knob(&w->fake, &w->fake.fail_resize, CAY_CONFLICT);
    assert_int_equal(manager_update(w->m, id, &u, &err), -CAY_CONFLICT);
    assert_memory(w, id, 64 * MEGABYTE);
    assert_int_equal(manager_stop_sandbox(w->m, id, &err), 0);
    assert_int_equal(manager_update(w->m, id, &u, &err),
                     0); /* nobody to ask: from the next start */
    assert_memory(w, id, 128 * MEGABYTE);
}

/* ---- volumes ---- */

static int make_sandbox(struct world *w, const char *owner, const char *volume,
                        struct cay_error *err) {
    struct sandbox_record request = {.name = "lab"}, made = {0};
    assert_int_equal(str_copy(request.owner, sizeof request.owner, owner), 0);
    assert_int_equal(strv_push(&request.volumes, volume), 0);
    int r = manager_create(w->m, &request, -1, &made, err);
    strv_free(&request.volumes);
    if (r == 0)
        sandbox_record_free(&made);
    return r;
}

static int make_volume(struct world *w, const struct key *who, const char *name, struct volume *ret,
                       struct cay_error *err) {
    struct volume_request request = {0};
    assert_int_equal(str_copy(request.name, sizeof request.name, name), 0);
    return manager_volume_create(w->m, who, &request, ret, err);
}

static void test_volumes(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct volume v = {0}, other = {0}, *all = NULL;
    size_t count = 0;
    const struct key root = {.scopes = SCOPE_ADMIN},
                     guest = {.id = "fedcba9876543210", .scopes = SCOPE_SANDBOXES};
    open_manager(w);
    assert_int_equal(make_volume(w, &root, "data", &v, &err), 0);
    assert_int_equal(make_volume(w, &root, "data", &other, &err), -CAY_CONFLICT);
    assert_int_equal(make_volume(w, &root, "../x", &other, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(make_volume(w, &guest, "data", &other, &err), 0);
    assert_int_equal(w->fake.volumes, 2);
    assert_int_equal(manager_volume_list(w->m, &guest, &all, &count, &err), 0);
    assert_int_equal(count, 1);
    free(all);
    /* what is another's is not there */
    assert_int_equal(manager_volume_get(w->m, &guest, v.id, &other, &err), -CAY_NOT_FOUND);
    assert_int_equal(manager_volume_remove(w->m, &guest, v.id, &err), -CAY_NOT_FOUND);
    char text[64];
    assert_int_equal(str_format(text, sizeof text, "%s:/data", v.id), 0);
    assert_int_equal(make_sandbox(w, guest.id, text, &err), -CAY_NOT_FOUND);
    assert_int_equal(make_sandbox(w, "", "nothing:/data", &err), -CAY_NOT_FOUND);
    assert_int_equal(make_sandbox(w, "", "data:/proc", &err), -CAY_INVALID_ARGUMENT);

    assert_int_equal(make_sandbox(w, "", "data:/data:ro", &err), 0);
    reopen_manager(w);
    assert_int_equal(manager_volume_remove(w->m, &root, "data", &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.message, "lab"));
    assert_int_equal(manager_remove(w->m, "lab", true, &err), 0);
    set_knob(&w->fake, &w->fake.fail_volume, CAY_INTERNAL);
    assert_int_equal(manager_volume_remove(w->m, &root, "data", &err), -CAY_INTERNAL);
    assert_int_equal(make_volume(w, &root, "more", &other, &err), -CAY_INTERNAL);
    set_knob(&w->fake, &w->fake.fail_volume, 0);
    assert_int_equal(manager_volume_get(w->m, &root, "more", &other, &err), -CAY_NOT_FOUND);
    assert_int_equal(manager_volume_remove(w->m, &root, "data", &err), 0);
    assert_int_equal(manager_volume_get(w->m, &root, v.id, &other, &err), -CAY_NOT_FOUND);
}

/* ---- what changes, and whether it works ---- */

static void test_configure(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record r = {0}, defaults = w->options.defaults, wanted = {.name = "third"};
    struct manager_limits limits = w->options.limits;
    open_manager(w);
    const char *first = make_box(w, "first");
    limits.max_sandboxes = 2;
    defaults.memory_bytes = 96 * MEGABYTE;
    defaults.auto_stop_minutes = 7;
    assert_int_equal(manager_configure(w->m, &limits, &defaults, &err), 0);
    const char *second = make_box(w, "second");
    assert_int_equal(manager_get(w->m, second, &r, &err), 0);
    assert_int_equal(r.memory_bytes, 96 * MEGABYTE);
    assert_int_equal(r.auto_stop_minutes, 7);
    sandbox_record_free(&r);
    assert_int_equal(manager_get(w->m, first, &r, &err), 0); /* what is there stays */
    assert_int_equal(r.memory_bytes, 64 * MEGABYTE);
    sandbox_record_free(&r);
    assert_int_equal(manager_create(w->m, &wanted, -1, &r, &err), -CAY_LIMIT_REACHED);
    assert_non_null(strstr(err.message, "(2)"));
}

/* The clean-up was to come in an hour. */
static void test_shorter_intervals(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct manager_limits limits = w->options.limits;
    open_manager(w);
    const char *id = make_box(w, "idle");
    limits.cleanup_interval_ms = limits.idle_timeout_ms = 50;
    assert_int_equal(manager_configure(w->m, &limits, &w->options.defaults, &err), 0);
    await_state(w, id, "stopped");
}

static void test_health(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    assert_int_equal(manager_health(w->m, &err), 0);
    set_knob(&w->fake, &w->fake.gone_ms, 100); /* it is being replaced */
    assert_int_equal(manager_health(w->m, &err), 0);
    set_knob(&w->fake, &w->fake.gone_ms, 8000);
    assert_int_equal(manager_health(w->m, &err), -CAY_UNAVAILABLE);
    assert_non_null(strstr(err.message, "8 s"));
    set_knob(&w->fake, &w->fake.gone_ms, 0);
    assert_int_equal(rename("cay.db", "elsewhere.db"), 0);
    assert_int_equal(manager_health(w->m, &err), -CAY_UNAVAILABLE);
    assert_non_null(strstr(err.message, "not there any more"));
    assert_int_equal(rename("elsewhere.db", "cay.db"), 0);
    assert_int_equal(manager_health(w->m, &err), 0);
}

/* A full disk is told until it has room again, also if nobody writes meanwhile. */
static void test_health_of_a_full_disk(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record r = {0}, wanted = {.name = "late"};
    (void)signal(SIGXFSZ, SIG_IGN);
    open_manager(w);
    limit_files(4096);
    assert_true(manager_create(w->m, &wanted, -1, &r, &err) < 0);
    assert_int_equal(manager_health(w->m, &err), -CAY_UNAVAILABLE);
    limit_files(RLIM_INFINITY);
    assert_int_equal(manager_health(w->m, &err), 0);
    assert_int_equal(manager_create(w->m, &wanted, -1, &r, &err), 0);
    sandbox_record_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recreate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures_are_counted_across_restarts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_planned_start_survives_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recreate_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_is_no_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_on_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart_is_no_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_when_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_later_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removal_cancels_a_pull, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removal_cancels_who_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interrupted_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_update, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroyed_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_touch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_updates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_volumes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_configure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shorter_intervals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_health, setup, teardown),
        cmocka_unit_test_setup_teardown(test_health_of_a_full_disk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
