/* Tests of what the manager does by itself and of many things at once: adoption after a restart,
 * clean-up, ends that nobody asked for, threads. */
#include "manager_env.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>

#include "wire/wire.h"

/* ---- adoption: what the row says, what the engine has, what becomes of both ---- */

static const char some_id[] = "00c0ffee00c0ffee";

static void put_row(enum sandbox_state state) {
    struct db *db = NULL;
    struct cay_error err = {0};
    struct sandbox_record r = {.name = "lab",
                               .state = state,
                               .auto_delete_minutes = -1,
                               .memory_bytes = 64 * MEGABYTE,
                               .cpu_quota_us = 100000,
                               .pids = 10};
    memcpy(r.id, some_id, sizeof r.id);
    if (db_open("cay.db", &db, &err) < 0 || db_add(db, &r, DB_FLUSH, &err) < 0)
        fail_msg("%s", err.message);
    db_close(db);
}

static void put_engine(struct fake *f, const char *state) {
    if (str_equal(state, "nothing"))
        return;
    (void)fake_put(f, some_id,
                   str_equal(state, "running")  ? ENGINE_RUNNING
                   : str_equal(state, "paused") ? ENGINE_PAUSED
                                                : ENGINE_STOPPED);
}

static const struct {
    enum sandbox_state row;
    const char *engine, *row_after, *engine_after;
} adoptions[] = {
    {SANDBOX_CREATING, "nothing", "gone", "nothing"},
    {SANDBOX_CREATING, "stopped", "gone", "nothing"},
    {SANDBOX_CREATING, "running", "gone", "nothing"},
    {SANDBOX_CREATING, "paused", "gone", "nothing"},
    {SANDBOX_STARTING, "nothing", "error", "nothing"},
    {SANDBOX_STARTING, "stopped", "stopped", "stopped"},
    {SANDBOX_STARTING, "running", "started", "running"},
    {SANDBOX_STARTING, "paused", "paused", "paused"},
    {SANDBOX_STARTED, "nothing", "error", "nothing"},
    {SANDBOX_STARTED, "stopped", "stopped", "stopped"},
    {SANDBOX_STARTED, "running", "started", "running"},
    {SANDBOX_STARTED, "paused", "paused", "paused"},
    {SANDBOX_STOPPING, "nothing", "error", "nothing"},
    {SANDBOX_STOPPING, "stopped", "stopped", "stopped"},
    {SANDBOX_STOPPING, "running", "stopped", "stopped"},
    {SANDBOX_STOPPING, "paused", "stopped", "stopped"},
    {SANDBOX_STOPPED, "nothing", "error", "nothing"},
    {SANDBOX_STOPPED, "stopped", "stopped", "stopped"},
    {SANDBOX_STOPPED, "running", "stopped", "stopped"},
    {SANDBOX_STOPPED, "paused", "stopped", "stopped"},
    {SANDBOX_PAUSED, "nothing", "error", "nothing"},
    {SANDBOX_PAUSED, "stopped", "stopped", "stopped"},
    {SANDBOX_PAUSED, "running", "started", "running"},
    {SANDBOX_PAUSED, "paused", "paused", "paused"},
    {SANDBOX_ARCHIVING, "nothing", "archived", "nothing"},
    {SANDBOX_ARCHIVING, "stopped", "stopped", "stopped"},
    {SANDBOX_ARCHIVING, "running", "stopped", "stopped"},
    {SANDBOX_ARCHIVING, "paused", "stopped", "stopped"},
    {SANDBOX_ARCHIVED, "nothing", "archived", "nothing"},
    {SANDBOX_ARCHIVED, "stopped", "archived", "nothing"},
    {SANDBOX_ARCHIVED, "running", "stopped", "stopped"},
    {SANDBOX_ARCHIVED, "paused", "stopped", "stopped"},
    {SANDBOX_RESTORING, "nothing", "archived", "nothing"},
    {SANDBOX_RESTORING, "stopped", "stopped", "stopped"},
    {SANDBOX_RESTORING, "running", "started", "running"},
    {SANDBOX_RESTORING, "paused", "paused", "paused"},
    {SANDBOX_DESTROYING, "nothing", "gone", "nothing"},
    {SANDBOX_DESTROYING, "stopped", "gone", "nothing"},
    {SANDBOX_DESTROYING, "running", "gone", "nothing"},
    {SANDBOX_DESTROYING, "paused", "gone", "nothing"},
    {SANDBOX_ERROR, "nothing", "error", "nothing"},
    {SANDBOX_ERROR, "stopped", "error", "stopped"},
    {SANDBOX_ERROR, "running", "error", "stopped"},
    {SANDBOX_ERROR, "paused", "error", "stopped"},
};

