/* The file operations of cay-init through the host's client: stat, list, read, write, mkdir, move,
 * remove, chmod, chown, dial. */
#include "init_harness.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

static struct cay_error err;

/* ---- stat and list ---- */

static void stat_kinds(void **state) {
    struct wire_file f;
    char target[PATH_MAX];
    put_file(at(state, "file"), "12345", 0640);
    assert_int_equal(symlink("file", at(state, "link")), 0);
    assert_int_equal(RUN(wire_stat(c, at(state, "file"), false, &f, target, &err)), 0);
    assert_true(S_ISREG(f.mode));
    assert_int_equal(f.mode & 07777, 0640);
    assert_int_equal(f.size, 5);
    assert_null(f.target);
    assert_true(llabs(f.mtime_ms - clock_wall_ms()) < 60000);
    assert_int_equal(RUN(wire_stat(c, at(state, "link"), false, &f, target, &err)), 0);
    assert_true(S_ISLNK(f.mode));
    assert_string_equal(f.target, "file");
    assert_int_equal(RUN(wire_stat(c, at(state, "link"), true, &f, target, &err)), 0);
    assert_true(S_ISREG(f.mode));
    assert_int_equal(RUN(wire_stat(c, at(state, "none"), false, &f, target, &err)), -CAY_NOT_FOUND);
    assert_int_equal(err.sys, ENOENT);
    assert_true(err.remedy[0] != '\0');
    assert_int_equal(RUN(wire_stat(c, "", false, &f, target, &err)), -CAY_INVALID_ARGUMENT);
}

static void stat_before_1970(void **state) {
    struct wire_file f;
    char target[PATH_MAX];
    const struct timespec times[2] = {{.tv_sec = -2, .tv_nsec = 500000000},
                                      {.tv_sec = -2, .tv_nsec = 500000000}};
    put_file(at(state, "old"), "", 0644);
    assert_int_equal(utimensat(AT_FDCWD, at(state, "old"), times, 0), 0);
    assert_int_equal(RUN(wire_stat(c, at(state, "old"), false, &f, target, &err)), 0);
    assert_int_equal(f.mtime_ms, -1500);
}

struct seen {
    int count;
    char names[64][64];
    char targets[64][64];
    uint64_t sizes[64];
};

static int note(void *arg, const struct wire_file *f, struct cay_error *e) {
    (void)e;
    struct seen *s = arg;
    (void)snprintf(s->names[s->count], sizeof s->names[0], "%s", f->path);
    (void)snprintf(s->targets[s->count], sizeof s->targets[0], "%s",
                   f->target != NULL ? f->target : "");
    s->sizes[s->count++] = f->size;
    return 0;
}

static int find_seen(const struct seen *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return i;
    return -1;
}

static void list_folder(void **state) {
    bool truncated;
    put_file(at(state, "one"), "1", 0644);
    put_file(at(state, ".hidden"), "22", 0644);
    put_file(at(state, "new\nline"), "", 0644);
    assert_int_equal(symlink("/nowhere", at(state, "dangling")), 0);
    assert_int_equal(mkdir(at(state, "sub"), 0755), 0);
    struct seen s = {0};
    assert_int_equal(RUN(wire_list(c, *state, 100, note, &s, &truncated, &err)), 0);
    assert_int_equal(s.count, 5);
    assert_false(truncated);
    assert_int_equal(s.sizes[find_seen(&s, ".hidden")], 2);
    assert_true(find_seen(&s, "new\nline") >= 0);
    assert_string_equal(s.targets[find_seen(&s, "dangling")], "/nowhere");

    s.count = 0;
    assert_int_equal(RUN(wire_list(c, *state, 5, note, &s, &truncated, &err)), 0);
    assert_false(truncated); /* exactly as many as allowed */
    s.count = 0;
    assert_int_equal(RUN(wire_list(c, *state, 4, note, &s, &truncated, &err)), 0);
    assert_true(truncated);
    assert_int_equal(s.count, 4);
    s.count = 0;
    assert_int_equal(RUN(wire_list(c, at(state, "sub"), 4, note, &s, &truncated, &err)), 0);
    assert_int_equal(s.count, 0);
    assert_int_equal(RUN(wire_list(c, at(state, "one"), 4, note, &s, &truncated, &err)),
                     -CAY_NOT_FOUND);
    assert_int_equal(err.sys, ENOTDIR);
}

