/* Tests of the manager's memory: rows, layouts, damage, threads, a full disk, and deaths in the
 * middle of it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db/internal.h"

struct place {
    char folder[64];
    char file[96];
};

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(str_copy(p->folder, sizeof p->folder, "/tmp/cay-db-test-XXXXXX"), 0);
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

static struct sandbox_record make_row(unsigned number) {
    struct sandbox_record r = {.state = SANDBOX_CREATING, .memory_bytes = 1, .created_ms = number};
    r.on_failure = FAILURE_KEEP;
    assert_int_equal(str_format(r.id, sizeof r.id, "%016x", number), 0);
    assert_int_equal(str_format(r.name, sizeof r.name, "box-%u", number), 0);
    return r;
}

static void release(struct sandbox_record *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        sandbox_record_free(&rows[i]);
    free(rows);
}

/* One with something in every column. */
static struct sandbox_record make_full_row(void) {
    struct sandbox_record r = {
        .id = "0123456789abcdef",
        .name = "lab",
        .state = SANDBOX_ERROR,
        .reason = "it's \"broken\"; DROP TABLE sandbox",
        .remedy = "do as I say",
        .image_name = "python:3.12-slim",
        .user = "app:staff",
        .work_dir = "/w\xc3\xb6rk",
        .network = "allow=a.com,*.b.org:8443",
        .memory_bytes = UINT64_C(1) << 40,
        .disk_bytes = 5,
        .cpu_quota_us = UINT32_MAX,
        .pids = 77,
        .tier = TIER_FULL,
        .profile = PROFILE_BUILD,
        .read_only = true,
        .created_ms = 1,
        .updated_ms = 2,
        .active_ms = INT64_MAX,
        .auto_stop_minutes = 15,
        .auto_delete_minutes = -1,
        .auto_archive_minutes = 1440,
        .owner = "fedcba9876543210",
        .on_failure = FAILURE_RECREATE,
        .pooled = true,
        .is_public = true,
        .destroy_ms = INT64_MAX - 1,
    };
    memset(r.image, 'a', HEX_SIZE - 1);
    assert_int_equal(strv_push(&r.env, "A=1\n2"), 0);
    assert_int_equal(strv_push(&r.env, "EMPTY="), 0);
    assert_int_equal(strv_push(&r.labels, "team=\xc3\xa4"), 0);
    assert_int_equal(strv_push(&r.volumes, "/srv:/data:ro"), 0);
    return r;
}

static void assert_words(const struct strv *a, const struct strv *b) {
    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len; i++)
        assert_string_equal(a->v[i], b->v[i]);
}

static void assert_row(const struct sandbox_record *a, const struct sandbox_record *b) {
    struct sandbox_record x = *a, y = *b;
    assert_words(&a->env, &b->env);
    assert_words(&a->labels, &b->labels);
    assert_words(&a->volumes, &b->volumes);
    x.env = x.labels = x.volumes = y.env = y.labels = y.volumes = (struct strv){0};
    assert_string_equal(x.reason, y.reason);
    assert_string_equal(x.image, y.image);
    assert_memory_equal(&x, &y, sizeof x);
}

