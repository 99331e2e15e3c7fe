/* Tests of images as a sandbox opens them: locks, and users looked up as the overlay shows them. */
#include "image_store_env.h"

#include <sys/sysmacros.h>

#include "image/image.h"

/* An image of three layers, chains 1 (lowest) to 3, all still in the making. */
struct stack {
    struct layer_work layers[3];
};

static struct stack begin_stack(const struct place *p) {
    struct stack s;
    for (size_t i = 0; i < ARRAY_LEN(s.layers); i++)
        s.layers[i] = begin_layer(p);
    return s;
}

static void put_etc(const struct stack *s, size_t layer, const char *file, const char *content) {
    char path[64];
    (void)mkdirat(s->layers[layer].dir, "fs/etc", 0755);
    assert_int_equal(str_format(path, sizeof path, "fs/etc/%s", file), 0);
    put_file(s->layers[layer].dir, path, content);
}

static struct image open_stack(const struct place *p, struct stack *s) {
    struct image image = IMAGE_NONE;
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *record = record_new();
    assert_non_null(record);
    memcpy(record->id, hex('a'), HEX_SIZE);
    for (size_t i = 0; i < ARRAY_LEN(s->layers); i++) {
        const char *chain = hex((char)('1' + i));
        assert_int_equal(image_store_commit_layer(&p->store, &s->layers[i], chain, NULL), 0);
        struct record_layer *layer = record_add_layer(record);
        assert_non_null(layer);
        memcpy(layer->chain, chain, HEX_SIZE);
    }
    assert_int_equal(image_store_write_record(&p->store, record, &err), 0);
    if (image_open(p->state, hex('a'), &image, &err) < 0)
        fail_msg("%s", err.message);
    return image;
}

/* "uid:gid", or "none". */
static void assert_user(const struct image *image, const char *text, const char *expected) {
    char got[64] = "none";
    unsigned uid = 77, gid = 77;
    if (image_user(image, text, &uid, &gid))
        assert_int_equal(str_format(got, sizeof got, "%u:%u", uid, gid), 0);
    else
        assert_true(uid == 77 && gid == 77);
    if (strcmp(got, expected) != 0)
        fail_msg("%s: %s, not %s", text, got, expected);
}

static void test_open(void **state) {
    struct place *p = *state;
    struct image image = IMAGE_NONE;
    struct cay_error err = {0};
    assert_int_equal(image_open(p->state, hex('a'), &image, &err), -CAY_NOT_FOUND);
    assert_int_equal(image_open("/nonexistent", hex('a'), &image, &err), -CAY_NOT_FOUND);
    assert_int_equal(image_open(p->state, "../lock", &image, &err), -CAY_INVALID_ARGUMENT);
    image_close(&image); /* of nothing */

    struct stack s = begin_stack(p);
    image = open_stack(p, &s);
    char path[80];
    assert_int_equal(str_format(path, sizeof path, "%s/fs", hex('3')), 0);
    assert_int_equal(faccessat(image.layers, path, F_OK, 0), 0);
    struct image second = IMAGE_NONE; /* any number at once, by descriptors too */
    assert_int_equal(image_open_from(&p->store, hex('a'), &second, &err), 0);
    image_close(&second);
    image_close(&image);

    assert_int_equal(str_format(path, sizeof path, "layers/%s", hex('2')), 0);
    assert_int_equal(path_remove_tree(p->store.dir, path), 0);
    assert_int_equal(image_open(p->state, hex('a'), &image, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.message, "222222222222"));
    assert_true(err.remedy[0] != '\0');
}

