/* Tar streams: the codec, round trips with GNU tar and Python, and archives made to do harm. */
#include "init_harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/files/tar.h"

enum { ARCHIVE_MAX = 256 * 1024 * 1024 };

static struct cay_error err;
static struct wire_tar_totals totals;

/* ---- building archives ---- */

static void add(struct buf *b, char type, const char *path, const char *link, const char *content) {
    struct tar_member m = {.type = type, .mode = 0644, .mtime = {.tv_sec = 1700000000}};
    assert_int_equal(str_copy(m.path, sizeof m.path, path), 0);
    assert_int_equal(str_copy(m.link, sizeof m.link, link), 0);
    static const char zeros[TAR_BLOCK];
    m.size = strlen(content);
    tar_encode(&m, b);
    (void)buf_puts(b, content);
    (void)buf_append(b, zeros, tar_padding(m.size));
}

static void end(struct buf *b) {
    static const char zeros[2 * TAR_BLOCK];
    (void)buf_append(b, zeros, sizeof zeros);
    assert_false(b->failed);
}

/* Makes the checksum of the header at `at` right again after a change. */
static void fix_checksum(struct buf *b, size_t at) {
    unsigned sum = 0;
    memset(b->data + at + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += (unsigned char)b->data[at + i];
    char text[8];
    (void)snprintf(text, sizeof text, "%06o", sum);
    memcpy(b->data + at + 148, text, 7);
}

static int extract(const struct wire_call *c, const char *path, const struct buf *b) {
    struct wire_memory m = {.data = buf_text(b), .len = b->len};
    return wire_tar_in(c, path, true, 0, wire_source_memory, &m, &totals, &err);
}

/* ---- codec ---- */

static void clean_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *expected; /* NULL: refused */
    } cases[] = {
        {"a/b", "a/b"},    {"/a/b", "a/b"},    {"./a//b/", "a/b"}, {".", ""},
        {"/", ""},         {"..", NULL},       {"a/../b", NULL},   {"a/..", NULL},
        {"/../etc", NULL}, {"..a/b", "..a/b"}, {"a/...", "a/..."}, {"a/./././b", "a/b"},
    };
    char out[PATH_MAX];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int r = tar_clean_path(cases[i].path, out);
        assert_int_equal(r, cases[i].expected != NULL ? 0 : -EINVAL);
        if (r == 0)
            assert_string_equal(out, cases[i].expected);
    }
    char deep[2 * (TAR_DEPTH_MAX + 1) + 1];
    for (size_t i = 0; i < sizeof deep - 1; i++)
        deep[i] = i % 2 == 0 ? 'd' : '/';
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(tar_clean_path(deep, out), -ENAMETOOLONG);
    deep[sizeof deep - 3] = '\0';
    assert_int_equal(tar_clean_path(deep, out), 0);
    char name[NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[NAME_MAX + 1] = '\0';
    assert_int_equal(tar_clean_path(name, out), -ENAMETOOLONG);
}