static void test_adoption(void **state) {
    struct world *w = *state;
    assert_int_equal(ARRAY_LEN(adoptions), SANDBOX_STATE_COUNT * 4);
    for (size_t i = 0; i < ARRAY_LEN(adoptions); i++) {
        put_row(adoptions[i].row);
        put_engine(&w->fake, adoptions[i].engine);
        open_manager(w);
        for (int round = 0; round < 2; round++) { /* and it is on disk */
            if (!str_equal(state_of(w, "lab"), adoptions[i].row_after) ||
                !str_equal(fake_state(&w->fake, some_id), adoptions[i].engine_after))
                fail_msg("%s, %s: row %s, engine %s", sandbox_state_name(adoptions[i].row),
                         adoptions[i].engine, state_of(w, "lab"), fake_state(&w->fake, some_id));
            reopen_manager(w);
        }
        (void)manager_remove(w->m, "lab", true, NULL);
        close_manager(w);
        assert_int_equal(fake_count(&w->fake), 0);
    }
}

static void test_restart(void **state) {
    struct world *w = *state;
    struct operation *op;
    open_manager(w);
    const char *id = make_box(w, "lab");
    (void)fake_put(&w->fake, "deadbeefdeadbeef", ENGINE_RUNNING);
    unsigned starts = w->fake.starts;
    reopen_manager(w);
    assert_string_equal(state_of(w, id), "started");
    assert_int_equal(w->fake.starts, starts); /* it ran all the time */
    assert_string_equal(fake_state(&w->fake, "deadbeefdeadbeef"), "nothing");
    int fd = begin(w, "lab", &op);
    end(w, fd, op);
}

/* A new database in place of one that was lost must not cost what it knew. */
/* What could not be finished at the beginning is not left so until the next clean-up, which is an
 * hour away here. */
static void test_half_done_is_done_soon(void **state) {
    struct world *w = *state;
    const enum sandbox_state left[] = {SANDBOX_CREATING, SANDBOX_DESTROYING};
    w->options.limits.recover_ms = 5;
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        put_row(left[i]);
        put_engine(&w->fake, "running");
        set_knob(&w->fake, &w->fake.fail_remove, CAY_INTERNAL);
        open_manager(w);
        assert_string_equal(state_of(w, "lab"), "destroying");
        set_knob(&w->fake, &w->fake.fail_remove, 0);
        await_state(w, "lab", "gone");
        assert_int_equal(fake_count(&w->fake), 0);
        close_manager(w);
    }
}

/* The same of a creation that failed, also after several tries, which are not too many. */
static void test_failed_creation_goes_soon(void **state) {
    enum { TRIES_MAX = 20 };
    struct world *w = *state;
    struct sandbox_record request = {.name = "lab"}, made = {0};
    struct cay_error err = {0};
    w->options.limits.recover_ms = 5;
    open_manager(w);
    set_knob(&w->fake, &w->fake.fail_start, CAY_RESOURCE_EXHAUSTED);
    set_knob(&w->fake, &w->fake.fail_remove, CAY_INTERNAL);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), -CAY_RESOURCE_EXHAUSTED);
    sleep_ms(200);
    assert_string_equal(state_of(w, "lab"), "destroying");
    assert_in_range(w->fake.removes, 1, TRIES_MAX);
    set_knob(&w->fake, &w->fake.fail_remove, 0);
    await_state(w, "lab", "gone");
}

static void test_lost_database(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    (void)fake_put(&w->fake, some_id, ENGINE_RUNNING);
    for (int i = 0; i < 2; i++) { /* nor at the second try */
        assert_int_equal(manager_open(&w->options, &w->m, &err), 0);
        assert_int_equal(manager_start(w->m, &w->fake.engine, &err), -CAY_CONFLICT);
        assert_non_null(strstr(err.message, some_id));
        assert_true(err.remedy[0] != '\0');
        close_manager(w);
    }
    assert_string_equal(fake_state(&w->fake, some_id), "running");
}

