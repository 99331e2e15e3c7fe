/* Tests of making layers over others, as root in a store of their own. */
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "image_store_env.h"

#include "imager/layer/layer.h"
#include "imager/unpack/unpack.h"
#include "tar_make.h"

enum { TAR_MAX = 16 * 1024 * 1024 };

#define TEXT(path, text)                                                                           \
    { .name = (path), .type = '0', .data = (text) }
#define FOLDER(path)                                                                               \
    { .name = (path), .type = '5' }
#define SYMLINK(path, target)                                                                      \
    { .name = (path), .type = '2', .link = (target) }

static struct record_layer layers[16];
static size_t layer_count;

static int set_up(void **state) {
    memset(layers, 0, sizeof layers);
    layer_count = 0;
    return setup(state);
}

static int unpack_entries(const struct tar_entry *list, size_t count, int root,
                          struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(TAR_MAX);
    struct unpack_result result;
    for (size_t i = 0; i < count; i++)
        tar_add(&b, &list[i]);
    tar_end(&b);
    _cleanup_(closep) int fd = memfd_create("layer", MFD_CLOEXEC);
    assert_int_equal(fd_write_all(fd, b.data, b.len), 0);
    (void)lseek(fd, 0, SEEK_SET);
    return unpack_layer(fd, root, NULL, NULL, NULL, &result, err);
}

static struct layer begin(const struct place *p) {
    struct cay_error err = {0};
    struct layer layer = LAYER_NONE;
    if (layer_begin(&p->store, layers, layer_count, &layer, &err) < 0)
        fail_msg("%s", err.message);
    return layer;
}

static void commit(const struct place *p, struct layer *layer) {
    struct cay_error err = {0};
    char *chain = layers[layer_count].chain;
    memcpy(chain, hex("0123456789abcdef"[layer_count]), HEX_SIZE);
    if (layer_commit(&p->store, layer, chain, &err) < 0)
        fail_msg("%s", err.message);
    layer_count++;
}

/* Puts a layer over those that are there. */
static void add(const struct place *p, const struct tar_entry *list, size_t count) {
    struct cay_error err = {0};
    struct layer layer = begin(p);
    if (unpack_entries(list, count, layer.root, &err) < 0)
        fail_msg("%s", err.message);
    commit(p, &layer);
}
#define ADD(p, ...)                                                                                \
    do {                                                                                           \
        const struct tar_entry _entries[] = {__VA_ARGS__};                                         \
        add(p, _entries, ARRAY_LEN(_entries));                                                     \
    } while (0)

