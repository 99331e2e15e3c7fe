/* Tests of what is asked of the manager: requests, names, transitions, operations. */
#include "manager_env.h"

#include <signal.h>

/* ---- one life ---- */

static void test_life(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *id = make_box(w, "lab");
    assert_string_equal(state_of(w, "lab"), "started");
    assert_string_equal(fake_state(&w->fake, id), "running");

    struct operation *op;
    int fd = begin(w, "lab", &op);
    int inside = accept4(fake_find(&w->fake, id)->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(inside >= 0);
    assert_int_equal(write(inside, "hello", 5), 5);
    char text[5];
    assert_int_equal(fd_read_all(fd, text, sizeof text), 1);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    (void)close(inside);
    end(w, fd, op);

    assert_int_equal(manager_pause(w->m, "lab", &err), 0);
    assert_string_equal(fake_state(&w->fake, id), "paused");
    assert_int_equal(manager_resume(w->m, "lab", &err), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), 0);
    assert_string_equal(fake_state(&w->fake, id), "stopped");
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), 0);
    fd = begin(w, "lab", &op);
    end(w, fd, op);
    char path[64];
    assert_int_equal(str_format(path, sizeof path, "run/%s.sock", id), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(manager_remove(w->m, "lab", false, &err), 0);
    assert_string_equal(fake_state(&w->fake, id), "nothing");
    assert_string_equal(state_of(w, id), "gone");
    assert_int_equal(access(path, F_OK), -1);
}

enum verb { CREATE, START, STOP, PAUSE, RESUME, BEGIN, STATS };

static int run_verb(struct world *w, enum verb verb, const char *who, struct cay_error *err) {
    struct engine_stats stats;
    struct sandbox_record r = {0};
    struct operation *op;
    switch (verb) {
    case START:
        return manager_start_sandbox(w->m, who, err);
    case STOP:
        return manager_stop_sandbox(w->m, who, err);
    case PAUSE:
        return manager_pause(w->m, who, err);
    case RESUME:
        return manager_resume(w->m, who, err);
    case STATS:
        return manager_stats(w->m, who, &stats, err);
    default:
        break;
    }
    int fd = manager_begin(w->m, who, &op, &r, err);
    if (fd < 0)
        return fd;
    sandbox_record_free(&r);
    end(w, fd, op);
    return 0;
}

static void bring_to(struct world *w, const char *who, const char *state) {
    if (str_equal(state, "stopped"))
        assert_int_equal(manager_stop_sandbox(w->m, who, NULL), 0);
    if (str_equal(state, "paused"))
        assert_int_equal(manager_pause(w->m, who, NULL), 0);
    if (str_equal(state, "error")) {
        assert_int_equal(manager_stop_sandbox(w->m, who, NULL), 0);
        set_knob(&w->fake, &w->fake.fail_start, CAY_INTERNAL);
        assert_int_equal(manager_start_sandbox(w->m, who, NULL), -CAY_INTERNAL);
        set_knob(&w->fake, &w->fake.fail_start, 0);
    }
    assert_string_equal(state_of(w, who), state);
}

static void test_transitions(void **state) {
    struct world *w = *state;
    static const struct {
        const char *from;
        enum verb verb;
        int code;
        const char *to;
        const char *remedy; /* part of it */
    } cases[] = {
        {"started", START, 0, "started", NULL},
        {"started", STOP, 0, "stopped", NULL},
        {"started", PAUSE, 0, "paused", NULL},
        {"started", RESUME, 0, "started", NULL},
        {"started", BEGIN, 0, "started", NULL},
        {"started", STATS, 0, "started", NULL},
        {"stopped", START, 0, "started", NULL},
        {"stopped", STOP, 0, "stopped", NULL},
        {"stopped", PAUSE, -CAY_CONFLICT, "stopped", "cay start"},
        {"stopped", RESUME, -CAY_CONFLICT, "stopped", "cay start"},
        {"stopped", BEGIN, -CAY_CONFLICT, "stopped", "cay start"},
        {"stopped", STATS, -CAY_CONFLICT, "stopped", "cay start"},
        {"paused", START, -CAY_CONFLICT, "paused", "cay resume"},
        {"paused", STOP, 0, "stopped", NULL},
        {"paused", PAUSE, 0, "paused", NULL},
        {"paused", RESUME, 0, "started", NULL},
        {"paused", BEGIN, -CAY_CONFLICT, "paused", "cay resume"},
        {"paused", STATS, 0, "paused", NULL},
        {"error", START, 0, "started", NULL},
        {"error", STOP, -CAY_CONFLICT, "error", "cay start"},
        {"error", PAUSE, -CAY_CONFLICT, "error", "cay start"},
        {"error", RESUME, -CAY_CONFLICT, "error", "cay start"},
        {"error", BEGIN, -CAY_CONFLICT, "error", "cay start"},
        {"error", STATS, -CAY_CONFLICT, "error", "cay start"},
    };
    open_manager(w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        (void)make_box(w, "lab");
        bring_to(w, "lab", cases[i].from);
        int r = run_verb(w, cases[i].verb, "lab", &err);
        if (r != cases[i].code || !str_equal(state_of(w, "lab"), cases[i].to))
            fail_msg("case %zu: %d (%s), %s", i, r, err.message, state_of(w, "lab"));
        if (cases[i].remedy != NULL)
            assert_non_null(strstr(err.remedy, cases[i].remedy));
        assert_int_equal(manager_remove(w->m, "lab", false, &err), 0);
    }
}

