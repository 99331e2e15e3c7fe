/* Which interpreter a program gets: what fits, what does not any more, and what is said of it. The
 * engine here makes nothing, so what is frozen is put there by the test. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "lib/python/freeze.h"
#include "manager/python/interpreters_internal.h"

static int refuse_once(struct engine *e, const struct engine_once *once, int connection,
                       uint64_t *ret_tag, struct cay_error *err) {
    (void)e, (void)once, (void)connection;
    *ret_tag = 1;
    return error_set(err, CAY_UNSUPPORTED, "no sandbox today");
}

static int end_once(struct engine *e, uint64_t tag, bool *ret_oom, struct cay_error *err) {
    (void)e, (void)tag, (void)ret_oom, (void)err;
    return 0;
}

static const struct engine_ops ops = {.once = refuse_once, .once_end = end_once};
static struct engine engine = {.ops = &ops};

static struct interpreters *make(bool warm) {
    const struct interpreters_options options = {.engine = &engine, .has_once = true};
    struct strv preload = {0};
    const struct interpreters_rules rules = {.warm = warm,
                                             .preload = &preload,
                                             .work_dir = "/workspace",
                                             .index_url = "",
                                             .find_links = ""};
    struct cay_error err = {0};
    struct interpreters *all = NULL;
    assert_int_equal(interpreters_new(&options, &all, &err), 0);
    assert_int_equal(interpreters_set_rules(all, &rules, &err), 0);
    return all;
}

/* As if one had been frozen now, with this number. */
static void put_frozen(struct interpreters *all, uint64_t number) {
    (void)pthread_mutex_lock(&all->lock);
    struct frozen *f = &all->frozen[0];
    if (all->frozen_count > 0)
        (void)close(f->fd);
    all->frozen_count = 1;
    *f = (struct frozen){.fd = memfd_create("frozen", MFD_CLOEXEC),
                         .made_at = clock_ms(),
                         .checked_at = clock_ms(),
                         .number = number,
                         .mark = python_fingerprint(true, (const char *const *)all->preload.v)};
    (void)pthread_mutex_unlock(&all->lock);
}

/* "" if one was found; else why not. */
static const char *ask(struct interpreters *all, const struct sandbox_record *box, char *entry) {
    static struct cay_error why;
    struct strv env = {.v = &entry, .len = entry != NULL};
    why = (struct cay_error){0};
    int fd = interpreters_find(all, box, &env, &why);
    if (fd < 0)
        return why.message;
    (void)close(fd);
    return "";
}

static struct sandbox_record box_of(const char *id) {
    struct sandbox_record box = {0};
    memcpy(box.id, id, strlen(id) + 1);
    return box;
}

static void warm_can_be_off(void **state) {
    (void)state;
    struct interpreters *all = make(false);
    struct sandbox_record box = box_of("0123456789abcdef");
    assert_string_equal(ask(all, &box, NULL), "python.warm is false");
    interpreters_free(all);
}

/* Until the worker has failed to make one. */
static void wait_for_refusal(struct interpreters *all) {
    (void)pthread_mutex_lock(&all->lock);
    while (all->frozen[0].refused_at == 0)
        (void)pthread_cond_wait(&all->changed, &all->lock);
    (void)pthread_mutex_unlock(&all->lock);
}

static void the_first_is_cold_and_says_so(void **state) {
    (void)state;
    struct interpreters *all = make(true);
    struct sandbox_record box = box_of("0123456789abcdef");
    assert_string_equal(ask(all, &box, NULL), "the warm interpreter is being made");
    /* The worker has failed to make one by then: that is remembered, and not tried for a while. */
    wait_for_refusal(all);
    assert_string_equal(ask(all, &box, NULL), "no sandbox today");
    interpreters_free(all);
}

