/* Tests of the table of a sandbox's attributes, and of the row in the database that follows from
 * it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/record/fields.h"

struct place {
    char folder[64];
    char file[96];
};

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(str_copy(p->folder, sizeof p->folder, "/tmp/cay-fields-XXXXXX"), 0);
    assert_non_null(mkdtemp(p->folder));
    assert_int_equal(str_format(p->file, sizeof p->file, "%s/cay.db", p->folder), 0);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    int r = path_remove_tree(AT_FDCWD, p->folder);
    free(p);
    return r;
}

static struct db *open_db(const struct place *p) {
    struct db *db = NULL;
    struct cay_error err = {0};
    if (db_open(p->file, &db, &err) < 0)
        fail_msg("%s", err.message);
    return db;
}

static void run_sql(const struct place *p, const char *text) {
    sqlite3 *sql = NULL;
    char *failure = NULL;
    assert_int_equal(sqlite3_open(p->file, &sql), SQLITE_OK);
    if (sqlite3_exec(sql, text, NULL, NULL, &failure) != SQLITE_OK)
        fail_msg("%s", failure);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

/* ---- the table ---- */

/* A member without a row would be lost at a restart. */
static void test_each_member_has_a_row(void **state) {
    (void)state;
    static bool is_covered[sizeof(struct sandbox_record)];
    for (size_t i = 0; i < sandbox_field_count; i++) {
        if (sandbox_fields[i].kind == FIELD_DERIVED)
            continue;
        for (size_t at = sandbox_fields[i].offset;
             at < sandbox_fields[i].offset + sandbox_fields[i].size; at++) {
            assert_false(is_covered[at]); /* nor two */
            is_covered[at] = true;
        }
    }
    size_t gap = 0;
    for (size_t at = 0; at < sizeof is_covered; at++) {
        gap = is_covered[at] ? 0 : gap + 1;
        if (gap >= 8) /* more than padding */
            fail_msg("byte %zu of struct sandbox_record is in no row of fields.c", at);
    }
}

static void test_rows_make_sense(void **state) {
    (void)state;
    assert_string_equal(sandbox_fields[0].column, "id"); /* WHERE id = ?1 */
    for (size_t i = 0; i < sandbox_field_count; i++) {
        const struct field *f = &sandbox_fields[i];
        if ((f->flags & (FIELD_CREATE | FIELD_UPDATE | FIELD_SHOW)) != 0)
            assert_non_null(f->json);
        if (f->title != NULL)
            assert_true((f->flags & FIELD_SHOW) != 0);
        if (f->column != NULL && f->kind == FIELD_CHOICE)
            assert_non_null(f->names);
        if (f->kind == FIELD_NUMBER && (f->flags & FIELD_CREATE) != 0)
            assert_true(f->min < f->max);
        assert_true((f->kind == FIELD_DERIVED) == (f->type != NULL));
        for (size_t k = 0; k < i; k++) { /* each name once */
            assert_false(f->column != NULL && str_equal(f->column, sandbox_fields[k].column));
            assert_false(f->json != NULL && str_equal(f->json, sandbox_fields[k].json));
            assert_false(f->json != NULL && str_equal(f->json, sandbox_fields[k].daytona));
        }
    }
}

/* ---- rows ---- */

/* Something that no other column has. */
static void fill(struct sandbox_record *r) {
    for (size_t i = 0; i < sandbox_field_count; i++) {
        const struct field *f = &sandbox_fields[i];
        if (f->column == NULL)
            continue;
        if (f->kind == FIELD_TEXT) {
            (void)snprintf(field_in(f, r), f->size, "%s-%zu", f->column, i);
        } else if (field_is_list(f)) {
            struct strv *list = field_in(f, r);
            assert_int_equal(strv_pushf(list, "%s=%zu", f->column, i), 0);
            assert_int_equal(strv_push(list, "empty="), 0);
        } else if (f->kind == FIELD_CHOICE) {
            assert_int_equal(field_set_number(f, r, f->names->end - 1), 0);
        } else {
            assert_int_equal(field_set_number(f, r, f->kind == FIELD_FLAG ? 1 : 1000 + (int)i), 0);
        }
    }
    (void)snprintf(r->id, sizeof r->id, "0123456789abcdef");
}

