/* Tests of prune: what goes, what stays although nothing refers to it, and who it waits for. */
#include "image_store_env.h"

#include <time.h>

#include "base/clock.h"
#include "image/image.h"

static struct prune_result prune(struct place *p, bool unnamed, bool dry_run) {
    struct prune_result result;
    struct cay_error err = {0};
    if (image_store_prune(&p->store, unnamed, dry_run, 1000, &result, &err) < 0)
        fail_msg("%s", err.message);
    return result;
}

static void name(const struct place *p, const char *text, char id) {
    struct reference r = ref(text);
    assert_int_equal(image_store_set_name(&p->store, &r, hex(id), NULL), 0);
}

static void test_nothing(void **state) {
    struct place *p = *state;
    add_image(p, 'a', '1', '2');
    name(p, "a:1", 'a');
    struct prune_result r = prune(p, true, false);
    assert_true(r.images + r.layers + r.blobs + r.leftovers + r.bytes == 0);
    assert_true(image_store_has_layer(&p->store, hex('1')));
    assert_int_equal(entries(p, "blobs"), 2);
}

/* Two images share a layer; the unnamed one goes with what is its own. */
static void test_shared(void **state) {
    struct place *p = *state;
    add_image(p, 'a', '1', '2');
    add_image(p, 'b', '3', '2');
    name(p, "a:1", 'a');
    struct prune_result kept = prune(p, false, false);
    assert_true(kept.images + kept.layers + kept.blobs == 0);

    struct prune_result counted = prune(p, true, true);
    assert_int_equal(counted.images, 1);
    assert_int_equal(counted.layers, 1);
    assert_int_equal(counted.blobs, 1); /* its configuration; the layer's blob is shared */
    assert_true(counted.bytes > 0);
    assert_int_equal(entries(p, "records"), 2);
    assert_int_equal(entries(p, "layers"), 2);

    struct prune_result done = prune(p, true, false);
    assert_memory_equal(&done, &counted, sizeof done);
    assert_int_equal(entries(p, "records"), 1);
    assert_int_equal(entries(p, "layers"), 1);
    assert_int_equal(entries(p, "blobs"), 2);
    assert_int_equal(entries(p, "work"), 0);
    assert_true(image_store_has_layer(&p->store, hex('1')));
}

/* Sizes are what the disk gives back. */
static void test_bytes(void **state) {
    struct place *p = *state;
    struct layer_work work = begin_layer(p);
    _cleanup_(freep) char *data = calloc(1, 100001);
    assert_non_null(data);
    memset(data, 'x', 100000);
    assert_int_equal(mkdirat(work.dir, "fs/folder", 0755), 0);
    put_file(work.dir, "fs/folder/file", data);
    assert_int_equal(linkat(work.dir, "fs/folder/file", work.dir, "fs/again", 0), 0);
    assert_int_equal(symlinkat("/", work.dir, "fs/root"), 0);
    assert_int_equal(image_store_commit_layer(&p->store, &work, hex('1'), NULL), 0);
    assert_int_equal(image_store_settle(&p->store), 0); /* blocks are counted once allocated */
    struct prune_result r = prune(p, false, false);
    assert_int_equal(r.layers, 1);
    assert_in_range(r.bytes, 100000, 180000);
}

static void test_removed_image(void **state) {
    struct place *p = *state;
    add_image(p, 'a', '1', '2');
    name(p, "a:1", 'a');
    assert_int_equal(image_store_remove_record(&p->store, hex('a'), NULL), 0);
    struct prune_result r = prune(p, false, false);
    assert_int_equal(r.layers, 1);
    assert_int_equal(r.blobs, 2);
    assert_int_equal(entries(p, "layers") + entries(p, "blobs") + entries(p, "names"), 0);
}

/* What a sandbox runs on stays, with its image; and what it still holds of a removed one. */
static void test_in_use(void **state) {
    struct place *p = *state;
    struct image image = IMAGE_NONE;
    add_image(p, 'a', '1', '2');
    assert_int_equal(image_open(p->state, hex('a'), &image, NULL), 0);
    for (int dry_run = 1; dry_run >= 0; dry_run--) {
        struct prune_result r = prune(p, true, dry_run);
        assert_true(r.images + r.layers + r.blobs == 0);
    }
    assert_int_equal(image_store_remove_record(&p->store, hex('a'), NULL), 0);
    struct prune_result r = prune(p, true, false);
    assert_int_equal(r.layers, 0);
    assert_int_equal(r.blobs, 2);
    assert_true(image_store_has_layer(&p->store, hex('1')));
    image_close(&image);
    r = prune(p, true, false);
    assert_int_equal(r.layers, 1);
    assert_false(image_store_has_layer(&p->store, hex('1')));
}

