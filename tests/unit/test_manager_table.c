/* Tests of the table with many rows: what is asked for does not take longer because of others. Rows
 * that are looked at are counted, since times say nothing on a busy machine. */
#include "manager_env.h"

#include "manager/internal.h"

enum { MANY = 10000, FEW = 10, LOOKS_MAX = 100 };

static const char key_a[] = "aaaaaaaaaaaaaaaa", key_b[] = "bbbbbbbbbbbbbbbb";

static void fill_row(struct sandbox_record *r, const char *owner, unsigned number) {
    *r = (struct sandbox_record){.state = SANDBOX_ARCHIVED,
                                 .engine = ENGINE_NATIVE,
                                 .tier = TIER_FULL,
                                 .on_failure = FAILURE_KEEP,
                                 .archive_bytes = 1,
                                 .auto_delete_minutes = -1,
                                 .created_ms = 1000 + number / 3}; /* some are of the same age */
    (void)snprintf(r->id, sizeof r->id, "%08x%08x", number * 2654435761U, number);
    (void)snprintf(r->name, sizeof r->name, "box-%u", number);
    (void)snprintf(r->owner, sizeof r->owner, "%s", owner);
    (void)snprintf(r->image_name, sizeof r->image_name, "host");
    (void)snprintf(r->network, sizeof r->network, "none");
}

/* Every thousandth is of the key a, the others are of b. */
static const char *owner_of(unsigned number) {
    return number % (MANY / FEW) == 0 ? key_a : key_b;
}

static void fill_database(void) {
    struct db *db = NULL;
    struct cay_error err = {0};
    if (db_open("cay.db", &db, &err) < 0 || db_begin(db) < 0)
        fail_msg("%s", err.message);
    for (unsigned i = 0; i < MANY; i++) {
        struct sandbox_record r;
        fill_row(&r, owner_of(i), i);
        if (db_add(db, &r, DB_FLUSH_LATER, &err) < 0)
            fail_msg("%s", err.message);
    }
    assert_int_equal(db_commit(db), 0);
    db_end(db);
    assert_int_equal(db_flush(db, &err), 0);
    db_close(db);
}

static struct key key_of(const char *id) {
    struct key k = {.scopes = SCOPE_SANDBOXES};
    (void)snprintf(k.id, sizeof k.id, "%s", id);
    return k;
}

static void open_large(struct world *w) {
    fill_database();
    open_manager(w);
}

static void find_one(struct world *w, const struct key *caller, const char *who,
                     const char *expected) {
    char id[ID_SIZE] = "";
    size_t before = table_looks;
    int r = manager_find(w->m, caller, who, id, NULL);
    size_t looks = table_looks - before;
    if ((r == 0) != (expected != NULL) || (r == 0 && !str_equal(id, expected)))
        fail_msg("%s is '%s'", who, id);
    if (looks > LOOKS_MAX)
        fail_msg("%s: looked at %zu rows", who, looks);
}

static void test_finding_one(void **state) {
    struct world *w = *state;
    struct key a = key_of(key_a), b = key_of(key_b);
    struct sandbox_record r;
    char prefix[13];
    open_large(w);
    for (unsigned i = 0; i < MANY; i += 1777) {
        fill_row(&r, owner_of(i), i);
        const struct key *owner = str_equal(owner_of(i), key_a) ? &a : &b;
        (void)snprintf(prefix, sizeof prefix, "%.12s", r.id);
        const struct key *const callers[] = {NULL, owner};
        for (size_t k = 0; k < ARRAY_LEN(callers); k++) {
            find_one(w, callers[k], r.id, r.id);
            find_one(w, callers[k], r.name, r.id);
            find_one(w, callers[k], prefix, r.id);
        }
        find_one(w, owner == &a ? &b : &a, r.id, NULL);
    }
    find_one(w, &a, "ffffffffffffffff", NULL);
}

static void test_a_list_has_the_callers_rows_only(void **state) {
    struct world *w = *state;
    struct key a = key_of(key_a);
    struct manager_listing l;
    open_large(w);
    size_t before = table_looks;
    assert_int_equal(manager_list_page(w->m, &(struct manager_page){.caller = &a}, &l, NULL), 0);
    assert_int_equal(l.count, FEW);
    assert_in_range(table_looks - before, FEW, LOOKS_MAX);
    for (size_t i = 0; i < l.count; i++)
        assert_string_equal(l.v[i].owner, key_a);
    manager_listing_free(&l);
}

/* Every row comes once, in order, and a page looks at no more than it has. */
static void read_pages(struct world *w, bool newest_first, size_t limit) {
    struct manager_page page = {.limit = limit, .newest_first = newest_first};
    struct manager_listing l;
    size_t seen = 0;
    do {
        size_t before = table_looks;
        assert_int_equal(manager_list_page(w->m, &page, &l, NULL), 0);
        assert_in_range(table_looks - before, l.count, limit + LOOKS_MAX);
        for (size_t i = 0; i < l.count; i++) {
            int64_t age = l.v[i].created_ms;
            bool in_order = newest_first ? age <= page.after_ms : age >= page.after_ms;
            assert_true(!page.has_after || in_order);
            page.has_after = true;
            page.after_ms = age;
            memcpy(page.after_id, l.v[i].id, sizeof page.after_id);
        }
        seen += l.count;
        bool has_more = l.has_more;
        manager_listing_free(&l);
        assert_int_equal(has_more, seen < MANY);
    } while (seen < MANY);
    assert_int_equal(seen, MANY);
}

static void test_pages(void **state) {
    struct world *w = *state;
    open_large(w);
    read_pages(w, false, 700);
    read_pages(w, true, 999);
}

static void first_behind(struct world *w, const struct sandbox_record *r, bool newest_first,
                         char id[static ID_SIZE]) {
    struct manager_listing l;
    struct manager_page page = {
        .limit = 1, .newest_first = newest_first, .has_after = true, .after_ms = r->created_ms};
    memcpy(page.after_id, r->id, sizeof page.after_id);
    assert_int_equal(manager_list_page(w->m, &page, &l, NULL), 0);
    assert_int_equal(l.count, 1);
    memcpy(id, l.v[0].id, ID_SIZE);
    manager_listing_free(&l);
}

/* A cursor outlives the sandbox that it names. */
static void test_a_page_behind_one_that_is_gone(void **state) {
    struct world *w = *state;
    struct sandbox_record r;
    char newer[ID_SIZE], older[ID_SIZE], again[ID_SIZE];
    open_large(w);
    fill_row(&r, owner_of(5000), 5000);
    first_behind(w, &r, false, newer);
    first_behind(w, &r, true, older);
    assert_string_not_equal(newer, older);
    assert_int_equal(manager_remove(w->m, r.id, true, NULL), 0);
    first_behind(w, &r, false, again);
    assert_string_equal(again, newer);
    first_behind(w, &r, true, again);
    assert_string_equal(again, older);
}

static void test_names_follow(void **state) {
    struct world *w = *state;
    struct cay_error err = {0};
    open_manager(w);
    const char *one = make_box(w, "one");
    (void)make_box(w, "two");
    find_one(w, NULL, "one", one);
    assert_int_equal(manager_rename(w->m, one, "three", NULL), 0);
    find_one(w, NULL, "three", one);
    find_one(w, NULL, "one", NULL);
    assert_int_equal(manager_rename(w->m, one, "two", &err), -CAY_CONFLICT);
    assert_int_equal(manager_remove(w->m, one, true, NULL), 0);
    find_one(w, NULL, "three", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_finding_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_list_has_the_callers_rows_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_page_behind_one_that_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_follow, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