static void relative_paths(void **state) {
    struct wire_file f;
    char target[PATH_MAX];
    put_file(at(state, "file"), "1", 0644);
    struct harness h;
    harness_open(&h, 0);
    h.call.cwd = *state;
    assert_int_equal(wire_stat(&h.call, "file", false, &f, target, &err), 0);
    harness_close(&h);
    assert_int_equal(RUN(wire_stat(c, "etc/passwd", true, &f, target, &err)), 0); /* home is / */
}

/* ---- read ---- */

static int read_all(const struct wire_call *c, const char *path, uint64_t offset, uint64_t limit,
                    uint64_t max, struct buf *b) {
    uint64_t size = 0;
    struct wire_range range = {.offset = offset, .limit = limit, .max_bytes = max};
    int r = wire_read(c, path, &range, wire_sink_buf, b, &size, &err);
    assert_true(r < 0 || size == b->len);
    return r;
}

static void read_ranges(void **state) {
    const char *path = at(state, "file");
    put_file(path, "0123456789", 0644);
    static const struct {
        uint64_t offset, limit;
        const char *expected;
    } cases[] = {
        {0, 0, "0123456789"}, {0, 3, "012"}, {4, 3, "456"},
        {8, 10, "89"},        {10, 0, ""},   {1000, 5, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(100);
        assert_int_equal(RUN(read_all(c, path, cases[i].offset, cases[i].limit, 100, &b)), 0);
        assert_string_equal(buf_text(&b), cases[i].expected);
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(100);
    assert_int_equal(RUN(read_all(c, path, UINT64_MAX, 0, 100, &b)), -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(read_all(c, path, 0, 0, 9, &b)), -CAY_LIMIT_REACHED);
}

static void read_large(void **state) {
    enum { SIZE = 3 * 1024 * 1024 + 17 };
    _cleanup_(freep) char *data = malloc(SIZE);
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 31 >> 3);
    struct wire_memory m = {.data = data, .len = SIZE};
    const char *path = at(state, "large");
    assert_int_equal(RUN(wire_write(c, path, -1, false, wire_source_memory, &m, &err)), 0);
    _cleanup_(buf_free) struct buf b = BUF_INIT(SIZE);
    assert_int_equal(RUN(read_all(c, path, 0, 0, SIZE, &b)), 0);
    assert_int_equal(b.len, SIZE);
    assert_memory_equal(b.data, data, SIZE);
}

static void read_refusals(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(100);
    assert_int_equal(mkfifo(at(state, "fifo"), 0666), 0);
    assert_int_equal(RUN(read_all(c, at(state, "fifo"), 0, 0, 100, &b)), -CAY_CONFLICT);
    assert_int_equal(RUN(read_all(c, *state, 0, 0, 100, &b)), -CAY_CONFLICT);
    assert_int_equal(err.sys, EISDIR);
    assert_int_equal(RUN(read_all(c, "/dev/zero", 0, 0, 100, &b)), -CAY_CONFLICT);
    assert_int_equal(mknod(at(state, "socket"), S_IFSOCK | 0666, 0), 0); /* ENXIO */
    assert_int_equal(RUN(read_all(c, at(state, "socket"), 0, 0, 100, &b)), -CAY_CONFLICT);
    assert_int_equal(RUN(read_all(c, at(state, "none"), 0, 0, 100, &b)), -CAY_NOT_FOUND);
    if (geteuid() != 0)
        return;
    put_file(at(state, "secret"), "x", 0600);
    assert_int_equal(RUN_AS(NOBODY, read_all(c, at(state, "secret"), 0, 0, 100, &b)),
                     -CAY_FORBIDDEN);
}

/* ---- write ---- */

static void write_new_and_old(void **state) {
    const char *path = at(state, "file");
    assert_int_equal(RUN(write_text(c, path, "first", -1, false, &err)), 0);
    assert_string_equal(get_file(path), "first");
    assert_int_equal(mode_of(path), 0644);
    assert_int_equal(chmod(path, 0751), 0);
    assert_int_equal(RUN(write_text(c, path, "x", 0600, false, &err)), 0);
    assert_string_equal(get_file(path), "x");
    assert_int_equal(mode_of(path), 0751); /* an existing file keeps its mode */
    assert_int_equal(RUN(write_text(c, at(state, "empty"), "", 0604, false, &err)), 0);
    assert_int_equal(mode_of(at(state, "empty")), 0604);
    assert_int_equal(count_names(*state), 2); /* no temporary is left */
}

static void write_parents(void **state) {
    const char *path = at(state, "a/b/c");
    assert_int_equal(RUN(write_text(c, path, "x", -1, false, &err)), -CAY_NOT_FOUND);
    assert_int_equal(RUN(write_text(c, path, "x", -1, true, &err)), 0);
    assert_string_equal(get_file(path), "x");
    assert_int_equal(mode_of(at(state, "a/b")), 0755);
    assert_int_equal(RUN(write_text(c, at(state, "a/b/c/d"), "x", -1, true, &err)), -CAY_NOT_FOUND);
    assert_int_equal(err.sys, ENOTDIR);
}

static void write_through_links(void **state) {
    put_file(at(state, "real"), "old", 0644);
    assert_int_equal(mkdir(at(state, "sub"), 0755), 0);
    assert_int_equal(symlink("../real", at(state, "sub/link")), 0);
    assert_int_equal(symlink("sub/link", at(state, "chain")), 0);
    assert_int_equal(symlink("fresh", at(state, "dangling")), 0);
    assert_int_equal(symlink("loop", at(state, "loop")), 0);
    assert_int_equal(RUN(write_text(c, at(state, "chain"), "new", -1, false, &err)), 0);
    assert_string_equal(get_file(at(state, "real")), "new");
    struct stat st;
    assert_int_equal(lstat(at(state, "chain"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(RUN(write_text(c, at(state, "dangling"), "made", -1, false, &err)), 0);
    assert_string_equal(get_file(at(state, "fresh")), "made");
    assert_int_equal(RUN(write_text(c, at(state, "loop"), "x", -1, false, &err)),
                     -CAY_INVALID_ARGUMENT);
    assert_int_equal(err.sys, ELOOP);
}

static void write_refusals(void **state) {
    assert_int_equal(mkdir(at(state, "dir"), 0755), 0);
    assert_int_equal(mkfifo(at(state, "fifo"), 0666), 0);
    assert_int_equal(RUN(write_text(c, at(state, "dir"), "x", -1, false, &err)), -CAY_CONFLICT);
    assert_int_equal(err.sys, EISDIR);
    assert_int_equal(RUN(write_text(c, at(state, "dir/"), "x", -1, false, &err)), -CAY_CONFLICT);
    assert_int_equal(RUN(write_text(c, at(state, "fifo"), "x", -1, false, &err)), -CAY_CONFLICT);
    assert_int_equal(RUN(write_text(c, "/", "x", -1, false, &err)), -CAY_CONFLICT);
    if (geteuid() != 0)
        return;
    assert_int_equal(RUN_AS(NOBODY, write_text(c, at(state, "dir/x"), "x", -1, false, &err)),
                     -CAY_FORBIDDEN);
    put_file(at(state, "readonly"), "kept", 0644);
    assert_int_equal(RUN_AS(NOBODY, write_text(c, at(state, "readonly"), "x", -1, false, &err)),
                     -CAY_FORBIDDEN);
    assert_string_equal(get_file(at(state, "readonly")), "kept");
}

/* A file may be writable in a folder that is not: then it is written in place. */
static void write_in_place(void **state) {
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(at(state, "dir"), 0755), 0);
    put_file(at(state, "dir/file"), "a longer text", 0666);
    assert_int_equal(RUN_AS(NOBODY, write_text(c, at(state, "dir/file"), "new", -1, false, &err)),
                     0);
    assert_string_equal(get_file(at(state, "dir/file")), "new");
}

static ssize_t fail_late(void *arg, char *data, size_t size, struct cay_error *e) {
    int *calls = arg;
    if ((*calls)++ == 2)
        return error_set(e, CAY_CONFLICT, "the source broke");
    memset(data, 'x', size);
    return (ssize_t)size;
}

static void write_that_breaks_off(void **state) {
    const char *path = at(state, "file");
    put_file(path, "old", 0644);
    int calls = 0;
    assert_int_equal(RUN(wire_write(c, path, -1, false, fail_late, &calls, &err)), -CAY_CONFLICT);
    assert_string_equal(err.message, "the source broke");
    assert_string_equal(get_file(path), "old");
    assert_int_equal(count_names(*state), 1);
}

static ssize_t endless(void *arg, char *data, size_t size, struct cay_error *e) {
    (void)arg;
    (void)e;
    memset(data, 'x', size);
    return (ssize_t)size;
}

static void write_to_full_disk(void **state) {
    const char *dir = at(state, "disk");
    assert_int_equal(mkdir(dir, 0755), 0);
    /* in a mount namespace of our own, so that nothing is left behind if the test fails */
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0) {
        print_message("skipped: no tmpfs can be mounted here\n");
        skip();
    }
    put_file(at(state, "disk/file"), "old", 0644);
    int r = RUN(wire_write(c, at(state, "disk/file"), -1, false, endless, NULL, &err));
    char kept[16];
    (void)snprintf(kept, sizeof kept, "%s", get_file(at(state, "disk/file")));
    int names = count_names(dir);
    assert_int_equal(umount(dir), 0);
    assert_int_equal(r, -CAY_RESOURCE_EXHAUSTED);
    assert_int_equal(err.sys, ENOSPC);
    assert_string_equal(kept, "old");
    assert_int_equal(names, 1);
}

/* ---- mkdir, move, remove ---- */

static void make_folders(void **state) {
    assert_int_equal(RUN(wire_mkdir(c, at(state, "a/b"), 0755, false, &err)), -CAY_NOT_FOUND);
    assert_int_equal(RUN(wire_mkdir(c, at(state, "a/b"), 01777, true, &err)), 0);
    assert_int_equal(mode_of(at(state, "a")), 0755);
    assert_int_equal(mode_of(at(state, "a/b")), 01777);
    assert_int_equal(RUN(wire_mkdir(c, at(state, "a/b"), 0700, true, &err)), 0);
    assert_int_equal(mode_of(at(state, "a/b")), 01777);
    assert_int_equal(RUN(wire_mkdir(c, at(state, "a"), -1, false, &err)), -CAY_CONFLICT);
    put_file(at(state, "file"), "", 0644);
    assert_int_equal(RUN(wire_mkdir(c, at(state, "file"), -1, true, &err)), -CAY_CONFLICT);
    assert_int_equal(RUN(wire_mkdir(c, at(state, "d/"), -1, true, &err)), 0);
    assert_int_equal(RUN(wire_mkdir(c, "/", -1, true, &err)), 0);
}

static void move_things(void **state) {
    put_file(at(state, "a"), "a", 0644);
    assert_int_equal(mkdir(at(state, "dir"), 0755), 0);
    assert_int_equal(RUN(wire_move(c, at(state, "a"), at(state, "b"), &err)), 0);
    assert_string_equal(get_file(at(state, "b")), "a");
    assert_int_equal(RUN(wire_move(c, at(state, "b"), at(state, "dir"), &err)), 0);
    assert_string_equal(get_file(at(state, "dir/b")), "a");
    assert_int_equal(RUN(wire_move(c, at(state, "gone"), at(state, "x"), &err)), -CAY_NOT_FOUND);
    assert_int_equal(RUN(wire_move(c, at(state, "dir"), at(state, "dir/in"), &err)),
                     -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(wire_move(c, at(state, "dir"), at(state, "no/dir"), &err)),
                     -CAY_NOT_FOUND);
    assert_int_equal(mkdir(at(state, "other"), 0755), 0);
    assert_int_equal(mkdir(at(state, "other/dir"), 0755), 0);
    put_file(at(state, "other/dir/full"), "", 0644);
    assert_int_equal(RUN(wire_move(c, at(state, "dir"), at(state, "other"), &err)), -CAY_CONFLICT);
    assert_string_equal(get_file(at(state, "dir/b")), "a");
}

/* /tmp is another file system than the test folder wherever /dev/shm is as usual. */
static void move_across(void **state) {
    char other[] = "/tmp/cay-init-XXXXXX";
    struct stat a, b;
    if (mkdtemp(other) == NULL || stat(other, &a) < 0 || stat(*state, &b) < 0 ||
        a.st_dev == b.st_dev) {
        print_message("skipped: no second file system\n");
        (void)rmdir(other);
        skip();
    }
    void *there = other;
    const struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 1000000000, .tv_nsec = 123456789}};
    assert_int_equal(mkdir(at(state, "tree"), 0755), 0);
    assert_int_equal(mkdir(at(state, "tree/sub"), 0710), 0);
    put_file(at(state, "tree/sub/file"), "content", 0604);
    put_file(at(state, "tree/setid"), "", 0644);
    assert_int_equal(chmod(at(state, "tree/setid"), 06711), 0);
    assert_int_equal(utimensat(AT_FDCWD, at(state, "tree/sub/file"), times, 0), 0);
    assert_int_equal(symlink("sub/file", at(state, "tree/link")), 0);
    assert_int_equal(mkfifo(at(state, "tree/fifo"), 0600), 0);
    int r = RUN(wire_move(c, at(state, "tree"), at(&there, "moved"), &err));
    assert_int_equal(r, 0);
    assert_true(is_missing(at(state, "tree")));
    assert_string_equal(get_file(at(&there, "moved/link")), "content");
    assert_int_equal(mode_of(at(&there, "moved/sub")), 0710);
    assert_int_equal(mode_of(at(&there, "moved/setid")), 0711);
    assert_int_equal(stat(at(&there, "moved/sub/file"), &a), 0);
    assert_int_equal(a.st_mode & 07777, 0604);
    assert_int_equal(a.st_mtim.tv_nsec, 123456789);
    assert_int_equal(count_names(other), 1);
    assert_int_equal(RUN(wire_remove(c, other, true, &err)), 0);
}

