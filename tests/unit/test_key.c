/* Tests of keys, owners and quotas in the manager. */
#include "manager_env.h"

static struct key make_key(struct world *w, const char *name, unsigned scopes, char *text) {
    struct key k = {.scopes = scopes};
    struct cay_error err = {0};
    assert_int_equal(str_copy(k.name, sizeof k.name, name), 0);
    if (manager_key_add(w->m, &k, text, &err) < 0)
        fail_msg("%s", err.message);
    return k;
}

static void test_keys_are_matched_by_their_text(void **state) {
    struct world *w = *state;
    char one[KEY_TEXT_SIZE], two[KEY_TEXT_SIZE];
    struct key found;
    struct cay_error err = {0};
    open_manager(w);
    struct key k = make_key(w, "one", SCOPE_SANDBOXES, one);
    (void)make_key(w, "two", SCOPE_READ, two);
    assert_int_equal(strlen(one), KEY_TEXT_LEN);
    assert_int_equal(strspn(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "0123456789-_"),
                     KEY_TEXT_LEN);
    assert_string_not_equal(one, two);
    assert_true(manager_key_match(w->m, one, &found));
    assert_string_equal(found.id, k.id);
    assert_false(manager_key_match(w->m, "", &found));
    two[KEY_TEXT_LEN - 2] ^= 1;
    assert_false(manager_key_match(w->m, two, &found));
    two[KEY_TEXT_LEN - 2] ^= 1;
    reopen_manager(w);
    assert_true(manager_key_match(w->m, two, &found));
    assert_string_equal(found.name, "two");
    assert_int_equal(found.scopes, SCOPE_READ);
    assert_int_equal(manager_key_remove(w->m, "two", NULL), 0);
    assert_false(manager_key_match(w->m, two, &found));
    assert_int_equal(manager_key_remove(w->m, "two", &err), -CAY_NOT_FOUND);
    reopen_manager(w);
    assert_false(manager_key_match(w->m, two, &found));
    assert_true(manager_key_match(w->m, one, &found));
}

static void test_bad_keys(void **state) {
    struct world *w = *state;
    open_manager(w);
    const struct {
        struct key k;
        enum cay_code code;
    } rows[] = {
        {{.name = "", .scopes = SCOPE_READ}, CAY_INVALID_ARGUMENT},
        {{.name = "a b", .scopes = SCOPE_READ}, CAY_INVALID_ARGUMENT},
        {{.name = "admin", .scopes = SCOPE_READ}, CAY_INVALID_ARGUMENT},
        {{.name = "cay", .scopes = SCOPE_READ}, CAY_INVALID_ARGUMENT},
        {{.name = "none"}, CAY_INVALID_ARGUMENT},
        {{.name = "old", .scopes = SCOPE_READ, .expires_ms = 1}, CAY_INVALID_ARGUMENT},
        {{.name = "once", .scopes = SCOPE_READ}, CAY_OK},
        {{.name = "once", .scopes = SCOPE_READ}, CAY_CONFLICT},
    };
    char text[KEY_TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct key k = rows[i].k;
        struct cay_error err = {0};
        assert_int_equal(manager_key_add(w->m, &k, text, &err), -(int)rows[i].code);
        assert_true(rows[i].code == CAY_OK || err.remedy[0] != '\0');
    }
}

static void test_expiry(void **state) {
    struct world *w = *state;
    char text[KEY_TEXT_SIZE];
    open_manager(w); /* which may take a while */
    struct key k = {.name = "soon", .scopes = SCOPE_READ, .expires_ms = clock_wall_ms() + 500};
    assert_int_equal(manager_key_add(w->m, &k, text, NULL), 0);
    struct key found;
    while (clock_wall_ms() < k.expires_ms)
        sleep_ms(5);
    assert_false(manager_key_match(w->m, text, &found));
}

