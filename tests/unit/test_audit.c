/* Tests of the audit's chain: what was done to rows afterwards shows. */
#include "manager_env.h"

#include "manager/db/internal.h"
#include "manager/internal.h"

static void fill(struct world *w, int count) {
    for (int i = 0; i < count; i++) {
        char object[16];
        (void)snprintf(object, sizeof object, "box-%d", i);
        manager_audit(w->m, "ci", "sandbox.stop", object, "ok", "");
    }
}

static struct audit_verdict verify(struct world *w) {
    struct audit_verdict v;
    struct cay_error err = {0};
    if (manager_audit_verify(w->m, &v, &err) < 0)
        fail_msg("%s", err.message);
    return v;
}

/* Statements by somebody else, while no manager has the database. */
static void tamper(struct world *w, const char *text) {
    char path[128];
    close_manager(w);
    assert_int_equal(str_format(path, sizeof path, "%s/cay.db", w->folder), 0);
    sqlite3 *sql = NULL;
    assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
    open_manager(w);
}

static void test_an_empty_one_is_fine(void **state) {
    struct world *w = *state;
    open_manager(w);
    struct audit_verdict v = verify(w);
    assert_true(v.ok);
    assert_int_equal(v.rows + v.first + v.last, 0);
}

static void test_rows_follow_each_other(void **state) {
    struct world *w = *state;
    open_manager(w);
    fill(w, 2500); /* more than a page of the verification */
    reopen_manager(w);
    fill(w, 1);
    struct audit_verdict v = verify(w);
    assert_true(v.ok);
    assert_int_equal(v.rows, 2501);
    assert_int_equal(v.last, 2501);
    struct audit_row *rows = NULL;
    size_t count = 0;
    assert_int_equal(manager_audit_list(w->m, INT64_MIN, -1, 3, &rows, &count, NULL), 0);
    assert_int_equal(count, 3);
    assert_int_equal(rows[0].number, 2499);
    assert_string_equal(rows[2].object, "box-0");
    assert_memory_equal(rows[2].chain, v.head, HASH_SIZE);
    free(rows);
}

static void test_tampering(void **state) {
    struct world *w = *state;
    static const struct {
        const char *text;
        int64_t bad;
    } rows[] = {
        {"UPDATE audit SET who = 'me' WHERE number = 4", 4},
        {"UPDATE audit SET action = 'x' WHERE number = 1", 1},
        {"UPDATE audit SET object = 'x' WHERE number = 10", 10},
        {"UPDATE audit SET result = 'no' WHERE number = 4", 4},
        {"UPDATE audit SET detail = printf('%300s', 'x') WHERE number = 4", 4},
        {"UPDATE audit SET time_ms = 0 WHERE number = 4", 4},
        {"UPDATE audit SET chain = x'00' WHERE number = 4", 4},
        /* what moved from one column to the next is another row */
        {"UPDATE audit SET who = 'c', action = 'i' || action WHERE number = 4", 4},
        {"DELETE FROM audit WHERE number = 4", 4},
        {"DELETE FROM audit WHERE number = 1", 1},
        {"DELETE FROM audit WHERE number = 10", 10},
        {"DELETE FROM audit WHERE number = 4;"
         "UPDATE audit SET number = number - 1 WHERE number > 4",
         4},
        {"UPDATE audit SET number = -1 WHERE number = 4;"
         "UPDATE audit SET number = 4 WHERE number = 5;"
         "UPDATE audit SET number = 5 WHERE number = -1",
         4},
        {"UPDATE audit SET number = -number; UPDATE audit SET number = 1 - number WHERE "
         "number < -4; UPDATE audit SET number = -number WHERE number < 0;"
         "INSERT INTO audit SELECT 5, time_ms, who, action, 'new', result, detail, chain FROM audit"
         " WHERE number = 4",
         5},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        open_manager(w);
        fill(w, 10);
        assert_true(verify(w).ok);
        tamper(w, rows[i].text);
        struct audit_verdict v = verify(w);
        assert_false(v.ok);
        assert_int_equal(v.bad, rows[i].bad);
        assert_true(v.why[0] != '\0');
        fill(w, 1);
        assert_int_equal(verify(w).bad, rows[i].bad);
        tamper(w, "DELETE FROM audit; DELETE FROM sqlite_sequence WHERE name = 'audit'");
        close_manager(w);
    }
}

