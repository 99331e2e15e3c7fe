/* Tests of unpacking: what a layer says, happens; with all ids, and in user namespaces as cay-image
 * has them. */
#include "unpack_env.h"

/* ---- what a layer says, happens ---- */

static void test_kinds_and_attributes(void **state) {
    (void)state;
    UNPACK({.name = "./", .type = '5', .mode = 0750, .mtime = 77},
           {.name = "d", .type = '5', .mode = 02775, .uid = 3, .gid = 4, .mtime = 123},
           {.name = "d/f",
            .type = '0',
            .data = "hello",
            .mode = 04751,
            .uid = 1,
            .gid = 2,
            .mtime = 456},
           TEXT("d/plain", "p"), SYMLINK("s", "/d/f"), LINK("d/h", "d/f"),
           {.name = "p", .type = '6', .mode = 0600}, TEXT("implied/a/b", "x"), );
    struct stat st = stat_of("d/f");
    assert_int_equal(st.st_mode, S_IFREG | 04751);
    assert_int_equal(st.st_uid, 1);
    assert_int_equal(st.st_gid, 2);
    assert_int_equal(st.st_mtim.tv_sec, 456);
    assert_int_equal(st.st_nlink, 2);
    assert_text("d/h", "hello");
    st = stat_of("d");
    assert_int_equal(st.st_mode, S_IFDIR | 02775);
    assert_int_equal(st.st_mtim.tv_sec, 123); /* though files were made in it afterwards */
    assert_int_equal(st.st_gid, 4);
    assert_int_equal(stat_of("d/plain").st_gid, 0); /* not that of its folder */
    assert_int_equal(stat_of("implied/a").st_mode, S_IFDIR | 0755);
    assert_int_equal(stat_of("p").st_mode, S_IFIFO | 0600);
    assert_int_equal(stat_of("s").st_mtim.tv_sec, 1000000);
    assert_int_equal(stat_of(".").st_mode, S_IFDIR | 0750);
    assert_int_equal(stat_of(".").st_mtim.tv_sec, 77);
    assert_int_equal(result.bytes, 7);
    assert_int_equal(result.entries, 9); /* with the two folders that nobody named */
    assert_int_equal(result.skipped, 0);
}

static void test_absolute_names_are_below(void **state) {
    (void)state;
    UNPACK(TEXT("/etc/x", "1"), TEXT("././/etc//./y", "2"));
    assert_text("etc/x", "1");
    assert_text("etc/y", "2");
}

/* Names are bytes; whoever made them had any encoding, or none. */
static void test_names_of_any_bytes(void **state) {
    (void)state;
    struct buf b = BUF_INIT(TAR_MAX);
    tar_add_long(&b, "path", "t\xc3\xa4st-\xe2\x82\xac", &(struct tar_entry)TEXT("x", "utf-8"));
    tar_add(&b, &(struct tar_entry)TEXT("lat\xe4in", "latin"));
    tar_add_long(&b, "path", "pax-lat\xe4in", &(struct tar_entry)TEXT("y", "pax"));
    tar_add_long(&b, "linkpath", "t\xc3\xa4st-\xe2\x82\xac", &(struct tar_entry)LINK("hard", "x"));
    tar_end(&b);
    assert_int_equal(unpack_buf(&b, NULL), 0);
    assert_text("t\xc3\xa4st-\xe2\x82\xac", "utf-8");
    assert_text("lat\xe4in", "latin");
    assert_text("pax-lat\xe4in", "pax");
    assert_text("hard", "utf-8");
}

static void test_replacing(void **state) {
    (void)state;
    UNPACK(FOLDER("dir"), TEXT("dir/kept", "kept"), TEXT("file", "old"), FOLDER("tree/sub"),
           TEXT("tree/sub/f", "x"), SYMLINK("link", "dir"), TEXT("twice", "1"));
    UNPACK({.name = "dir", .type = '5', .mode = 0700}, FOLDER("file"), TEXT("file/new", "n"),
           TEXT("tree", "now a file"), FOLDER("link"), TEXT("twice", "2"), TEXT("twice", "3"));
    assert_int_equal(stat_of("dir").st_mode, S_IFDIR | 0700);
    assert_text("dir/kept", "kept");
    assert_text("file/new", "n");
    assert_text("tree", "now a file");
    assert_true(S_ISDIR(stat_of("link").st_mode));
    assert_absent("link/kept");
    assert_text("twice", "3");
}

