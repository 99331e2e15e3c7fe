/* Tests of base/path.c, in a folder of their own. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

static char folder[] = "/tmp/cay-test-path-XXXXXX";
static int outer = -1; /* folder */
static int top = -1;   /* folder/top, whose outside is folder/secret */

static void make_file(int dir, const char *name) {
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* top/{file,dir/inner,links to all sorts of places}, secret beside it. */
static int make_tree(void **state) {
    (void)state;
    static const struct {
        const char *target, *name;
    } links[] = {
        {"file", "to-file"},
        {"dir", "to-dir"},
        {"../secret", "to-parent"},
        {"/etc/passwd", "to-absolute"},
        {"/file", "to-root-file"},
        {"loop", "loop"},
        {"/proc/self/root", "to-magic"},
        {"dir/../../secret", "to-mixed"},
        {"absent", "dangling"},
    };
    memset(folder + sizeof folder - 7, 'X', 6); /* it is made twice */
    if (mkdtemp(folder) == NULL)
        return -1;
    outer = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_file(outer, "secret");
    if (mkdirat(outer, "top", 0755) < 0)
        return -1;
    top = openat(outer, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_file(top, "file");
    if (mkdirat(top, "dir", 0755) < 0)
        return -1;
    make_file(top, "dir/inner");
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, top, links[i].name) < 0)
            return -1;
    return 0;
}

static int remove_tree(void **state) {
    (void)state;
    (void)close(top);
    (void)close(outer);
    return path_remove_tree(AT_FDCWD, folder);
}

/* ---- opening ---- */

static void walks(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int beneath, in_root, no_symlinks; /* 0: opens */
    } cases[] = {
        {"file", 0, 0, 0},
        {"dir/inner", 0, 0, 0},
        {"dir/../file", 0, 0, 0},
        {"./dir//inner", 0, 0, 0},
        {"to-file", 0, 0, -ELOOP},
        {"to-dir/inner", 0, 0, -ELOOP},
        {"/file", -EXDEV, 0, 0},
        {"../secret", -EXDEV, -ENOENT, -ENOENT},
        {"dir/../../secret", -EXDEV, -ENOENT, -ENOENT},
        {"../../../../etc/passwd", -EXDEV, -ENOENT, -ENOENT},
        {"../file", -EXDEV, 0, 0},
        {"to-parent", -EXDEV, -ENOENT, -ELOOP},
        {"to-mixed", -EXDEV, -ENOENT, -ELOOP},
        {"to-absolute", -EXDEV, -ENOENT, -ELOOP},
        {"to-root-file", -EXDEV, 0, -ELOOP},
        {"to-magic", -EXDEV, -ENOENT, -ELOOP},
        {"loop", -ELOOP, -ELOOP, -ELOOP},
        {"absent", -ENOENT, -ENOENT, -ENOENT},
        {"file/x", -ENOTDIR, -ENOTDIR, -ENOTDIR},
        {"", -ENOENT, -ENOENT, -ENOENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const int expect[] = {cases[i].beneath, cases[i].in_root, cases[i].no_symlinks};
        int got[] = {path_open_beneath(top, cases[i].path, O_RDONLY, 0),
                     path_open_in_root(top, cases[i].path, O_RDONLY, 0),
                     path_open_no_symlinks(top, cases[i].path, O_RDONLY, 0)};
        for (size_t j = 0; j < 3; j++) {
            if (MIN(got[j], 0) != expect[j])
                fail_msg("'%s' by way %zu: %d", cases[i].path, j, got[j]);
            if (got[j] >= 0)
                assert_true((fcntl(got[j], F_GETFD) & FD_CLOEXEC) != 0);
            fd_close(&got[j]);
        }
    }
}

