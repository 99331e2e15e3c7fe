/* Layers as tars, read back with a reader that is not ours. */
#include "imager/layer/layer_tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "imager/layer/digest.h"

static const struct layer_tar_options AS_IT_IS;

struct tree {
    char path[64];
    int fd;
};

static int make_tree(void **state) {
    struct tree *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_int_equal(str_copy(t->path, sizeof t->path, "/tmp/layer-tar-XXXXXX"), 0);
    assert_non_null(mkdtemp(t->path));
    t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(t->fd >= 0);
    *state = t;
    return 0;
}

static int remove_tree(void **state) {
    struct tree *t = *state;
    assert_int_equal(path_remove_tree(AT_FDCWD, t->path), 0);
    (void)close(t->fd);
    free(t);
    return 0;
}

/* ---- making ---- */

static void put_file(int dir, const char *name, const char *text, mode_t mode) {
    _cleanup_(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    const struct timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 999}, {.tv_sec = 1000}};
    assert_int_equal(futimens(fd, times), 0);
}

static void put_folder(int dir, const char *name) {
    assert_int_equal(mkdirat(dir, name, 0755), 0);
}

static void set_time(int dir, const char *name, int64_t sec) {
    const struct timespec times[2] = {{.tv_sec = sec}, {.tv_sec = sec, .tv_nsec = 123456789}};
    assert_int_equal(utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* ---- writing and reading back ---- */

static int collect(void *user, const void *data, size_t len, struct cay_error *err) {
    struct buf *b = user;
    return buf_append(b, data, len) < 0 ? error_set(err, CAY_INTERNAL, "too large") : 0;
}

static void write_tar(int fs, const struct layer_tar_options *options, struct buf *out,
                      struct layer_tar_result *ret) {
    struct cay_error err = {0};
    char hex[HEX_SIZE];
    if (layer_tar_write(fs, options, collect, out, ret, &err) != 0)
        fail_msg("%s", err.message);
    digest_of(out->data, out->len, hex);
    assert_string_equal(ret->diff_id, hex);
    assert_int_equal(ret->tar_size, out->len);
}

/* One line for each entry: type, mode, time, name, and what it holds. */
static void describe(struct archive *a, struct archive_entry *e, struct buf *out) {
    char content[64] = "";
    const char *link = archive_entry_hardlink(e), *target = archive_entry_symlink(e);
    (void)buf_printf(out, "%s %04o %lld %s", link != NULL ? "link" : "entry",
                     (unsigned)archive_entry_mode(e), (long long)archive_entry_mtime(e),
                     archive_entry_pathname(e));
    if (link != NULL)
        (void)buf_printf(out, " = %s", link);
    if (target != NULL)
        (void)buf_printf(out, " -> %s", target);
    if (archive_entry_filetype(e) == AE_IFREG && link == NULL) {
        la_ssize_t n = archive_read_data(a, content, sizeof content - 1);
        assert_true(n >= 0);
        (void)buf_printf(out, " '%s'", content);
    }
    const char *name;
    const void *value;
    size_t size;
    (void)archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK)
        (void)buf_printf(out, " %s[%zu]", name, size);
    assert_int_equal(archive_entry_mtime_nsec(e), 0);
    assert_true(archive_entry_uname(e) == NULL || archive_entry_uname(e)[0] == '\0');
    assert_int_equal(buf_putc(out, '\n'), 0);
}

static void read_tar(const struct buf *tar, struct buf *out) {
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    int r;
    assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
    assert_int_equal(archive_read_open_memory(a, tar->data, tar->len), ARCHIVE_OK);
    while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK)
        describe(a, e, out);
    if (r != ARCHIVE_EOF)
        fail_msg("%s", archive_error_string(a));
    (void)archive_read_free(a);
}