/* ---- failures ---- */

static void test_failed_start(void **state) {
    struct world *w = *state;
    open_manager(w);
    (void)make_box(w, "lab");
    bring_to(w, "lab", "error");
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_non_null(strstr(r.reason, "does not want to"));
    assert_non_null(strstr(r.remedy, "persuade it"));
    sandbox_record_free(&r);
    reopen_manager(w); /* and it is remembered */
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_int_equal(r.state, SANDBOX_ERROR);
    assert_non_null(strstr(r.reason, "does not want to"));
    sandbox_record_free(&r);
    assert_int_equal(manager_start_sandbox(w->m, "lab", NULL), 0);
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_string_equal(r.reason, "");
    sandbox_record_free(&r);
    bring_to(w, "lab", "error");
    assert_int_equal(manager_remove(w->m, "lab", false, NULL), 0);
}

static void test_failed_creation(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record request = {.name = "lab"}, made;
    open_manager(w);
    w->fake.fail_start = CAY_RESOURCE_EXHAUSTED;
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), -CAY_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.message, "does not want to"));
    assert_string_equal(state_of(w, "lab"), "gone");
    assert_int_equal(fake_count(&w->fake), 0);

    assert_int_equal(str_copy(request.image_name, sizeof request.image_name, "bad"), 0);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), -CAY_NOT_FOUND);
    assert_string_equal(err.message, "no such image");
    assert_string_equal(state_of(w, "lab"), "gone");

    /* what cannot be taken away now is taken away later */
    request.image_name[0] = '\0';
    w->fake.fail_remove = CAY_INTERNAL;
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), -CAY_RESOURCE_EXHAUSTED);
    assert_string_equal(state_of(w, "lab"), "destroying");
    w->fake.fail_remove = w->fake.fail_start = 0;
    reopen_manager(w);
    assert_string_equal(state_of(w, "lab"), "gone");
    (void)make_box(w, "lab");
}

/* The launcher died, and is started again by somebody. */
static void test_engine_comes_back(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    set_knob(&w->fake, &w->fake.away, 3);
    const char *id = make_box(w, "lab");
    set_knob(&w->fake, &w->fake.away, 2);
    assert_int_equal(manager_pause(w->m, id, &err), 0);
    assert_int_equal(manager_resume(w->m, id, &err), 0);
    set_knob(&w->fake, &w->fake.away, 2);
    assert_int_equal(manager_stop_sandbox(w->m, id, &err), 0);
    assert_string_equal(fake_state(&w->fake, id), "stopped");
    set_knob(&w->fake, &w->fake.away, 2);
    assert_int_equal(manager_start_sandbox(w->m, id, &err), 0);
    set_knob(&w->fake, &w->fake.away, 2);
    assert_int_equal(manager_remove(w->m, id, false, &err), 0);
    assert_int_equal(fake_count(&w->fake), 0);
}