static void assert_same(const struct field *f, const struct sandbox_record *a,
                        const struct sandbox_record *b) {
    if (f->kind == FIELD_TEXT) {
        assert_string_equal(field_of(f, a), field_of(f, b));
    } else if (field_is_list(f)) {
        const struct strv *x = field_of(f, a), *y = field_of(f, b);
        assert_int_equal(x->len, y->len);
        for (size_t i = 0; i < x->len; i++)
            assert_string_equal(x->v[i], y->v[i]);
    } else if (field_number(f, a) != field_number(f, b)) {
        fail_msg("%s: %lld is %lld", f->column, (long long)field_number(f, a),
                 (long long)field_number(f, b));
    }
}

static void assert_kept(struct db *db, const struct sandbox_record *r) {
    struct sandbox_record *found = NULL;
    size_t count = 0;
    struct cay_error err = {0};
    assert_int_equal(db_list(db, &found, &count, &err), 0);
    assert_int_equal(count, 1);
    for (size_t i = 0; i < sandbox_field_count; i++)
        if (sandbox_fields[i].column != NULL)
            assert_same(&sandbox_fields[i], r, &found[0]);
    sandbox_record_free(&found[0]);
    free(found);
}

static void test_each_field_is_kept(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    struct sandbox_record r = {0}, zero = {.id = "0123456789abcdef", .on_failure = FAILURE_KEEP};
    fill(&r);
    struct db *db = open_db(p);
    assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
    db_close(db);
    db = open_db(p);
    assert_kept(db, &r);
    assert_int_equal(db_update(db, &zero, DB_FLUSH, &err), 0);
    assert_kept(db, &zero);
    assert_int_equal(db_update(db, &r, DB_FLUSH, &err), 0);
    assert_kept(db, &r);
    db_close(db);
    sandbox_record_free(&r);
}

static void test_copies(void **state) {
    (void)state;
    struct sandbox_record r = {0}, copy = {0}, other = {0};
    fill(&r);
    assert_int_equal(sandbox_record_copy(&r, &copy), 0);
    for (size_t i = 0; i < sandbox_field_count; i++)
        if (sandbox_fields[i].column != NULL)
            assert_same(&sandbox_fields[i], &r, &copy);
    assert_ptr_not_equal(r.env.v, copy.env.v);
    fields_swap(FIELD_UPDATE, &copy, &other);
    for (size_t i = 0; i < sandbox_field_count; i++)
        if (sandbox_fields[i].column != NULL)
            assert_same(&sandbox_fields[i], &r,
                        (sandbox_fields[i].flags & FIELD_UPDATE) != 0 ? &other : &copy);
    sandbox_record_free(&r);
    sandbox_record_free(&copy);
    sandbox_record_free(&other);
}

/* ---- layouts ---- */