static void test_engine_away(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    put_row(SANDBOX_STARTED);
    put_engine(&w->fake, "running");
    w->fake.fail_list = CAY_UNAVAILABLE;
    assert_int_equal(manager_open(&w->options, &w->m, &err), 0);
    assert_int_equal(manager_start(w->m, &w->fake.engine, &err), -CAY_UNAVAILABLE);
    assert_string_equal(state_of(w, "lab"), "started"); /* not known to have ended */
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), -CAY_UNAVAILABLE);
}

/* ---- ends ---- */

static void kill_box(struct world *w, const char *id, int status, bool oom, bool told) {
    assert_int_equal(fake_set(&w->fake, id, ENGINE_STOPPED, NULL), 0);
    if (told)
        fake_report(&w->fake, id, ENGINE_END_UNASKED, status, oom);
}

static void test_ends(void **state) {
    struct world *w = *state;
    static const struct {
        int status;
        bool oom, told;
        const char *state, *reason;
    } cases[] = {
        {0, false, true, "stopped", "ended with status 0"},
        {-1, false, true, "error", "has ended; how is not known"},
        {0, false, false, "stopped", "while nothing watched it"}, /* seen only */
        {3 << 8, false, true, "error", "ended with status 3"},
        {SIGKILL, false, true, "error", "signal 9 (SIGKILL)"},
        {SIGKILL, true, true, "error", "out of memory (limit 64.0 MB)"},
        {-1, true, true, "error", "out of memory"},
    };
    w->options.limits.cleanup_interval_ms = 100;
    open_manager(w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *id = make_box(w, "lab");
        struct operation *op;
        int fd = begin(w, "lab", &op); /* what it did is over, and does not keep it alive */
        kill_box(w, id, cases[i].status, cases[i].oom, cases[i].told);
        await_state(w, id, cases[i].state);
        end(w, fd, op);
        struct sandbox_record r;
        assert_int_equal(manager_get(w->m, id, &r, NULL), 0);
        if (strstr(r.reason, cases[i].reason) == NULL)
            fail_msg("case %zu: %s", i, r.reason);
        assert_true(str_equal(cases[i].state, "stopped") || r.remedy[0] != '\0');
        sandbox_record_free(&r);
        assert_int_equal(manager_start_sandbox(w->m, "lab", NULL), 0);
        assert_int_equal(manager_remove(w->m, "lab", false, NULL), 0);
    }
}

static unsigned lists_of(struct world *w) {
    (void)pthread_mutex_lock(&w->fake.lock);
    unsigned lists = w->fake.lists;
    (void)pthread_mutex_unlock(&w->fake.lock);
    return lists;
}

/* Or each removal would cost as much as there are sandboxes. */
static void test_asked_ends_compare_nothing(void **state) {
    struct world *w = *state;
    open_manager(w);
    unsigned before = lists_of(w);
    for (size_t i = 0; i < 20; i++) {
        (void)make_box(w, "lab");
        if (i % 2 == 0)
            assert_int_equal(manager_stop_sandbox(w->m, "lab", NULL), 0);
        assert_int_equal(manager_remove(w->m, "lab", true, NULL), 0);
    }
    sleep_ms(50); /* for a reaper that was woken */
    assert_int_equal(lists_of(w), before);
    const char *id = make_box(w, "lab");
    kill_box(w, id, SIGKILL, false, true);
    await_state(w, id, "error");
    assert_true(lists_of(w) > before);
}

/* News of an earlier life come late. */
static void test_late_end(void **state) {
    struct world *w = *state;
    w->options.limits.cleanup_interval_ms = 50;
    open_manager(w);
    const char *id = make_box(w, "lab");
    fake_report(&w->fake, id, ENGINE_END_UNASKED, SIGKILL, true);
    fake_report(&w->fake, "0000000000000000", ENGINE_END_UNASKED, 0, false); /* of nobody we know */
    sleep_ms(300);
    assert_string_equal(state_of(w, id), "started");
}

static void test_dead_connection(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct operation *op;
    struct sandbox_record r;
    open_manager(w);
    const char *id = make_box(w, "lab");
    kill_box(w, id, 0, false, false);
    assert_int_equal(manager_begin(w->m, "lab", &op, &r, &err), -CAY_UNAVAILABLE);
    assert_true(err.remedy[0] != '\0');
    await_state(w, id, "stopped"); /* which is how it was noticed */
    struct manager_totals totals;
    manager_totals(w->m, NULL, &totals);
    assert_int_equal(totals.operations, 0);
}

