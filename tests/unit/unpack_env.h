/* What the tests of unpacking share: a folder of their own with a victim beside it, and archives in
 * every form. They need root. Each program includes it once. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/unpack/unpack.h"
#include "tar_make.h"

enum { TAR_MAX = 64 * 1024 * 1024, MB = 1024 * 1024 };

static char folder[] = "/tmp/cay-test-unpack-XXXXXX";
static int top = -1;  /* folder; holds "victim" and "root" */
static int root = -1; /* folder/root */
static struct cay_error err;
static struct unpack_result result;

_unused_ static int set_up(void **state) {
    (void)state;
    memset(folder + sizeof folder - 7, 'X', 6);
    if (mkdtemp(folder) == NULL)
        return -1;
    top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int victim = openat(top, "victim", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (victim < 0 || write(victim, "safe", 4) != 4 || mkdirat(top, "root", 0755) < 0)
        return -1;
    (void)close(victim);
    root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err = (struct cay_error){0};
    return root < 0 ? -1 : 0;
}

/* Whatever was unpacked, beside it nothing has changed. */
_unused_ static int tear_down(void **state) {
    (void)state;
    struct stat st;
    char text[8] = "";
    int names = 0;
    DIR *d = opendir(folder);
    while (d != NULL && readdir(d) != NULL)
        names++;
    (void)closedir(d);
    bool safe = fd_read_file_at(top, "victim", text, sizeof text) == 4 && str_equal(text, "safe") &&
                fstatat(top, "victim", &st, 0) == 0 && st.st_nlink == 1 && names == 4;
    (void)close(root);
    (void)close(top);
    return path_remove_tree(AT_FDCWD, folder) == 0 && safe ? 0 : -1;
}

/* ---- helpers ---- */

_unused_ static int unpack_bytes(const void *data, size_t len, const struct unpack_limits *limits) {
    int fd = memfd_create("layer", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
    (void)lseek(fd, 0, SEEK_SET);
    int r = unpack_layer(fd, root, limits, NULL, NULL, &result, &err);
    (void)close(fd);
    return r;
}

_unused_ static int unpack_buf(struct buf *b, const struct unpack_limits *limits) {
    assert_false(b->failed);
    int r = unpack_bytes(b->data, b->len, limits);
    buf_free(b);
    return r;
}

_unused_ static void unpack_ok(const struct tar_entry *entries, size_t count) {
    struct buf b = BUF_INIT(TAR_MAX);
    for (size_t i = 0; i < count; i++)
        tar_add(&b, &entries[i]);
    tar_end(&b);
    if (unpack_buf(&b, NULL) < 0)
        fail_msg("%s", err.message);
}
#define UNPACK(...)                                                                                \
    do {                                                                                           \
        const struct tar_entry _entries[] = {__VA_ARGS__};                                         \
        unpack_ok(_entries, ARRAY_LEN(_entries));                                                  \
    } while (0)

_unused_ static void assert_text(const char *path, const char *expected) {
    char text[256] = "";
    assert_true(fd_read_file_at(root, path, text, sizeof text) >= 0);
    assert_string_equal(text, expected);
}

_unused_ static void assert_absent(const char *path) {
    struct stat st;
    assert_int_equal(fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(errno, ENOENT);
}

_unused_ static struct stat stat_of(const char *path) {
    struct stat st;
    if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("%s is missing", path);
    return st;
}

#define TEXT(path, text)                                                                           \
    { .name = (path), .type = '0', .data = (text) }
#define FOLDER(path)                                                                               \
    { .name = (path), .type = '5' }
#define SYMLINK(path, target)                                                                      \
    { .name = (path), .type = '2', .link = (target) }
#define LINK(path, target)                                                                         \
    { .name = (path), .type = '1', .link = (target) }

/* ---- archives ---- */

_unused_ static struct buf sample(void) {
    struct buf b = BUF_INIT(TAR_MAX);
    for (int i = 0; i < 200; i++) {
        char name[32], text[128];
        (void)snprintf(name, sizeof name, "dir%d/file%d", i % 7, i);
        (void)snprintf(text, sizeof text, "content %d of a file that compresses well", i);
        tar_add(&b, &(struct tar_entry)TEXT(name, text));
    }
    tar_end(&b);
    for (int i = 0; i < 16; i++) /* padding, which is hashed too */
        tar_end(&b);
    return b;
}

_unused_ static struct buf gzipped(const void *data, size_t len) {
    struct buf b = BUF_INIT(TAR_MAX);
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, len) + 64;
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (unsigned)len;
    z.next_out = (unsigned char *)buf_reserve(&b, room);
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_commit(&b, room - z.avail_out);
    (void)deflateEnd(&z);
    return b;
}

_unused_ static struct buf zstd_of(const void *data, size_t len) {
    struct buf b = BUF_INIT(TAR_MAX);
    size_t room = ZSTD_compressBound(len);
    size_t n = ZSTD_compress(buf_reserve(&b, room), room, data, len, 3);
    assert_false(ZSTD_isError(n));
    buf_commit(&b, n);
    return b;
}

_unused_ static void assert_refused(int r, enum cay_code code, const char *why) {
    assert_int_equal(r, -(int)code);
    assert_int_equal(err.code, code);
    if (strstr(err.message, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, why);
    for (const char *p = err.message; *p != '\0'; p++)
        assert_true((unsigned char)*p >= ' ');
    assert_true(err.remedy[0] != '\0');
}