static void test_parents_may_be_symlinks(void **state) {
    (void)state;
    UNPACK(FOLDER("usr/lib"), SYMLINK("lib", "usr/lib"), SYMLINK("abs", "/usr/../../usr/lib"),
           TEXT("lib/a", "a"), TEXT("abs/b", "b"), LINK("hard", "lib/a"));
    assert_text("usr/lib/a", "a");
    assert_text("usr/lib/b", "b");
    assert_text("hard", "a");
}

static void test_whiteouts(void **state) {
    (void)state;
    UNPACK(TEXT("a/gone", "1"), TEXT("a/stays", "2"), TEXT("tree/x/y", "3"), TEXT("o/low", "4"),
           TEXT("o/sub/low", "5"), TEXT("o/other/low", "6"), SYMLINK("l", "a"));
    UNPACK(TEXT("a/.wh.gone", ""), TEXT(".wh.tree", ""), TEXT("absent/.wh.x", ""),
           TEXT("o/before", "b"), TEXT("o/sub/new", "n"), TEXT("o/.wh..wh..opq", ""),
           TEXT("o/after", "a"), TEXT("a/.wh.never", ""), TEXT(".wh.l", ""), TEXT("own", "mine"),
           TEXT(".wh.own", ""), TEXT(".wh..wh.plnk/1.2", "aufs"), TEXT(".wh..wh.aufs", ""));
    assert_absent("a/gone");
    assert_text("a/stays", "2"); /* the symlink went, not what it leads to */
    assert_absent("l");
    assert_absent("tree");
    assert_absent("absent");
    assert_absent("o/low");
    assert_absent("o/other");
    assert_absent("o/sub/low");
    assert_text("o/before", "b");
    assert_text("o/sub/new", "n");
    assert_text("o/after", "a");
    assert_text("own", "mine"); /* whiteouts are about the layers below */
    assert_int_equal(result.skipped, 2);
}

/* An opaque folder spares what this layer put there by another way too. */
static void test_opaque_by_another_name(void **state) {
    (void)state;
    UNPACK(TEXT("usr/lib/low", "1"), SYMLINK("lib", "usr/lib"));
    UNPACK(TEXT("lib/new", "2"), TEXT("usr/lib/.wh..wh..opq", ""));
    assert_absent("usr/lib/low");
    assert_text("usr/lib/new", "2");
    UNPACK(TEXT(".wh..wh..opq", ""), TEXT("fresh", "3"));
    assert_absent("usr");
    assert_absent("lib");
    assert_text("fresh", "3");
}

static void test_attributes_that_stay_and_go(void **state) {
    (void)state;
    static const char *const dropped[] = {"security.selinux",        "security.evil",
                                          "trusted.overlay.opaque",  "user.overlay.opaque",
                                          "system.posix_acl_access", "trusted.x"};
    struct buf b = BUF_INIT(TAR_MAX), pax = BUF_INIT(TAR_MAX);
    char value[64];
    tar_record(&pax, "SCHILY.xattr.user.kept", "yes");
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++) {
        char key[80];
        (void)snprintf(key, sizeof key, "SCHILY.xattr.%s", dropped[i]);
        tar_record(&pax, key, "y");
    }
    tar_add(&b, &(struct tar_entry){.name = "d", .type = '5', .pax = pax.data});
    tar_add(&b, &(struct tar_entry){.name = "f", .type = '0', .data = "x", .pax = pax.data});
    tar_end(&b);
    assert_int_equal(unpack_buf(&b, NULL), 0);
    for (int i = 0; i < 2; i++) {
        int fd = openat(root, i == 0 ? "d" : "f", O_RDONLY | O_CLOEXEC);
        assert_int_equal(fgetxattr(fd, "user.kept", value, sizeof value), 3);
        for (size_t k = 0; k < ARRAY_LEN(dropped); k++)
            assert_int_equal(fgetxattr(fd, dropped[k], value, sizeof value), -1);
        (void)close(fd);
    }
    UNPACK(FOLDER("d")); /* replaces the attributes of the folder: it has none */
    int fd = openat(root, "d", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fgetxattr(fd, "user.kept", value, sizeof value), -1);
    (void)close(fd);
    buf_free(&pax);
}

