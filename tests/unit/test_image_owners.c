/* Tests of the image store as its owners see it: each one his own and the public images, and no
 * sign of the others'. */
#include "image_store_env.h"

#include "image/store_files.h"

#define ANN "00000000000000aa"
#define BOB "00000000000000bb"

static struct image_store as(const struct place *p, const char *owner) {
    return image_store_as(&p->store, owner);
}

static void give(const struct place *p, const char *owner, const char *name, char digit) {
    struct cay_error err = {0};
    struct image_store store = as(p, owner);
    struct reference r = ref(name);
    if (image_store_set_name(&store, &r, hex(digit), &err) < 0)
        fail_msg("%s: %s", name, err.message);
}

/* The first digit of what the owner finds; 0 if it is nothing. */
static char found(const struct place *p, const char *owner, const char *text) {
    char id[HEX_SIZE];
    struct cay_error err = {0};
    struct image_store store = as(p, owner);
    int r = image_store_find(&store, text, id, &err);
    if (r < 0 && r != -CAY_NOT_FOUND)
        fail_msg("%s: %s", text, err.message);
    return (char)(r < 0 ? 0 : id[0]);
}

static void test_owners_are_ids_of_keys(void **state) {
    (void)state;
    static const char *const good[] = {"", ANN, IMAGE_ADMIN};
    static const char *const bad[] = {"a",
                                      "..",
                                      "names",
                                      "00000000000000AA",
                                      "00000000000000aa/x",
                                      "00000000000000aaa",
                                      "Admin",
                                      "../../../../../.."};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(image_owner_is_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(image_owner_is_valid(bad[i]));
}

static void test_own_first_then_public(void **state) {
    struct place *p = *state;
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '2', '3');
    add_image(p, 'c', '2', '3');
    give(p, "", "base", 'a');
    give(p, ANN, "tool", 'b');
    give(p, BOB, "tool", 'c');
    give(p, BOB, "base", 'c');
    static const struct {
        const char *owner, *text;
        char digit;
    } rows[] = {
        {"", "base", 'a'},   {"", "tool", 0},    {ANN, "base", 'a'}, {ANN, "tool", 'b'},
        {BOB, "base", 'c'},  {BOB, "tool", 'c'}, {"", "bbbb", 'b'},  {ANN, "bbbb", 0},
        {ANN, "aaaaaaa", 0}, {BOB, "bbbb", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (found(p, rows[i].owner, rows[i].text) != rows[i].digit)
            fail_msg("row %zu", i);
    assert_int_equal(found(p, ANN, hex('a')), 'a'); /* public by its name */
    assert_int_equal(found(p, ANN, hex('b')), 'b');
    assert_int_equal(found(p, ANN, hex('c')), 0);
    assert_int_equal(found(p, BOB, hex('b')), 0);
    assert_int_equal(found(p, "", hex('c')), 'c');
}

static size_t count_names(const struct place *p, const char *owner) {
    struct image_store store = as(p, owner);
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    assert_int_equal(image_store_names(&store, &names, &count, NULL), 0);
    for (size_t i = 0; i < count && owner[0] != '\0'; i++)
        assert_true(names[i].owner[0] == '\0' || str_equal(names[i].owner, owner));
    return count;
}

static size_t count_ids(const struct place *p, const char *owner) {
    struct image_store store = as(p, owner);
    _cleanup_(freep) char(*ids)[HEX_SIZE] = NULL;
    size_t count = 0;
    assert_int_equal(image_store_ids(&store, &ids, &count, NULL), 0);
    return count;
}

static void test_lists(void **state) {
    struct place *p = *state;
    struct image_store ann = as(p, ANN);
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '2', '3');
    add_image(p, 'c', '2', '3');
    add_image(p, 'd', '2', '3'); /* nobody's */
    give(p, "", "base", 'a');
    give(p, ANN, "tool", 'b');
    give(p, BOB, "tool", 'c');
    give(p, BOB, "base", 'c');
    assert_int_equal(count_names(p, ""), 4);
    assert_int_equal(count_names(p, ANN), 2);
    assert_int_equal(count_names(p, BOB), 2); /* his base hides the public one */
    assert_int_equal(count_ids(p, ""), 4);
    assert_int_equal(count_ids(p, ANN), 2);
    assert_int_equal(image_store_own(&ann, hex('d'), NULL), 0);
    assert_int_equal(count_ids(p, ANN), 3);
    assert_int_equal(found(p, ANN, hex('d')), 'd');
    assert_int_equal(found(p, BOB, hex('d')), 0);
    assert_int_equal(image_store_disown(&ann, hex('d'), NULL), 0);
    assert_int_equal(image_store_disown(&ann, hex('d'), NULL), 0);
    assert_int_equal(found(p, ANN, hex('d')), 0);
}

static void test_only_own_names_are_removed(void **state) {
    struct place *p = *state;
    struct image_store ann = as(p, ANN), bob = as(p, BOB);
    struct reference name = ref("base");
    add_image(p, 'a', '2', '3');
    give(p, "", "base", 'a');
    give(p, BOB, "base", 'a');
    assert_int_equal(image_store_remove_name(&ann, &name, NULL), -CAY_NOT_FOUND);
    assert_int_equal(image_store_remove_name(&bob, &name, NULL), 0);
    assert_int_equal(image_store_remove_name(&bob, &name, NULL), -CAY_NOT_FOUND);
    assert_int_equal(found(p, "", "base"), 'a');
    assert_true(image_store_is_wanted(&bob, hex('a')));
    assert_int_equal(image_store_remove_name(&p->store, &name, NULL), 0);
    assert_false(image_store_is_wanted(&bob, hex('a')));
}

static void test_private_of_admins(void **state) {
    struct place *p = *state;
    struct reference name = ref("base");
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '2', '3');
    give(p, "", "base", 'a');
    assert_int_equal(image_store_copy_name(&p->store, "", IMAGE_ADMIN, &name, NULL), 0);
    assert_int_equal(image_store_remove_name(&p->store, &name, NULL), 0);
    assert_int_equal(found(p, "", "base"), 'a');
    assert_int_equal(found(p, ANN, "base"), 0);
    give(p, "", "base", 'b'); /* it stays private when it is pulled again */
    assert_int_equal(found(p, "", "base"), 'b');
    assert_int_equal(found(p, ANN, "base"), 0);
    assert_int_equal(image_store_remove_name(&p->store, &name, NULL), 0);
    assert_int_equal(found(p, "", "base"), 0);
}