static void remove_things(void **state) {
    put_file(at(state, "file"), "", 0644);
    assert_int_equal(mkdir(at(state, "outside"), 0755), 0);
    put_file(at(state, "outside/kept"), "kept", 0644);
    assert_int_equal(mkdir(at(state, "dir"), 0755), 0);
    assert_int_equal(symlink("../outside", at(state, "dir/link")), 0);
    assert_int_equal(RUN(wire_remove(c, at(state, "file"), false, &err)), 0);
    assert_int_equal(RUN(wire_remove(c, at(state, "file"), false, &err)), -CAY_NOT_FOUND);
    assert_int_equal(RUN(wire_remove(c, at(state, "file"), true, &err)), -CAY_NOT_FOUND);
    assert_int_equal(RUN(wire_remove(c, at(state, "dir"), false, &err)), -CAY_CONFLICT);
    assert_non_null(strstr(err.remedy, "recursive"));
    assert_int_equal(RUN(wire_remove(c, at(state, "dir"), true, &err)), 0);
    assert_string_equal(get_file(at(state, "outside/kept")), "kept");
    assert_int_equal(RUN(wire_remove(c, at(state, "outside/.."), true, &err)),
                     -CAY_INVALID_ARGUMENT);
    assert_int_equal(mkdir(at(state, "empty"), 0755), 0);
    assert_int_equal(RUN(wire_remove(c, at(state, "empty/"), false, &err)), 0);
    assert_true(is_missing(at(state, "empty")));
}