/* The links of /proc lead anywhere without being looked up: all three refuse them. */
static void magic_links(void **state) {
    (void)state;
    _cleanup_(closep) int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(proc >= 0);
    static const char *const names[] = {"cwd", "exe", "root", "fd/0", "root/etc"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(path_open_beneath(proc, names[i], O_PATH, 0) < 0);
        assert_true(path_open_in_root(proc, names[i], O_PATH, 0) < 0);
        assert_true(path_open_no_symlinks(proc, names[i], O_RDONLY, 0) < 0);
    }
}

static void open_flags(void **state) {
    (void)state;
    int fd = path_open_beneath(top, "new", O_WRONLY | O_CREAT | O_EXCL, 0640);
    assert_true(fd >= 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640 & ~022);
    (void)close(fd);
    assert_int_equal(path_open_beneath(top, "new", O_WRONLY | O_CREAT | O_EXCL, 0640), -EEXIST);
    assert_int_equal(path_open_beneath(top, "../new2", O_WRONLY | O_CREAT, 0640), -EXDEV);
    assert_int_equal(path_open_beneath(top, "dangling", O_WRONLY | O_CREAT | O_NOFOLLOW, 0640),
                     -ELOOP);
    /* a mode that has no use is ignored */
    fd = path_open_beneath(top, "dir", O_RDONLY | O_DIRECTORY, 0755);
    assert_true(fd >= 0);
    (void)close(fd);
    fd = path_open_beneath(top, "file", O_RDONLY, 0755);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(unlinkat(top, "new", 0), 0);
}

/* As walks, where the kernel does not do it: the same, or a refusal. */
static void walks_by_steps(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int beneath, in_root; /* the latter with and without symlinks */
    } cases[] = {
        {"file", 0, 0},
        {"dir/inner", 0, 0},
        {"./dir//inner", 0, 0},
        {".", 0, 0},
        {"dir/", 0, 0},
        {"/", -EXDEV, 0},
        {"/file", -EXDEV, 0},
        {"/dir/inner", -EXDEV, 0},
        {"dir/../file", -EXDEV, -EXDEV},
        {"../secret", -EXDEV, -EXDEV},
        {"dir/../../secret", -EXDEV, -EXDEV},
        {"..", -EXDEV, -EXDEV},
        {"to-file", -ELOOP, -ELOOP},
        {"to-dir/inner", -ELOOP, -ELOOP},
        {"to-parent", -ELOOP, -ELOOP},
        {"to-dir/", -ELOOP, -ELOOP},
        {"to-absolute", -ELOOP, -ELOOP},
        {"to-magic/etc", -ELOOP, -ELOOP},
        {"loop", -ELOOP, -ELOOP},
        {"dangling", -ELOOP, -ELOOP},
        {"absent", -ENOENT, -ENOENT},
        {"absent/x", -ENOENT, -ENOENT},
        {"file/x", -ENOTDIR, -ENOTDIR},
        {"file/", -ENOTDIR, -ENOTDIR},
        {"", -ENOENT, -ENOENT},
    };
    static const int flags[] = {O_RDONLY, O_PATH};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const int expect[] = {cases[i].beneath, cases[i].in_root, cases[i].in_root};
        for (size_t k = 0; k < ARRAY_LEN(flags); k++) {
            int got[] = {path_open_beneath(top, cases[i].path, flags[k], 0),
                         path_open_in_root(top, cases[i].path, flags[k], 0),
                         path_open_no_symlinks(top, cases[i].path, flags[k], 0)};
            for (size_t j = 0; j < 3; j++) {
                if (MIN(got[j], 0) != expect[j])
                    fail_msg("'%s' by way %zu: %d", cases[i].path, j, got[j]);
                if (got[j] >= 0)
                    assert_true((fcntl(got[j], F_GETFD) & FD_CLOEXEC) != 0);
                fd_close(&got[j]);
            }
        }
    }
    char name[NAME_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(path_open_beneath(top, name, O_RDONLY, 0), -ENAMETOOLONG);
    assert_int_equal(path_open_no_symlinks(top, "to-dir", O_PATH | O_DIRECTORY, 0), -ELOOP);
    assert_int_equal(path_open_no_symlinks(top, "to-dir", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0),
                     -ENOTDIR);
}