static void test_a_removed_image_leaves_nothing(void **state) {
    struct place *p = *state;
    struct image_store ann = as(p, ANN);
    add_image(p, 'a', '2', '3');
    give(p, ANN, "tool", 'a');
    give(p, BOB, "tool", 'a');
    assert_int_equal(image_store_own(&ann, hex('a'), NULL), 0);
    assert_int_equal(image_store_remove_record(&ann, hex('a'), NULL), 0);
    assert_int_equal(count_names(p, ""), 0);
    add_image(p, 'a', '2', '3');
    assert_int_equal(found(p, ANN, hex('a')), 0);
    assert_int_equal(found(p, BOB, "tool"), 0);
}

static void test_prune_keeps_images_of_keys(void **state) {
    struct place *p = *state;
    struct prune_result result;
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '4', '5');
    give(p, ANN, "tool", 'a');
    assert_int_equal(image_store_prune(&p->store, true, false, 5000, &result, NULL), 0);
    assert_int_equal(result.images, 1);
    assert_int_equal(found(p, ANN, "tool"), 'a');
}

static void test_what_an_owner_knows(void **state) {
    struct place *p = *state;
    struct image_store ann = as(p, ANN), bob = as(p, BOB);
    add_image(p, 'a', '2', '3');
    give(p, ANN, "tool", 'a');
    assert_true(image_store_knows(&p->store, hex('a')));
    assert_false(image_store_knows(&ann, hex('a'))); /* before it has looked */
    assert_int_equal(image_store_learn(&ann, NULL), 0);
    assert_int_equal(image_store_learn(&bob, NULL), 0);
    assert_true(image_store_knows(&ann, hex('a')) && image_store_knows(&ann, hex('2')));
    assert_false(image_store_knows(&bob, hex('a')) || image_store_knows(&bob, hex('2')));
    give(p, "", "tool", 'a');
    assert_int_equal(image_store_learn(&bob, NULL), 0);
    assert_true(image_store_knows(&bob, hex('a')));
    image_store_forget(&ann);
    image_store_forget(&bob);
}

/* Who downloads what another one has does so alone, from the beginning. */
static void test_blobs_of_others(void **state) {
    struct place *p = *state;
    struct image_store ann = as(p, ANN), bob = as(p, BOB);
    struct blob_work one, two;
    assert_int_equal(image_store_begin_blob(&ann, hex('e'), &one, NULL), 0);
    assert_int_equal(fd_write_all(one.fd, "half", 4), 0);
    assert_int_equal(image_store_begin_blob(&bob, hex('e'), &two, NULL), 0); /* does not wait */
    assert_int_equal(two.offset, 0);
    assert_int_equal(image_store_commit_blob(&ann, &one, NULL), 0);
    assert_int_equal(fd_write_all(two.fd, "half", 4), 0);
    assert_int_equal(image_store_commit_blob(&bob, &two, NULL), 0);
    assert_int_equal(image_store_begin_blob(&bob, hex('e'), &two, NULL), 0); /* in no image yet */
    image_store_leave_blob(&bob, &two, false);
    assert_int_equal(image_store_begin_blob(&p->store, hex('e'), &two, NULL), 1);
    assert_int_equal(entries(p, "ingest"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_owners_are_ids_of_keys),
        TEST(test_own_first_then_public),
        TEST(test_lists),
        TEST(test_only_own_names_are_removed),
        TEST(test_private_of_admins),
        TEST(test_a_removed_image_leaves_nothing),
        TEST(test_prune_keeps_images_of_keys),
        TEST(test_what_an_owner_knows),
        TEST(test_blobs_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