/* What killed processes left; what a living one has in work stays. */
/* A pin keeps the image without any process, until the last one is gone. */
static void test_pinned(void **state) {
    struct place *p = *state;
    add_image(p, 'a', '1', '2');
    add_image(p, 'b', '3', '4');
    assert_int_equal(image_store_pin(p->state, "0123456789abcdef", hex('a'), NULL), 0);
    assert_int_equal(image_store_pin(p->state, "0123456789abcdef", hex('a'), NULL), 0);
    assert_int_equal(image_store_pin(p->state, "fedcba9876543210", hex('a'), NULL), 0);
    assert_int_equal(prune(p, true, false).images, 1);
    assert_true(image_store_has_layer(&p->store, hex('1')));
    assert_false(image_store_has_layer(&p->store, hex('3')));
    assert_int_equal(image_store_unpin(p->state, "0123456789abcdef", NULL), 0);
    assert_int_equal(prune(p, true, false).images, 0);
    assert_int_equal(image_store_unpin(p->state, "fedcba987654321", NULL), 0); /* nobody's */
    assert_int_equal(entries(p, "pins"), 1);
    assert_int_equal(image_store_unpin(p->state, "fedcba9876543210", NULL), 0);
    assert_int_equal(image_store_unpin(p->state, "fedcba9876543210", NULL), 0);
    assert_int_equal(prune(p, true, false).images, 1);
    assert_int_equal(entries(p, "layers"), 0);
}

static int pinned(const struct place *p, const char *but, char ret[static HEX_SIZE]) {
    return image_store_pinned(p->state, "backup-1", but, ret, NULL);
}

static void test_which_are_pinned(void **state) {
    const struct place *p = *state;
    char id[HEX_SIZE], other[HEX_SIZE];
    assert_int_equal(pinned(p, "", id), 0);
    assert_string_equal(id, "");
    assert_int_equal(image_store_pin(p->state, "backup-1", hex('a'), NULL), 0);
    assert_int_equal(image_store_pin(p->state, "backup-11", hex('b'), NULL), 0);
    assert_int_equal(image_store_pin(p->state, "backup-", hex('c'), NULL), 0);
    assert_int_equal(pinned(p, "", id), 1);
    assert_string_equal(id, hex('a'));
    assert_int_equal(pinned(p, hex('a'), id), 0);
    assert_int_equal(image_store_pin(p->state, "backup-1", hex('d'), NULL), 0);
    assert_int_equal(pinned(p, "", id), 1);
    assert_int_equal(pinned(p, id, other), 1);
    assert_string_not_equal(id, other);
    assert_int_equal(image_store_unpin_one(p->state, "backup-1", other, NULL), 0);
    assert_int_equal(pinned(p, id, other), 0);
    assert_int_equal(entries(p, "pins"), 3);
}