static void test_failed_removal(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    w->options.limits.recover_ms = 3600 * 1000; /* nobody but us tries again */
    open_manager(w);
    (void)make_box(w, "lab");
    set_knob(&w->fake, &w->fake.fail_remove, CAY_INTERNAL);
    assert_int_equal(manager_remove(w->m, "lab", false, &err), -CAY_INTERNAL);
    assert_string_equal(state_of(w, "lab"), "destroying");
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), -CAY_CONFLICT);
    set_knob(&w->fake, &w->fake.fail_remove, 0);
    assert_int_equal(manager_remove(w->m, "lab", false, &err), 0);
    assert_string_equal(state_of(w, "lab"), "gone");
}

static void test_disk_full(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record request = {.name = "new"}, made;
    (void)signal(SIGXFSZ, SIG_IGN);
    open_manager(w);
    const char *runs = make_box(w, "runs"), *stopped = make_box(w, "stopped");
    (void)make_box(w, "big");
    assert_int_equal(manager_stop_sandbox(w->m, stopped, &err), 0);

    limit_files(1);
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), -CAY_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.remedy, "free space"));
    assert_string_equal(state_of(w, "new"), "gone");
    assert_int_equal(fake_count(&w->fake), 3);
    assert_int_equal(manager_start_sandbox(w->m, stopped, &err), -CAY_RESOURCE_EXHAUSTED);
    assert_string_equal(state_of(w, stopped), "stopped");
    assert_int_equal(manager_rename(w->m, runs, "walks", &err), -CAY_RESOURCE_EXHAUSTED);
    assert_string_equal(state_of(w, "walks"), "gone");

    /* what ends things works, since that is what frees a disk */
    assert_int_equal(manager_stop_sandbox(w->m, runs, &err), 0);
    assert_string_equal(state_of(w, runs), "stopped");
    assert_int_equal(manager_remove(w->m, runs, false, &err), -CAY_RESOURCE_EXHAUSTED);
    w->fake.frees_disk = true;
    assert_int_equal(manager_remove(w->m, "big", false, &err), 0);
    reopen_manager(w);
    assert_string_equal(state_of(w, "big"), "gone");
    assert_string_equal(state_of(w, stopped), "stopped");
    assert_int_equal(manager_start_sandbox(w->m, stopped, &err), 0);
}

/* ---- requests ---- */

static void test_disk_limits(void **state) {
    struct world *w = *state;
    struct sandbox_record made;
    struct cay_error err;
    static const struct {
        uint64_t bytes;
        int code, without; /* where the engine has limits, and where it has none */
    } cases[] = {
        {0, 0, 0},
        {UINT64_C(16) << 20, 0, -CAY_UNSUPPORTED},
        {(UINT64_C(16) << 20) - 1, -CAY_INVALID_ARGUMENT, -CAY_UNSUPPORTED},
        {(UINT64_C(4) << 40) + 1, -CAY_INVALID_ARGUMENT, -CAY_UNSUPPORTED},
    };
    for (int without = 0; without < 2; without++) {
        if (without)
            (void)error_set(&w->options.no_disk_limits, CAY_UNSUPPORTED, "no loop devices");
        open_manager(w);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            struct sandbox_record request = {.disk_bytes = cases[i].bytes};
            int code = manager_create(w->m, &request, -1, &made, &err);
            assert_int_equal(code, without ? cases[i].without : cases[i].code);
            if (code < 0)
                continue;
            assert_int_equal(made.disk_bytes, cases[i].bytes);
            assert_int_equal(manager_remove(w->m, made.id, true, NULL), 0);
            sandbox_record_free(&made);
        }
        close_manager(w);
    }
    assert_string_equal(err.message, "a disk limit cannot be enforced here: no loop devices");
}