/* As the commit before the table of fields made it: the first layout that is read. */
static const char layout_9[] =
    "CREATE TABLE sandbox ( number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL "
    "UNIQUE, name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, remedy TEXT NOT"
    " NULL, image_name TEXT NOT NULL, image TEXT NOT NULL, user TEXT NOT NULL, work_dir "
    "TEXT NOT NULL, memory_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL, "
    "cpu_quota_us INTEGER NOT NULL, pids INTEGER NOT NULL, tier TEXT NOT NULL, profile TEXT"
    " NOT NULL, read_only INTEGER NOT NULL, env BLOB NOT NULL, labels BLOB NOT NULL, "
    "volumes BLOB NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, "
    "active_ms INTEGER NOT NULL, auto_stop_minutes INTEGER NOT NULL, auto_delete_minutes "
    "INTEGER NOT NULL, auto_archive_minutes INTEGER NOT NULL, owner TEXT NOT NULL, "
    "on_failure TEXT NOT NULL, pooled INTEGER NOT NULL, archive_bytes INTEGER NOT NULL, "
    "is_public INTEGER NOT NULL DEFAULT 0, destroy_ms INTEGER NOT NULL DEFAULT 0, failures "
    "INTEGER NOT NULL DEFAULT 0, failed_ms INTEGER NOT NULL DEFAULT 0, recover_ms INTEGER "
    "NOT NULL DEFAULT 0, network TEXT NOT NULL DEFAULT 'none', engine TEXT NOT NULL DEFAULT"
    " '', UNIQUE (owner, name)) STRICT;"
    "CREATE TABLE key ( id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, hash BLOB "
    "NOT NULL UNIQUE, scopes INTEGER NOT NULL, max_sandboxes INTEGER NOT NULL, "
    "max_memory_bytes INTEGER NOT NULL, max_disk_bytes INTEGER NOT NULL, max_cpu_quota_us "
    "INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, "
    "max_volumes INTEGER NOT NULL DEFAULT 0, max_pids INTEGER NOT NULL DEFAULT 0, "
    "max_commands INTEGER NOT NULL DEFAULT 0, max_python_runs INTEGER NOT NULL DEFAULT 0, "
    "max_pulls INTEGER NOT NULL DEFAULT 0, max_builds INTEGER NOT NULL DEFAULT 0, "
    "max_connections INTEGER NOT NULL DEFAULT 0, max_proxy_connections INTEGER NOT NULL "
    "DEFAULT 0, max_event_viewers INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE TABLE audit ( number INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT "
    "NULL, who TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL, result TEXT NOT "
    "NULL, detail TEXT NOT NULL, chain BLOB NOT NULL) STRICT;"
    "CREATE TABLE audit_anchor (number INTEGER PRIMARY KEY, chain BLOB NOT NULL) STRICT;"
    "CREATE TABLE volume ( id TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT"
    " NULL, created_ms INTEGER NOT NULL, size_bytes INTEGER NOT NULL DEFAULT 0, is_made "
    "INTEGER NOT NULL DEFAULT 1, UNIQUE (owner, name)) STRICT;"
    "CREATE TABLE event ( number INTEGER PRIMARY KEY AUTOINCREMENT, sandbox TEXT NOT NULL, "
    "time_ms INTEGER NOT NULL, state TEXT NOT NULL, text TEXT NOT NULL) STRICT;"
    "CREATE INDEX event_of ON event (sandbox, number);"
    "CREATE TRIGGER event_new AFTER INSERT ON sandbox BEGIN INSERT INTO event (sandbox, "
    "time_ms, state, text)  VALUES (NEW.id, NEW.updated_ms, NEW.state, NEW.reason);END;"
    "CREATE TRIGGER event_change AFTER UPDATE ON sandbox WHEN OLD.state <> NEW.state OR "
    "OLD.reason <> NEW.reason BEGIN INSERT INTO event (sandbox, time_ms, state, text)  "
    "VALUES (NEW.id, NEW.updated_ms, NEW.state, NEW.reason);END;"
    "CREATE TRIGGER event_gone AFTER DELETE ON sandbox BEGIN DELETE FROM event WHERE "
    "sandbox = OLD.id;END;"
    "CREATE TRIGGER event_old AFTER INSERT ON event BEGIN DELETE FROM event WHERE sandbox ="
    " NEW.sandbox AND number <=  (SELECT number FROM event WHERE sandbox = NEW.sandbox   "
    "ORDER BY number DESC LIMIT 1 OFFSET 200);END;"
    "CREATE TABLE secret ( sandbox TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, "
    "PRIMARY KEY (sandbox, kind)) STRICT;"
    "CREATE TRIGGER secret_gone AFTER DELETE ON sandbox BEGIN DELETE FROM secret WHERE "
    "sandbox = OLD.id;END;"
    "INSERT INTO sandbox VALUES (7, '0123456789abcdef', 'lab', 'stopped', 'asked', 'none', 'host',"
    " '', 'me', '/workspace', 268435456, 5368709120, 50000, 99, 'full', 'build', 1, x'583d3100',"
    " x'613d6200633d6400', x'', 1001, 1002, 1003, 30, -1, 1440, '0123456789abcde0', 'recreate', 0,"
    " 5, 1, 1004, 2, 1005, 1006, 'allow=example.com', 'native');"
    "PRAGMA user_version = 9;";