static void test_file_capabilities(void **state) {
    (void)state;
    /* version 2, effective, cap_net_raw: 20 bytes behind a key, 57 with all */
    static const char record[] = "57 SCHILY.xattr.security.capability=\1\0\0\2\0\x20\0\0\0\0\0"
                                 "\0\0\0\0\0\0\0\0\0\n";
    struct buf b = BUF_INIT(TAR_MAX);
    char value[64];
    assert_int_equal(sizeof record - 1, 57);
    tar_pax(&b, record, sizeof record - 1);
    tar_add(&b, &(struct tar_entry){.name = "ping", .type = '0', .data = "x", .uid = 5});
    tar_end(&b);
    assert_int_equal(unpack_buf(&b, NULL), 0);
    int fd = openat(root, "ping", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fgetxattr(fd, "security.capability", value, sizeof value), 20);
    (void)close(fd);
}

static void test_devices_are_left_out(void **state) {
    (void)state;
    UNPACK({.name = "null", .type = '3'}, {.name = "sda", .type = '4'}, TEXT("f", "x"));
    assert_absent("null");
    assert_absent("sda");
    assert_int_equal(result.skipped, 2);
    assert_int_equal(result.entries, 1);
}

/* ---- compression and digests ---- */

static void check_digests(struct buf *blob, const struct buf *tar) {
    char hex[HEX_SIZE];
    size_t len = blob->len;
    digest_of(blob->data, blob->len, hex);
    if (unpack_buf(blob, NULL) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(result.blob, hex);
    assert_int_equal(result.blob_size, len);
    digest_of(tar->data, tar->len, hex);
    assert_string_equal(result.diff_id, hex);
    assert_text("dir0/file0", "content 0 of a file that compresses well");
}

static void test_digests(void **state) {
    (void)state;
    struct buf tar = sample(), plain = BUF_INIT(TAR_MAX);
    buf_append(&plain, tar.data, tar.len);
    check_digests(&plain, &tar);
    struct buf gzip = gzipped(tar.data, tar.len);
    check_digests(&gzip, &tar);
    struct buf zstd = zstd_of(tar.data, tar.len);
    check_digests(&zstd, &tar);
    /* in two members, frames, and with what may come behind them */
    size_t half = tar.len / 2;
    struct buf first = gzipped(tar.data, half), second = gzipped(tar.data + half, tar.len - half);
    buf_append(&first, second.data, second.len);
    buf_append(&first, "\0\0\0\0", 4);
    check_digests(&first, &tar);
    buf_free(&second);
    first = zstd_of(tar.data, half);
    second = zstd_of(tar.data + half, tar.len - half);
    buf_append(&first, second.data, second.len);
    buf_append(&first, "\x50\x2a\x4d\x18\3\0\0\0abc", 11); /* to be skipped */
    check_digests(&first, &tar);
    buf_free(&second);
    buf_free(&tar);
}

/* Output that ends with a full block of the reader must not be taken for one cut off. */
static void test_sizes_around_a_block(void **state) {
    (void)state;
    for (size_t blocks = 2047; blocks <= 2049; blocks++) {
        struct buf tar = BUF_INIT(TAR_MAX);
        tar_add(&tar, &(struct tar_entry)TEXT("f", "x"));
        while (tar.len < blocks * TAR_BLOCK_SIZE)
            buf_append(&tar, (const char[TAR_BLOCK_SIZE]){0}, TAR_BLOCK_SIZE);
        struct buf gzip = gzipped(tar.data, tar.len), zstd = zstd_of(tar.data, tar.len);
        assert_int_equal(unpack_buf(&gzip, NULL), 0);
        assert_int_equal(unpack_buf(&zstd, NULL), 0);
        buf_free(&tar);
    }
}

static void *feed_slowly(const struct buf *b, int fd) {
    for (size_t i = 0; i < b->len; i += 977)
        if (fd_write_all(fd, b->data + i, MIN((size_t)977, b->len - i)) < 0)
            break;
    return NULL;
}

static void count_progress(void *user, uint64_t bytes) {
    uint64_t *last = user;
    assert_true(bytes >= *last);
    *last = bytes;
}

static void test_from_a_pipe(void **state) {
    (void)state;
    struct buf tar = sample(), gzip = gzipped(tar.data, tar.len);
    char hex[HEX_SIZE];
    int ends[2];
    uint64_t seen = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        feed_slowly(&gzip, ends[1]);
        _exit(0);
    }
    (void)close(ends[1]);
    assert_int_equal(unpack_layer(ends[0], root, NULL, count_progress, &seen, &result, &err), 0);
    (void)close(ends[0]);
    (void)waitpid(pid, NULL, 0);
    digest_of(tar.data, tar.len, hex);
    assert_string_equal(result.diff_id, hex);
    assert_int_equal(seen, gzip.len);
    buf_free(&gzip);
    buf_free(&tar);
}