static void test_defaults(void **state) {
    struct world *w = *state;
    struct sandbox_record request = {.auto_stop_minutes = -1,
                                     .auto_delete_minutes = INTERVAL_AT_ONCE,
                                     .work_dir = "/a//b/",
                                     .disk_bytes = UINT64_C(5) << 30};
    struct sandbox_record made;
    w->options.defaults.auto_stop_minutes = 15;
    w->options.defaults.tier = TIER_BASIC;
    assert_int_equal(strv_push(&w->options.defaults.env, "A=1"), 0);
    assert_int_equal(strv_push(&request.labels, "b=2"), 0);
    assert_int_equal(strv_push(&request.labels, "a=1"), 0);
    open_manager(w);
    assert_int_equal(manager_create(w->m, &request, -1, &made, NULL), 0);
    assert_string_equal(made.name, made.id);
    assert_string_equal(made.image_name, "host");
    assert_string_equal(made.image, "");
    assert_string_equal(made.work_dir, "/a/b");
    assert_int_equal(made.memory_bytes, 64 * MEGABYTE);
    assert_int_equal(made.disk_bytes, UINT64_C(5) << 30); /* on disk, not in its memory */
    assert_int_equal(made.tier, TIER_BASIC);
    assert_int_equal(made.auto_stop_minutes, 0);
    assert_int_equal(made.auto_delete_minutes, 0);
    assert_string_equal(made.env.v[0], "A=1");
    assert_string_equal(made.labels.v[0], "a=1");
    assert_string_equal(made.labels.v[1], "b=2");
    assert_true(made.created_ms > 0 && made.active_ms > 0);
    sandbox_record_free(&made);
    strv_free(&request.labels);

    struct sandbox_record plain = {.image_name = "python"};
    assert_int_equal(manager_create(w->m, &plain, -1, &made, NULL), 0);
    assert_int_equal(made.auto_stop_minutes, 15);
    assert_int_equal(made.auto_delete_minutes, -1);
    assert_int_equal(strlen(made.image), HEX_SIZE - 1);
    sandbox_record_free(&made);
    strv_free(&w->options.defaults.env);
}

/* "FIELD VALUE" that must be refused before anything is made. */
static void test_bad_requests(void **state) {
    struct world *w = *state;
    char long_label[400] = "k=";
    memset(long_label + 2, 'x', 300);
    const struct {
        char field;
        const char *value;
    } cases[] = {
        {'n', "no spaces"},
        {'n', "-dash"},
        {'n', "0123456789abcdef"},
        {'l', "novalue"},
        {'l', "=x"},
        {'l', "a=\x1b[2J"},
        {'l', long_label},
        {'e', "NOTHING"},
        {'e', "=x"},
        {'v', "/nonexistent:/x"},
        {'v', "/tmp"},
        {'v', "/tmp:/proc"},
        {'w', "relative"},
        {'w', "/a/../b"},
        {'m', "1"},
        {'m', "9000000000000000000"},
    };
    open_manager(w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sandbox_record request = {0}, made;
        struct cay_error err = {0};
        const char *value = cases[i].value;
        switch (cases[i].field) {
        case 'n':
            assert_int_equal(str_copy(request.name, sizeof request.name, value), 0);
            break;
        case 'w':
            assert_int_equal(str_copy(request.work_dir, sizeof request.work_dir, value), 0);
            break;
        case 'm':
            assert_int_equal(str_to_u64(value, UINT64_MAX, &request.memory_bytes), 0);
            break;
        default:
            assert_int_equal(strv_push(cases[i].field == 'l'   ? &request.labels
                                       : cases[i].field == 'e' ? &request.env
                                                               : &request.volumes,
                                       value),
                             0);
        }
        int r = manager_create(w->m, &request, -1, &made, &err);
        if (r != -CAY_INVALID_ARGUMENT && r != -CAY_NOT_FOUND)
            fail_msg("accepted %c %s: %d", cases[i].field, value, r);
        assert_true(err.message[0] != '\0');
        sandbox_record_free(&request);
    }
    struct manager_totals totals;
    manager_totals(w->m, NULL, &totals);
    assert_int_equal(totals.total, 0);
    assert_int_equal(w->fake.starts, 0);
}

static void test_limit(void **state) {
    struct world *w = *state;
    struct sandbox_record request = {0}, made;
    struct cay_error err = {0};
    w->options.limits.max_sandboxes = 2;
    open_manager(w);
    (void)make_box(w, "a");
    (void)make_box(w, "b");
    assert_int_equal(manager_stop_sandbox(w->m, "b", NULL), 0); /* it counts even so */
    assert_int_equal(manager_create(w->m, &request, -1, &made, &err), -CAY_LIMIT_REACHED);
    assert_string_equal(err.message, "Maximum number of sandboxes (2) reached");
    assert_true(err.remedy[0] != '\0');
    assert_int_equal(manager_remove(w->m, "a", false, NULL), 0);
    (void)make_box(w, "c");
}

/* ---- names ---- */