/* ---- chmod and chown ---- */

static void change_modes(void **state) {
    assert_int_equal(mkdir(at(state, "d"), 0755), 0);
    assert_int_equal(mkdir(at(state, "d/e"), 0700), 0);
    put_file(at(state, "d/e/f"), "", 0600);
    put_file(at(state, "outside"), "", 0600);
    assert_int_equal(symlink("../outside", at(state, "d/link")), 0);
    assert_int_equal(RUN(wire_chmod(c, at(state, "d/e/f"), 0641, false, &err)), 0);
    assert_int_equal(mode_of(at(state, "d/e/f")), 0641);
    assert_int_equal(RUN(wire_chmod(c, at(state, "d"), 0777, true, &err)), 0);
    assert_int_equal(mode_of(at(state, "d/e/f")), 0777);
    assert_int_equal(mode_of(at(state, "outside")), 0600); /* the link was not followed */
    assert_int_equal(RUN(wire_chmod(c, at(state, "d"), 010000, false, &err)),
                     -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(wire_chmod(c, at(state, "no"), 0644, true, &err)), -CAY_NOT_FOUND);
    if (geteuid() != 0)
        return;
    assert_int_equal(RUN_AS(NOBODY, wire_chmod(c, at(state, "d"), 0700, true, &err)),
                     -CAY_FORBIDDEN);
    assert_int_equal(RUN(wire_chown(c, at(state, "d"), "65534:65534", true, &err)), 0);
    /* an ordinary owner can close a tree to himself, and open it again */
    assert_int_equal(RUN_AS(NOBODY, wire_chmod(c, at(state, "d"), 0, true, &err)), 0);
    assert_int_equal(mode_of(at(state, "d/e/f")), 0);
    assert_int_equal(RUN_AS(NOBODY, wire_chmod(c, at(state, "d"), 0755, true, &err)), 0);
    assert_int_equal(mode_of(at(state, "d/e/f")), 0755);
}