static struct stat stat_in(const struct place *p, size_t layer, const char *path) {
    struct stat st;
    _cleanup_(closep) int fs = image_store_open_layer(&p->store, layers[layer].chain, NULL);
    assert_true(fs >= 0);
    if (fstatat(fs, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("layer %zu has no %s", layer, path);
    return st;
}

static bool is_in(const struct place *p, size_t layer, const char *path) {
    struct stat st;
    _cleanup_(closep) int fs = image_store_open_layer(&p->store, layers[layer].chain, NULL);
    return fstatat(fs, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_whiteout(const struct place *p, size_t layer, const char *path) {
    struct stat st = stat_in(p, layer, path);
    return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

/* True if a folder or file has no attribute of an overlay. */
static bool is_clean(const struct place *p, size_t layer, const char *path) {
    char names[1024] = "";
    _cleanup_(closep) int fs = image_store_open_layer(&p->store, layers[layer].chain, NULL);
    _cleanup_(closep) int fd = openat(fs, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = flistxattr(fd, names, sizeof names);
    for (const char *s = names; s < names + n; s += strlen(s) + 1)
        if (strstr(s, "overlay") != NULL)
            return false;
    return n >= 0;
}

/* What a sandbox on all the layers would see: the text of a file, or "-" if it is not there. */
static const char *seen(const struct place *p, const char *path) {
    static char text[256];
    struct layer view = begin(p);
    if (fd_read_file_at(view.root, path, text, sizeof text) < 0)
        memcpy(text, "-", 2);
    layer_abandon(&p->store, &view);
    return text;
}

/* ---- layers over layers ---- */

static void test_only_the_difference(void **state) {
    struct place *p = *state;
    ADD(p, {.name = "./", .type = '5', .mode = 0751},
        {.name = "private", .type = '5', .mode = 0700, .uid = 5, .gid = 6},
        {.name = "private/low", .type = '0', .data = "low", .mode = 0640, .uid = 7},
        TEXT("etc/gone", "x"), TEXT("etc/stays", "s"), TEXT("tree/a/b", "x"), TEXT("file", "old"));
    ADD(p, TEXT("private/high", "high"), {.name = "hard", .type = '1', .link = "private/low"},
        TEXT("etc/.wh.gone", ""), TEXT(".wh.tree", ""), TEXT("file", "new"),
        TEXT("etc/.wh.never", ""));
    struct stat st = stat_in(p, 1, "private");
    assert_int_equal(st.st_mode, S_IFDIR | 0700);
    assert_int_equal(st.st_uid, 5);
    assert_int_equal(st.st_gid, 6);
    assert_int_equal(stat_in(p, 1, ".").st_mode, S_IFDIR | 0751);
    assert_true(is_whiteout(p, 1, "etc/gone"));
    assert_true(is_whiteout(p, 1, "tree"));
    assert_false(is_in(p, 1, "etc/never"));
    assert_false(is_in(p, 1, "etc/stays"));
    assert_int_equal(stat_in(p, 1, "hard").st_uid, 7);
    assert_true(is_clean(p, 1, ".") && is_clean(p, 1, "private") && is_clean(p, 1, "etc") &&
                is_clean(p, 1, "hard") && is_clean(p, 1, "file"));
    assert_string_equal(seen(p, "private/low"), "low");
    assert_string_equal(seen(p, "hard"), "low");
    assert_string_equal(seen(p, "file"), "new");
    assert_string_equal(seen(p, "etc/gone"), "-");
    assert_string_equal(seen(p, "etc/stays"), "s");
    assert_int_equal(entries(p, "work"), 0);
}

/* A folder that is made anew hides all of its old content, at any depth, in whichever of the layers
 * below it is. */
static void test_opaque_folders_become_whiteouts(void **state) {
    struct place *p = *state;
    ADD(p, TEXT("d/one", "1"), TEXT("d/sub/deep/one", "1"), TEXT("d/same/x", "1"),
        TEXT("e/low", "1"), TEXT("d/hidden", "1"));
    ADD(p, TEXT("d/two", "2"), TEXT("d/sub/two", "2"), TEXT("d/.wh.hidden", ""));
    ADD(p, TEXT(".wh.d", ""), {.name = "d", .type = '5', .mtime = 4242}, TEXT("d/new", "n"),
        TEXT("d/sub/deep/new", "n"), TEXT("d/same", "now a file"), TEXT("e/.wh..wh..opq", ""));
    static const char *const hidden[] = {"d/one", "d/two", "d/sub/two", "d/sub/deep/one", "e/low"};
    for (size_t i = 0; i < ARRAY_LEN(hidden); i++) {
        assert_true(is_whiteout(p, 2, hidden[i]));
        assert_string_equal(seen(p, hidden[i]), "-");
    }
    assert_false(is_in(p, 2, "d/hidden")); /* there was nothing left to hide */
    assert_string_equal(seen(p, "d/new"), "n");
    assert_string_equal(seen(p, "d/sub/deep/new"), "n");
    assert_string_equal(seen(p, "d/same"), "now a file");
    assert_true(is_clean(p, 2, "d") && is_clean(p, 2, "d/sub") && is_clean(p, 2, "e"));
    assert_int_equal(stat_in(p, 2, "d").st_mtim.tv_sec, 4242);
    /* and come back where a later layer makes them again */
    ADD(p, TEXT("d/one", "again"), TEXT("d/sub/deep/one", "again"));
    assert_string_equal(seen(p, "d/one"), "again");
    assert_string_equal(seen(p, "d/sub/deep/one"), "again");
    assert_string_equal(seen(p, "d/two"), "-");
}

static void test_file_and_folder_change_places(void **state) {
    struct place *p = *state;
    ADD(p, TEXT("a/f", "1"), TEXT("b", "1"), SYMLINK("l", "a"), TEXT("usr/lib/x", "1"),
        SYMLINK("lib", "usr/lib"));
    ADD(p, TEXT("a", "file"), FOLDER("b"), TEXT("b/g", "2"), FOLDER("l"), TEXT("lib/y", "2"));
    ADD(p, FOLDER("a"), TEXT("a/h", "3"));
    assert_string_equal(seen(p, "a/h"), "3");
    assert_string_equal(seen(p, "a/f"), "-");
    assert_string_equal(seen(p, "b/g"), "2");
    assert_string_equal(seen(p, "l/f"), "-");
    assert_string_equal(seen(p, "usr/lib/y"), "2");
    assert_false(is_in(p, 1, "lib"));
}

static void test_many_layers(void **state) {
    struct place *p = *state;
    for (int i = 0; i < 14; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "d/f%d", i);
        ADD(p, TEXT(name, "x"), TEXT("d/last", name));
    }
    assert_string_equal(seen(p, "d/f0"), "x");
    assert_string_equal(seen(p, "d/last"), "d/f13");
}

static void test_abandoned_leaves_nothing(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    ADD(p, TEXT("a", "1"));
    struct layer layer = begin(p);
    const struct tar_entry evil[] = {TEXT("new", "x"), TEXT("../out", "x")};
    assert_int_equal(unpack_entries(evil, 2, layer.root, &err), -CAY_INVALID_ARGUMENT);
    layer_abandon(&p->store, &layer);
    assert_int_equal(entries(p, "work"), 0);
    assert_int_equal(entries(p, "layers"), 1);
    layer = LAYER_NONE;
    layer_abandon(&p->store, &layer);
    memcpy(layers[1].chain, hex('f'), HEX_SIZE); /* a layer that is not there */
    assert_true(layer_begin(&p->store, layers, 2, &layer, &err) < 0);
    assert_true(err.remedy[0] != '\0');
    assert_int_equal(entries(p, "work"), 0);
}

/* ---- somebody else's upper ---- */

static int tidy(const struct place *p, int fs, struct cay_error *err) {
    return layer_tidy(&p->store, fs, layers, layer_count, err);
}

static int open_fs(const struct layer_work *work) {
    int fs = openat(work->dir, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fs >= 0);
    return fs;
}

static void set_note(int fs, const char *path, const char *name, const char *value) {
    _cleanup_(closep) int fd = openat(fs, path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fsetxattr(fd, name, value, strlen(value), 0), 0);
}

static void test_tidy_of_a_sandbox(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    char value[8];
    ADD(p, TEXT("d/low", "1"), TEXT("t/low", "1"), TEXT("link/low", "1"), TEXT("n/low", "1"));
    struct layer_work work = begin_layer(p);
    _cleanup_(closep) int fs = open_fs(&work);
    assert_int_equal(mkdirat(fs, "d", 0755), 0);
    assert_int_equal(mkdirat(fs, "t", 0755), 0);
    assert_int_equal(mkdirat(fs, "n", 0755), 0);
    assert_int_equal(symlinkat("/etc", fs, "link"), 0);
    assert_int_equal(mkfifoat(fs, "fifo", 0600), 0); /* must not be waited for */
    put_file(fs, "f", "x");
    set_note(fs, "d", "user.overlay.opaque", "y");
    set_note(fs, "t", "trusted.overlay.opaque", "y");
    set_note(fs, "n", "user.overlay.opaque", "n");
    set_note(fs, "f", "user.overlay.origin", "o");
    set_note(fs, "f", "user.mine", "m");
    if (tidy(p, fs, &err) < 0)
        fail_msg("%s", err.message);
    if (image_store_commit_layer(&p->store, &work, hex('e'), &err) < 0)
        fail_msg("%s", err.message);
    memcpy(layers[layer_count++].chain, hex('e'), HEX_SIZE);
    assert_true(is_whiteout(p, 1, "d/low") && is_whiteout(p, 1, "t/low"));
    assert_false(is_in(p, 1, "n/low"));
    assert_true(is_clean(p, 1, "d") && is_clean(p, 1, "t") && is_clean(p, 1, "f"));
    _cleanup_(closep) int f = openat(fs, "f", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fgetxattr(f, "user.mine", value, sizeof value), 1);
    assert_string_equal(seen(p, "n/low"), "1");
}

/* A folder whose content is elsewhere must not become an empty one. */
static void test_tidy_refuses_redirects(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    static const char *const notes[] = {"user.overlay.redirect", "trusted.overlay.metacopy"};
    for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
        struct layer_work work = begin_layer(p);
        _cleanup_(closep) int fs = open_fs(&work);
        put_file(fs, "f", "x");
        set_note(fs, "f", notes[i], "/other");
        assert_true(tidy(p, fs, &err) < 0);
        assert_non_null(strstr(err.message, "/f'"));
        assert_true(err.remedy[0] != '\0');
        image_store_abandon_layer(&p->store, &work);
    }
}

/* Deeper than a path can name: refused, without using up descriptors or the stack. */
static void test_tidy_of_a_deep_tree(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    struct layer_work work = begin_layer(p);
    int fs = open_fs(&work), at = dup(fs);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(at, "dd", 0755), 0);
        int next = openat(at, "dd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    assert_true(tidy(p, fs, &err) < 0);
    assert_true(err.remedy[0] != '\0');
    (void)close(fs);
    image_store_abandon_layer(&p->store, &work);
    assert_int_equal(entries(p, "work"), 0);
}

int main(void) {
    if (geteuid() != 0) {
        printf("skipped: layers are tested as root\n");
        return 77;
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_only_the_difference),           TEST(test_opaque_folders_become_whiteouts),
        TEST(test_file_and_folder_change_places), TEST(test_many_layers),
        TEST(test_abandoned_leaves_nothing),      TEST(test_tidy_of_a_sandbox),
        TEST(test_tidy_refuses_redirects),        TEST(test_tidy_of_a_deep_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
