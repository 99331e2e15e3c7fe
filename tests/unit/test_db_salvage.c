/* Tests of what is saved of a damaged database: junk on every page in turn, in the header, in the
 * log; and what is no damage. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/db/wal.h"
#include "manager/record/audit.h"
#include "manager/record/key.h"
#include "manager/record/volume.h"

enum { ROWS = 120, PAGE = 4096, ROWS_OF_A_PAGE = 40 };

struct place {
    char folder[64], file[96], log[100], index[100], kept[96], mark[96];
    struct buf good; /* the file before it was damaged */
};

static void name(char *out, size_t size, const struct place *p, const char *file) {
    assert_int_equal(str_format(out, size, "%s/%s", p->folder, file), 0);
}

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(str_copy(p->folder, sizeof p->folder, "/tmp/cay-salvage-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(p->folder));
    name(p->file, sizeof p->file, p, "cay.db");
    name(p->log, sizeof p->log, p, "cay.db-wal");
    name(p->index, sizeof p->index, p, "cay.db-shm");
    name(p->kept, sizeof p->kept, p, "kept");
    name(p->mark, sizeof p->mark, p, "rescue.txt");
    p->good = BUF_INIT(16 << 20);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    int r = path_remove_tree(AT_FDCWD, p->folder);
    buf_free(&p->good);
    free(p);
    return r;
}

static void add_row(struct db *db, unsigned number) {
    struct cay_error err = {0};
    struct sandbox_record r = {.state = SANDBOX_STOPPED, .memory_bytes = 1, .created_ms = number};
    r.on_failure = FAILURE_KEEP;
    assert_int_equal(str_format(r.id, sizeof r.id, "%016x", number), 0);
    assert_int_equal(str_format(r.name, sizeof r.name, "box-%u", number), 0);
    assert_int_equal(db_add(db, &r, DB_FLUSH_LATER, &err), 0);
}

static void fill(struct db *db) {
    struct cay_error err = {0};
    struct key k = {.id = "k1", .name = "tenant", .scopes = 1};
    struct volume v = {.id = "00000000000000aa", .name = "data"};
    for (unsigned i = 0; i < ROWS; i++)
        add_row(db, i);
    assert_int_equal(db_key_add(db, &k, &err), 0);
    assert_int_equal(db_volume_add(db, &v, &err), 0);
    assert_int_equal(db_secret_set(db, "0000000000000001", "preview", "s", false, &err), 0);
}

static struct db *open_db(const struct place *p) {
    struct db *db = NULL;
    struct cay_error err = {0};
    if (db_open(p->file, &db, &err) < 0)
        fail_msg("%s", err.message);
    return db;
}

static void read_file(const char *path, struct buf *b) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    buf_clear(b);
    assert_int_equal(fd_read_to_end(fd, b), 0);
    (void)close(fd);
}

static void write_file(const char *path, const struct buf *b) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, b->data, b->len), 0);
    (void)close(fd);
}

static void put_junk(const char *path, off_t at, size_t len) {
    char junk[PAGE];
    memset(junk, 0xa5, sizeof junk);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, junk, len, at), (ssize_t)len);
    (void)close(fd);
}

/* The database as it was, without a log. */
static void restore(const struct place *p) {
    write_file(p->file, &p->good);
    (void)unlink(p->log);
    (void)unlink(p->index);
    (void)unlink(p->mark);
    (void)path_remove_tree(AT_FDCWD, p->kept);
}

static size_t count_rows(struct db *db) {
    struct sandbox_record *rows = NULL;
    struct cay_error err = {0};
    size_t count = 0;
    if (db_list(db, &rows, &count, &err) < 0)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < count; i++)
        sandbox_record_free(&rows[i]);
    free(rows);
    return count;
}

static int count_key(void *user, const struct key *k, struct cay_error *err) {
    (void)err;
    *(int *)user += str_equal(k->name, "tenant");
    return 0;
}