static void change_owners(void **state) {
    struct stat st;
    const char *path = at(state, "file");
    put_file(path, "", 0644);
    assert_int_equal(RUN(wire_chown(c, path, "", false, &err)), -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(wire_chown(c, path, ":", false, &err)), -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(wire_chown(c, path, "no-such-user", false, &err)), -CAY_NOT_FOUND);
    /* nobody becomes cay-init */
    assert_int_equal(RUN(wire_chown(c, path, "65533", false, &err)), -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(wire_chown(c, path, "065533:0", false, &err)), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.remedy, "another user"));
    assert_int_equal(RUN(wire_chown(c, path, "0:no-such-group", false, &err)), -CAY_NOT_FOUND);
    if (geteuid() != 0)
        skip();
    static const struct {
        const char *owner;
        uid_t uid;
        gid_t gid;
    } cases[] = {{"1234:2345", 1234, 2345}, {":77", 1234, 77}, {"55", 55, 77}, {"root:root", 0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(RUN(wire_chown(c, path, cases[i].owner, i % 2 == 0, &err)), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_uid, cases[i].uid);
        assert_int_equal(st.st_gid, cases[i].gid);
    }
    assert_int_equal(RUN_AS(NOBODY, wire_chown(c, path, "65534", false, &err)), -CAY_FORBIDDEN);
}