static void test_trimming(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    fill(w, 10);
    assert_int_equal(manager_audit_trim(w->m, 10, "me", &err), -CAY_NOT_FOUND);
    assert_int_equal(manager_audit_trim(w->m, 7, "me", &err), 0);
    assert_int_equal(manager_audit_trim(w->m, 7, "me", &err), -CAY_NOT_FOUND);
    reopen_manager(w);
    struct audit_verdict v = verify(w);
    assert_true(v.ok);
    assert_int_equal(v.first, 8);
    assert_int_equal(v.last, 11);
    tamper(w, "DELETE FROM audit WHERE number = 8");
    assert_int_equal(verify(w).bad, 8);
}

/* As a full disk would: what cannot be written is no reason not to go on, and leaves no gap. */
static void test_what_cannot_be_written(void **state) {
    struct world *w = *state;
    open_manager(w);
    fill(w, 3);
    const char *id = make_box(w, "lab");
    assert_int_equal(sqlite3_exec(w->m->db->sql, "PRAGMA query_only = ON", NULL, NULL, NULL),
                     SQLITE_OK);
    fill(w, 3);
    assert_int_equal(sqlite3_exec(w->m->db->sql, "PRAGMA query_only = OFF", NULL, NULL, NULL),
                     SQLITE_OK);
    fill(w, 3);
    assert_int_equal(manager_remove(w->m, id, true, NULL), 0);
    struct audit_verdict v = verify(w);
    assert_true(v.ok);
    assert_int_equal(v.rows, 6);
}

static void test_refusals_are_limited(void **state) {
    struct world *w = *state;
    open_manager(w);
    for (int i = 0; i < 1000; i++)
        manager_audit_refusal(w->m, "-", "access", "", "unauthorized", "127.0.0.1");
    assert_in_range(verify(w).rows, 1, 40);
    (void)pthread_mutex_lock(&w->m->lock);
    w->m->refusals_since -= 61 * 1000; /* a minute later */
    (void)pthread_mutex_unlock(&w->m->lock);
    manager_audit_refusal(w->m, "-", "access", "", "unauthorized", "127.0.0.1");
    struct audit_row *rows = NULL;
    size_t count = 0;
    assert_int_equal(manager_audit_list(w->m, INT64_MIN, -1, 1, &rows, &count, NULL), 0);
    assert_non_null(strstr(rows[0].detail, "127.0.0.1 ("));
    assert_non_null(strstr(rows[0].detail, " more before)"));
    free(rows);
}

/* ---- with the change ---- */

static int count_commit(void *arg) {
    ++*(int *)arg;
    return 0;
}

struct announced_case {
    const char *action;
    int commits; /* of the change and its row, after the first that lead to it */
    int (*change)(struct world *w, const char *id);
};

static int rename_it(struct world *w, const char *id) {
    return manager_rename(w->m, id, "other", NULL);
}
static int stop_it(struct world *w, const char *id) {
    return manager_stop_within(w->m, id, 0, NULL);
}
static int start_it(struct world *w, const char *id) {
    return manager_start_sandbox(w->m, id, NULL);
}
static int remove_it(struct world *w, const char *id) {
    return manager_remove(w->m, id, true, NULL);
}
static int add_key(struct world *w, const char *id) {
    (void)id;
    char text[KEY_TEXT_SIZE];
    struct key k = {.name = "ci", .scopes = SCOPE_READ};
    return manager_key_add(w->m, &k, text, NULL);
}
static int remove_key(struct world *w, const char *id) {
    (void)id;
    return manager_key_remove(w->m, "ci", NULL);
}

/* In the order in which they can be done. */
static const struct announced_case announced_cases[] = {
    {"sandbox.rename", 1, rename_it}, {"sandbox.stop", 2, stop_it}, /* "stopping" before it */
    {"sandbox.start", 2, start_it},   {"key.create", 1, add_key},
    {"key.delete", 1, remove_key},    {"sandbox.delete", 2, remove_it},
};