static void test_first_layout(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    run_sql(p, layout_9);
    struct sandbox_record r = {
        .id = "0123456789abcdef",
        .owner = "0123456789abcde0",
        .name = "lab",
        .state = SANDBOX_STOPPED,
        .reason = "asked",
        .remedy = "none",
        .image_name = "host",
        .user = "me",
        .work_dir = "/workspace",
        .network = "allow=example.com",
        .memory_bytes = 268435456,
        .disk_bytes = 5368709120,
        .cpu_quota_us = 50000,
        .pids = 99,
        .engine = ENGINE_NATIVE,
        .tier = TIER_FULL,
        .profile = PROFILE_BUILD,
        .read_only = true,
        .is_public = true,
        .on_failure = FAILURE_RECREATE,
        .created_ms = 1001,
        .updated_ms = 1002,
        .active_ms = 1003,
        .auto_stop_minutes = 30,
        .auto_delete_minutes = -1,
        .auto_archive_minutes = 1440,
        .destroy_ms = 1004,
        .failures = 2,
        .failed_ms = 1005,
        .recover_ms = 1006,
        .archive_bytes = 5,
    };
    assert_int_equal(strv_push(&r.env, "X=1"), 0);
    assert_int_equal(strv_push(&r.labels, "a=b"), 0);
    assert_int_equal(strv_push(&r.labels, "c=d"), 0);
    struct db *db = open_db(p);
    assert_kept(db, &r);
    assert_int_equal(db_remove(db, r.id, DB_FLUSH, &err), 0);
    assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
    assert_kept(db, &r);
    db_close(db);
    sandbox_record_free(&r);
}

static void test_older_layouts_are_refused(void **state) {
    struct place *p = *state;
    struct db *db = NULL;
    struct cay_error err = {0};
    run_sql(p, "CREATE TABLE sandbox (id TEXT) STRICT; PRAGMA user_version = 8");
    assert_int_equal(db_open(p->file, &db, &err), -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "layout 8"));
    assert_non_null(strstr(err.remedy, "state folder"));
}

/* What a file of an earlier version lacks comes with its zero; what it has too much stays. */
static void test_columns_are_added(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    struct sandbox_record r = {0};
    fill(&r);
    struct db *db = open_db(p);
    assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
    db_close(db);
    run_sql(p, "ALTER TABLE sandbox DROP COLUMN on_failure; ALTER TABLE sandbox DROP COLUMN pids;"
               "ALTER TABLE sandbox DROP COLUMN labels; ALTER TABLE sandbox DROP COLUMN user;"
               "ALTER TABLE sandbox ADD COLUMN later TEXT NOT NULL DEFAULT 'x'");
    r.on_failure = FAILURE_KEEP;
    r.pids = 0;
    r.user[0] = '\0';
    strv_free(&r.labels);
    db = open_db(p);
    assert_kept(db, &r);
    assert_int_equal(db_update(db, &r, DB_FLUSH, &err), 0);
    assert_kept(db, &r);
    db_close(db);
    sandbox_record_free(&r);
}

static void test_bad_values_are_refused(void **state) {
    static const char *const changes[] = {
        "state = 'asleep'",
        "tier = 'high'",
        "on_failure = ''",
        "pids = -1",
        "cpu_quota_us = 1 << 33",
        "memory_bytes = -5",
        "auto_delete_minutes = -2",
        "env = x'61'",
        "id = 'x'",
        "user = printf('%200d', 1)",
    };
    struct place *p = *state;
    struct cay_error err = {0};
    struct sandbox_record r = {0}, *found = NULL;
    fill(&r);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char text[200];
        size_t count;
        struct db *db = open_db(p);
        assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
        db_close(db);
        (void)snprintf(text, sizeof text, "UPDATE sandbox SET %s", changes[i]);
        run_sql(p, text);
        db = open_db(p);
        if (db_list(db, &found, &count, &err) == 0)
            fail_msg("%s", changes[i]);
        db_close(db);
        run_sql(p, "DELETE FROM sandbox");
    }
    sandbox_record_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_member_has_a_row),
        cmocka_unit_test(test_rows_make_sense),
        cmocka_unit_test_setup_teardown(test_each_field_is_kept, setup, teardown),
        cmocka_unit_test(test_copies),
        cmocka_unit_test_setup_teardown(test_first_layout, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_layouts_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_columns_are_added, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_values_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