static void decode_encoded(void **state) {
    (void)state;
    static const struct tar_member cases[] = {
        {.type = '0', .path = "a", .mode = 0644, .mtime = {.tv_sec = 1}},
        {.type = '0', .path = "big", .size = (uint64_t)1 << 40, .mtime = {1700000000, 123456789}},
        {.type = '2', .path = "l", .link = "../t", .mtime = {-2, 500000000}},
        {.type = '5', .path = "d/", .mode = 01777, .uid = 4000000000, .gid = 99999999},
        {.type = '0', .path = "far", .mtime = {99999999999, 0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct tar_member *m = &cases[i];
        _cleanup_(buf_free) struct buf b = BUF_INIT(65536);
        struct tar_member got, pax;
        tar_encode(m, &b);
        size_t last = b.len - TAR_BLOCK;
        assert_int_equal(tar_decode((const unsigned char *)b.data + last, &got), 1);
        if (last > 0) {
            assert_int_equal(tar_decode((const unsigned char *)b.data, &pax), 1);
            assert_int_equal(pax.type, TAR_PAX);
            assert_int_equal(tar_apply_pax(b.data + TAR_BLOCK, pax.size, &got), 0);
        }
        assert_string_equal(got.path, m->path);
        assert_string_equal(got.link, m->link);
        assert_int_equal(got.type, m->type);
        assert_int_equal(got.mode, m->mode);
        assert_int_equal(got.size, m->size);
        assert_int_equal(got.uid, m->uid);
        assert_int_equal(got.gid, m->gid);
        assert_int_equal(got.mtime.tv_sec, m->mtime.tv_sec);
        assert_int_equal(got.mtime.tv_nsec, m->mtime.tv_nsec);
    }
}

static void pax_records(void **state) {
    (void)state;
    static const struct {
        const char *data;
        int result;
    } cases[] = {
        {"", 0},
        {"9 path=x\n", 0},
        {"9 path=x\n9 path=y\n", 0},
        {"19 SCHILY.xattr.a=b\n", -EBADMSG}, /* one byte short */
        {"20 SCHILY.xattr.a=b\n", 0},
        {"22 GNU.sparse.major=1\n", -EOPNOTSUPP},
        {"9 path=x", -EBADMSG},
        {"11 path=x\n", -EBADMSG},
        {"0 path=x\n", -EBADMSG},
        {"-9 path=x\n", -EBADMSG},
        {"99999999999999999999 path=x\n", -EBADMSG},
        {"7 path\n", -EBADMSG},
        {"5 =x\n", -EBADMSG},
        {"11 size=-1\n", -EBADMSG},
        {"29 size=99999999999999999999\n", -EBADMSG},
        {"12 mtime=x\n", -EBADMSG},
        {"15 mtime=1.5.5\n", -EBADMSG},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tar_member m = {0};
        assert_int_equal(tar_apply_pax(cases[i].data, strlen(cases[i].data), &m), cases[i].result);
    }
    struct tar_member m = {0};
    assert_int_equal(tar_apply_pax("9 path=\0\n", 9, &m), -EBADMSG);
    assert_int_equal(tar_apply_pax("14 mtime=-1.5\n", 14, &m), 0);
    assert_int_equal(m.mtime.tv_sec, -2);
    assert_int_equal(m.mtime.tv_nsec, 500000000);
}

/* ---- hostile archives ---- */

static void refuse(void **state, struct buf *b, enum cay_code code) {
    end(b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), b)), -(int)code);
    buf_clear(b);
}

static void escapes(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    put_file(at(state, "victim"), "safe", 0644);

    add(&b, '0', "../victim", "", "evil");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    add(&b, '0', "a/../../victim", "", "evil");
    refuse(state, &b, CAY_INVALID_ARGUMENT);

    add(&b, '2', "link", "..", ""); /* a symlink, then a write through it */
    add(&b, '0', "link/victim", "", "evil");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    add(&b, '5', "link/dir/", "", "");
    refuse(state, &b, CAY_INVALID_ARGUMENT);

    add(&b, '2', "file", "../victim", ""); /* a symlink, then a file of its name: replaced */
    add(&b, '0', "file", "", "mine");
    end(&b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), 0);
    assert_string_equal(get_file(at(state, "dest/file")), "mine");
    buf_clear(&b);

    add(&b, '1', "hard", "../victim", "");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    add(&b, '1', "hard", "link/victim", "");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    add(&b, '1', "hard", "no-such-member", "");
    refuse(state, &b, CAY_NOT_FOUND);
    add(&b, '1', "hard", "/", "");
    refuse(state, &b, CAY_INVALID_ARGUMENT);

    /* a hard link to a symlink is a second symlink, and writing it replaces it */
    add(&b, '2', "s", "../victim", "");
    add(&b, '1', "h", "s", "");
    add(&b, '0', "h", "", "mine");
    end(&b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), 0);
    assert_string_equal(get_file(at(state, "victim")), "safe");
    assert_int_equal(count_names(*state), 2);
}

static void absolute_names(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    add(&b, '0', "/abs/file", "", "x");
    add(&b, '1', "/abs/hard", "/abs/file", "");
    end(&b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), 0);
    assert_string_equal(get_file(at(state, "dest/abs/file")), "x");
    assert_string_equal(get_file(at(state, "dest/abs/hard")), "x");
}