/* Saves it, and returns how many sandboxes there are; what was found is told and kept. */
static size_t salvage(const struct place *p, int *ret_keys) {
    struct db *db = NULL;
    struct cay_error err = {0};
    struct stat st;
    char kept[128];
    if (db_open_or_salvage(p->file, p->kept, p->mark, &db, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(stat(p->mark, &st), 0);
    assert_true(st.st_size > 0);
    assert_int_equal(str_format(kept, sizeof kept, "%s/cay.db", p->kept), 0);
    assert_int_equal(stat(kept, &st), 0);
    size_t count = count_rows(db);
    *ret_keys = 0;
    assert_int_equal(db_key_list(db, count_key, ret_keys, &err), 0);
    add_row(db, 5000); /* it can be written to */
    db_close(db);
    return count;
}

static void make_good(struct place *p) {
    struct db *db = open_db(p);
    fill(db);
    db_close(db); /* which empties the log */
    read_file(p->file, &p->good);
}

/* Junk on a page costs what is on that page. Pages that are parts of trees may cost a table, so the
 * sum tells: most pages cost next to nothing. */
static void every_page(void **state) {
    struct place *p = *state;
    make_good(p);
    size_t pages = p->good.len / PAGE, damaged = 0, nearly_whole = 0;
    assert_true(pages > 10);
    for (size_t i = 1; i < pages; i++) {
        restore(p);
        put_junk(p->file, (off_t)(i * PAGE), PAGE);
        struct db *db = NULL;
        struct cay_error err = {0};
        int keys, r = db_open(p->file, &db, &err);
        db_close(r == 0 ? db : NULL);
        if (r == 0)
            continue; /* a page that nothing uses */
        assert_int_equal(err.sys, EUCLEAN);
        size_t rows = salvage(p, &keys);
        assert_true(rows <= ROWS);
        damaged++;
        nearly_whole += rows + ROWS_OF_A_PAGE >= ROWS;
    }
    print_message("%zu pages, %zu of them used, %zu cost no more than a page\n", pages, damaged,
                  nearly_whole);
    assert_true(damaged > pages / 2);
    /* all but the list of tables, which takes two pages below its root, and roots */
    assert_true(nearly_whole + 6 >= damaged);
}

/* A row of the middle is behind the damage from both ends. */
static void two_pages(void **state) {
    struct place *p = *state;
    make_good(p);
    size_t pages = p->good.len / PAGE, best = 0;
    for (size_t i = 2; i + 2 < pages; i++) {
        restore(p);
        put_junk(p->file, (off_t)(i * PAGE), PAGE);
        put_junk(p->file, (off_t)((i + 2) * PAGE), PAGE);
        int keys;
        struct db *db = NULL;
        struct cay_error err = {0};
        if (db_open(p->file, &db, &err) == 0) {
            db_close(db);
            continue;
        }
        size_t rows = salvage(p, &keys);
        best = rows > best ? rows : best;
    }
    assert_true(best >= ROWS - 2 * ROWS_OF_A_PAGE);
}

static void bare_header(void **state) {
    struct place *p = *state;
    int keys;
    make_good(p);
    put_junk(p->file, 0, 100);
    assert_int_equal(salvage(p, &keys), 0);
    char kept[128];
    struct buf b = BUF_INIT(16 << 20);
    assert_int_equal(str_format(kept, sizeof kept, "%s/cay.db", p->kept), 0);
    read_file(kept, &b);
    assert_int_equal(b.len, p->good.len); /* nothing of what is left is lost */
    assert_memory_equal(b.data + 100, p->good.data + 100, b.len - 100);
    buf_free(&b);
}

static void not_a_database(void **state) {
    struct place *p = *state;
    int keys;
    assert_int_equal(buf_puts(&p->good, "nonsense, and not even a page of it"), 0);
    write_file(p->file, &p->good);
    assert_int_equal(salvage(p, &keys), 0);
    assert_int_equal(keys, 0);
}

static void cut_short(void **state) {
    struct place *p = *state;
    int keys;
    make_good(p);
    assert_int_equal(truncate(p->file, (off_t)(p->good.len / 2)), 0);
    assert_true(salvage(p, &keys) < ROWS);
}

/* A row that the manager would refuse to start with. */
static void nonsense_in_a_row(void **state) {
    struct place *p = *state;
    int keys;
    struct db *db = open_db(p);
    struct cay_error err = {0};
    fill(db);
    assert_int_equal(db_run(db->sql, "UPDATE sandbox SET state = 'flying' WHERE number = 7",
                            "damaging a row", &err),
                     0);
    db_close(db);
    read_file(p->file, &p->good);
    put_junk(p->file, (off_t)(p->good.len - PAGE), PAGE); /* or nobody would look */
    size_t rows = salvage(p, &keys);
    assert_in_range(rows, ROWS - ROWS_OF_A_PAGE - 1, ROWS - 1);
}

/* ---- the log ---- */

/* The three files, as a kill leaves them. */
struct files {
    struct buf file, log, index;
};

static void files_init(struct files *f) {
    f->file = f->log = f->index = BUF_INIT(16 << 20);
}

static void files_free(struct files *f) {
    buf_free(&f->file);
    buf_free(&f->log);
    buf_free(&f->index);
}

/* While the database is open. */
static void files_read(const struct place *p, struct files *ret) {
    read_file(p->file, &ret->file);
    read_file(p->log, &ret->log);
    read_file(p->index, &ret->index);
}

static void files_write(const struct place *p, const struct files *f) {
    write_file(p->file, &f->file);
    write_file(p->log, &f->log);
    write_file(p->index, &f->index);
}

static struct db *open_with_log(const struct place *p) {
    struct db *db = open_db(p);
    struct cay_error err = {0};
    assert_int_equal(db_run(db->sql, "PRAGMA wal_autocheckpoint = 0", "keeping the log", &err), 0);
    return db;
}

/* All rows are in the log. */
static void make_log(const struct place *p, struct files *ret) {
    struct db *db = open_with_log(p);
    fill(db);
    files_init(ret);
    files_read(p, ret);
    db_close(db);
}

static size_t open_whole(const struct place *p) {
    struct stat st;
    struct db *db = NULL;
    struct cay_error err = {0};
    assert_false(db_wal_has_lost(p->file));
    if (db_open_or_salvage(p->file, p->kept, p->mark, &db, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(stat(p->mark, &st), -1);
    size_t count = count_rows(db);
    db_close(db);
    return count;
}

static void a_whole_log_is_no_damage(void **state) {
    struct place *p = *state;
    struct files f;
    make_log(p, &f);
    files_write(p, &f);
    assert_int_equal(open_whole(p), ROWS);
    files_free(&f);
}

/* Writes rows until it is killed, and says of each that it is there. */
static void write_rows(const struct place *p, unsigned from, int acknowledge) {
    struct db *db = open_db(p);
    struct cay_error err = {0};
    for (unsigned i = from;; i++) {
        if (i % 7 == 0)
            assert_int_equal(db_begin(db), 0);
        add_row(db, i);
        if (i % 7 == 0) {
            assert_int_equal(db_commit(db), 0);
            db_end(db);
        }
        if (i % 50 == 0)
            (void)db_run(db->sql, "PRAGMA wal_checkpoint(PASSIVE)", "copying", &err);
        if (write(acknowledge, &i, sizeof i) != (ssize_t)sizeof i)
            _exit(1);
    }
}

/* Again and again, on one database: what was acknowledged is there, and nobody has to act. */
static void kills_are_no_damage(void **state) {
    struct place *p = *state;
    unsigned next = 0;
    for (int round = 0; round < 25; round++) {
        int pair[2];
        assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0)
            write_rows(p, next, pair[1]);
        (void)close(pair[1]);
        unsigned done = 0, target = 1 + (unsigned)round * 5;
        bool is_any = false;
        for (unsigned i = 0; i < target; i++)
            is_any = read(pair[0], &done, sizeof done) == (ssize_t)sizeof done;
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (read(pair[0], &done, sizeof done) == (ssize_t)sizeof done)
            ;
        (void)close(pair[0]);
        assert_true(is_any);
        size_t rows = open_whole(p);
        assert_in_range(rows, done + 1, done + 2); /* perhaps one more than it could say */
        next = (unsigned)rows;
    }
}

/* A kill while the last frame of a transaction is written leaves frames that were never promised,
 * and the mark of its end on one of them. The next transaction is shorter and begins in the same
 * place, so the rest lies behind it. */
static void an_unpromised_tail_is_dropped(void **state) {
    struct place *p = *state;
    struct files before, after, f;
    struct db *db = open_with_log(p);
    struct cay_error err = {0};
    fill(db);
    files_init(&before);
    files_init(&after);
    files_init(&f);
    files_read(p, &before);
    assert_int_equal(
        db_run(db->sql, "UPDATE sandbox SET memory_bytes = memory_bytes + 1", "writing", &err), 0);
    files_read(p, &after);
    db_close(db);
    assert_true(after.log.len > before.log.len + 3 * (24 + PAGE));
    memset(after.log.data + after.log.len - PAGE, 0xa5, PAGE); /* it was not written any more */
    write_file(p->file, &after.file);
    write_file(p->log, &after.log);
    write_file(p->index, &before.index);
    assert_false(db_wal_has_lost(p->file));
    db = open_with_log(p);
    assert_int_equal(
        db_run(db->sql, "UPDATE sandbox SET memory_bytes = 5 WHERE number = 1", "", &err), 0);
    files_read(p, &f);
    db_close(db);
    assert_int_equal(f.log.len, after.log.len);
    files_write(p, &f);
    assert_int_equal(open_whole(p), ROWS);
    files_free(&before);
    files_free(&after);
    files_free(&f);
}

/* Frames that were promised, and are not there any more. */
static void a_log_that_is_cut_is_a_loss(void **state) {
    struct place *p = *state;
    struct files f;
    int keys;
    make_log(p, &f);
    files_write(p, &f);
    assert_int_equal(truncate(p->log, (off_t)(f.log.len - PAGE)), 0);
    assert_true(db_wal_has_lost(p->file));
    assert_in_range(salvage(p, &keys), 1, ROWS); /* the last frame is of something else */
    restore(p);
    files_write(p, &f);
    assert_int_equal(unlink(p->log), 0);
    assert_true(db_wal_has_lost(p->file));
    files_free(&f);
}

static void junk_in_the_log(void **state) {
    static const struct {
        off_t at;
        size_t len;
    } cases[] = {{0, 32}, {16, 4}, {32 + 24 + 100, 8}, {32 + 12 * (24 + PAGE) + 500, 64}};
    struct place *p = *state;
    struct files f;
    make_log(p, &f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int keys;
        restore(p);
        files_write(p, &f);
        put_junk(p->log, cases[i].at, cases[i].len);
        assert_true(db_wal_has_lost(p->file));
        assert_true(salvage(p, &keys) < ROWS);
        char kept[128];
        struct stat st;
        assert_int_equal(str_format(kept, sizeof kept, "%s/cay.db-wal", p->kept), 0);
        assert_int_equal(stat(kept, &st), 0);
        assert_int_equal((size_t)st.st_size, f.log.len);
    }
    files_free(&f);
}

/* Whoever starts the machine again does not have to look: power may have gone. */
static void a_log_from_before_this_boot_is_not_judged(void **state) {
    struct place *p = *state;
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct files f;
    make_log(p, &f);
    files_write(p, &f);
    put_junk(p->log, 0, 32);
    assert_true(db_wal_has_lost(p->file));
    assert_int_equal(utimensat(AT_FDCWD, p->index, old, 0), 0);
    assert_false(db_wal_has_lost(p->file));
    files_free(&f);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_page),
        TEST(two_pages),
        TEST(bare_header),
        TEST(not_a_database),
        TEST(cut_short),
        TEST(nonsense_in_a_row),
        TEST(a_whole_log_is_no_damage),
        TEST(kills_are_no_damage),
        TEST(an_unpromised_tail_is_dropped),
        TEST(a_log_that_is_cut_is_a_loss),
        TEST(junk_in_the_log),
        TEST(a_log_from_before_this_boot_is_not_judged),
    };
    return cmocka_run_group_tests_name("db_salvage", tests, NULL, NULL);
}
