/* Tests of the budget of a key: the table, shares, the host's reserve, and that what is released is
 * there again. */
#include "manager_env.h"

#include "manager/access/budget.h"

static struct key add_key(struct world *w, struct key k, const char *name) {
    char text[KEY_TEXT_SIZE];
    struct cay_error err = {0};
    k.scopes = k.scopes != 0 ? k.scopes : SCOPE_SANDBOXES;
    assert_int_equal(str_copy(k.name, sizeof k.name, name), 0);
    if (manager_key_add(w->m, &k, text, &err) < 0)
        fail_msg("%s", err.message);
    return k;
}

static int make(struct world *w, const struct key *k, const char *name,
                const struct sandbox_record *wish, struct cay_error *err) {
    struct sandbox_record request = *wish, made = {0};
    key_stamp(k, request.owner, request.made_by);
    assert_int_equal(str_copy(request.name, sizeof request.name, name), 0);
    int r = manager_create(w->m, &request, -1, &made, err);
    sandbox_record_free(&made);
    return r;
}

static uint64_t used(struct world *w, const struct key *k, enum budget_item item) {
    struct budget_usage usage[BUDGET_ITEMS];
    manager_budget_usage(w->m, k, usage);
    return usage[item].used;
}

static uint64_t left(struct world *w, const struct key *k, enum budget_item item) {
    struct budget_usage usage[BUDGET_ITEMS];
    manager_budget_usage(w->m, k, usage);
    return usage[item].left;
}

static void test_every_row_has_a_limit(void **state) {
    (void)state;
    for (enum budget_item i = 0; i < BUDGET_ITEMS; i++) {
        struct key k = {0};
        assert_non_null(budget_table[i].name);
        if (budget_is_part(i))
            continue;
        budget_set_limit(&k, i, 7 + i);
        for (enum budget_item j = 0; j < BUDGET_ITEMS; j++)
            assert_int_equal(budget_limit(&k, j), i == j ? 7 + i : 0);
        assert_true(str_starts(budget_table[i].limit_name, "max"));
        assert_true(str_starts(budget_table[i].option, "--"));
    }
}

static void test_limits_are_kept_in_the_database(void **state) {
    struct world *w = *state;
    struct key k = {0}, found;
    struct cay_error err;
    open_manager(w);
    for (enum budget_item i = 0; i < BUDGET_ITEMS; i++)
        if (!budget_is_part(i))
            budget_set_limit(&k, i, 100 + i);
    (void)add_key(w, k, "all");
    reopen_manager(w);
    assert_int_equal(manager_key_get(w->m, "all", &found, &err), 0);
    for (enum budget_item i = 0; i < BUDGET_ITEMS; i++)
        assert_int_equal(budget_limit(&found, i), budget_is_part(i) ? 0 : 100 + i);
}

static void test_pids_of_a_key(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    const struct sandbox_record wish = {.pids = 60};
    open_manager(w);
    struct key k = add_key(w, (struct key){.max_pids = 100}, "few");
    assert_int_equal(make(w, &k, "a", &wish, &err), 0);
    assert_int_equal(make(w, &k, "b", &wish, &err), -CAY_LIMIT_REACHED);
    assert_int_equal(err.sys, EAGAIN);
    assert_non_null(strstr(err.message, "number of processes (100) of key 'few'"));
    assert_non_null(strstr(err.remedy, "--pids"));
    assert_int_equal(used(w, &k, BUDGET_PIDS), 60);
    assert_int_equal(left(w, &k, BUDGET_PIDS), 40);
    struct manager_update u = MANAGER_UPDATE_INIT;
    UPDATE_SET(&u, pids, 101);
    assert_int_equal(manager_update(w->m, "a", &u, &err), -CAY_LIMIT_REACHED);
    UPDATE_SET(&u, pids, 100);
    assert_int_equal(manager_update(w->m, "a", &u, &err), 0);
    assert_int_equal(used(w, &k, BUDGET_PIDS), 100);
    assert_int_equal(manager_remove(w->m, "a", true, &err), 0);
    assert_int_equal(used(w, &k, BUDGET_PIDS), 0);
    assert_int_equal(used(w, &k, BUDGET_SANDBOXES), 0);
}