static void test_leftovers(void **state) {
    struct place *p = *state;
    struct blob_work blob;
    add_image(p, 'a', '1', '2');
    name(p, "a:1", 'a');
    assert_int_equal(image_store_begin_blob(&p->store, hex('5'), &blob, NULL), 0);
    assert_int_equal(fd_write_all(blob.fd, "half", 4), 0);
    image_store_leave_blob(&p->store, &blob, true);
    struct layer_work dead = begin_layer(p), alive = begin_layer(p);
    put_file(dead.dir, "fs/mark", "x");
    fd_close(&dead.dir);
    fd_close(&dead.lock);
    static const char *const files[] = {
        "blobs/.new-1",
        "records/.new-1",
        "names/docker.io/library+a/.new-1",
        "layers/.foreign",
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put_file(p->store.dir, files[i], "x");
    for (int dry_run = 1; dry_run >= 0; dry_run--) {
        struct prune_result r = prune(p, false, dry_run);
        assert_int_equal(r.leftovers, 2 + ARRAY_LEN(files));
        assert_int_equal(r.images + r.layers + r.blobs, 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_false(exists(p, files[i]));
    assert_int_equal(entries(p, "ingest"), 0);
    assert_int_equal(entries(p, "work"), 1);
    put_file(alive.dir, "fs/mark", "x");
    assert_int_equal(image_store_commit_layer(&p->store, &alive, hex('6'), NULL), 0);
}

/* A name whose image is gone, as a crash between the two leaves it. */
static void test_dangling_name(void **state) {
    struct place *p = *state;
    char path[80], id[HEX_SIZE];
    add_image(p, 'a', '1', '2');
    name(p, "a:1", 'a');
    assert_int_equal(str_format(path, sizeof path, "records/%s", hex('a')), 0);
    assert_int_equal(unlinkat(p->store.dir, path, 0), 0);
    assert_int_equal(image_store_find(&p->store, "a:1", id, NULL), -CAY_NOT_FOUND);
    assert_int_equal(prune(p, false, false).leftovers, 1);
    assert_int_equal(entries(p, "names"), 0);
}

/* A layer that may be hollow goes, though an image needs it: that image is to be pulled again. */
static void test_hollow_layer(void **state) {
    struct place *p = *state;
    char folder[80];
    struct image image = IMAGE_NONE;
    add_image(p, 'a', '1', '2');
    name(p, "a:1", 'a');
    assert_int_equal(str_format(folder, sizeof folder, "layers/%s", hex('1')), 0);
    overwrite(p, folder, "boot", "another");
    assert_int_equal(image_open(p->state, hex('a'), &image, NULL), -CAY_NOT_FOUND);
    assert_int_equal(prune(p, false, false).layers, 1);
    assert_int_equal(entries(p, "records"), 1);
}

/* A record that cannot be read may be a newer cay's: what it needs is not known. */
static void test_unreadable_record(void **state) {
    struct place *p = *state;
    struct prune_result r;
    struct cay_error err = {0};
    add_image(p, 'a', '1', '2');
    overwrite(p, "records", hex('a'), "format = 99\n");
    assert_true(image_store_prune(&p->store, true, false, 0, &r, &err) < 0);
    assert_non_null(strstr(err.remedy, "cay image rm"));
    assert_int_equal(entries(p, "layers"), 1);
    assert_int_equal(image_store_remove_record(&p->store, hex('a'), &err), 0);
    assert_int_equal(prune(p, true, false).layers, 1);
}

/* ---- waiting ---- */

static void test_others_use_it(void **state) {
    struct place *p = *state;
    struct image_store other = open_store(p);
    struct prune_result r;
    struct cay_error err = {0};
    int64_t start = clock_ms();
    assert_int_equal(image_store_prune(&p->store, true, false, 50, &r, &err), -CAY_CONFLICT);
    assert_true(clock_ms() - start >= 50);
    assert_true(err.remedy[0] != '\0');
    image_store_close(&other);
    assert_int_equal(image_store_prune(&p->store, true, false, 0, &r, &err), 0);
    /* it is shared again: another one can be opened, and keeps prune away */
    other = open_store(p);
    assert_int_equal(image_store_prune(&other, true, false, 0, &r, &err), -CAY_CONFLICT);
    image_store_close(&other);
}

static int prune_often(struct place *p) {
    struct prune_result r;
    for (int i = 0; i < 30; i++)
        if (image_store_prune(&p->store, true, false, 20000, &r, NULL) < 0)
            return 1;
    return 0;
}

/* Makes an image, opens it, prunes for itself, and finds it whole as long as it has it. */
static int use_often(struct place *p) {
    struct reference mine = ref("mine:1");
    for (int i = 0; i < 30; i++) {
        struct image_store store = IMAGE_STORE_NONE;
        struct image image = IMAGE_NONE;
        if (image_store_open(p->state, false, 0, &store, NULL) < 0)
            return 1;
        struct place own = *p;
        own.store = store;
        add_image(&own, 'a', '1', '2');
        if (image_store_set_name(&store, &mine, hex('a'), NULL) < 0 ||
            image_open(p->state, hex('a'), &image, NULL) < 0)
            return 2;
        if (image_store_remove_record(&store, hex('a'), NULL) < 0)
            return 3;
        image_store_close(&store);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        if (fstatat(image.layers, image.record->layers[0].chain, &(struct stat){0}, 0) < 0)
            return 4;
        image_close(&image);
    }
    return 0;
}

static int use_without_holding(struct place *p) {
    image_store_close(&p->store); /* else the pruners never get it */
    return use_often(p);
}

static void test_races(void **state) {
    struct place *p = *state;
    image_store_close(&p->store);
    pid_t user = child(p, use_without_holding);
    pid_t pruners[] = {child(p, prune_often), child(p, prune_often)};
    assert_int_equal(result_of(user), 0);
    assert_int_equal(result_of(pruners[0]), 0);
    assert_int_equal(result_of(pruners[1]), 0);
    p->store = open_store(p);
    (void)prune(p, true, false);
    assert_int_equal(entries(p, "layers") + entries(p, "work") + entries(p, "blobs"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_nothing),
        TEST(test_shared),
        TEST(test_bytes),
        TEST(test_removed_image),
        TEST(test_in_use),
        TEST(test_pinned),
        TEST(test_which_are_pinned),
        TEST(test_leftovers),
        TEST(test_dangling_name),
        TEST(test_hollow_layer),
        TEST(test_unreadable_record),
        TEST(test_others_use_it),
        TEST(test_races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