static void test_names(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct sandbox_record request = {.name = "alpha"}, r = {0};
    open_manager(w);
    const char *a = make_box(w, "alpha"), *b = make_box(w, "beta");
    assert_int_equal(manager_create(w->m, &request, -1, &r, &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.message, a));
    assert_int_equal(manager_rename(w->m, "beta", "alpha", &err), -CAY_CONFLICT);
    assert_int_equal(manager_rename(w->m, "beta", "be ta", &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(manager_rename(w->m, "beta", a, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(manager_rename(w->m, "beta", "beta", &err), 0);
    assert_int_equal(manager_rename(w->m, "beta", "gamma", &err), 0);
    assert_string_equal(state_of(w, "beta"), "gone");
    char prefix[9] = {0};
    memcpy(prefix, b, 8);
    reopen_manager(w);
    assert_int_equal(manager_get(w->m, prefix, &r, &err), 0);
    assert_string_equal(r.name, "gamma");
    sandbox_record_free(&r);
    assert_int_equal(manager_get(w->m, "alpah", &r, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.remedy, "'alpha'"));
    assert_int_equal(manager_get(w->m, "zzzzzzzzzzz", &r, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.remedy, "cay ls"));
    assert_int_equal(manager_get(w->m, "", &r, &err), -CAY_NOT_FOUND);
}

/* Ids that begin alike come from the file: nobody can ask for one. */
static void test_prefixes(void **state) {
    struct world *w = *state;
    struct db *db = NULL;
    struct cay_error err = {0};
    struct sandbox_record r = {.state = SANDBOX_STOPPED, .auto_delete_minutes = -1};
    assert_int_equal(db_open("cay.db", &db, &err), 0);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(str_format(r.id, sizeof r.id, "abcd%u00000000000", i), 0);
        assert_int_equal(str_format(r.name, sizeof r.name, "%s", i == 6 ? "abcd" : r.id), 0);
        assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
        (void)fake_put(&w->fake, r.id, ENGINE_STOPPED);
    }
    db_close(db);
    open_manager(w);
    assert_int_equal(manager_get(w->m, "abcd0", &r, &err), 0);
    assert_string_equal(r.id, "abcd000000000000");
    assert_int_equal(manager_get(w->m, "abcd", &r, &err), 0); /* a name before a prefix */
    assert_string_equal(r.id, "abcd600000000000");
    assert_int_equal(manager_rename(w->m, "abcd", "other", &err), 0);
    assert_int_equal(manager_get(w->m, "abcd", &r, &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.message, "fits 7 sandboxes"));
    assert_non_null(strstr(err.message, "abcd400000000000"));
    assert_null(strstr(err.message, "abcd500000000000"));
    assert_non_null(strstr(err.message, "and 2 more"));
    assert_int_equal(manager_get(w->m, "abc", &r, &err), -CAY_NOT_FOUND); /* too short */
}

static void test_labels(void **state) {
    struct world *w = *state;
    struct sandbox_record r;
    struct strv labels = {0}, none = {0};
    struct cay_error err = {0};
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(strv_push(&labels, "z=1"), 0);
    assert_int_equal(strv_push(&labels, "a=2"), 0);
    assert_int_equal(manager_label(w->m, "lab", &labels, NULL), 0);
    assert_int_equal(strv_push(&labels, "a=3"), 0);
    assert_int_equal(manager_label(w->m, "lab", &labels, &err), -CAY_INVALID_ARGUMENT);
    reopen_manager(w);
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_int_equal(r.labels.len, 2);
    assert_string_equal(r.labels.v[0], "a=2");
    sandbox_record_free(&r);
    assert_int_equal(manager_label(w->m, "lab", &none, NULL), 0);
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_int_equal(r.labels.len, 0);
    sandbox_record_free(&r);
    strv_free(&labels);
}

/* What is set replaces, what is unset goes, and all of it lasts; what is wrong changes nothing. */
static void test_environment(void **state) {
    struct world *w = *state;
    struct sandbox_record r;
    struct strv set = {0}, unset = {0}, wrong = {0};
    struct cay_error err = {0};
    open_manager(w);
    (void)make_box(w, "lab");
    assert_int_equal(strv_push(&set, "A=1"), 0);
    assert_int_equal(strv_push(&set, "AB=2"), 0);
    assert_int_equal(manager_change_env(w->m, "lab", &set, &unset, NULL), 0);
    strv_free(&set);
    set = (struct strv){0};
    assert_int_equal(strv_push(&set, "AB=3=4"), 0);
    assert_int_equal(strv_push(&unset, "A"), 0);
    assert_int_equal(manager_change_env(w->m, "lab", &set, &unset, NULL), 0);
    assert_int_equal(strv_push(&wrong, "=x"), 0);
    assert_int_equal(manager_change_env(w->m, "lab", &wrong, &set, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(manager_change_env(w->m, "none", &set, &unset, &err), -CAY_NOT_FOUND);
    reopen_manager(w);
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_true(strv_has(&r.env, "AB=3=4"));
    assert_false(strv_has(&r.env, "A=1"));
    assert_false(strv_has(&r.env, "AB=2"));
    sandbox_record_free(&r);
    strv_free(&set);
    strv_free(&unset);
    strv_free(&wrong);
}

/* ---- operations ---- */

static void test_remove_in_use(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct operation *op;
    open_manager(w);
    (void)make_box(w, "lab");
    int fd = begin(w, "lab", &op);
    assert_int_equal(manager_remove(w->m, "lab", false, &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.message, "under way: 1"));
    assert_string_equal(state_of(w, "lab"), "started");
    assert_int_equal(manager_remove(w->m, "lab", true, &err), 0);
    assert_string_equal(state_of(w, "lab"), "gone");
    end(w, fd, op); /* of what is gone */
    struct manager_totals totals;
    manager_totals(w->m, NULL, &totals);
    assert_int_equal(totals.operations, 0);
}

/* A cay-init whose commands all end when they are asked to. */
static void *answer_shutdown(void *arg) {
    static const unsigned char done[8] = {[4] = 20};
    char request[256];
    int fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, request, sizeof request) > 8);
    assert_int_equal(write(fd, done, sizeof done), sizeof done);
    (void)close(fd);
    return NULL;
}

static void test_stop_gives_grace(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct operation *op;
    pthread_t init;
    enum { GRACE_MS = 60 * 1000, SHORT_MS = 300 };
    struct manager_limits limits = w->options.limits;
    w->options.limits.stop_grace_ms = GRACE_MS;
    open_manager(w);
    const char *id = make_box(w, "lab");
    int64_t before = clock_ms();
    assert_int_equal(
        pthread_create(&init, NULL, answer_shutdown, &fake_find(&w->fake, id)->listener), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), 0); /* nothing to wait for */
    assert_true(clock_ms() - before < GRACE_MS);
    assert_int_equal(pthread_join(init, NULL), 0);
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), 0);
    before = clock_ms();
    assert_int_equal(manager_stop_within(w->m, "lab", 0, &err), 0); /* not even asked */
    assert_true(clock_ms() - before < GRACE_MS);
    assert_int_equal(manager_start_sandbox(w->m, "lab", &err), 0);
    int fd = begin(w, "lab", &op);
    limits.stop_grace_ms = SHORT_MS;
    assert_int_equal(manager_configure(w->m, &limits, &w->options.defaults, &err), 0);
    before = clock_ms();
    assert_int_equal(manager_stop_sandbox(w->m, "lab", &err), 0); /* nobody answers inside */
    assert_true(clock_ms() - before >= SHORT_MS);
    assert_string_equal(state_of(w, "lab"), "stopped");
    end(w, fd, op);
}

static void *accept_late(void *arg) {
    int listener = *(int *)arg;
    sleep_ms(300);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        (void)close(fd);
    }
}

/* More than its backlog holds: they wait, and none is refused. */
static void test_many_connections(void **state) {
    enum { MANY = 200 };
    struct world *w = *state;
    struct operation *ops[MANY];
    int fds[MANY];
    pthread_t thread;
    open_manager(w);
    const char *id = make_box(w, "lab");
    int listener = fake_find(&w->fake, id)->listener;
    int64_t before = clock_ms();
    assert_int_equal(pthread_create(&thread, NULL, accept_late, &listener), 0);
    for (size_t i = 0; i < MANY; i++)
        fds[i] = begin(w, "lab", &ops[i]);
    assert_true(clock_ms() - before >= 200);
    struct manager_totals totals;
    manager_totals(w->m, NULL, &totals);
    assert_int_equal(totals.operations, MANY);
    for (size_t i = 0; i < MANY; i++)
        end(w, fds[i], ops[i]);
    assert_int_equal(shutdown(listener, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_transitions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_creation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_engine_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_removal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prefixes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_gives_grace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_connections, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