/* That there is no newer one makes an old one neither younger nor fit for use. */
static void one_that_does_not_fit_stays_so_when_no_other_can_be_made(void **state) {
    (void)state;
    static const struct {
        int64_t age_ms;
        bool is_changed;
    } rows[] = {{10 * 1000, true}, {(int64_t)PYTHON_AGE_MAX_S * 1000 + 1, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct interpreters *all = make(true);
        struct sandbox_record box = box_of("0123456789abcdef");
        put_frozen(all, 7);
        all->frozen[0].made_at = all->frozen[0].checked_at = clock_ms() - rows[i].age_ms;
        all->frozen[0].mark ^= rows[i].is_changed;
        assert_string_equal(ask(all, &box, NULL), "the warm interpreter is being made");
        wait_for_refusal(all);
        assert_string_equal(ask(all, &box, NULL), "no sandbox today");
        interpreters_free(all);
    }
}

static void an_old_one_is_used_on_when_no_other_can_be_made(void **state) {
    (void)state;
    struct interpreters *all = make(true);
    struct sandbox_record box = box_of("0123456789abcdef");
    put_frozen(all, 7);
    int64_t made_at = clock_ms() - (int64_t)(PYTHON_AGE_MAX_S - 300) * 1000;
    all->frozen[0].made_at = made_at;
    assert_string_equal(ask(all, &box, NULL), "");
    wait_for_refusal(all);
    assert_true(all->frozen[0].made_at == made_at);
    assert_string_equal(ask(all, &box, NULL), "");
    assert_false(all->frozen[0].wanted); /* it is not tried again with each program */
    interpreters_free(all);
}

static void what_makes_a_program_cold(void **state) {
    (void)state;
    struct interpreters *all = make(true);
    put_frozen(all, 7);
    struct sandbox_record box = box_of("0123456789abcdef");
    assert_string_equal(ask(all, &box, NULL), "");
    assert_string_equal(ask(all, &box, (char[]){"A=b"}), "");
    assert_string_equal(ask(all, &box, (char[]){"PYTHONPATH=x"}),
                        "envs change how the interpreter starts");
    assert_int_equal(strv_push(&box.env, "LANG=de_DE"), 0);
    assert_string_equal(ask(all, &box, NULL),
                        "the sandbox's environment changes how the interpreter starts");
    strv_free(&box.env);
    assert_int_equal(strv_push(&box.volumes, "/a:/usr/lib"), 0);
    assert_string_equal(ask(all, &box, NULL), "a volume covers files of the interpreter");
    strv_free(&box.volumes);
    memcpy(box.user, "me", 3);
    assert_string_equal(ask(all, &box, NULL), "the sandbox has a user of its own");
    interpreters_free(all);
}

static void a_changed_sandbox_is_not_tried_until_the_next_is_frozen(void **state) {
    (void)state;
    struct interpreters *all = make(true);
    put_frozen(all, 7);
    struct sandbox_record one = box_of("0123456789abcdef"), other = box_of("fedcba9876543210");
    interpreters_note_changed(all, &one);
    interpreters_note_changed(all, &one);
    assert_int_equal(all->changed_next, 1);
    assert_string_equal(ask(all, &one, NULL), "the sandbox's Python is another by now");
    assert_string_equal(ask(all, &other, NULL), "");
    put_frozen(all, 8);
    assert_string_equal(ask(all, &one, NULL), "");
    interpreters_free(all);
}

static void many_changed_sandboxes_are_bounded(void **state) {
    (void)state;
    struct interpreters *all = make(true);
    put_frozen(all, 7);
    char id[ID_SIZE];
    for (unsigned i = 0; i < INTERPRETERS_CHANGED_MAX + 10; i++) {
        (void)snprintf(id, sizeof id, "%016x", i);
        struct sandbox_record box = box_of(id);
        interpreters_note_changed(all, &box);
    }
    struct sandbox_record first = box_of("0000000000000000"), last = box_of(id);
    assert_string_equal(ask(all, &first, NULL),
                        ""); /* the oldest are forgotten: one wake is lost */
    assert_string_equal(ask(all, &last, NULL), "the sandbox's Python is another by now");
    interpreters_free(all);
}

static void programs_at_once_are_bounded(void **state) {
    (void)state;
    struct interpreters *all = make(false);
    const struct cay_python program = {.name = "-c", .code = ""};
    const struct interpreters_caller nobody = {0};
    struct cay_exec exec = CAY_EXEC_INIT;
    struct cay_python_result result;
    struct cay_error err = {0};
    char why[200];
    assert_int_equal(interpreters_run(all, &program, &exec, &nobody, &result, why, &err),
                     -CAY_UNSUPPORTED);
    assert_string_equal(why, "python.warm is false");
    assert_int_equal(all->running, 0);
    all->running = INTERPRETERS_RUNNING_MAX;
    assert_int_equal(interpreters_run(all, &program, &exec, &nobody, &result, why, &err),
                     -CAY_LIMIT_REACHED);
    assert_true(err.remedy[0] != '\0');
    all->running = 0;
    interpreters_free(all);
}

static void a_network_needs_a_proxy(void **state) {
    (void)state;
    struct interpreters *all = make(false);
    const struct cay_python program = {.name = "-c", .code = ""};
    const struct interpreters_caller caller = {.network = "allow=a.com"};
    struct cay_exec exec = CAY_EXEC_INIT;
    struct cay_python_result result;
    struct cay_error err = {0};
    char why[200];
    assert_int_equal(interpreters_run(all, &program, &exec, &caller, &result, why, &err),
                     -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no network"));
    interpreters_free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_can_be_off),
        cmocka_unit_test(the_first_is_cold_and_says_so),
        cmocka_unit_test(one_that_does_not_fit_stays_so_when_no_other_can_be_made),
        cmocka_unit_test(an_old_one_is_used_on_when_no_other_can_be_made),
        cmocka_unit_test(what_makes_a_program_cold),
        cmocka_unit_test(a_changed_sandbox_is_not_tried_until_the_next_is_frozen),
        cmocka_unit_test(many_changed_sandboxes_are_bounded),
        cmocka_unit_test(programs_at_once_are_bounded),
        cmocka_unit_test(a_network_needs_a_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