/* ---- dial ---- */

static int listen_tcp(uint16_t *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

/* The service hears everything up to our half-close, then answers and ends. */
static void converse(int listener, struct harness *h) {
    char text[64] = "";
    _cleanup_(closep) int service = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(service >= 0);
    assert_int_equal(fd_write_all(h->call.fd, "hello", 5), 0);
    assert_int_equal(shutdown(h->call.fd, SHUT_WR), 0);
    assert_int_equal(fd_read_all(service, text, 5), 1);
    assert_string_equal(text, "hello");
    assert_int_equal(read(service, text, 1), 0);
    assert_int_equal(fd_write_all(service, "goodbye", 7), 0);
    fd_close(&service);
    assert_int_equal(fd_read_all(h->call.fd, text, 7), 1);
    assert_memory_equal(text, "goodbye", 7);
    assert_int_equal(read(h->call.fd, text, 1), 0);
}

static void dial_services(void **state) {
    struct harness h;
    uint16_t port;
    _cleanup_(closep) int tcp = listen_tcp(&port);
    harness_open(&h, 0);
    assert_int_equal(wire_dial_port(&h.call, port, &err), 0);
    converse(tcp, &h);
    harness_close(&h);

    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", at(state, "socket"));
    _cleanup_(closep) int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(local, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(local, 1), 0);
    harness_open(&h, 0);
    assert_int_equal(wire_dial_path(&h.call, a.sun_path, &err), 0);
    converse(local, &h);
    harness_close(&h);

    fd_close(&tcp);
    assert_int_equal(RUN(wire_dial_port(c, port, &err)), -CAY_UNAVAILABLE);
    assert_int_equal(err.sys, ECONNREFUSED);
    assert_int_equal(RUN(wire_dial_port(c, 0, &err)), -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(wire_dial_path(c, at(state, "none"), &err)), -CAY_NOT_FOUND);
}

/* A service that speaks first and a host that sends before the answer: neither byte is lost. */
static void dial_early_bytes(void **state) {
    (void)state;
    struct harness h;
    uint16_t port;
    char text[16] = "";
    _cleanup_(closep) int tcp = listen_tcp(&port);
    harness_open(&h, 0);
    _cleanup_(buf_free) struct buf b = BUF_INIT(1000);
    wire_call_begin(&h.call, WIRE_OP_DIAL, &b);
    wire_put_number(&b, WIRE_TAG_PORT, port);
    _cleanup_(buf_free) struct buf all = BUF_INIT(2000);
    const unsigned char header[WIRE_HEADER_SIZE] = {(unsigned char)b.len, 0, 0, 0, WIRE_REQUEST};
    (void)buf_append(&all, header, sizeof header);
    (void)buf_append(&all, b.data, b.len);
    (void)buf_puts(&all, "early");
    assert_int_equal(fd_write_all(h.call.fd, all.data, all.len), 0);
    _cleanup_(closep) int service = accept4(tcp, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(fd_read_all(service, text, 5), 1);
    assert_string_equal(text, "early");
    /* the host goes away altogether: the service sees the end although it never wrote */
    fd_close(&h.call.fd);
    assert_int_equal(read(service, text, 1), 0);
    harness_close(&h);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(stat_kinds),          CASE(stat_before_1970),      CASE(list_folder),
        CASE(relative_paths),      CASE(read_ranges),           CASE(read_large),
        CASE(read_refusals),       CASE(write_new_and_old),     CASE(write_parents),
        CASE(write_through_links), CASE(write_refusals),        CASE(write_in_place),
        CASE(write_to_full_disk),  CASE(write_that_breaks_off), CASE(make_folders),
        CASE(move_things),         CASE(move_across),           CASE(remove_things),
        CASE(change_modes),        CASE(change_owners),         CASE(dial_services),
        CASE(dial_early_bytes),
    };
    return cmocka_run_group_tests_name("init_files", tests, NULL, NULL);
}