static void test_users(void **state) {
    struct place *p = *state;
    struct stack s = begin_stack(p);
    char long_line[6000];
    memset(long_line, 'x', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    char passwd[8192];
    assert_int_equal(str_format(passwd, sizeof passwd,
                                "root:x:0:0:root:/root:/bin/sh\n%s:x:9:9::/:\n"
                                "short:x:5\nbad:x:abc:1:::\nbig:x:70000:1:::\nneg:x:-1:0:::\n"
                                "app:x:1000:1001:App:/home/app:/bin/sh\n"
                                "app:x:1:1:a second one:/:\nlast:x:1002:1003:::",
                                long_line),
                     0);
    put_etc(&s, 0, "passwd", "old:x:5:5:::\n");
    put_etc(&s, 1, "passwd", passwd);
    put_etc(&s, 0, "group", "root:x:0:\nstaff:x:50:app\n");
    put_etc(&s, 2, "hosts", "");
    struct image image = open_stack(p, &s);
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"root", "0:0"},
        {"app", "1000:1001"},
        {"app:staff", "1000:50"},
        {"app:7", "1000:7"},
        {"1000", "1000:1001"},
        {"1000:staff", "1000:50"},
        {"4242", "4242:0"},
        {"4242:4343", "4242:4343"},
        {"last", "1002:1003"},
        {"0", "0:0"},
        {"65535", "65535:0"},
        {"65536", "none"},
        {"old", "none"},
        {"short", "none"},
        {"bad", "none"},
        {"big", "none"},
        {"neg", "none"},
        {"-1", "none"},
        {"", "none"},
        {":staff", "none"},
        {"app:", "none"},
        {"app:nobody", "none"},
        {"app:staff:x", "none"},
        {"nobody", "none"},
        {"4242:nobody", "none"},
        {" app", "none"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_user(&image, cases[i].text, cases[i].expected);
    assert_user(&image, long_line, "none");
    image_close(&image);
}

static void test_whiteout(void **state) {
    struct place *p = *state;
    struct stack s = begin_stack(p);
    put_etc(&s, 0, "passwd", "app:x:1:1:::\n");
    put_etc(&s, 1, "group", "");
    if (mknodat(s.layers[1].dir, "fs/etc/passwd", S_IFCHR, makedev(0, 0)) < 0)
        skip(); /* needs root, or Linux 5.8 */
    struct image image = open_stack(p, &s);
    assert_user(&image, "app", "none");
    assert_user(&image, "1", "1:0");
    image_close(&image);
}

/* Nothing is followed, waited for, or read without end. */
static void test_hostile(void **state) {
    struct place *p = *state;
    static const char *const kinds[] = {"link", "fifo", "folder", "huge", "etc-link", "etc-file"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct stack s = begin_stack(p);
        put_etc(&s, 0, "passwd", "root:x:0:0:::\napp:x:1:1:::\n");
        int top = s.layers[2].dir;
        bool etc = strncmp(kinds[i], "etc", 3) != 0;
        if (etc)
            assert_int_equal(mkdirat(top, "fs/etc", 0755), 0);
        switch (i) {
        case 0:
            assert_int_equal(symlinkat("/etc/passwd", top, "fs/etc/passwd"), 0);
            break;
        case 1:
            assert_int_equal(mkfifoat(top, "fs/etc/passwd", 0644), 0);
            break;
        case 2:
            assert_int_equal(mkdirat(top, "fs/etc/passwd", 0755), 0);
            break;
        case 3: {
            put_file(top, "fs/etc/passwd", "app:x:1:1:::\n");
            _cleanup_(closep) int fd = openat(top, "fs/etc/passwd", O_WRONLY | O_CLOEXEC);
            assert_int_equal(ftruncate(fd, 1 << 30), 0);
            break;
        }
        case 4:
            assert_int_equal(symlinkat("/etc", top, "fs/etc"), 0);
            break;
        default:
            put_file(top, "fs/etc", "");
        }
        struct image image = open_stack(p, &s);
        assert_user(&image, "app", "none");
        assert_user(&image, "root", "none");
        assert_user(&image, "5", "5:0");
        image_close(&image);
        for (char chain = '1'; chain <= '3'; chain++) {
            char path[80];
            assert_int_equal(str_format(path, sizeof path, "layers/%s", hex(chain)), 0);
            assert_int_equal(path_remove_tree(p->store.dir, path), 0);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_open),
        TEST(test_users),
        TEST(test_whiteout),
        TEST(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