static void devices_and_set_id(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    add(&b, '3', "char", "", "");
    add(&b, '4', "block", "", "");
    add(&b, '6', "fifo", "", "");
    add(&b, 'Z', "unknown", "", "content that must be passed over");
    size_t header = b.len;
    add(&b, '0', "suid", "", "x");
    memcpy(b.data + header + 100, "0006755", 7);
    fix_checksum(&b, header);
    header = b.len;
    add(&b, '5', "sgid/", "", "");
    memcpy(b.data + header + 100, "0002755", 7);
    fix_checksum(&b, header);
    end(&b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), 0);
    assert_int_equal(count_names(at(state, "dest")), 2);
    assert_int_equal(mode_of(at(state, "dest/suid")), 0755);
    assert_int_equal(mode_of(at(state, "dest/sgid")), 0755);
    assert_non_null(strstr(totals.note, "skipped 4"));
    assert_non_null(strstr(totals.note, "char"));
}

static void damaged(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    add(&b, '0', "file", "", "content");
    b.data[0] ^= 1;
    refuse(state, &b, CAY_INVALID_ARGUMENT); /* checksum */

    add(&b, '0', "file", "", "content");
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), -CAY_INVALID_ARGUMENT); /* no end */
    for (size_t len = 1; len < 2 * TAR_BLOCK; len += 37) {
        struct buf cut = {.data = b.data, .len = len, .max = len};
        assert_int_equal(RUN(extract(c, at(state, "dest"), &cut)), -CAY_INVALID_ARGUMENT);
    }
    static const char minus_one[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    static const char beyond[] = "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    static const char *const sizes[] = {"77777777777", "-0000000001", "9999", minus_one, beyond};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        buf_clear(&b);
        add(&b, '0', "file", "", "content");
        memcpy(b.data + 124, sizes[i], MIN(strlen(sizes[i]), (size_t)12));
        fix_checksum(&b, 0);
        refuse(state, &b, CAY_INVALID_ARGUMENT);
    }
    add(&b, 'x', "pax", "", "13 path=../a\n");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    add(&b, 'x', "pax", "", "13 path=../a\n");
    add(&b, '0', "good", "", "");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    add(&b, 'x', "pax", "", "22 GNU.sparse.major=1\n");
    add(&b, '0', "sparse", "", "");
    refuse(state, &b, CAY_UNSUPPORTED);
    add(&b, 'S', "sparse", "", "");
    refuse(state, &b, CAY_UNSUPPORTED);
    add(&b, '0', "", "", "");
    refuse(state, &b, CAY_INVALID_ARGUMENT);
    size_t header = b.len;
    add(&b, 'x', "pax", "", "");
    memcpy(b.data + header + 124, "00010000001", 11); /* longer than an extended header may be */
    fix_checksum(&b, header);
    refuse(state, &b, CAY_INVALID_ARGUMENT);
}

static void many_tiny(void **state) {
    enum { COUNT = 100000 };
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    char name[32];
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "%d/%d", i / 1000, i);
        add(&b, '0', name, "", "");
    }
    end(&b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), 0);
    assert_int_equal(totals.members, COUNT);
    assert_int_equal(count_names(at(state, "dest")), COUNT / 1000);
    assert_int_equal(count_names(at(state, "dest/99")), 1000);
}