static void test_the_host_keeps_a_reserve(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct spec_host host;
    assert_int_equal(spec_look_up_host(&host, &err), 0);
    w->options.limits.host = (struct manager_host_limits){.memory_reserve_bytes = 512 * MEGABYTE,
                                                          .pids_reserve = host.pids - 1000};
    open_manager(w);
    const struct key admin = {.name = "admin", .scopes = SCOPE_ADMIN};
    struct key k = add_key(w, (struct key){0}, "plain");
    const struct sandbox_record pids = {.pids = 1001}, fits = {.pids = 1000};
    const struct sandbox_record memory = {.memory_bytes = host.memory_bytes - MEGABYTE};
    assert_int_equal(make(w, &k, "a", &pids, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "pids 1001"));
    assert_non_null(strstr(err.remedy, "at most 1000"));
    assert_int_equal(make(w, &admin, "a", &pids, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(make(w, &k, "a", &memory, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.remedy, "memory_reserve"));
    assert_int_equal(make(w, &k, "a", &fits, &err), 0);
    struct manager_update u = MANAGER_UPDATE_INIT;
    UPDATE_SET(&u, pids, 1001);
    assert_int_equal(manager_update(w->m, "a", &u, &err), -CAY_INVALID_ARGUMENT);
}

/* 1,000 processes for all: a key has half of them alone, and half of what is left beside another.
 */
static void test_sums_of_what_runs(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct spec_host host;
    assert_int_equal(spec_look_up_host(&host, &err), 0);
    w->options.limits.host =
        (struct manager_host_limits){.pids_reserve = host.pids - 1000, .pids_overcommit = 1};
    open_manager(w);
    struct key greedy = add_key(w, (struct key){0}, "greedy"),
               other = add_key(w, (struct key){0}, "other");
    const struct sandbox_record wish = {.pids = 250};
    assert_int_equal(make(w, &greedy, "a", &wish, &err), 0);
    assert_int_equal(make(w, &greedy, "b", &wish, &err), 0);
    assert_int_equal(make(w, &greedy, "c", &wish, &err), -CAY_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.remedy, "pids_overcommit"));
    assert_int_equal(make(w, &other, "o", &wish, &err), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "a", &err), 0);
    assert_int_equal(make(w, &other, "p", &wish, &err), 0);
    assert_int_equal(manager_start_sandbox(w->m, "a", &err), -CAY_RESOURCE_EXHAUSTED);
    assert_string_equal(state_of(w, "a"), "stopped");
    reopen_manager(w); /* what runs is charged again */
    assert_int_equal(manager_start_sandbox(w->m, "a", &err), -CAY_RESOURCE_EXHAUSTED);
    assert_int_equal(manager_remove(w->m, "p", true, &err), 0);
    assert_int_equal(manager_start_sandbox(w->m, "a", &err), 0);
    const struct key admin = {.name = "admin", .scopes = SCOPE_ADMIN};
    assert_int_equal(make(w, &admin, "x", &wish, &err), 0); /* may over-commit */
    assert_int_equal(make(w, &admin, "y", &wish, &err), 0);
}

static void test_shares_of_a_pool(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    uint64_t pool = budget_table[BUDGET_PYTHON].pool, n = 0;
    open_manager(w);
    struct key greedy = add_key(w, (struct key){0}, "greedy"),
               other = add_key(w, (struct key){0}, "other");
    while (manager_budget_take(w->m, greedy.id, BUDGET_PYTHON, &err) == 0)
        n++;
    assert_int_equal(n, pool / 2);
    assert_true(err.code == CAY_LIMIT_REACHED && err.sys == EAGAIN);
    assert_int_equal(left(w, &greedy, BUDGET_PYTHON), 0);
    assert_true(manager_budget_take(w->m, greedy.id, BUDGET_PYTHON, NULL) < 0);
    assert_int_equal(manager_budget_take(w->m, other.id, BUDGET_PYTHON, &err), 0);
    manager_budget_give(w->m, other.id, BUDGET_PYTHON);
    while (n-- > 0)
        manager_budget_give(w->m, greedy.id, BUDGET_PYTHON);
    assert_int_equal(used(w, &greedy, BUDGET_PYTHON), 0);
    assert_int_equal(manager_budget_take(w->m, greedy.id, BUDGET_PYTHON, &err), 0);
}

/* ---- many at once ---- */

