/* Tests of how changes get to the disk: many share one wait for it, and a disk that refuses is not
 * believed afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db/internal.h"

enum { WRITERS = 16 };

static char folder[64];
static struct db *db;
static atomic_uint syncs;          /* of the log, by us */
static atomic_uint_fast64_t await; /* the next one waits until so many changes were written */
static atomic_bool fails;

/* In place of the C library's. */
int fdatasync(int fd) {
    struct stat log, ours;
    bool is_log = db != NULL && fstat(fd, &ours) == 0 && stat("cay.db-wal", &log) == 0 &&
                  log.st_ino == ours.st_ino && fd == db->flusher.log;
    if (!is_log)
        return fsync(fd);
    (void)atomic_fetch_add(&syncs, 1);
    while (atomic_load(&db->flusher.written) < atomic_load(&await))
        (void)usleep(1000);
    errno = EIO;
    return atomic_load(&fails) ? -1 : 0;
}

static int setup(void **state) {
    struct cay_error err = {0};
    (void)state;
    assert_int_equal(str_copy(folder, sizeof folder, "/tmp/cay-flush-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    if (db_open("cay.db", &db, &err) < 0)
        fail_msg("%s", err.message);
    atomic_store(&syncs, 0);
    atomic_store(&await, 0);
    atomic_store(&fails, false);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    db_close(db);
    db = NULL;
    int r = chdir("/");
    return r | path_remove_tree(AT_FDCWD, folder);
}

static struct sandbox_record row(unsigned number) {
    struct sandbox_record r = {.state = SANDBOX_STOPPED,
                               .engine = ENGINE_NATIVE,
                               .tier = TIER_FULL,
                               .on_failure = FAILURE_KEEP};
    (void)snprintf(r.id, sizeof r.id, "%016x", number);
    (void)snprintf(r.name, sizeof r.name, "box-%u", number);
    return r;
}

static void *write_one(void *arg) {
    struct sandbox_record r = row((unsigned)(uintptr_t)arg);
    return (void *)(uintptr_t)(db_add(db, &r, DB_FLUSH, NULL) < 0);
}

static void test_writers_share_a_flush(void **state) {
    pthread_t threads[WRITERS];
    void *failed;
    (void)state;
    atomic_store(&await, atomic_load(&db->flusher.written) + WRITERS);
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_one, (void *)(i + 1)), 0);
    for (size_t i = 0; i < WRITERS; i++) {
        (void)pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_in_range(atomic_load(&syncs), 1, 2); /* the first, and one for all who came meanwhile */
    assert_int_equal(db->flusher.flushed, atomic_load(&db->flusher.written));
}

static void test_what_need_not_wait_does_not(void **state) {
    struct cay_error err = {0};
    struct sandbox_record a = row(1), b = row(2);
    (void)state;
    assert_int_equal(db_add(db, &a, DB_FLUSH_LATER, &err), 0);
    assert_int_equal(atomic_load(&syncs), 0);
    assert_int_equal(db_begin(db), 0);
    assert_int_equal(db_add(db, &b, DB_FLUSH, &err), 0);
    assert_int_equal(atomic_load(&syncs), 0); /* nothing is there yet that could be flushed */
    assert_int_equal(db_commit(db), 0);
    db_end(db);
    assert_int_equal(db_flush(db, &err), 0);
    assert_int_equal(atomic_load(&syncs), 1);
    assert_int_equal(db_flush(db, &err), 0);
    assert_int_equal(atomic_load(&syncs), 1); /* all of it is on the disk */
}

/* What the disk refused is brought to the database instead, and the log begins again. */
static void test_a_log_that_is_not_written_is_copied(void **state) {
    struct cay_error err = {0};
    struct sandbox_record a = row(1), *all = NULL;
    struct stat log;
    size_t count = 0;
    (void)state;
    atomic_store(&fails, true);
    assert_int_equal(db_add(db, &a, DB_FLUSH, &err), 0);
    assert_int_equal(stat("cay.db-wal", &log), 0);
    assert_int_equal(log.st_size, 0);
    assert_int_equal(db_list(db, &all, &count, &err), 0);
    assert_int_equal(count, 1);
    sandbox_record_free(&all[0]);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writers_share_a_flush, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_need_not_wait_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_log_that_is_not_written_is_copied, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