static void expect_tar(const struct tree *t, const struct layer_tar_options *options,
                       const char *expected) {
    _cleanup_(buf_free) struct buf tar = BUF_INIT(1024 * 1024), text = BUF_INIT(64 * 1024);
    struct layer_tar_result result;
    write_tar(t->fd, options, &tar, &result);
    read_tar(&tar, &text);
    assert_string_equal(buf_text(&text), expected);
}

/* ---- tests ---- */

static void test_empty(void **state) {
    const struct tree *t = *state;
    _cleanup_(buf_free) struct buf tar = BUF_INIT(1024 * 1024);
    struct layer_tar_result result;
    write_tar(t->fd, &AS_IT_IS, &tar, &result);
    assert_int_equal(tar.len, 1024);
    assert_int_equal(result.entries, 0);
    /* the digest of the well-known empty layer */
    assert_string_equal(result.diff_id,
                        "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef");
}

static void test_every_kind(void **state) {
    const struct tree *t = *state;
    put_folder(t->fd, "b");
    put_file(t->fd, "b/file", "hello", 04751);
    put_file(t->fd, "b-after", "", 0600);
    assert_int_equal(symlinkat("/etc/../x", t->fd, "a"), 0);
    set_time(t->fd, "a", 5);
    assert_int_equal(linkat(t->fd, "b/file", t->fd, "b/z", 0), 0);
    assert_int_equal(linkat(t->fd, "b/file", t->fd, "c", 0), 0);
    assert_int_equal(mkfifoat(t->fd, "fifo", 0644), 0);
    set_time(t->fd, "fifo", 7);
    assert_int_equal(mknodat(t->fd, "b/gone", S_IFCHR, makedev(0, 0)), 0);
    assert_int_equal(linkat(t->fd, "b/gone", t->fd, "gone", 0), 0); /* as overlayfs does it */
    set_time(t->fd, "b", -3);
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(str_format(address.sun_path, sizeof address.sun_path, "%s/sock", t->path), 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    expect_tar(t, &AS_IT_IS,
               "entry 120777 5 a -> /etc/../x\n"
               "entry 40755 -3 b/\n"
               "entry 104751 1000 b/file 'hello'\n"
               "entry 100000 0 b/.wh.gone ''\n"
               "link 4751 1000 b/z = b/file\n"
               "entry 100600 1000 b-after ''\n"
               "link 4751 1000 c = b/file\n"
               "entry 10644 7 fifo\n"
               "entry 100000 0 .wh.gone ''\n");
}

static void test_names_that_mean_deletion(void **state) {
    const struct tree *t = *state;
    struct layer_tar_result result;
    struct cay_error err = {0};
    put_file(t->fd, ".wh.x", "", 0644);
    assert_int_equal(layer_tar_write(t->fd, &AS_IT_IS, NULL, NULL, &result, &err),
                     -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'.wh.x'"));
    expect_tar(t, &(struct layer_tar_options){.merged = true}, "entry 100644 1000 .wh.x ''\n");
}

static void test_times(void **state) {
    const struct tree *t = *state;
    put_file(t->fd, "early", "", 0644);
    put_file(t->fd, "late", "", 0644);
    set_time(t->fd, "late", 5000);
    expect_tar(t, &(struct layer_tar_options){.mtime_max = 2000},
               "entry 100644 1000 early ''\nentry 100644 2000 late ''\n");
}

/* Names around the 100 bytes of a field, and far beyond. */
static void test_long_names(void **state) {
    static const size_t lengths[] = {99, 100, 101, 155, 255};
    const struct tree *t = *state;
    _cleanup_(buf_free) struct buf expected = BUF_INIT(64 * 1024);
    char name[256], target[1024];
    memset(target, 't', sizeof target);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        memset(name, 'n', sizeof name);
        name[lengths[i]] = '\0';
        put_file(t->fd, name, "x", 0644);
        assert_int_equal(buf_printf(&expected, "entry 100644 1000 %s 'x'\n", name), 0);
    }
    target[1000] = '\0';
    assert_int_equal(symlinkat(target, t->fd, "o"), 0);
    set_time(t->fd, "o", 9);
    assert_int_equal(buf_printf(&expected, "entry 120777 9 o -> %s\n", target), 0);
    assert_int_equal(linkat(t->fd, name, t->fd, "p", 0), 0);
    assert_int_equal(buf_printf(&expected, "link 0644 1000 p = %s\n", name), 0);
    expect_tar(t, &AS_IT_IS, buf_text(&expected));
}

static void test_deep_path(void **state) {
    const struct tree *t = *state;
    _cleanup_(buf_free) struct buf expected = BUF_INIT(256 * 1024), path = BUF_INIT(PATH_MAX);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(buf_puts(&path, "folder-of-a-name"), 0);
        put_folder(t->fd, path.data);
        assert_int_equal(buf_putc(&path, '/'), 0);
        assert_int_equal(buf_printf(&expected, "entry 40755 8 %s\n", path.data), 0);
    }
    for (size_t len = path.len; len > 0; len -= 17) {
        path.data[len - 1] = '\0';
        set_time(t->fd, path.data, 8);
    }
    expect_tar(t, &AS_IT_IS, buf_text(&expected));
}