enum { THREADS = 50, ROUNDS = 40, MEMORY_LIMIT_MB = 300, EACH_MB = 70 };

struct racer {
    struct world *w;
    const struct key *key;
    bool exceeded;
    unsigned admitted;
};

static void *race(void *user) {
    struct racer *r = user;
    struct budget_charge c = {.runs = true};
    memcpy(c.owner, r->key->id, sizeof c.owner);
    c.amount[BUDGET_MEMORY] = EACH_MB * MEGABYTE;
    for (int i = 0; i < ROUNDS; i++) {
        if (manager_budget_admit(r->w->m, &c, NULL) < 0)
            continue;
        r->admitted++;
        r->exceeded |= used(r->w, r->key, BUDGET_MEMORY) > MEMORY_LIMIT_MB * MEGABYTE;
        manager_budget_release(r->w->m, &c);
    }
    return NULL;
}

static void test_the_sum_never_exceeds(void **state) {
    struct world *w = *state;
    pthread_t threads[THREADS];
    struct racer racers[THREADS];
    unsigned admitted = 0;
    open_manager(w);
    struct key k = add_key(w, (struct key){.max_memory_bytes = MEMORY_LIMIT_MB * MEGABYTE}, "race");
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.w = w, .key = &k};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_false(racers[i].exceeded);
        admitted += racers[i].admitted;
    }
    assert_true(admitted > 0);
    assert_int_equal(used(w, &k, BUDGET_MEMORY), 0);
}

static void test_an_organisation_has_a_budget(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    struct key org = {.name = "org", .max_pids = 100, .max_proxy_connections = 9};
    const struct sandbox_record wish = {.pids = 40};
    open_manager(w);
    assert_int_equal(manager_organization_add(w->m, &org, &err), 0);
    struct key one = {.max_pids = 50, .max_proxy_connections = 5}, two = {0};
    memcpy(one.organization, org.id, sizeof org.id);
    memcpy(two.organization, org.id, sizeof org.id);
    one = add_key(w, one, "one");
    two = add_key(w, two, "two");
    assert_int_equal(make(w, &one, "a", &wish, &err), 0);
    assert_int_equal(make(w, &one, "b", &wish, &err), -CAY_LIMIT_REACHED);
    assert_non_null(strstr(err.message, "of key 'one'"));
    assert_int_equal(make(w, &two, "a", &wish, &err), -CAY_CONFLICT); /* names are shared */
    assert_int_equal(make(w, &two, "b", &wish, &err), 0);
    assert_int_equal(make(w, &two, "c", &wish, &err), -CAY_LIMIT_REACHED);
    assert_non_null(strstr(err.message, "of organisation 'org'"));
    assert_int_equal(left(w, &two, BUDGET_PIDS), 20);
    assert_int_equal(manager_budget_limit(w->m, one.id, BUDGET_PROXY), 5);
    assert_int_equal(manager_budget_limit(w->m, two.id, BUDGET_PROXY), 9);
    manager_budget_note(w->m, one.id, BUDGET_PROXY, 3);
    manager_budget_note(w->m, two.id, BUDGET_PROXY, 4);
    assert_int_equal(used(w, &org, BUDGET_PROXY), 7);
    manager_budget_forget(w->m, BUDGET_PROXY);
    assert_int_equal(used(w, &org, BUDGET_PROXY) + used(w, &one, BUDGET_PROXY), 0);
    /* What a removed key made counts for the organisation, also after a restart. */
    assert_int_equal(manager_key_remove(w->m, "two", &err), 0);
    assert_int_equal(used(w, &org, BUDGET_PIDS), 80);
    reopen_manager(w);
    assert_int_equal(used(w, &org, BUDGET_PIDS), 80);
    assert_int_equal(manager_remove(w->m, "b", true, &err), 0);
    assert_int_equal(used(w, &org, BUDGET_PIDS), 40);
    assert_int_equal(manager_remove(w->m, "a", true, &err), 0);
    assert_int_equal(used(w, &org, BUDGET_PIDS), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_has_a_limit),
        cmocka_unit_test_setup_teardown(test_limits_are_kept_in_the_database, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pids_of_a_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_host_keeps_a_reserve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_of_what_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_organisation_has_a_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shares_of_a_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_sum_never_exceeds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