/* ---- making ---- */

static void make_dirs(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int r;
        const char *made; /* exists afterwards */
    } cases[] = {
        {"m/a/b", 0, "m/a/b"},
        {"m/a/b", 0, "m/a/b"},
        {"/m//c/./d/", 0, "m/c/d"},
        {"", 0, "."},
        {".", 0, "."},
        {"m/../../x", -EXDEV, "m"},
        {"..", -EXDEV, "m"},
        {"to-dir/x", -ENOTDIR, "m"},
        {"to-parent/x", -ENOTDIR, "m"},
        {"dangling/x", -ENOTDIR, "m"},
        {"file", -ENOTDIR, "m"},
        {"file/x", -ENOTDIR, "m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = path_make_dirs(top, cases[i].path);
        if (MIN(fd, 0) != cases[i].r)
            fail_msg("'%s': %d", cases[i].path, fd);
        struct stat a, b;
        assert_int_equal(fstatat(top, cases[i].made, &a, 0), 0);
        if (fd >= 0) {
            assert_int_equal(fstat(fd, &b), 0);
            assert_int_equal(a.st_ino, b.st_ino);
        }
        fd_close(&fd);
    }
    assert_int_equal(faccessat(top, "dir/x", F_OK, 0), -1);
    char name[NAME_MAX + 2];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(path_make_dirs(top, name), -ENAMETOOLONG);
    assert_int_equal(path_remove_tree(top, "m"), 0);
}