/* ---- clean-up ---- */

static void test_idle(void **state) {
    struct world *w = *state;
    struct operation *op;
    w->options.limits.cleanup_interval_ms = 50;
    w->options.limits.idle_timeout_ms = 2000;
    open_manager(w);
    const char *busy = make_box(w, "busy");
    int fd = begin(w, busy, &op);
    const char *idle = make_box(w, "idle"); /* so the other one was touched before it */
    await_state(w, idle, "stopped");
    sleep_ms(200); /* a few clean-ups later */
    assert_string_equal(state_of(w, busy), "started");
    int64_t ended = clock_ms();
    end(w, fd, op);
    sleep_ms(200);
    const char *now = state_of(w, busy); /* it counts from the end */
    assert_true(str_equal(now, "started") || clock_ms() - ended >= 2000);
    await_state(w, busy, "stopped");
    assert_string_equal(state_of(w, idle), "stopped"); /* and is not deleted */
}

/* A cay-init where nothing goes on. */
static void *answer_all(void *arg) {
    static const unsigned char done[8] = {[4] = 20};
    char request[256];
    for (;;) {
        int fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        if (read(fd, request, sizeof request) > 0)
            (void)!write(fd, done, sizeof done);
        (void)close(fd);
    }
}

static unsigned count_stops(struct world *w) {
    struct audit_row *rows;
    size_t count;
    unsigned stops = 0;
    assert_int_equal(manager_audit_list(w->m, 0, 0, 1000, &rows, &count, NULL), 0);
    for (size_t i = 0; i < count; i++)
        stops += str_equal(rows[i].action, "sandbox.stop");
    free(rows);
    return stops;
}