static void test_too_deep(void **state) {
    const struct tree *t = *state;
    struct layer_tar_result result;
    struct cay_error err = {0};
    _cleanup_(closep) int at = dup(t->fd);
    for (int i = 0; i < 600; i++) {
        put_folder(at, "d");
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(at);
        at = next;
    }
    assert_int_equal(layer_tar_write(t->fd, &AS_IT_IS, NULL, NULL, &result, &err), -CAY_CONFLICT);
}

static void test_attributes(void **state) {
    const struct tree *t = *state;
    put_file(t->fd, "f", "", 0644);
    put_folder(t->fd, "g");
    _cleanup_(closep) int file = openat(t->fd, "f", O_RDONLY | O_CLOEXEC);
    _cleanup_(closep) int folder = openat(t->fd, "g", O_RDONLY | O_CLOEXEC);
    if (fsetxattr(file, "user.b", "1\0\n3", 4, 0) < 0)
        skip(); /* not on every file system */
    assert_int_equal(fsetxattr(file, "user.a", "", 0, 0), 0);
    assert_int_equal(fsetxattr(file, "user.overlay.origin", "x", 1, 0), 0);
    assert_int_equal(fsetxattr(file, "user.a=b", "x", 1, 0), 0);
    assert_int_equal(fsetxattr(folder, "user.overlay.opaque", "y", 1, 0), 0);
    if (geteuid() == 0)
        assert_int_equal(fsetxattr(folder, "trusted.overlay.opaque", "y", 1, 0), 0);
    assert_int_equal(fsetxattr(folder, "user.dir", "value", 5, 0), 0);
    set_time(t->fd, "g", 1);
    /* the reader lists them backwards */
    expect_tar(t, &AS_IT_IS,
               "entry 100644 1000 f '' user.b[4] user.a[0]\n"
               "entry 40755 1 g/ user.dir[5]\n");
}

static void test_same_bytes(void **state) {
    const struct tree *t = *state;
    struct tree *other;
    assert_int_equal(make_tree((void **)&other), 0);
    static const char *const names[] = {"zeta", "Alpha", "beta", "0", "\xff\xfe", "ü"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        put_file(t->fd, names[i], names[i], 0644);
        const char *back = names[ARRAY_LEN(names) - 1 - i];
        put_file(other->fd, back, back, 0644);
    }
    _cleanup_(buf_free) struct buf a = BUF_INIT(1024 * 1024), b = BUF_INIT(1024 * 1024);
    struct layer_tar_result first, second;
    write_tar(t->fd, &AS_IT_IS, &a, &first);
    write_tar(other->fd, &AS_IT_IS, &b, &second);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    assert_string_equal(first.diff_id, second.diff_id);
    assert_int_equal(remove_tree((void **)&other), 0);
}