static void test_rows(void **state) {
    struct place *p = *state;
    struct db *db = open_db(p);
    struct cay_error err = {0};
    struct sandbox_record full = make_full_row(), plain = make_row(7), *rows;
    size_t count;
    assert_true(db_is_unused(db));
    assert_int_equal(db_list(db, &rows, &count, &err), 0);
    assert_int_equal(count, 0);
    free(rows);
    assert_int_equal(db_add(db, &full, DB_FLUSH, &err), 0);
    assert_int_equal(db_add(db, &plain, DB_FLUSH, &err), 0);
    full.state = SANDBOX_STARTED;
    memset(full.reason, 0, sizeof full.reason);
    assert_int_equal(db_update(db, &full, DB_FLUSH, &err), 0);
    db_close(db);

    db = open_db(p); /* and another process would see the same */
    assert_false(db_is_unused(db));
    assert_int_equal(db_list(db, &rows, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_row(&rows[0], &full); /* the oldest first, whatever its id and times */
    assert_row(&rows[1], &plain);
    release(rows, count);
    assert_int_equal(db_remove(db, full.id, DB_FLUSH, &err), 0);
    assert_int_equal(db_remove(db, plain.id, DB_FLUSH, &err), 0);
    assert_false(db_is_unused(db));
    db_close(db);
    sandbox_record_free(&full);
    struct stat st;
    assert_int_equal(stat(p->file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

struct seen_events {
    size_t count;
    int64_t last;
    char text[512]; /* "state:text " of each */
};

static int see_event(void *user, const struct db_event *e, struct cay_error *err) {
    (void)err;
    struct seen_events *s = user;
    size_t len = strlen(s->text);
    assert_true(e->number > s->last);
    s->last = e->number;
    s->count++;
    (void)snprintf(s->text + len, sizeof s->text - len, "%s:%s ", e->state, e->text);
    return 0;
}

static struct seen_events events_of(struct db *db, const char *id, int64_t after) {
    struct seen_events s = {0};
    assert_int_equal(db_event_list(db, id, after, see_event, &s, NULL), 0);
    return s;
}

static void test_events(void **state) {
    struct db *db = open_db(*state);
    struct sandbox_record r = make_row(1), other = make_row(2);
    assert_int_equal(db_add(db, &r, DB_FLUSH, NULL), 0);
    assert_int_equal(db_add(db, &other, DB_FLUSH, NULL), 0);
    r.state = SANDBOX_STARTED;
    assert_int_equal(db_update(db, &r, DB_FLUSH, NULL), 0);
    r.active_ms = 5; /* not worth a word */
    assert_int_equal(db_update(db, &r, DB_FLUSH, NULL), 0);
    assert_int_equal(db_event_add(db, r.id, 7, "note", NULL), 0);
    r.state = SANDBOX_ERROR;
    assert_int_equal(str_copy(r.reason, sizeof r.reason, "out of memory"), 0);
    assert_int_equal(db_update(db, &r, DB_FLUSH, NULL), 0);
    struct seen_events s = events_of(db, r.id, 0);
    assert_string_equal(s.text, "creating: started: started:note error:out of memory ");
    assert_string_equal(events_of(db, r.id, s.last - 1).text, "error:out of memory ");
    assert_int_equal(events_of(db, r.id, s.last).count, 0);
    for (int i = 0; i < 250; i++)
        assert_int_equal(db_event_add(db, r.id, i, "x", NULL), 0);
    assert_int_equal(events_of(db, r.id, 0).count, 200);
    assert_int_equal(events_of(db, other.id, 0).count, 1);
    assert_int_equal(db_remove(db, r.id, DB_FLUSH, NULL), 0);
    assert_int_equal(db_event_add(db, r.id, 1, "late", NULL), 0); /* nobody's */
    assert_int_equal(events_of(db, r.id, 0).count, 0);
    assert_int_equal(events_of(db, other.id, 0).count, 1);
    db_close(db);
}

static void test_secrets(void **state) {
    struct db *db = open_db(*state);
    struct sandbox_record r = make_row(1);
    char text[16], small[3];
    assert_int_equal(db_add(db, &r, DB_FLUSH, NULL), 0);
    assert_int_equal(db_secret_get(db, r.id, "files", text, sizeof text, NULL), -CAY_NOT_FOUND);
    assert_int_equal(db_secret_set(db, r.id, "files", "one", false, NULL), 0);
    assert_int_equal(db_secret_set(db, r.id, "files", "two", false, NULL), 0);
    assert_int_equal(db_secret_get(db, r.id, "files", text, sizeof text, NULL), 0);
    assert_string_equal(text, "one"); /* who came first */
    assert_int_equal(db_secret_set(db, r.id, "files", "three", true, NULL), 0);
    assert_int_equal(db_secret_set(db, r.id, "preview", "x", true, NULL), 0);
    assert_int_equal(db_secret_get(db, r.id, "files", text, sizeof text, NULL), 0);
    assert_string_equal(text, "three");
    assert_true(db_secret_get(db, r.id, "files", small, sizeof small, NULL) < 0);
    assert_int_equal(db_remove(db, r.id, DB_FLUSH, NULL), 0);
    assert_int_equal(db_secret_get(db, r.id, "files", text, sizeof text, NULL), -CAY_NOT_FOUND);
    assert_int_equal(db_secret_set(db, r.id, "files", "late", true, NULL), 0); /* nobody's */
    assert_int_equal(db_secret_get(db, r.id, "files", text, sizeof text, NULL), -CAY_NOT_FOUND);
    db_close(db);
}

static void test_refusals(void **state) {
    struct db *db = open_db(*state);
    struct cay_error err = {0};
    struct sandbox_record a = make_row(1), b = make_row(2), c = make_row(3);
    assert_int_equal(db_add(db, &a, DB_FLUSH, &err), 0);
    assert_int_equal(db_add(db, &a, DB_FLUSH, &err), -CAY_CONFLICT);
    memcpy(b.name, a.name, sizeof b.name);
    assert_int_equal(db_add(db, &b, DB_FLUSH, &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.message, "box-1"));
    assert_int_equal(db_update(db, &b, DB_FLUSH, &err), -CAY_NOT_FOUND);
    assert_int_equal(db_add(db, &c, DB_FLUSH, &err), 0);
    memcpy(c.name, a.name, sizeof c.name);
    assert_int_equal(db_update(db, &c, DB_FLUSH, &err), -CAY_CONFLICT);
    assert_int_equal(db_remove(db, b.id, DB_FLUSH, &err), -CAY_NOT_FOUND);
    db_close(db);
}

/* ---- layouts ---- */

static sqlite3 *open_sql(const struct place *p) {
    sqlite3 *sql = NULL;
    assert_int_equal(sqlite3_open(p->file, &sql), SQLITE_OK);
    return sql;
}

static void run_sql(const struct place *p, const char *text) {
    sqlite3 *sql = open_sql(p);
    if (sqlite3_exec(sql, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(sql));
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

static int first_integer(sqlite3 *sql, const char *query) {
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_prepare_v2(sql, query, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int value = sqlite3_column_int(q, 0);
    (void)sqlite3_finalize(q);
    return value;
}

static void test_migrations(void **state) {
    struct place *p = *state;
    sqlite3 *sql = open_sql(p);
    struct cay_error err = {0};
    static const char *const good[] = {"CREATE TABLE t (a) STRICT",
                                       "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5"};
    static const char *const first[] = {"CREATE TABLE t (a INTEGER) STRICT"};
    static const char *const bad[] = {"CREATE TABLE t (a INTEGER) STRICT",
                                      "ALTER TABLE t ADD COLUMN b; DELETE FROM t; broken"};
    assert_int_equal(db_migrate(sql, p->file, &(struct db_steps){first, 1, 1}, &err), 0);
    assert_int_equal(first_integer(sql, "PRAGMA user_version"), 1);
    assert_int_equal(sqlite3_exec(sql, "INSERT INTO t VALUES (3)", 0, 0, 0), SQLITE_OK);

    /* a step that fails half-way leaves the layout and what is in it */
    assert_true(db_migrate(sql, p->file, &(struct db_steps){bad, 2, 1}, &err) < 0);
    assert_int_equal(first_integer(sql, "PRAGMA user_version"), 1);
    assert_int_equal(first_integer(sql, "SELECT count(*) FROM t"), 1);
    assert_int_equal(first_integer(sql, "SELECT count(*) FROM pragma_table_info('t')"), 1);

    assert_int_equal(db_migrate(sql, p->file, &(struct db_steps){good, 2, 1}, &err), 0);
    assert_int_equal(first_integer(sql, "PRAGMA user_version"), 2);
    assert_int_equal(first_integer(sql, "SELECT a + b FROM t"), 8);
    assert_int_equal(db_migrate(sql, p->file, &(struct db_steps){good, 2, 1}, &err), 0);

    assert_int_equal(db_migrate(sql, p->file, &(struct db_steps){first, 1, 1}, &err),
                     -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "layout 2"));
    assert_non_null(strstr(err.message, "up to 1"));
    assert_true(err.remedy[0] != '\0');
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

static void test_newer_is_refused(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    struct db *db = open_db(p);
    struct sandbox_record r = make_row(1);
    assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
    db_close(db);
    run_sql(p, "PRAGMA user_version = 99");
    assert_int_equal(db_open(p->file, &db, &err), -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "99"));
    char known[16];
    assert_int_equal(str_format(known, sizeof known, "up to %d", db_layout_last(&db_layout)), 0);
    assert_non_null(strstr(err.message, known));
    sqlite3 *sql = open_sql(p);
    assert_int_equal(first_integer(sql, "PRAGMA user_version"), 99); /* left alone */
    assert_int_equal(first_integer(sql, "SELECT count(*) FROM sandbox"), 1);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

/* ---- damage ---- */

static void assert_damaged(const struct place *p) {
    struct db *db = NULL;
    struct cay_error err = {0};
    assert_int_equal(db_open(p->file, &db, &err), -CAY_INTERNAL);
    assert_non_null(strstr(err.message, "damaged"));
    assert_non_null(strstr(err.message, p->file));
    assert_non_null(strstr(err.remedy, "backup"));
    assert_int_equal(err.sys, EUCLEAN);
}

static void put_bytes(const struct place *p, off_t at, const void *data, size_t len) {
    int fd = open(p->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, len, at), (ssize_t)len);
    (void)close(fd);
}

static void test_not_a_database(void **state) {
    char text[4096];
    memset(text, 'x', sizeof text);
    put_bytes(*state, 0, text, sizeof text);
    assert_damaged(*state);
}

static void test_damaged_page(void **state) {
    struct place *p = *state;
    struct db *db = open_db(p);
    struct cay_error err = {0};
    for (unsigned i = 0; i < 100; i++) {
        struct sandbox_record r = make_row(i);
        assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
    }
    db_close(db);
    char junk[3000];
    memset(junk, 0xa5, sizeof junk);
    put_bytes(p, 4096, junk, sizeof junk);
    assert_damaged(p);
}

static void test_row_without_sense(void **state) {
    struct place *p = *state;
    static const char *const changes[] = {
        "UPDATE sandbox SET state = 'flying'",
        "UPDATE sandbox SET tier = 'golden'",
        "UPDATE sandbox SET profile = ''",
        "UPDATE sandbox SET env = x'41'",
        "UPDATE sandbox SET pids = -1",
        "UPDATE sandbox SET id = '../../etc/passwd'",
        "UPDATE sandbox SET name = printf('%.*c', 64, 'x')",
    };
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct db *db = open_db(p);
        struct cay_error err = {0};
        struct sandbox_record r = make_row(1), *rows = NULL;
        size_t count;
        assert_int_equal(db_add(db, &r, DB_FLUSH, &err), 0);
        run_sql(p, changes[i]);
        if (db_list(db, &rows, &count, &err) != -CAY_INTERNAL)
            fail_msg("accepted: %s", changes[i]);
        assert_true(err.remedy[0] != '\0');
        db_close(db);
        run_sql(p, "DELETE FROM sandbox");
    }
}

/* ---- many at once ---- */

enum { THREADS = 4, ROUNDS = 25 };

struct worker {
    struct db *db;
    unsigned base;
    int failures;
};

static void *work(void *arg) {
    struct worker *w = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sandbox_record r = make_row(w->base + i), *rows = NULL;
        size_t count = 0;
        w->failures += db_add(w->db, &r, DB_FLUSH, NULL) < 0;
        r.state = SANDBOX_STARTED;
        w->failures += db_update(w->db, &r, DB_FLUSH, NULL) < 0;
        w->failures += db_list(w->db, &rows, &count, NULL) < 0 || count == 0;
        release(rows, count);
        if (i % 2 == 1)
            w->failures += db_remove(w->db, r.id, DB_FLUSH, NULL) < 0;
    }
    return NULL;
}

static void test_threads(void **state) {
    struct db *db = open_db(*state);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.db = db, .base = i * 1000};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failures, 0);
    }
    struct sandbox_record *rows;
    size_t count;
    assert_int_equal(db_list(db, &rows, &count, NULL), 0);
    assert_int_equal(count, THREADS * (ROUNDS / 2 + 1));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rows[i].state, SANDBOX_STARTED);
    release(rows, count);
    db_close(db);
}

/* ---- death ---- */

/* Says each number when its row is promised. */
_noreturn_ static void write_until_killed(const struct place *p, unsigned base, int ack) {
    struct db *db = NULL;
    if (db_open(p->file, &db, NULL) < 0)
        _exit(1);
    for (unsigned i = base;; i++) {
        struct sandbox_record r = make_row(i);
        if (db_add(db, &r, DB_FLUSH, NULL) < 0)
            _exit(2);
        r.state = SANDBOX_STARTED;
        if (db_update(db, &r, DB_FLUSH, NULL) < 0 || fd_write_all(ack, &i, sizeof i) < 0)
            _exit(3);
    }
}

static unsigned kill_a_writer(const struct place *p, unsigned base, long after_us) {
    int ack[2];
    unsigned number, promised = 0;
    assert_int_equal(pipe2(ack, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        write_until_killed(p, base, ack[1]);
    (void)close(ack[1]);
    assert_int_equal(fd_read_all(ack[0], &number, sizeof number), 1); /* it is under way */
    promised++;
    (void)nanosleep(&(struct timespec){.tv_nsec = after_us * 1000}, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    while (fd_read_all(ack[0], &number, sizeof number) == 1)
        promised++;
    (void)close(ack[0]);
    return promised;
}

static void assert_promised(const struct place *p, unsigned base, unsigned promised) {
    struct db *db = open_db(p);
    struct sandbox_record *rows;
    size_t count;
    unsigned found = 0;
    assert_int_equal(db_list(db, &rows, &count, NULL), 0);
    for (size_t i = 0; i < count; i++)
        if (rows[i].created_ms >= base && rows[i].created_ms < base + promised) {
            assert_int_equal(rows[i].state, SANDBOX_STARTED);
            found++;
        }
    assert_int_equal(found, promised);
    release(rows, count);
    db_close(db);
}

static void test_killed_while_writing(void **state) {
    for (unsigned i = 0; i < 12; i++) {
        unsigned base = i * 1000000;
        unsigned promised = kill_a_writer(*state, base, 1000 + 3777 * (long)i);
        assert_promised(*state, base, promised);
    }
}

/* ---- a full disk ---- */

/* Root of a world of our own, where a small disk can be mounted. */
static bool become_root(void) {
    char map[32];
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
        fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
        return false;
    return str_format(map, sizeof map, "0 %u 1", uid) == 0 &&
           fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map) >= 0 &&
           str_format(map, sizeof map, "0 %u 1", gid) == 0 &&
           fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", map) >= 0;
}

static int fill_disk(const struct place *p) {
    struct db *db = NULL;
    struct cay_error err = {0};
    struct sandbox_record *rows;
    size_t count;
    unsigned n = 0;
    int r = 0;
    if (mount("none", p->folder, "tmpfs", 0, "size=512k") < 0 || db_open(p->file, &db, &err) < 0)
        return 1;
    for (; r == 0 && n < 100000; n += r == 0) {
        struct sandbox_record row = make_row(n);
        r = db_add(db, &row, DB_FLUSH, &err);
    }
    if (r != -CAY_RESOURCE_EXHAUSTED || err.remedy[0] == '\0')
        return 2;
    struct sandbox_record row = make_row(n);
    if (db_update(db, &row, DB_FLUSH, &err) != -CAY_NOT_FOUND && err.code != CAY_RESOURCE_EXHAUSTED)
        return 3;
    db_close(db);
    if (db_open(p->file, &db, &err) < 0 || db_list(db, &rows, &count, &err) < 0)
        return 4;
    release(rows, count);
    db_close(db);
    return count == n ? 0 : 5; /* all that were promised, and no other */
}

static void test_disk_full(void **state) {
    enum { CANNOT = 77 };
    pid_t pid = fork();
    if (pid == 0) {
        if (!become_root())
            _exit(CANNOT);
        _exit(fill_disk(*state));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT) {
        print_message("skipped: no user namespace for a small disk here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secrets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_migrations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_a_database, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_page, setup, teardown),
        cmocka_unit_test_setup_teardown(test_row_without_sense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_while_writing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
