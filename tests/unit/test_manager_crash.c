/* The manager's process is killed at random moments, again and again. What it had answered holds,
 * what it had not is whole or not there, and the engine has nothing that the manager does not know.
 */
#include "manager_env.h"

#include <signal.h>
#include <sys/wait.h>

enum { NAMES = 6, KILLS = 60 };

enum verb { CREATE, START, STOP, REMOVE, VERBS };

/* A line of the child's diary: before, and after it was answered. */
struct note {
    unsigned name, verb;
    int answer; /* 1: about to begin */
};

static int do_verb(struct world *w, unsigned verb, const char *name) {
    struct sandbox_record request = {0}, made = {0};
    struct cay_error err = {0};
    int r;
    switch (verb) {
    case CREATE:
        (void)snprintf(request.name, sizeof request.name, "%s", name);
        r = manager_create(w->m, &request, -1, &made, &err);
        if (r == 0)
            sandbox_record_free(&made);
        return r;
    case START:
        return manager_start_sandbox(w->m, name, &err);
    case STOP:
        return manager_stop_sandbox(w->m, name, &err);
    default:
        return manager_remove(w->m, name, false, &err);
    }
}

static const char *name_of(unsigned number) {
    static const char *const names[NAMES] = {"b0", "b1", "b2", "b3", "b4", "b5"};
    return names[number];
}

_noreturn_ static void work_until_killed(struct world *w, unsigned seed, int diary) {
    open_manager(w);
    for (;;) {
        struct note n = {.name = (unsigned)rand_r(&seed) % NAMES,
                         .verb = (unsigned)rand_r(&seed) % VERBS,
                         .answer = 1};
        if (fd_write_all(diary, &n, sizeof n) < 0)
            _exit(1);
        n.answer = do_verb(w, n.verb, name_of(n.name));
        if (fd_write_all(diary, &n, sizeof n) < 0)
            _exit(1);
    }
}

/* What each name must be after the diary; "any" for the one that was under way. */
static void read_diary(int diary, const char *expected[NAMES]) {
    static const char *const after[] = {
        [CREATE] = "started", [START] = "started", [STOP] = "stopped", [REMOVE] = "gone"};
    struct note n, under_way = {.answer = 0};
    while (fd_read_all(diary, &n, sizeof n) == 1) {
        under_way = n;
        if (n.answer == 0)
            expected[n.name] = after[n.verb];
    }
    if (under_way.answer == 1)
        expected[under_way.name] = "any";
}

static void check_name(struct world *w, const char *name, const char *expected) {
    const char *is = state_of(w, name);
    struct sandbox_record r = {0};
    if (!str_equal(expected, "any") && !str_equal(expected, is))
        fail_msg("%s is %s, and was promised to be %s", name, is, expected);
    if (manager_get(w->m, name, &r, NULL) < 0)
        return;
    const char *engine = fake_state(&w->fake, r.id);
    bool agree = (str_equal(is, "started") && str_equal(engine, "running")) ||
                 (str_equal(is, "stopped") && str_equal(engine, "stopped"));
    if (!agree)
        fail_msg("%s is %s (%s), and %s for the engine", name, is, r.reason, engine);
    sandbox_record_free(&r);
}

static void kill_after(struct world *w, unsigned seed, long us, const char *expected[NAMES]) {
    int diary[2];
    struct note first;
    assert_int_equal(pipe2(diary, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        work_until_killed(w, seed, diary[1]);
    (void)close(diary[1]);
    assert_int_equal(fd_read_all(diary[0], &first, sizeof first), 1); /* it is at work */
    (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    expected[first.name] = "any"; /* unless there is more about it */
    read_diary(diary[0], expected);
    (void)close(diary[0]);
    for (size_t i = 0; i < FAKE_MAX; i++) /* they were the child's */
        w->fake.boxes[i].listener = -1;
    (void)pthread_mutex_init(&w->fake.lock, NULL);
}

static void test_killed_at_any_moment(void **state) {
    struct world *w = *state;
    const char *expected[NAMES];
    unsigned seed = 4711;
    for (size_t i = 0; i < NAMES; i++)
        expected[i] = "gone";
    for (unsigned i = 0; i < KILLS; i++) {
        kill_after(w, i, rand_r(&seed) % 30000, expected);
        open_manager(w);
        size_t known = 0;
        for (unsigned k = 0; k < NAMES; k++) {
            check_name(w, name_of(k), expected[k]);
            expected[k] = state_of(w, name_of(k));
            known += !str_equal(expected[k], "gone");
        }
        assert_int_equal(fake_count(&w->fake), known);
        close_manager(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_at_any_moment, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