/* ---- in a user namespace, as in cay-image ---- */

static void write_map(pid_t pid, const char *name, const char *text) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    assert_int_equal(fd_write_file_at(AT_FDCWD, path, text), 0);
}

/* Runs what in a child that is root of a user namespace with this map. Its exit code. */
static int in_namespace(const char *map, int (*what)(void)) {
    int sync[2];
    char c = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write(sync[1], "", 1) != 1 ||
            read(sync[1], &c, 1) != 1 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
            _exit(99);
        _exit(what());
    }
    assert_int_equal(read(sync[0], &c, 1), 1);
    write_map(pid, "uid_map", map);
    write_map(pid, "gid_map", map);
    assert_int_equal(write(sync[0], "", 1), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)close(sync[0]);
    (void)close(sync[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int unpack_owned(void) {
    struct buf b = BUF_INIT(TAR_MAX);
    tar_add(&b, &(struct tar_entry){.name = "d", .type = '5', .uid = 1000, .gid = 1000});
    tar_add(&b, &(struct tar_entry){
                    .name = "d/f", .type = '0', .mode = 06755, .uid = 33, .gid = 65535});
    tar_add(&b, &(struct tar_entry){.name = "s", .type = '2', .link = "x", .uid = 1});
    tar_add(&b, &(struct tar_entry)TEXT(".wh.low", ""));
    tar_end(&b);
    return unpack_buf(&b, NULL) == 0 ? 0 : 1;
}

static void test_with_a_range_of_ids(void **state) {
    (void)state;
    const unsigned first = 0x7fff0000;
    assert_int_equal(fchown(root, first, first), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(in_namespace("0 2147418112 65536", unpack_owned), 0);
    struct stat st = stat_of("d/f");
    assert_int_equal(st.st_uid, first + 33);
    assert_int_equal(st.st_gid, first + 65535);
    assert_int_equal(st.st_mode, S_IFREG | 06755);
    assert_int_equal(stat_of("s").st_uid, first + 1);
}

static void test_with_a_single_id(void **state) {
    (void)state;
    assert_int_equal(fchown(root, 12345, 12345), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(in_namespace("0 12345 1", unpack_owned), 0);
    struct stat st = stat_of("d/f");
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(st.st_gid, 12345);
    assert_int_equal(st.st_mode, S_IFREG | 06755);
}

/* Neither process is left behind, and no descriptor. */
static void test_nothing_is_left(void **state) {
    (void)state;
    struct buf b = sample();
    int before = dup(0);
    (void)close(before);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(unpack_bytes(b.data, b.len, NULL), 0);
        assert_true(unpack_bytes(b.data, b.len, &(struct unpack_limits){.entries = 3}) < 0);
    }
    int after = dup(0);
    (void)close(after);
    assert_int_equal(before, after);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    buf_free(&b);
}

int main(void) {
    if (geteuid() != 0) {
        printf("skipped: unpacking is tested as root\n");
        return 77;
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_kinds_and_attributes),
        TEST(test_absolute_names_are_below),
        TEST(test_names_of_any_bytes),
        TEST(test_replacing),
        TEST(test_parents_may_be_symlinks),
        TEST(test_whiteouts),
        TEST(test_opaque_by_another_name),
        TEST(test_attributes_that_stay_and_go),
        TEST(test_file_capabilities),
        TEST(test_devices_are_left_out),
        TEST(test_digests),
        TEST(test_sizes_around_a_block),
        TEST(test_from_a_pipe),
        TEST(test_with_a_range_of_ids),
        TEST(test_with_a_single_id),
        TEST(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
