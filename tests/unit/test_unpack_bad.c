/* Tests of unpacking: what is refused, and the limits. */
#include "unpack_env.h"

/* ---- what is refused ---- */

static void test_refused_entries(void **state) {
    (void)state;
    static const struct {
        struct tar_entry entries[3];
        const char *why;
    } cases[] = {
        {{TEXT("../victim", "evil")}, "'..'"},
        {{TEXT("a/../../victim", "evil")}, "'..'"},
        {{TEXT("a/..", "evil")}, "'..'"},
        {{LINK("h", "../victim")}, "'..'"},
        {{LINK("h", "/absent")}, "does not exist"},
        {{LINK("h", "h")}, "itself"},
        {{FOLDER("d"), LINK("h", "d")}, "no file"},
        {{LINK("h", "/")}, "does not exist"},
        {{TEXT("/.wh.", "")}, "whiteout"},
        {{TEXT(".wh..", "")}, "whiteout"},
        {{TEXT(".wh...", "")}, "whiteout"},
        {{TEXT("a/.wh.", "")}, "whiteout"},
        {{FOLDER("a"), TEXT("a/.wh..", "")}, "whiteout"},
        {{TEXT(".wh.x/y", "")}, "whiteout"},
        {{{.name = "./", .type = '6'}}, "root folder"},
        {{SYMLINK("./", "x")}, "root folder"},
        {{TEXT("", "")}, "name"},
        {{TEXT("f", ""), TEXT("f/g", "")}, "its folder"},
        {{SYMLINK("f", "nowhere"), TEXT("f/g", "")}, "its folder"},
        {{SYMLINK("f", "f"), TEXT("f/g", "")}, "its folder"},
        {{{.name = "f", .type = '0', .uid = 65536}}, "65535"},
        {{{.name = "f", .type = '0', .gid = 100000}}, "65535"},
        {{SYMLINK("s", "")}, "target"},
        {{TEXT("bad\x1b[31m\nname/..", "")}, "\\x1b[31m\\x0aname"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf b = BUF_INIT(TAR_MAX);
        for (size_t k = 0; k < 3 && cases[i].entries[k].name != NULL; k++)
            tar_add(&b, &cases[i].entries[k]);
        tar_end(&b);
        int r = unpack_buf(&b, NULL);
        if (r == 0)
            fail_msg("'%s' was taken", cases[i].entries[0].name);
        assert_refused(r, CAY_INVALID_ARGUMENT, cases[i].why);
        assert_int_equal(path_remove_tree(top, "root"), 0);
        assert_int_equal(mkdirat(top, "root", 0755), 0);
        (void)close(root);
        root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
}

/* A symlink out of the image, and what is written through it, stay inside. */
static void test_symlink_then_write(void **state) {
    (void)state;
    struct buf b = BUF_INIT(TAR_MAX);
    tar_add(&b, &(struct tar_entry)SYMLINK("up", "../../../../../../"));
    tar_add(&b, &(struct tar_entry)SYMLINK("abs", folder));
    tar_add(&b, &(struct tar_entry)SYMLINK("victim", "../victim"));
    tar_add(&b, &(struct tar_entry)SYMLINK("proc", "/proc/self/root"));
    tar_add(&b, &(struct tar_entry)TEXT("up/pwned", "in"));
    tar_add(&b, &(struct tar_entry)TEXT("victim", "replaced"));
    tar_end(&b);
    assert_int_equal(unpack_buf(&b, NULL), 0);
    assert_text("pwned", "in");
    assert_text("victim", "replaced");
    assert_true(S_ISREG(stat_of("victim").st_mode));
    tar_add(&b, &(struct tar_entry)TEXT("abs/victim", "evil"));
    tar_end(&b);
    assert_refused(unpack_buf(&b, NULL), CAY_INVALID_ARGUMENT, "its folder");
    tar_add(&b, &(struct tar_entry)LINK("hard", "abs/victim"));
    tar_end(&b);
    assert_refused(unpack_buf(&b, NULL), CAY_INVALID_ARGUMENT, "does not exist");
    tar_add(&b, &(struct tar_entry)TEXT("proc/x", "evil"));
    tar_end(&b);
    assert_refused(unpack_buf(&b, NULL), CAY_INVALID_ARGUMENT, "its folder");
}

static void test_long_names(void **state) {
    (void)state;
    char *name = malloc(20001);
    assert_non_null(name);
    memset(name, 'n', 20000);
    for (int i = 0; i < 20000; i += 101) /* parts of 100 */
        name[i] = '/';
    struct buf b = BUF_INIT(TAR_MAX);
    name[5000] = '\0';
    tar_add_long(&b, "path", name, &(struct tar_entry)TEXT("x", ""));
    assert_refused(unpack_buf(&b, NULL), CAY_RESOURCE_EXHAUSTED, "longer than 4095");
    tar_add_long(&b, "path", "0123456789", &(struct tar_entry)FOLDER("x"));
    memset(name, 'n', 256);
    name[256] = '\0';
    tar_add_long(&b, "path", name, &(struct tar_entry)TEXT("x", ""));
    assert_refused(unpack_buf(&b, NULL), CAY_RESOURCE_EXHAUSTED, "longer than 255");
    name[255] = '\0';
    tar_add_long(&b, "path", name, &(struct tar_entry)TEXT("x", "fits"));
    assert_int_equal(unpack_buf(&b, NULL), 0);
    assert_text(name, "fits");
    for (int i = 0; i < 3000; i++)
        memcpy(name + 2 * i, "d/", 2);
    name[6000] = '\0';
    tar_add_long(&b, "path", name, &(struct tar_entry)FOLDER("x"));
    assert_refused(unpack_buf(&b, NULL), CAY_RESOURCE_EXHAUSTED, "deeper than 256");
    tar_add(&b, &(struct tar_entry)TEXT("a/b/c", "x"));
    assert_refused(unpack_buf(&b, &(struct unpack_limits){.depth = 2}), CAY_RESOURCE_EXHAUSTED,
                   "deeper than 2");
    free(name);
}

static void test_limits(void **state) {
    (void)state;
    struct buf b = sample();
    assert_refused(unpack_bytes(b.data, b.len, &(struct unpack_limits){.entries = 199}),
                   CAY_RESOURCE_EXHAUSTED, "199 entries");
    assert_refused(unpack_bytes(b.data, b.len, &(struct unpack_limits){.bytes = 5000}),
                   CAY_RESOURCE_EXHAUSTED, "take more than");
    assert_int_equal(
        unpack_bytes(b.data, b.len, &(struct unpack_limits){.entries = 200, .bytes = 20000}), 0);
    buf_free(&b);
}

static void add_sparse(struct buf *b, const char *size) {
    struct buf pax = BUF_INIT(4096);
    tar_record(&pax, "GNU.sparse.major", "1");
    tar_record(&pax, "GNU.sparse.minor", "0");
    tar_record(&pax, "GNU.sparse.name", "sparse");
    tar_record(&pax, "GNU.sparse.realsize", size);
    tar_pax(b, pax.data, pax.len);
    buf_free(&pax);
    char map[TAR_BLOCK_SIZE + 6] = {0}; /* one piece of 5 bytes at 1 MiB, then its data */
    (void)snprintf(map, sizeof map, "1\n1048576\n5\n");
    memcpy(map + TAR_BLOCK_SIZE, "piece", 5);
    tar_header(b, &(struct tar_entry){.name = "GNUSparseFile.0/sparse", .type = '0'},
               TAR_BLOCK_SIZE + 5);
    buf_append(b, map, TAR_BLOCK_SIZE + 5);
    tar_pad(b);
}

static void test_sparse(void **state) {
    (void)state;
    struct buf b = BUF_INIT(TAR_MAX);
    char piece[8] = "";
    add_sparse(&b, "4194304");
    tar_end(&b);
    if (unpack_buf(&b, NULL) < 0)
        fail_msg("%s", err.message);
    struct stat st = stat_of("sparse");
    assert_int_equal(st.st_size, 4 * MB);
    assert_true(st.st_blocks * 512 < MB);
    assert_int_equal(result.bytes, 4 * MB);
    int fd = openat(root, "sparse", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, piece, 5, MB), 5);
    (void)close(fd);
    assert_string_equal(piece, "piece");
    add_sparse(&b, "9223372036854775807"); /* it counts by what it claims */
    assert_refused(unpack_buf(&b, NULL), CAY_RESOURCE_EXHAUSTED, "take more than");
    add_sparse(&b, "1000"); /* its piece lies beyond */
    assert_true(unpack_buf(&b, NULL) < 0);
}

/* ---- bombs and damage ---- */

/* n bytes of zeroes behind a header that claims them, compressed in pieces. */
static struct buf gzip_bomb(unsigned long long size) {
    struct buf b = BUF_INIT(TAR_MAX), head = BUF_INIT(TAR_MAX);
    static char zeroes[MB];
    tar_header(&head, &(struct tar_entry)TEXT("bomb", ""), size);
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    for (unsigned long long at = 0; at <= size / MB + 1; at++) {
        z.next_in = at == 0 ? (unsigned char *)head.data : (unsigned char *)zeroes;
        z.avail_in = at == 0 ? (unsigned)head.len : MB;
        bool last = at == size / MB + 1;
        z.next_out = (unsigned char *)buf_reserve(&b, 64 * 1024);
        z.avail_out = 64 * 1024;
        (void)deflate(&z, last ? Z_FINISH : Z_NO_FLUSH);
        buf_commit(&b, 64 * 1024 - z.avail_out);
    }
    (void)deflateEnd(&z);
    buf_free(&head);
    assert_false(b.failed);
    return b;
}

static void test_gzip_bomb(void **state) {
    (void)state;
    struct buf b = gzip_bomb(64ULL * MB);
    assert_refused(unpack_bytes(b.data, b.len, &(struct unpack_limits){.bytes = 10 * MB}),
                   CAY_RESOURCE_EXHAUSTED, "take more than");
    buf_free(&b);
}

/* What is no file still has its bounds: an archive of nothing but padding. */
static void test_padding_bomb(void **state) {
    (void)state;
    struct buf zeroes = BUF_INIT(TAR_MAX);
    memset(buf_reserve(&zeroes, 32 * MB), 0, 32 * MB);
    buf_commit(&zeroes, 32 * MB);
    struct buf b = zstd_of(zeroes.data, zeroes.len);
    buf_free(&zeroes);
    assert_refused(unpack_bytes(b.data, b.len, &(struct unpack_limits){.bytes = MB, .entries = 10}),
                   CAY_RESOURCE_EXHAUSTED, "unpacks to more than");
    buf_free(&b);
}

/* 20 KB of zstd for 1.2 GiB; the ratio counts from 1 GiB on. */
static void test_zstd_bomb(void **state) {
    (void)state;
    struct buf b = BUF_INIT(TAR_MAX), zeroes = BUF_INIT(TAR_MAX);
    memset(buf_reserve(&zeroes, 32 * MB), 0, 32 * MB);
    buf_commit(&zeroes, 32 * MB);
    struct buf frame = zstd_of(zeroes.data, zeroes.len);
    for (int i = 0; i < 40; i++)
        buf_append(&b, frame.data, frame.len);
    assert_refused(unpack_buf(&b, NULL), CAY_RESOURCE_EXHAUSTED, "1000 times");
    buf_free(&frame);
    buf_free(&zeroes);
}

static void test_damaged(void **state) {
    (void)state;
    struct buf tar = sample();
    struct buf gzip = gzipped(tar.data, tar.len), zstd = zstd_of(tar.data, tar.len);
    const struct buf *both[] = {&gzip, &zstd};
    for (size_t k = 0; k < 2; k++) {
        size_t len = both[k]->len;
        for (size_t cut = 7; cut < len; cut += len / 7)
            assert_refused(unpack_bytes(both[k]->data, cut, NULL), CAY_INVALID_ARGUMENT, "cut off");
        assert_refused(unpack_bytes(both[k]->data, len - 1, NULL), CAY_INVALID_ARGUMENT, "cut off");
        both[k]->data[len / 2] ^= 0x55;
        assert_true(unpack_bytes(both[k]->data, len, NULL) < 0);
        both[k]->data[len / 2] ^= 0x55;
    }
    buf_append(&gzip, "garbage", 7);
    assert_refused(unpack_bytes(gzip.data, gzip.len, NULL), CAY_INVALID_ARGUMENT, "damaged");
    assert_refused(unpack_bytes(tar.data, 520, NULL), CAY_INVALID_ARGUMENT, "Truncated");
    assert_refused(unpack_bytes("no tar at all, but long enough", 30, NULL), CAY_INVALID_ARGUMENT,
                   "no tar");
    assert_refused(unpack_bytes("BZh91AY&SY", 10, NULL), CAY_INVALID_ARGUMENT, "bzip2");
    assert_int_equal(unpack_bytes("", 0, NULL), 0); /* a layer without anything */
    buf_free(&gzip);
    buf_free(&zstd);
    buf_free(&tar);
}

/* ---- many ---- */

static void test_many_entries(void **state) {
    (void)state;
    enum { COUNT = 30000 };
    struct buf b = BUF_INIT(TAR_MAX);
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "d%d/f%d", i % 100, i);
        tar_add(&b, &(struct tar_entry)TEXT(name, ""));
    }
    tar_end(&b);
    assert_refused(unpack_bytes(b.data, b.len, &(struct unpack_limits){.entries = COUNT - 1}),
                   CAY_RESOURCE_EXHAUSTED, "entries");
    assert_int_equal(unpack_bytes(b.data, b.len, &(struct unpack_limits){.entries = COUNT}), 0);
    assert_int_equal(result.entries, COUNT); /* the folders are there from the first time */
    buf_free(&b);
    tar_add(&b, &(struct tar_entry)TEXT(".wh..wh..opq", ""));
    tar_end(&b);
    assert_int_equal(unpack_buf(&b, NULL), 0);
    assert_absent("d0");
}

int main(void) {
    if (geteuid() != 0) {
        printf("skipped: unpacking is tested as root\n");
        return 77;
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_refused_entries), TEST(test_symlink_then_write),
        TEST(test_long_names),      TEST(test_limits),
        TEST(test_sparse),          TEST(test_gzip_bomb),
        TEST(test_padding_bomb),    TEST(test_zstd_bomb),
        TEST(test_damaged),         TEST(test_many_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
