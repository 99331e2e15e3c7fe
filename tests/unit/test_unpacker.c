/* Unpacking for a process that has threads. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "imager/unpack/unpacker.h"
#include "unpack_env.h"

static struct unpacker unpacker;
static uint64_t told;

static void note(void *user, uint64_t bytes_in) {
    assert_ptr_equal(user, &told);
    assert_true(bytes_in >= told);
    told = bytes_in;
}

static int run_bytes(const void *data, size_t len) {
    int fd = memfd_create("layer", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
    (void)lseek(fd, 0, SEEK_SET);
    told = 0;
    int r = unpacker_run(&unpacker, fd, root, note, &told, &result, &err);
    (void)close(fd);
    return r;
}

static int start(void **state) {
    return set_up(state) == 0 && unpacker_start(&unpacker, &err) == 0 ? 0 : -1;
}

static int stop(void **state) {
    unpacker_stop(&unpacker);
    bool none_left = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
    return tear_down(state) == 0 && none_left ? 0 : -1;
}

static void test_one_after_the_other(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        char name[16], hex[HEX_SIZE];
        struct buf b = BUF_INIT(TAR_MAX);
        (void)snprintf(name, sizeof name, "file%d", i);
        tar_add(&b, &(struct tar_entry)TEXT(name, name));
        tar_end(&b);
        digest_of(b.data, b.len, hex);
        assert_int_equal(run_bytes(b.data, b.len), 0);
        assert_text(name, name);
        assert_string_equal(result.diff_id, hex);
        assert_string_equal(result.blob, hex);
        assert_int_equal(result.blob_size, b.len);
        assert_int_equal(result.entries, 1);
        buf_free(&b);
    }
}

static void test_progress(void **state) {
    (void)state;
    struct buf b = BUF_INIT(TAR_MAX);
    static char data[5 * MB];
    memset(data, 'x', sizeof data - 1);
    tar_add(&b, &(struct tar_entry)TEXT("big", data));
    tar_end(&b);
    assert_int_equal(run_bytes(b.data, b.len), 0);
    assert_int_equal(told, b.len);
    buf_free(&b);
}

/* What one archive does is forgotten with it. */
static void test_an_error_and_then_a_layer(void **state) {
    (void)state;
    struct buf b = BUF_INIT(TAR_MAX);
    tar_add(&b, &(struct tar_entry)TEXT("../victim", "evil"));
    tar_end(&b);
    assert_refused(run_bytes(b.data, b.len), CAY_INVALID_ARGUMENT, "..");
    assert_refused(run_bytes("\x1f\x8bnothing", 9), CAY_INVALID_ARGUMENT, "gzip");
    buf_free(&b);
    tar_add(&b, &(struct tar_entry)TEXT("good", "1"));
    tar_end(&b);
    assert_int_equal(run_bytes(b.data, b.len), 0);
    assert_text("good", "1");
    buf_free(&b);
}

static size_t count_fds(pid_t pid) {
    char path[32];
    size_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        count += e->d_name[0] != '.';
    (void)closedir(d);
    return count;
}

/* Locks and pipes that are closed here must be closed. */
static void test_holds_nothing(void **state) {
    (void)state;
    struct buf b = sample();
    assert_int_equal(run_bytes(b.data, b.len), 0);
    buf_free(&b);
    int64_t end = clock_ms() + 30000; /* its last descriptor goes just after its last word */
    while (count_fds(unpacker.pid) != 4 && clock_ms() < end)
        (void)sched_yield();
    assert_int_equal(count_fds(unpacker.pid), 4);
}

static void test_its_death_is_an_error(void **state) {
    (void)state;
    siginfo_t info;
    assert_int_equal(kill(unpacker.pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)unpacker.pid, &info, WEXITED | WNOWAIT), 0);
    assert_refused(run_bytes("", 0), CAY_INTERNAL, "its process is gone");
}

/* It waits for input that never comes. */
static void test_its_death_at_work_is_an_error(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t killer = fork();
    if (killer == 0) {
        while (count_fds(unpacker.pid) < 7) /* it has the order */
            (void)sched_yield();
        _exit(kill(unpacker.pid, SIGKILL) == 0 ? 0 : 1);
    }
    int r = unpacker_run(&unpacker, ends[0], root, NULL, NULL, &result, &err);
    assert_refused(r, CAY_INTERNAL, "ended without a report");
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
}

/* ---- threads ---- */

static atomic_bool enough;

static void *use_memory(void *arg) {
    for (size_t size = 1; !enough; size = size * 7 % 4093 + 1) {
        char *volatile data = malloc(size);
        free(data);
    }
    return arg;
}

/* Whatever locks they hold at whatever moment. */
static void test_while_threads_use_memory(void **state) {
    (void)state;
    pthread_t threads[3];
    struct buf b = sample();
    enough = false;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_memory, NULL), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(run_bytes(b.data, b.len), 0);
    enough = true;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    buf_free(&b);
}

int main(void) {
    if (geteuid() != 0) {
        printf("skipped: unpacking is tested as root\n");
        return 77;
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(test_one_after_the_other),       TEST(test_progress),
        TEST(test_an_error_and_then_a_layer), TEST(test_holds_nothing),
        TEST(test_its_death_is_an_error),     TEST(test_its_death_at_work_is_an_error),
        TEST(test_while_threads_use_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