static void test_scope_names(void **state) {
    (void)state;
    for (unsigned bit = SCOPE_READ; bit <= SCOPE_ADMIN; bit <<= 1)
        assert_int_equal(key_scope_from_name(key_scope_name(bit)), bit);
    assert_int_equal(key_scope_from_name("write:sandboxes"), SCOPE_SANDBOXES);
    assert_int_equal(key_scope_from_name("write:snapshots"), SCOPE_IMAGES);
    static const char *const none[] = {"", "root", "Admin", "manage:api_keys", "read:audit_logs"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_int_equal(key_scope_from_name(none[i]), 0);
}

/* ---- owners ---- */

static int make_owned(struct world *w, const struct key *k, const char *name, uint64_t memory,
                      char id[static ID_SIZE], struct cay_error *err) {
    struct sandbox_record request = {.memory_bytes = memory}, made = {0};
    memcpy(request.owner, k->id, sizeof request.owner);
    assert_int_equal(str_copy(request.name, sizeof request.name, name), 0);
    int r = manager_create(w->m, &request, -1, &made, err);
    memcpy(id, made.id, ID_SIZE);
    sandbox_record_free(&made);
    return r;
}

static void test_owners(void **state) {
    struct world *w = *state;
    char text[KEY_TEXT_SIZE], a[ID_SIZE], b[ID_SIZE], c[ID_SIZE], id[ID_SIZE], prefix[9];
    struct cay_error err = {0};
    const struct key admin = {.name = "admin", .scopes = SCOPE_ADMIN};
    open_manager(w);
    struct key one = make_key(w, "one", SCOPE_SANDBOXES, text);
    struct key two = make_key(w, "two", SCOPE_SANDBOXES, text);
    assert_int_equal(make_owned(w, &one, "lab", 0, a, &err), 0);
    assert_int_equal(make_owned(w, &two, "lab", 0, b, &err), 0);
    assert_int_equal(make_owned(w, &one, "lab", 0, c, &err), -CAY_CONFLICT);
    assert_int_equal(manager_find(w->m, &one, "lab", id, &err), 0);
    assert_string_equal(id, a);
    assert_int_equal(manager_find(w->m, &two, "lab", id, &err), 0);
    assert_string_equal(id, b);
    (void)snprintf(prefix, sizeof prefix, "%.8s", a);
    assert_int_equal(manager_find(w->m, &one, prefix, id, &err), 0);
    const char *const foreign[] = {a, prefix, "lap"};
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        assert_int_equal(manager_find(w->m, &two, foreign[i], id, &err), -CAY_NOT_FOUND);
    assert_int_equal(manager_find(w->m, &admin, "lab", id, &err), -CAY_CONFLICT);
    assert_non_null(strstr(err.message, a));
    assert_non_null(strstr(err.message, b));
    assert_int_equal(manager_find(w->m, &admin, a, id, &err), 0);
    assert_int_equal(make_owned(w, &admin, "lab", 0, c, &err), 0);
    assert_int_equal(manager_find(w->m, &admin, "lab", id, &err), 0);
    assert_string_equal(id, c);
    struct manager_totals totals;
    manager_totals(w->m, &one, &totals);
    assert_int_equal(totals.total, 1);
    manager_totals(w->m, &admin, &totals);
    assert_int_equal(totals.total, 3);
}

static void test_quota(void **state) {
    struct world *w = *state;
    char text[KEY_TEXT_SIZE], id[ID_SIZE];
    struct cay_error err = {0};
    struct key k = {.name = "small", .scopes = SCOPE_SANDBOXES, .max_memory_bytes = 100 * MEGABYTE};
    open_manager(w);
    assert_int_equal(manager_key_add(w->m, &k, text, &err), 0);
    assert_int_equal(make_owned(w, &k, "a", 60 * MEGABYTE, id, &err), 0);
    assert_int_equal(make_owned(w, &k, "b", 60 * MEGABYTE, id, &err), -CAY_LIMIT_REACHED);
    assert_non_null(strstr(err.message, "memory (100.0 MB) of key 'small'"));
    assert_string_equal(state_of(w, "b"), "gone");
    assert_int_equal(make_owned(w, &k, "b", 40 * MEGABYTE, id, &err), 0);
    assert_int_equal(manager_stop_sandbox(w->m, "a", &err), 0);
    assert_int_equal(make_owned(w, &k, "c", 40 * MEGABYTE, id, &err), -CAY_LIMIT_REACHED);
    assert_int_equal(manager_start_sandbox(w->m, "a", &err), 0);
    assert_int_equal(manager_key_remove(w->m, "small", &err), 0); /* and its limits with it */
    assert_int_equal(manager_stop_sandbox(w->m, "a", &err), 0);
    assert_int_equal(manager_start_sandbox(w->m, "a", &err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_are_matched_by_their_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expiry, setup, teardown),
        cmocka_unit_test(test_scope_names),
        cmocka_unit_test_setup_teardown(test_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