static void make_dirs_trusted(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int r;
    } cases[] = {
        {"t/a/b", 0},
        {"t/a/b", 0},
        {"t//c///", 0},
        {"to-dir/sub", 0},
        {"file", -CAY_NOT_FOUND},
        {"file/x", -CAY_NOT_FOUND},
        {"dangling/x", -CAY_NOT_FOUND},
        {"to-file", -CAY_NOT_FOUND},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[PATH_MAX];
        struct cay_error err = {0};
        assert_int_equal(str_format(path, sizeof path, "%s/top/%s", folder, cases[i].path), 0);
        if (path_make_dirs_trusted(path, 0700, &err) != cases[i].r)
            fail_msg("'%s': %d %s", cases[i].path, -err.code, err.message);
        struct stat st;
        if (cases[i].r == 0)
            assert_true(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
        else
            assert_non_null(strstr(err.message, cases[i].path));
    }
    struct cay_error err = {0};
    static char longest[PATH_MAX + 10];
    memset(longest, 'a', sizeof longest - 1);
    assert_int_equal(path_make_dirs_trusted(longest, 0700, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(path_make_dirs_trusted("", 0700, &err), -CAY_NOT_FOUND);
    assert_int_equal(path_make_dirs_trusted("/", 0700, &err), 0);
    assert_int_equal(path_remove_tree(top, "t"), 0);
    assert_int_equal(path_remove_tree(top, "dir/sub"), 0);
}

/* ---- removing ---- */

static void remove_does_not_follow(void **state) {
    (void)state;
    assert_int_equal(mkdirat(outer, "kept", 0755), 0);
    make_file(outer, "kept/precious");
    assert_int_equal(mkdirat(outer, "gone", 0755), 0);
    assert_int_equal(mkdirat(outer, "gone/dir", 0755), 0);
    make_file(outer, "gone/dir/.hidden");
    assert_int_equal(symlinkat("../kept", outer, "gone/link"), 0);
    assert_int_equal(symlinkat("../../kept", outer, "gone/dir/link"), 0);
    assert_int_equal(symlinkat("kept", outer, "direct"), 0);
    assert_int_equal(mkfifoat(outer, "gone/fifo", 0600), 0); /* must not be opened */
    assert_int_equal(path_remove_tree(outer, "gone"), 0);
    assert_int_equal(faccessat(outer, "gone", F_OK, 0), -1);
    assert_int_equal(path_remove_tree(outer, "direct"), 0); /* the link itself */
    assert_int_equal(faccessat(outer, "kept/precious", F_OK, 0), 0);
    assert_int_equal(path_remove_tree(outer, "gone"), 0); /* again */
    assert_int_equal(path_remove_tree(outer, "absent/x"), 0);
    assert_int_equal(path_remove_tree(outer, "kept/"), -EINVAL);
    assert_int_equal(path_remove_tree(outer, "kept/precious"), 0); /* a plain file */
    assert_int_equal(path_remove_tree(outer, "kept"), 0);
}

static void remove_wide(void **state) {
    (void)state;
    assert_int_equal(mkdirat(outer, "wide", 0755), 0);
    for (int i = 0; i < 1500; i++) {
        char name[64];
        assert_int_equal(str_format(name, sizeof name, "wide/%d", i), 0);
        if (i % 2 == 0)
            make_file(outer, name);
        else
            assert_int_equal(mkdirat(outer, name, 0755), 0);
    }
    assert_int_equal(path_remove_tree(outer, "wide"), 0);
    assert_int_equal(faccessat(outer, "wide", F_OK, 0), -1);
}

/* A tree deeper than the descriptors that the process may hold, with names in the way. */
static void remove_deep(void **state) {
    (void)state;
    enum { DEPTH = 1000 };
    assert_int_equal(mkdirat(outer, "deep", 0755), 0);
    make_file(outer, "deep/.cay-removed-0");
    assert_int_equal(mkdirat(outer, "deep/.cay-removed-1", 0755), 0);
    make_file(outer, "deep/.cay-removed-1/x");
    int at = openat(outer, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        make_file(at, "f");
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    struct rlimit old, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 300;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int r = path_remove_tree(outer, "deep");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r, 0);
    assert_int_equal(faccessat(outer, "deep", F_OK, 0), -1);
}

enum { NO_NAMESPACE = 77 };

/* As root inside, which an ordinary user may be only in a user namespace. */
static bool enter_mount_namespace(void) {
    char map[32];
    if (unshare(CLONE_NEWNS) < 0) {
        if (str_format(map, sizeof map, "0 %u 1", getuid()) < 0 ||
            unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
            fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map) < 0)
            return false;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* In a mount namespace of its own: neither another device nor a folder of the same one that is
 * mounted in the tree is entered, and the tree itself may not be a mount. */
static int remove_around_mounts(void) {
    if (!enter_mount_namespace() || chdir(folder) < 0)
        return NO_NAMESPACE;
    if (mount("source", "host/bind", NULL, MS_BIND, NULL) < 0 ||
        mount("none", "host/tmp", "tmpfs", 0, NULL) < 0 || mkdir("host/tmp/x", 0755) < 0)
        return NO_NAMESPACE;
    int cwd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (path_remove_tree(cwd, "host") >= 0)
        return 1;
    if (path_remove_tree(cwd, "host/bind") >= 0 || path_remove_tree(cwd, "host/tmp") >= 0)
        return 2;
    return access("source/precious", F_OK) == 0 && access("host/tmp/x", F_OK) == 0 ? 0 : 3;
}

static void remove_stops_at_mounts(void **state) {
    (void)state;
    assert_int_equal(mkdirat(outer, "source", 0755), 0);
    make_file(outer, "source/precious");
    assert_int_equal(mkdirat(outer, "host", 0755), 0);
    assert_int_equal(mkdirat(outer, "host/bind", 0755), 0);
    assert_int_equal(mkdirat(outer, "host/tmp", 0755), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(remove_around_mounts());
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(path_remove_tree(outer, "host"), 0);
    assert_int_equal(path_remove_tree(outer, "source"), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACE) {
        print_message("skipped: no mount namespace here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- names ---- */

static void normalizing(void **state) {
    (void)state;
    static const struct {
        const char *path;
        size_t size;
        const char *out; /* NULL: refused */
    } cases[] = {
        {"/", 64, "/"},
        {"///", 64, "/"},
        {"/.", 64, "/"},
        {"/a/b", 64, "/a/b"},
        {"//a///b//", 64, "/a/b"},
        {"/./a/./b/.", 64, "/a/b"},
        {"/a/...", 64, "/a/..."},
        {"/a/..b", 64, "/a/..b"},
        {"/.hidden", 64, "/.hidden"},
        {"/a", 3, "/a"},
        {"/a", 2, NULL},
        {"/", 2, "/"},
        {"/", 1, NULL},
        {"", 64, NULL},
        {"a", 64, NULL},
        {"./a", 64, NULL},
        {"/..", 64, NULL},
        {"/a/../b", 64, NULL},
        {"/a/..", 64, NULL},
        {"/a\x1b[m/..", 64, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[65];
        memset(out, 'Z', sizeof out);
        struct cay_error err = {0};
        int r = path_normalize("--workdir", cases[i].path, out, cases[i].size, &err);
        if (r != (cases[i].out != NULL ? 0 : -CAY_INVALID_ARGUMENT))
            fail_msg("'%s': %d", cases[i].path, r);
        if (r == 0)
            assert_string_equal(out, cases[i].out);
        else
            assert_true(strstr(err.message, "--workdir") != NULL && err.remedy[0] != '\0');
        assert_null(strchr(err.message, 0x1b));
        assert_int_equal(out[cases[i].size], 'Z');
    }
    char path[NAME_MAX + 3] = "/", out[PATH_MAX];
    memset(path + 1, 'a', NAME_MAX);
    assert_int_equal(path_normalize("x", path, out, sizeof out, NULL), 0);
    path[NAME_MAX + 1] = 'a';
    struct cay_error err;
    assert_int_equal(path_normalize("x", path, out, sizeof out, &err), -CAY_INVALID_ARGUMENT);
}

static void joining(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        size_t size;
        const char *out;
    } cases[] = {
        {"a", "b", 64, "a/b"}, {"a/", "/b", 64, "a/b"}, {"/a//", "//b/c", 64, "/a/b/c"},
        {"/", "b", 64, "/b"},  {"a", "b", 4, "a/b"},    {"a", "b", 3, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[64];
        int r = path_join(out, cases[i].size, cases[i].a, cases[i].b);
        assert_int_equal(r, cases[i].out != NULL ? 0 : -ENAMETOOLONG);
        if (r == 0)
            assert_string_equal(out, cases[i].out);
    }
}

/* As the filter of a sandbox with a writable volume does. */
static int deny_openat2(void) {
    struct sock_filter insns[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = ARRAY_LEN(insns), .filter = insns};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks),
        cmocka_unit_test(magic_links),
        cmocka_unit_test(open_flags),
        cmocka_unit_test(make_dirs),
        cmocka_unit_test(make_dirs_trusted),
        cmocka_unit_test(remove_does_not_follow),
        cmocka_unit_test(remove_wide),
        cmocka_unit_test(remove_deep),
        cmocka_unit_test(remove_stops_at_mounts),
        cmocka_unit_test(normalizing),
        cmocka_unit_test(joining),
    };
    const struct CMUnitTest by_steps[] = {
        cmocka_unit_test(walks_by_steps),
        cmocka_unit_test(magic_links),
        cmocka_unit_test(open_flags),
        cmocka_unit_test(make_dirs),
        cmocka_unit_test(remove_does_not_follow),
        cmocka_unit_test(remove_wide),
        cmocka_unit_test(remove_deep),
        cmocka_unit_test(remove_stops_at_mounts),
    };
    (void)umask(022);
    int failed = cmocka_run_group_tests_name("base_path", tests, make_tree, remove_tree);
    if (deny_openat2() < 0)
        return 1;
    return failed + cmocka_run_group_tests_name("base_path without openat2", by_steps, make_tree,
                                                remove_tree);
}