static void last_row(struct world *w, struct audit_row *ret) {
    struct audit_row *rows = NULL;
    size_t count = 0;
    assert_int_equal(manager_audit_list(w->m, INT64_MIN, -1, 1, &rows, &count, NULL), 0);
    *ret = count == 1 ? rows[0] : (struct audit_row){0};
    free(rows);
}

static void test_a_row_comes_with_its_change(void **state) {
    struct world *w = *state;
    open_manager(w);
    char id[ID_SIZE];
    (void)snprintf(id, sizeof id, "%s", make_box(w, "lab"));
    for (size_t i = 0; i < ARRAY_LEN(announced_cases); i++) {
        const struct announced_case *c = &announced_cases[i];
        struct audit_intent intent = {.who = "ann", .action = c->action, .detail = "why"};
        struct audit_row row;
        int commits = 0;
        manager_audit_announce(&intent);
        (void)sqlite3_commit_hook(w->m->db->sql, count_commit, &commits);
        assert_int_equal(c->change(w, id), 0);
        (void)sqlite3_commit_hook(w->m->db->sql, NULL, NULL);
        manager_audit_announce(NULL);
        assert_true(intent.is_written);
        assert_int_equal(commits, c->commits);
        last_row(w, &row);
        assert_string_equal(row.action, c->action);
        assert_string_equal(row.object, str_starts(c->action, "key") ? "ci" : id);
        assert_string_equal(row.result, "ok");
        assert_int_equal(str_equal(row.detail, "why"), !str_equal(c->action, "key.create"));
        assert_int_equal(row.number, i + 1);
    }
    assert_true(verify(w).ok);
}

/* What others did, what does not settle it, and what failed, has no row of its own. */
static void test_no_row_without_its_change(void **state) {
    struct world *w = *state;
    open_manager(w);
    const char *id = make_box(w, "lab");
    struct audit_intent intent = {.who = "ann", .action = "sandbox.snapshot", .detail = ""};
    manager_audit_announce(&intent);
    assert_int_equal(manager_pause(w->m, id, NULL), 0);
    assert_int_equal(manager_resume(w->m, id, NULL), 0);
    intent.action = "sandbox.rename";
    assert_true(manager_rename(w->m, id, "not a name", NULL) < 0);
    manager_audit_announce(NULL);
    assert_int_equal(manager_rename(w->m, id, "den", NULL), 0);
    assert_false(intent.is_written);
    assert_int_equal(verify(w).rows, 0);
}

/* A row that cannot be written keeps nothing from being done; it is left to who announced it. */
static void test_a_change_without_its_row(void **state) {
    struct world *w = *state;
    open_manager(w);
    fill(w, 3);
    const char *id = make_box(w, "lab");
    struct audit_intent intent = {.who = "ann", .action = "sandbox.delete", .detail = ""};
    assert_int_equal(sqlite3_exec(w->m->db->sql,
                                  "CREATE TEMP TRIGGER no BEFORE INSERT ON audit BEGIN"
                                  " SELECT RAISE(ABORT, 'no'); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    manager_audit_announce(&intent);
    assert_int_equal(manager_remove(w->m, id, true, NULL), 0);
    manager_audit_announce(NULL);
    assert_false(intent.is_written);
    assert_int_equal(sqlite3_exec(w->m->db->sql, "DROP TRIGGER no", NULL, NULL, NULL), SQLITE_OK);
    struct sandbox_record r = {0};
    assert_int_equal(manager_get(w->m, id, &r, NULL), -CAY_NOT_FOUND);
    fill(w, 3);
    struct audit_verdict v = verify(w);
    assert_true(v.ok);
    assert_int_equal(v.rows, 6);
}

/* Rows that are hardly ever read do not stay in memory. */
static void test_memory_does_not_grow(void **state) {
    struct world *w = *state;
    open_manager(w);
    fill(w, 100);
    sqlite3_int64 before = sqlite3_memory_used();
    fill(w, 8000); /* about 1 MB of pages */
    assert_in_range(sqlite3_memory_used() - before, 0, 600 * 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_empty_one_is_fine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_follow_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tampering, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trimming, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_does_not_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_row_comes_with_its_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_row_without_its_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_change_without_its_row, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