static void replaces_and_limits(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    assert_int_equal(mkdir(at(state, "dest"), 0700), 0);
    put_file(at(state, "dest/file"), "an old and longer text", 0600);
    assert_int_equal(mkdir(at(state, "dest/dir"), 0711), 0);
    put_file(at(state, "dest/dir/kept"), "kept", 0600);
    add(&b, '5', "./", "", "");
    add(&b, '0', "file", "", "new");
    add(&b, '2', "link", "nowhere", "");
    add(&b, '2', "link", "file", "");
    add(&b, '1', "file", "file", "");
    end(&b);
    assert_int_equal(RUN(extract(c, at(state, "dest"), &b)), 0);
    assert_string_equal(get_file(at(state, "dest/link")), "new");
    assert_int_equal(mode_of(at(state, "dest/file")), 0644);
    assert_int_equal(mode_of(at(state, "dest")), 0700); /* not the archive's to change */
    assert_int_equal(totals.bytes, 3);
    buf_clear(&b);
    add(&b, '0', "dir", "", "x");
    refuse(state, &b, CAY_CONFLICT);
    assert_string_equal(get_file(at(state, "dest/dir/kept")), "kept");
    add(&b, '0', "file/below", "", "x");
    refuse(state, &b, CAY_NOT_FOUND);

    add(&b, '0', "one", "", "12345");
    add(&b, '0', "two", "", "12345");
    end(&b);
    struct wire_memory m = {.data = b.data, .len = b.len};
    assert_int_equal(
        RUN(wire_tar_in(c, at(state, "dest"), false, 9, wire_source_memory, &m, &totals, &err)),
        -CAY_LIMIT_REACHED);
    assert_int_equal(
        RUN(wire_tar_in(c, at(state, "no"), false, 0, wire_source_memory, &m, &totals, &err)),
        -CAY_NOT_FOUND);
    if (geteuid() == 0) {
        m = (struct wire_memory){.data = b.data, .len = b.len};
        assert_int_equal(RUN_AS(NOBODY, wire_tar_in(c, at(state, "dest"), false, 0,
                                                    wire_source_memory, &m, &totals, &err)),
                         -CAY_FORBIDDEN);
    }
}

/* ---- round trips ---- */

static const char long_name[] = "a-name-of-more-than-one-hundred-bytes-which-the-old-header-cannot-"
                                "hold-and-so-an-extension-must-be-used-for-it";