static void test_large_sparse_file(void **state) {
    const struct tree *t = *state;
    struct layer_tar_result result;
    struct cay_error err = {0};
    put_file(t->fd, "bomb", "", 0644);
    _cleanup_(closep) int fd = openat(t->fd, "bomb", O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)1 << 43), 0);
    assert_int_equal(layer_tar_write(t->fd, &AS_IT_IS, NULL, NULL, &result, &err),
                     -CAY_LIMIT_REACHED);
    assert_int_equal(ftruncate(fd, 3 * 1024 * 1024 + 1), 0);
    assert_int_equal(layer_tar_write(t->fd, &AS_IT_IS, NULL, NULL, &result, &err), 0);
    assert_int_equal(result.bytes, 3 * 1024 * 1024 + 1);
    assert_int_equal(result.tar_size, 512 + 3 * 1024 * 1024 + 512 + 1024);
}

/* Cuts or lengthens the file while the tar is on its way. */
struct meddler {
    int fd;
    off_t size;
};

static int meddle(void *user, const void *data _unused_, size_t len _unused_,
                  struct cay_error *err _unused_) {
    const struct meddler *m = user;
    return ftruncate(m->fd, m->size);
}

static void test_file_that_changes(void **state) {
    const struct tree *t = *state;
    static const off_t sizes[] = {0, 600 * 1024, 900 * 1024};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct layer_tar_result result;
        struct cay_error err = {0};
        (void)unlinkat(t->fd, "f", 0);
        put_file(t->fd, "f", "", 0644);
        _cleanup_(closep) int fd = openat(t->fd, "f", O_RDWR | O_CLOEXEC);
        struct meddler m = {.fd = fd, .size = sizes[i]};
        assert_int_equal(ftruncate(fd, 700 * 1024), 0);
        assert_int_equal(layer_tar_write(t->fd, &AS_IT_IS, meddle, &m, &result, &err),
                         -CAY_CONFLICT);
        assert_non_null(strstr(err.message, "'f'"));
    }
}

static void test_sink_that_refuses(void **state) {
    const struct tree *t = *state;
    struct layer_tar_result result;
    struct cay_error err = {0};
    _cleanup_(closep) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    put_file(t->fd, "f", "x", 0644);
    assert_true(layer_tar_write(t->fd, &AS_IT_IS, tar_sink_fd, &full, &result, &err) < 0);
    assert_int_equal(err.sys, ENOSPC);
}

static void test_owners(void **state) {
    const struct tree *t = *state;
    put_file(t->fd, "f", "", 0644);
    if (fchownat(t->fd, "f", 3000000000U, 70000, 0) < 0)
        skip(); /* not root */
    _cleanup_(buf_free) struct buf tar = BUF_INIT(64 * 1024);
    struct layer_tar_result result;
    write_tar(t->fd, &AS_IT_IS, &tar, &result);
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
    assert_int_equal(archive_read_open_memory(a, tar.data, tar.len), ARCHIVE_OK);
    assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_OK);
    assert_int_equal(archive_entry_uid(e), 3000000000U);
    assert_int_equal(archive_entry_gid(e), 70000);
    (void)archive_read_free(a);
}

#define IN_TREE(f) cmocka_unit_test_setup_teardown(f, make_tree, remove_tree)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TREE(test_empty),
        IN_TREE(test_every_kind),
        IN_TREE(test_names_that_mean_deletion),
        IN_TREE(test_times),
        IN_TREE(test_long_names),
        IN_TREE(test_deep_path),
        IN_TREE(test_too_deep),
        IN_TREE(test_attributes),
        IN_TREE(test_same_bytes),
        IN_TREE(test_large_sparse_file),
        IN_TREE(test_file_that_changes),
        IN_TREE(test_sink_that_refuses),
        IN_TREE(test_owners),
    };
    return cmocka_run_group_tests_name("layer_tar", tests, NULL, NULL);
}