/* Who does not say what goes on in it may be slow; it is asked again. */
static void test_silence(void **state) {
    struct world *w = *state;
    pthread_t init;
    char request[256];
    w->options.limits.cleanup_interval_ms = w->options.limits.idle_timeout_ms = 50;
    w->options.limits.silence_ms = 3600 * 1000;
    open_manager(w);
    const char *id = make_box(w, "lab");
    int listener = fcntl(fake_find(&w->fake, id)->listener, F_DUPFD_CLOEXEC, 3);
    int asked = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(asked >= 0);
    while (read(asked, request, sizeof request) > 0) /* until it is given up */
        ;
    (void)close(asked);
    assert_string_equal(state_of(w, id), "started");
    assert_int_equal(pthread_create(&init, NULL, answer_all, &listener), 0);
    await_state(w, id, "stopped");
    assert_int_equal(count_stops(w), 1); /* what was not done is not noted */
    assert_int_equal(shutdown(listener, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(init, NULL), 0);
    (void)close(listener);
}

/* A cay-init that is slow: it answers the second question after an operation, and all that follow,
 * with a command that runs. Who only connects is an operation. */
struct slow_init {
    int listener;
    atomic_uint questions; /* that are over */
};

static void *answer_late(void *arg) {
    struct slow_init *s = arg;
    char request[256];
    int vain = INT_MAX;
    for (int fd; (fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; (void)close(fd)) {
        struct buf b = BUF_INIT(64);
        bool is_question = read(fd, request, sizeof request) > 0;
        wire_put_number(&b, WIRE_TAG_COMMANDS, 1);
        if (!is_question)
            vain = 1;
        else if (vain-- == 0 && wire_send(fd, WIRE_DONE, &b) == 0)
            vain = 0;
        while (read(fd, request, sizeof request) > 0)
            ;
        atomic_fetch_add(&s->questions, is_question);
        buf_free(&b);
    }
    return NULL;
}

/* What counts is how long it has been silent since it may be stopped, not since it once was. */
static void test_silence_of_before(void **state) {
    struct world *w = *state;
    pthread_t init;
    struct operation *op;
    w->options.limits.cleanup_interval_ms = w->options.limits.idle_timeout_ms = 50;
    w->options.limits.silence_ms = 2500;
    open_manager(w);
    const char *id = make_box(w, "lab");
    struct slow_init s = {0};
    s.listener = fcntl(fake_find(&w->fake, id)->listener, F_DUPFD_CLOEXEC, 3);
    assert_int_equal(pthread_create(&init, NULL, answer_late, &s), 0);
    while (atomic_load(&s.questions) == 0)
        sleep_ms(5);
    int fd = begin(w, id, &op);
    sleep_ms(2700);
    unsigned before = atomic_load(&s.questions);
    end(w, fd, op);
    while (atomic_load(&s.questions) < before + 2) {
        assert_string_equal(state_of(w, id), "started");
        sleep_ms(5);
    }
    assert_string_equal(state_of(w, id), "started");
    assert_int_equal(manager_stop_sandbox(w->m, id, NULL), 0);
    assert_int_equal(shutdown(s.listener, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(init, NULL), 0);
    (void)close(s.listener);
}

static void test_auto_delete(void **state) {
    struct world *w = *state;
    struct sandbox_record request = {.name = "now", .auto_delete_minutes = INTERVAL_AT_ONCE}, made;
    open_manager(w); /* with an interval of an hour */
    assert_int_equal(manager_create(w->m, &request, -1, &made, NULL), 0);
    sandbox_record_free(&made);
    request = (struct sandbox_record){.name = "later", .auto_delete_minutes = 1};
    assert_int_equal(manager_create(w->m, &request, -1, &made, NULL), 0);
    sandbox_record_free(&made);
    assert_int_equal(manager_stop_sandbox(w->m, "later", NULL), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "now", NULL), 0);
    await_state(w, "now", "gone");
    assert_string_equal(state_of(w, "later"), "stopped");
    assert_int_equal(fake_count(&w->fake), 1);
}

/* ---- many at once ---- */

struct job {
    struct world *w;
    const char *name, *image;
    int code;
    unsigned seed;
    struct cay_error err;
};

static void *create_box(void *arg) {
    struct job *j = arg;
    struct sandbox_record request = {0}, made = {0};
    (void)snprintf(request.name, sizeof request.name, "%s", j->name);
    (void)snprintf(request.image_name, sizeof request.image_name, "%s", j->image);
    j->code = manager_create(j->w->m, &request, -1, &made, &j->err);
    if (j->code == 0)
        sandbox_record_free(&made);
    return NULL;
}

static void test_slow_pull(void **state) {
    struct world *w = *state;
    struct job slow = {.w = w, .name = "slow", .image = "held"};
    pthread_t thread;
    open_manager(w);
    assert_int_equal(pthread_create(&thread, NULL, create_box, &slow), 0);
    await_state(w, "slow", "creating");
    struct operation *op;
    (void)make_box(w, "quick"); /* nobody waits for the other one */
    int fd = begin(w, "quick", &op);
    end(w, fd, op);
    assert_int_equal(manager_remove(w->m, "quick", false, NULL), 0);
    assert_string_equal(state_of(w, "slow"), "creating");
    int go = open("go", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(go >= 0);
    (void)close(go);
    fd = begin(w, "slow", &op); /* waits until it is there */
    end(w, fd, op);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(slow.code, 0);
    assert_string_equal(state_of(w, "slow"), "started");
}

/* So many at the same time. */
static void await_starts(struct world *w, unsigned count) {
    for (int64_t until = clock_ms() + 30000;; sleep_ms(5)) {
        (void)pthread_mutex_lock(&w->fake.lock);
        unsigned most = w->fake.most;
        (void)pthread_mutex_unlock(&w->fake.lock);
        if (most >= count)
            return;
        if (clock_ms() > until)
            fail_msg("at most %u at a time, not %u", most, count);
    }
}

static void await_count(struct world *w, const unsigned *counter, unsigned least) {
    for (int64_t until = clock_ms() + 45000;; sleep_ms(2)) {
        (void)pthread_mutex_lock(&w->fake.lock);
        unsigned now = *counter;
        (void)pthread_mutex_unlock(&w->fake.lock);
        if (now >= least)
            return;
        if (clock_ms() > until)
            fail_msg("%u, not %u", now, least);
    }
}

/* The engine is asked for its list while a sandbox is being made, and answers when it has been
 * made: the list is older than the sandbox, which has lost nothing. */
static void test_a_list_from_before(void **state) {
    struct world *w = *state;
    struct job job = {.w = w, .name = "fresh", .image = "any"};
    pthread_t thread;
    w->options.limits.cleanup_interval_ms = 5;
    w->fake.delay_start = -1;
    open_manager(w);
    assert_int_equal(pthread_create(&thread, NULL, create_box, &job), 0);
    await_count(w, &w->fake.under_way, 1);
    set_knob(&w->fake, &w->fake.delay_list, -1);
    await_count(w, &w->fake.listing, 1);
    set_knob(&w->fake, &w->fake.delay_start, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(job.code, 0);
    unsigned lists = w->fake.lists;
    set_knob(&w->fake, &w->fake.delay_list, 0);
    await_count(w, &w->fake.lists, lists + 2);
    assert_string_equal(state_of(w, "fresh"), "started");
}

static void test_parallel_creations(void **state) {
    enum { MANY = 12, ALLOWED = 8 };
    struct world *w = *state;
    struct job jobs[MANY];
    pthread_t threads[MANY];
    unsigned made = 0;
    w->options.limits.max_sandboxes = ALLOWED;
    w->fake.delay_start = -1;
    open_manager(w);
    for (size_t i = 0; i < MANY; i++) {
        jobs[i] = (struct job){.w = w, .name = "", .image = "slow:20"};
        assert_int_equal(pthread_create(&threads[i], NULL, create_box, &jobs[i]), 0);
    }
    await_starts(w, ALLOWED); /* none waits for another */
    set_knob(&w->fake, &w->fake.delay_start, 0);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(jobs[i].code == 0 || jobs[i].code == -CAY_LIMIT_REACHED);
        made += jobs[i].code == 0;
    }
    assert_int_equal(made, ALLOWED);
    assert_int_equal(fake_count(&w->fake), ALLOWED);
}

static void test_one_name(void **state) {
    enum { MANY = 8 };
    struct world *w = *state;
    struct job jobs[MANY];
    pthread_t threads[MANY];
    unsigned made = 0;
    open_manager(w);
    for (size_t i = 0; i < MANY; i++) {
        jobs[i] = (struct job){.w = w, .name = "lab", .image = "slow:50"};
        assert_int_equal(pthread_create(&threads[i], NULL, create_box, &jobs[i]), 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        made += jobs[i].code == 0;
        assert_true(jobs[i].code == 0 || jobs[i].code == -CAY_CONFLICT);
    }
    assert_int_equal(made, 1);
}

static void *start_box(void *arg) {
    struct job *j = arg;
    j->code = manager_start_sandbox(j->w->m, j->name, &j->err);
    return NULL;
}

static void *remove_box(void *arg) {
    struct job *j = arg;
    j->code = manager_remove(j->w->m, j->name, false, &j->err);
    return NULL;
}

/* Deletion waits for a start, and a second start finds it done. */
static void test_turns(void **state) {
    struct world *w = *state;
    struct job jobs[2] = {{.w = w, .name = "lab"}, {.w = w, .name = "lab"}};
    pthread_t threads[2];
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(manager_stop_sandbox(w->m, "lab", NULL), 0);
    set_knob(&w->fake, &w->fake.delay_start, -1); /* until we have seen it */
    unsigned starts = w->fake.starts;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_box, &jobs[i]), 0);
    await_state(w, "lab", "starting");
    set_knob(&w->fake, &w->fake.delay_start, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(jobs[i].code, 0);
    }
    assert_int_equal(w->fake.starts, starts + 1);

    assert_int_equal(manager_stop_sandbox(w->m, "lab", NULL), 0);
    set_knob(&w->fake, &w->fake.delay_start, -1);
    assert_int_equal(pthread_create(&threads[0], NULL, start_box, &jobs[0]), 0);
    await_state(w, "lab", "starting");
    assert_int_equal(pthread_create(&threads[1], NULL, remove_box, &jobs[1]), 0);
    sleep_ms(50); /* for it to wait */
    assert_string_equal(state_of(w, "lab"), "starting");
    set_knob(&w->fake, &w->fake.delay_start, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(jobs[i].code, 0);
    }
    assert_int_equal(fake_count(&w->fake), 0);
}

/* The clean-up calls it an error; if it works out after all, it is none. */
static void test_too_slow(void **state) {
    struct world *w = *state;
    struct job job = {.w = w, .name = "lab"};
    struct sandbox_record r;
    pthread_t thread;
    w->options.limits.cleanup_interval_ms = 50;
    w->options.limits.transition_ms = 300;
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(manager_stop_sandbox(w->m, "lab", NULL), 0);
    set_knob(&w->fake, &w->fake.delay_start, -1);
    assert_int_equal(pthread_create(&thread, NULL, start_box, &job), 0);
    await_state(w, "lab", "error");
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_non_null(strstr(r.reason, "starting"));
    sandbox_record_free(&r);
    struct cay_error err = {0};
    assert_int_equal(manager_remove(w->m, "lab", true, &err), -CAY_CONFLICT); /* not for ever */
    set_knob(&w->fake, &w->fake.delay_start, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(job.code, 0);
    assert_string_equal(state_of(w, "lab"), "started");
}

/* ---- the end ---- */

static atomic_bool ended;

static void *end_later(void *arg) {
    struct world *w = arg;
    struct operation *op;
    struct manager_totals totals = {0};
    int fd = begin(w, "lab", &op);
    for (; !totals.shutting_down; sleep_ms(5))
        manager_totals(w->m, NULL, &totals);
    struct cay_error err = {0};
    struct sandbox_record request = {0}, made;
    int r = manager_create(w->m, &request, -1, &made, &err); /* it is closing by now */
    sleep_ms(200);
    ended = true;
    end(w, fd, op);
    return r == -CAY_UNAVAILABLE ? NULL : arg;
}

static void test_drain(void **state) {
    struct world *w = *state;
    struct manager_totals totals = {0};
    pthread_t thread;
    void *failed;
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(pthread_create(&thread, NULL, end_later, w), 0);
    while (totals.operations == 0)
        manager_totals(w->m, NULL, &totals);
    int64_t before = clock_ms();
    manager_drain(w->m, 30000);
    assert_true(ended); /* it was waited for, and no longer than it took */
    assert_true(clock_ms() - before < 30000);
    manager_totals(w->m, NULL, &totals);
    assert_true(totals.shutting_down);
    assert_int_equal(totals.operations, 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(w->fake.stops, 0); /* sandboxes stay */
}

/* ---- everything ---- */

enum { HAMMERS = 4, BLOWS = 60 };

static void *hammer(void *arg) {
    struct job *j = arg;
    struct manager *m = j->w->m;
    unsigned seed = j->seed;
    for (unsigned i = 0; i < BLOWS; i++) {
        char name[8];
        struct operation *op;
        struct sandbox_record r = {0}, request = {0};
        (void)snprintf(name, sizeof name, "b%d", rand_r(&seed) % 5);
        memcpy(request.name, name, sizeof name);
        int fd;
        switch (rand_r(&seed) % 9) {
        case 0:
        case 1:
            if (manager_create(m, &request, -1, &r, NULL) == 0)
                sandbox_record_free(&r);
            break;
        case 2:
            (void)manager_stop_sandbox(m, name, NULL);
            break;
        case 3:
            (void)manager_start_sandbox(m, name, NULL);
            break;
        case 4:
            (void)manager_remove(m, name, rand_r(&seed) % 2 == 0, NULL);
            break;
        case 5:
            (void)manager_pause(m, name, NULL);
            (void)manager_resume(m, name, NULL);
            break;
        default:
            fd = manager_begin(m, name, &op, &r, NULL);
            if (fd < 0)
                break;
            sandbox_record_free(&r);
            (void)close(fd);
            manager_end(m, op);
        }
    }
    return NULL;
}

static void test_hammer(void **state) {
    struct world *w = *state;
    struct job jobs[HAMMERS];
    pthread_t threads[HAMMERS];
    w->options.limits.cleanup_interval_ms = 5;
    w->options.limits.stop_grace_ms = 10;
    open_manager(w);
    for (size_t i = 0; i < HAMMERS; i++) {
        jobs[i] = (struct job){.w = w, .seed = (unsigned)i};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &jobs[i]), 0);
    }
    for (size_t i = 0; i < HAMMERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct sandbox_record *all;
    size_t count;
    assert_int_equal(manager_list(w->m, &all, &count, NULL), 0);
    assert_int_equal(count, fake_count(&w->fake));
    for (size_t i = 0; i < count; i++) {
        const char *is = fake_state(&w->fake, all[i].id);
        const char *expected = all[i].state == SANDBOX_STARTED   ? "running"
                               : all[i].state == SANDBOX_PAUSED  ? "paused"
                               : all[i].state == SANDBOX_STOPPED ? "stopped"
                                                                 : "none of these";
        assert_string_equal(is, expected);
        sandbox_record_free(&all[i]);
    }
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_adoption, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_done_is_done_soon, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_creation_goes_soon, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_database, setup, teardown),
        cmocka_unit_test_setup_teardown(test_engine_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_asked_ends_compare_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dead_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence_of_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_auto_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_pull, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_list_from_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parallel_creations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hammer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