static void make_sample(void **state) {
    const struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 1000000000, .tv_nsec = 123456789}};
    assert_int_equal(mkdir(at(state, "in"), 0755), 0);
    assert_int_equal(mkdir(at(state, "in/empty"), 0711), 0);
    assert_int_equal(mkdir(at(state, "in/closed"), 0755), 0);
    put_file(at(state, "in/closed/file"), "x", 0400);
    assert_int_equal(chmod(at(state, "in/closed"), 0555), 0);
    put_file(at(state, "in/file"), "content\n", 0640);
    put_file(at(state, "in/nothing"), "", 0644);
    char path[PATH_MAX];
    assert_int_equal(str_format(path, sizeof path, "%s/in/%s", (char *)*state, long_name), 0);
    put_file(path, "long", 0644);
    assert_int_equal(link(at(state, "in/file"), at(state, "in/hard")), 0);
    assert_int_equal(symlink(long_name, at(state, "in/link")), 0);
    assert_int_equal(symlink("/absolute/../target", at(state, "in/dangling")), 0);
    put_file(at(state, "in/sparse"), "start", 0644);
    assert_int_equal(truncate(at(state, "in/sparse"), 8 * 1024 * 1024), 0);
    assert_int_equal(mkfifo(at(state, "in/fifo"), 0644), 0);
    assert_int_equal(utimensat(AT_FDCWD, at(state, "in/file"), times, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, at(state, "in/dangling"), times, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(utimensat(AT_FDCWD, at(state, "in/empty"), times, 0), 0);
}

static void check_sample(void **state, const char *folder, bool exact_times) {
    char base[PATH_MAX], path[PATH_MAX];
    struct stat a, b;
    assert_int_equal(str_copy(base, sizeof base, at(state, folder)), 0);
    void *root = base;
    assert_string_equal(get_file(at(&root, "file")), "content\n");
    assert_string_equal(get_file(at(&root, "link")), "long");
    assert_int_equal(stat(at(&root, "file"), &a), 0);
    assert_int_equal(stat(at(&root, "hard"), &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(a.st_mode & 07777, 0640);
    assert_int_equal(a.st_mtim.tv_sec, 1000000000);
    if (exact_times)
        assert_int_equal(a.st_mtim.tv_nsec, 123456789);
    ssize_t n = readlink(at(&root, "dangling"), path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = '\0';
    assert_string_equal(path, "/absolute/../target");
    assert_int_equal(mode_of(at(&root, "empty")), 0711);
    assert_int_equal(stat(at(&root, "empty"), &a), 0);
    assert_int_equal(a.st_mtim.tv_sec, 1000000000);
    assert_int_equal(mode_of(at(&root, "closed")), 0555);
    assert_int_equal(mode_of(at(&root, "closed/file")), 0400);
    assert_int_equal(stat(at(&root, "sparse"), &a), 0);
    assert_int_equal(a.st_size, 8 * 1024 * 1024);
    assert_int_equal(stat(at(&root, "nothing"), &a), 0);
    assert_int_equal(a.st_size, 0);
}

static int save(const struct wire_call *c, const char *path, const char *file) {
    _cleanup_(closep) int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return wire_tar_out(c, path, ARCHIVE_MAX, wire_sink_fd, &fd, &totals, &err);
}

static int load(const struct wire_call *c, const char *file, const char *path) {
    _cleanup_(closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
    return wire_tar_in(c, path, true, 0, wire_source_fd, &fd, &totals, &err);
}

static void round_trip(void **state) {
    make_sample(state);
    assert_int_equal(RUN(save(c, at(state, "in"), at(state, "t.tar"))), 0);
    assert_non_null(strstr(totals.note, "left out 1"));
    assert_int_equal(RUN(load(c, at(state, "t.tar"), at(state, "out"))), 0);
    check_sample(state, "out/in", true);
    struct stat st;
    assert_int_equal(stat(at(state, "out/in/sparse"), &st), 0);
    assert_true(st.st_blocks * 512 < 1024 * 1024); /* the hole is one again */
    assert_int_equal(RUN(save(c, at(state, "in/."), at(state, "t.tar"))), 0);
    assert_int_equal(RUN(load(c, at(state, "t.tar"), at(state, "content"))), 0);
    check_sample(state, "content", true);
    assert_int_equal(RUN(save(c, at(state, "in/link"), at(state, "t.tar"))), 0);
    assert_int_equal(totals.members, 1); /* the link, not what it leads to */
    assert_int_equal(RUN(save(c, at(state, "none"), at(state, "t.tar"))), -CAY_NOT_FOUND);
}

/* The header holds 100 bytes of a name; where it is cut must not matter. */
static void names_of_any_length(void **state) {
    enum { FIRST = 85, LAST = 115 };
    char path[PATH_MAX], folder[LAST + 1];
    memset(folder, 'a', sizeof folder);
    assert_int_equal(mkdir(at(state, "in"), 0755), 0);
    for (int n = FIRST; n <= LAST; n++) {
        (void)snprintf(path, sizeof path, "%s/in/%.*s", (char *)*state, n, folder);
        assert_int_equal(mkdir(path, 0755), 0);
        (void)snprintf(path, sizeof path, "%s/in/%.*s/file", (char *)*state, n, folder);
        put_file(path, "content", 0644);
    }
    assert_int_equal(RUN(save(c, at(state, "in"), at(state, "t.tar"))), 0);
    assert_int_equal(RUN(load(c, at(state, "t.tar"), at(state, "out"))), 0);
    for (int n = FIRST; n <= LAST; n++) {
        (void)snprintf(path, sizeof path, "%s/out/in/%.*s/file", (char *)*state, n, folder);
        assert_string_equal(get_file(path), "content");
    }
}

static void limited_out(void **state) {
    make_sample(state);
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    assert_int_equal(
        RUN(wire_tar_out(c, at(state, "in"), 1024 * 1024, wire_sink_buf, &b, &totals, &err)),
        -CAY_LIMIT_REACHED);
    assert_true(b.len <= 1024 * 1024);
}

static void gnu_tar(void **state) {
    make_sample(state);
    char archive[PATH_MAX], in[PATH_MAX];
    assert_int_equal(str_copy(archive, sizeof archive, at(state, "t.tar")), 0);
    assert_int_equal(str_copy(in, sizeof in, *state), 0);
    assert_int_equal(RUN(save(c, at(state, "in"), archive)), 0);
    assert_int_equal(mkdir(at(state, "gnu"), 0755), 0);
    const char *unpack[] = {"tar", "-xpf", archive, "-C", at(state, "gnu"), NULL};
    int r = run_program(unpack);
    if (r == -1) {
        print_message("skipped: no tar program\n");
        skip();
    }
    assert_int_equal(r, 0);
    check_sample(state, "gnu/in", true);
    static const char *const formats[] = {"--format=gnu", "--format=pax"};
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        const char *name = i == 0 ? "from-gnu" : "from-pax";
        char dest[PATH_MAX];
        assert_int_equal(str_copy(dest, sizeof dest, at(state, name)), 0);
        const char *pack[] = {"tar", formats[i], "-cf", archive, "-C", in, "in", NULL};
        assert_int_equal(run_program(pack), 0);
        assert_int_equal(RUN(load(c, archive, dest)), 0);
        char sample[64];
        (void)snprintf(sample, sizeof sample, "%s/in", name);
        check_sample(state, sample, i == 1);
    }
}

static void python_tarfile(void **state) {
    make_sample(state);
    char archive[PATH_MAX], in[PATH_MAX], out[PATH_MAX];
    assert_int_equal(str_copy(archive, sizeof archive, at(state, "t.tar")), 0);
    assert_int_equal(str_copy(in, sizeof in, at(state, "in")), 0);
    assert_int_equal(str_copy(out, sizeof out, at(state, "py")), 0);
    assert_int_equal(RUN(save(c, in, archive)), 0);
    static const char unpack[] = "import sys, tarfile\n"
                                 "t = tarfile.open(sys.argv[1])\n"
                                 "t.extractall(sys.argv[2])\n";
    const char *extract_args[] = {"python3", "-Wignore", "-c", unpack, archive, out, NULL};
    int r = run_program(extract_args);
    if (r == -1) {
        print_message("skipped: no python3 program\n");
        skip();
    }
    assert_int_equal(r, 0);
    check_sample(state, "py/in", false);
    static const char pack[] =
        "import sys, tarfile\n"
        "for n in 'USTAR', 'GNU', 'PAX':\n"
        "  f = getattr(tarfile, n + '_FORMAT')\n"
        "  with tarfile.open(sys.argv[1] + n, 'w', format=f) as t:\n"
        "    t.add(sys.argv[2], 'in', filter=lambda m: None if n == 'USTAR' and\n"
        "          (len(m.name) > 100 or len(m.linkname) > 100) else m)\n";
    const char *add_args[] = {"python3", "-c", pack, archive, in, NULL};
    assert_int_equal(run_program(add_args), 0);
    static const char *const formats[] = {"GNU", "PAX"};
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        char file[PATH_MAX], sample[64];
        assert_int_equal(str_format(file, sizeof file, "%s%s", archive, formats[i]), 0);
        assert_int_equal(RUN(load(c, file, at(state, formats[i]))), 0);
        (void)snprintf(sample, sizeof sample, "%s/in", formats[i]);
        check_sample(state, sample, false); /* Python's times are floating-point numbers */
    }
    assert_int_equal(RUN(load(c, at(state, "t.tarUSTAR"), at(state, "USTAR"))), 0);
    assert_string_equal(get_file(at(state, "USTAR/in/file")), "content\n");
}

static void unreadable(void **state) {
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(at(state, "in"), 0755), 0);
    put_file(at(state, "in/secret"), "x", 0600);
    _cleanup_(buf_free) struct buf b = BUF_INIT(ARCHIVE_MAX);
    assert_int_equal(RUN_AS(NOBODY, wire_tar_out(c, at(state, "in"), ARCHIVE_MAX, wire_sink_buf, &b,
                                                 &totals, &err)),
                     -CAY_FORBIDDEN);
    assert_non_null(strstr(err.message, "in/secret"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(clean_paths),    CASE(decode_encoded), CASE(pax_records),
        CASE(escapes),        CASE(absolute_names), CASE(devices_and_set_id),
        CASE(damaged),        CASE(many_tiny),      CASE(replaces_and_limits),
        CASE(round_trip),     CASE(limited_out),    CASE(gnu_tar),
        CASE(python_tarfile), CASE(unreadable),     CASE(names_of_any_length),
    };
    return cmocka_run_group_tests_name("tar", tests, NULL, NULL);
}
