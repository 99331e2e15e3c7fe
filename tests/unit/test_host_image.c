/* Tests of the host image: what its root holds, what it must never hold, reuse, concurrency and
 * what a killed builder leaves. Most run on a made-up host below a temporary folder. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "image/copy_tree.h"
#include "image/host.h"

#define SECRET "MARKER-OF-THE-HOST"

struct place {
    char root[64];  /* all of it */
    char host[80];  /* the made-up host's "/" */
    char state[80]; /* the state folder */
};

static void join(char out[static PATH_MAX], const char *a, const char *b) {
    assert_int_equal(path_join(out, PATH_MAX, a, b), 0);
}

/* Writes a file below base, making its folders. */
static void put(const char *base, const char *path, const char *content) {
    char full[PATH_MAX];
    join(full, base, path);
    char *slash = strrchr(full, '/');
    *slash = '\0';
    assert_int_equal(path_make_dirs_trusted(full, 0755, NULL), 0);
    *slash = '/';
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content)), 0);
    assert_int_equal(fchmod(fd, 0644), 0);
    (void)close(fd);
}

static void put_link(const char *base, const char *path, const char *target) {
    char full[PATH_MAX];
    join(full, base, path);
    assert_int_equal(symlink(target, full), 0);
}

static void set_mode(const char *base, const char *path, mode_t mode) {
    char full[PATH_MAX];
    join(full, base, path);
    assert_int_equal(chmod(full, mode), 0);
}

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(str_copy(p->root, sizeof p->root, "/tmp/cay-host-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(p->root));
    assert_int_equal(chmod(p->root, 0755), 0);
    assert_int_equal(str_format(p->host, sizeof p->host, "%s/host", p->root), 0);
    assert_int_equal(str_format(p->state, sizeof p->state, "%s/state", p->root), 0);
    assert_int_equal(mkdir(p->state, 0755), 0);
    put(p->host, "usr/bin/bash", "");
    put(p->host, "usr/local/bin/site-tool", "");
    put(p->host, "etc/services", "http 80/tcp\n");
    put_link(p->host, "bin", "usr/bin");
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    int r = path_remove_tree(AT_FDCWD, p->root);
    free(p);
    return r;
}

static struct host_image open_image(const struct place *p) {
    struct host_image image = HOST_IMAGE_NONE;
    struct cay_error err = {0};
    int r = host_image_open_from(p->host, p->state, &image, &err);
    if (r < 0)
        fail_msg("%s", err.message);
    return image;
}

static bool exists(const struct host_image *image, const char *path) {
    struct stat st;
    return fstatat(image->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static const char *content(const struct host_image *image, const char *path) {
    static char text[16384];
    if (fd_read_file_at(image->root_fd, path, text, sizeof text) < 0)
        fail_msg("cannot read %s", path);
    return text;
}

static const char *target(const struct host_image *image, const char *path) {
    static char text[PATH_MAX];
    ssize_t n = readlinkat(image->root_fd, path, text, sizeof text - 1);
    if (n < 0)
        fail_msg("no link %s", path);
    text[n] = '\0';
    return text;
}

/* How many entries the store has; ret_images counts finished images among them. */
static size_t count_store(const struct place *p, size_t *ret_images) {
    char path[PATH_MAX];
    join(path, p->state, "images/host");
    DIR *d = opendir(path);
    assert_non_null(d);
    size_t all = 0;
    *ret_images = 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        all += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
        *ret_images += id_is_valid(e->d_name);
    }
    (void)closedir(d);
    return all;
}

/* One image and the build lock, nothing else. */
static void assert_store_is_clean(const struct place *p, size_t images) {
    size_t found = 0;
    assert_int_equal(count_store(p, &found), images + 1);
    assert_int_equal(found, images);
}

static int check_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    if (st->st_uid != geteuid() || st->st_gid != getegid())
        fail_msg("%s is not ours", path);
    if ((st->st_mode & (S_ISUID | S_ISGID)) != 0)
        fail_msg("%s is set-id", path);
    if (type == FTW_D) {
        bool open =
            str_ends(path, "/tmp") || str_ends(path, "/workspace") || str_ends(path, "/home/user");
        mode_t want = open ? 01777 : str_ends(path, "/rootfs/root") ? 0700 : 0755;
        if ((st->st_mode & 07777) != want)
            fail_msg("%s has mode %o", path, st->st_mode & 07777);
    } else if (type == FTW_F) {
        if (!S_ISREG(st->st_mode))
            fail_msg("%s is no plain file", path);
        struct buf b = BUF_INIT(8 << 20);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fd_read_to_end(fd, &b), 0);
        if (b.len > 0 && memmem(b.data, b.len, SECRET, strlen(SECRET)) != NULL)
            fail_msg("%s shows the host", path);
        (void)close(fd);
        buf_free(&b);
    } else if (type == FTW_SL) {
        char text[PATH_MAX];
        ssize_t n = readlink(path, text, sizeof text);
        if (n < 0 || memmem(text, (size_t)n, SECRET, strlen(SECRET)) != NULL)
            fail_msg("link %s shows the host", path);
    }
    return 0;
}

/* Every entry: owner, mode, kind, and not a byte of what the made-up host marks as its own. */
static void assert_tree_is_clean(const struct place *p, const struct host_image *image) {
    char path[PATH_MAX];
    assert_int_equal(
        str_format(path, sizeof path, "%s/images/host/%s/rootfs", p->state, image->fingerprint), 0);
    assert_int_equal(nftw(path, check_entry, 32, FTW_PHYS), 0);
}

static void real_host(void **state) {
    const struct place *p = *state;
    struct host_image image = HOST_IMAGE_NONE;
    struct cay_error err = {0};
    mode_t old = umask(077); /* modes must not depend on it */
    int r = host_image_open(p->state, &image, &err);
    umask(old);
    if (r < 0)
        fail_msg("%s", err.message);
    static const char *const present[] = {
        "usr",
        "dev",
        "proc",
        "tmp",
        "run",
        "var/tmp",
        "var/log",
        "var/lib",
        "etc/group",
        "root",
        "home/user",
        "workspace",
        "etc/shells",
        "etc/hosts",
        "etc/host.conf",
        "etc/mtab",
        "etc/hostname",
        "etc/timezone",
        "etc/profile",
        "opt",
        "srv",
        "mnt",
        "media",
        "var/cache/fontconfig",
        "etc/ssl/certs",
        "etc/bash.bashrc",
        "etc/os-release",
        "etc/resolv.conf",
    };
    for (size_t i = 0; i < ARRAY_LEN(present); i++)
        if (!exists(&image, present[i]))
            fail_msg("%s is missing", present[i]);
    static const char *const absent[] = {
        "etc/fstab",  "etc/ssh",     "etc/ssl/private", "etc/apt",        "etc/pip.conf",
        "etc/npmrc",  "etc/docker",  "etc/sudoers",     "etc/gitconfig",  "etc/crontab",
        "etc/subuid", "sys",         "etc/environment", "etc/containers", "etc/cron.d",
        "boot",       "etc/gshadow", "etc/skel",
    };
    for (size_t i = 0; i < ARRAY_LEN(absent); i++)
        if (exists(&image, absent[i]))
            fail_msg("%s must not be there", absent[i]);
    assert_string_equal(image.binds[0].source, "/usr");
    assert_string_equal(content(&image, "etc/machine-id"), "");
    assert_tree_is_clean(p, &image);
    host_image_close(&image);
}

static void accounts(void **state) {
    const struct place *p = *state;
    struct host_image image = open_image(p);
    assert_string_equal(content(&image, "etc/passwd"),
                        "root:x:0:0:root:/root:/bin/bash\n"
                        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                        "user:x:1000:1000:user:/home/user:/bin/bash\n"
                        "cay:x:65533:65533:cay:/nonexistent:/usr/sbin/nologin\n"
                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin");
    struct stat st;
    assert_int_equal(fstatat(image.root_fd, "etc/shadow", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_true(str_starts(content(&image, "etc/shadow"), "root:*:"));
    assert_string_equal(content(&image, "etc/shells"), "/bin/bash\n/usr/bin/bash");
    assert_string_equal(target(&image, "etc/localtime"), "/usr/share/zoneinfo/Etc/UTC");
    host_image_close(&image);
}

static void shell_falls_back(void **state) {
    const struct place *p = *state;
    char path[PATH_MAX];
    join(path, p->host, "usr/bin/bash");
    assert_int_equal(unlink(path), 0);
    struct host_image image = open_image(p);
    assert_true(str_starts(content(&image, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n"));
    host_image_close(&image);
}

/* Files of the host that must not be seen, in part or whole. */
static const char *const secrets[] = {
    "etc/shadow",
    "etc/passwd",
    "etc/group",
    "etc/hosts",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/machine-id",
    "etc/fstab",
    "etc/ssh/ssh_host_key",
    "etc/ssl/private/site.key",
    "etc/ssl/certs/ca-certificates.crt",
    "etc/ssl/certs/site.pem",
    "etc/apt/auth.conf",
    "etc/apt/sources.list",
    "etc/pip.conf",
    "etc/npmrc",
    "etc/gitconfig",
    "etc/environment",
    "etc/docker/daemon.json",
    "etc/containers/auth.json",
    "etc/crontab",
    "etc/sudoers",
    "etc/subuid",
    "etc/profile",
    "etc/profile.d/site.sh",
    "etc/bash.bashrc",
    "etc/mailname",
    "etc/krb5.conf",
    "etc/nsswitch.conf",
    "etc/host.conf",
    "etc/timezone",
    "etc/localtime",
    "etc/shells",
    "usr/share/ca-certificates/site/private.crt",
    "usr/local/etc/x",
    "root/.netrc",
    "home/somebody/x",
    "var/lib/x",
    "opt/x",
    "srv/x",
    "run/x",
};

static void nothing_of_the_host(void **state) {
    const struct place *p = *state;
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        put(p->host, secrets[i], SECRET "\n");
    put(p->host, "etc/fonts/private.conf", SECRET "\n");
    set_mode(p->host, "etc/fonts/private.conf", 0640);
    put(p->host, "etc/fonts/hidden/x.conf", SECRET "\n");
    set_mode(p->host, "etc/fonts/hidden", 0700);
    put_link(p->host, "etc/fonts/outside.conf", "/root/" SECRET);
    put_link(p->host, "etc/inputrc", "/root/.netrc");
    struct host_image image = open_image(p);
    assert_tree_is_clean(p, &image);
    assert_false(exists(&image, "etc/fonts/private.conf"));
    assert_false(exists(&image, "etc/fonts/hidden"));
    assert_false(exists(&image, "etc/inputrc"));
    assert_string_equal(content(&image, "etc/services"), "http 80/tcp");
    host_image_close(&image);
}

/* A font folder with one of each: what is copied, and what a limit or a rule leaves out. */
static void make_odd_fonts(const struct place *p) {
    char path[PATH_MAX];
    put(p->host, "etc/fonts/plain.conf", "x\n");
    put(p->host, "etc/fonts/setid.conf", "x\n");
    set_mode(p->host, "etc/fonts/setid.conf", 06755);
    put(p->host, "etc/fonts/large.conf", "");
    put(p->host, "etc/fonts/largest.conf", "");
    join(path, p->host, "etc/fonts/large.conf");
    assert_int_equal(truncate(path, COPY_FILE_MAX + 1), 0);
    join(path, p->host, "etc/fonts/largest.conf");
    assert_int_equal(truncate(path, COPY_FILE_MAX), 0);
    put(p->host, "etc/fonts/2/3/4/5/6/7/8/deep.conf", "x\n");
    put(p->host, "etc/fonts/2/3/4/5/6/7/8/9/deeper.conf", "x\n");
    join(path, p->host, "etc/fonts/fifo");
    assert_int_equal(mkfifo(path, 0666), 0);
    put_link(p->host, "etc/fonts/relative.conf", "../fonts/plain.conf");
    put_link(p->host, "etc/fonts/usr.conf", "/usr/share/x.conf");
    put_link(p->host, "etc/fonts/etc.conf", "/etc/fonts/plain.conf");
    put_link(p->host, "etc/fonts/home.conf", "/home/x");
}

static void copies_are_bounded(void **state) {
    const struct place *p = *state;
    make_odd_fonts(p);
    struct host_image image = open_image(p);
    static const struct {
        const char *path;
        bool copied;
    } cases[] = {
        {"etc/fonts/plain.conf", true},
        {"etc/fonts/setid.conf", true},
        {"etc/fonts/large.conf", false},
        {"etc/fonts/largest.conf", true},
        {"etc/fonts/fifo", false},
        {"etc/fonts/relative.conf", true},
        {"etc/fonts/usr.conf", true},
        {"etc/fonts/etc.conf", true},
        {"etc/fonts/home.conf", false},
        {"etc/fonts/2/3/4/5/6/7/8/deep.conf", true},
        {"etc/fonts/2/3/4/5/6/7/8/9/deeper.conf", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (exists(&image, cases[i].path) != cases[i].copied)
            fail_msg("%s: copied is not %d", cases[i].path, cases[i].copied);
    assert_tree_is_clean(p, &image);
    host_image_close(&image);
}

static void too_many_entries(void **state) {
    const struct place *p = *state;
    char name[64];
    put(p->host, "etc/alternatives/README", "x\n");
    for (int i = 0; i < COPY_ENTRIES_MAX + 50; i++) {
        assert_int_equal(str_format(name, sizeof name, "etc/alternatives/tool%d", i), 0);
        put_link(p->host, name, "/usr/bin/tool");
    }
    struct host_image image = open_image(p);
    int fd = openat(image.root_fd, "etc/alternatives", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fdopendir(fd);
    assert_non_null(d);
    int count = 0;
    while (readdir(d) != NULL)
        count++;
    (void)closedir(d);
    assert_in_range(count, COPY_ENTRIES_MAX - 10, COPY_ENTRIES_MAX + 2);
    host_image_close(&image);
}

static void alternatives(void **state) {
    const struct place *p = *state;
    static const struct {
        const char *name, *target;
        bool copied;
    } cases[] = {
        {"awk", "/usr/bin/mawk", true},
        {"site", "/usr/local/bin/site", false},
        {"opt", "/opt/tool", false},
        {"source", "/usr/src/tool", false},
        {"escape", "/usr/../root/tool", false},
        {"relative", "../../usr/bin/x", false},
        {"awk.1.gz", "/usr/share/man/man1/mawk.1.gz", false},
    };
    put(p->host, "etc/alternatives/README", "x\n");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[PATH_MAX];
        join(path, "etc/alternatives", cases[i].name);
        put_link(p->host, path, cases[i].target);
    }
    struct host_image image = open_image(p);
    assert_false(exists(&image, "etc/alternatives/README"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[PATH_MAX];
        join(path, "etc/alternatives", cases[i].name);
        if (exists(&image, path) != cases[i].copied)
            fail_msg("%s: copied is not %d", cases[i].name, cases[i].copied);
    }
    assert_string_equal(target(&image, "etc/alternatives/awk"), "/usr/bin/mawk");
    host_image_close(&image);
}

static void certificates(void **state) {
    const struct place *p = *state;
    put(p->host, "usr/share/ca-certificates/mozilla/b.crt", "second\n");
    put(p->host, "usr/share/ca-certificates/mozilla/a.crt", "first");
    put(p->host, "usr/share/ca-certificates/mozilla/readme", SECRET);
    put_link(p->host, "usr/share/ca-certificates/mozilla/c.crt", "../site.crt");
    put(p->host, "usr/share/ca-certificates/site.crt", SECRET);
    struct host_image image = open_image(p);
    assert_string_equal(content(&image, "etc/ssl/certs/ca-certificates.crt"), "first\nsecond");
    host_image_close(&image);
}

static void mounts(void **state) {
    const struct place *p = *state;
    put(p->host, "lib/libc.so", "");
    put(p->host, "usr/etc/npmrc", SECRET);
    put_link(p->host, "lib64", "usr/lib64");
    struct host_image image = open_image(p);
    assert_int_equal(image.bind_count, 2);
    assert_string_equal(image.binds[0].target, "/usr");
    assert_string_equal(image.binds[1].source, "/lib");
    assert_string_equal(image.binds[1].target, "/lib");
    assert_string_equal(target(&image, "bin"), "usr/bin");
    assert_string_equal(target(&image, "lib64"), "usr/lib64");
    assert_false(exists(&image, "sbin"));
    assert_false(exists(&image, "lib/libc.so")); /* bound, not copied */
    assert_int_equal(image.mask_count, 2);       /* there is no /usr/src to mask */
    assert_string_equal(image.masks[0].path, "/usr/local");
    assert_true(image.masks[0].writable);
    assert_string_equal(image.masks[1].path, "/usr/etc");
    assert_false(image.masks[1].writable);
    host_image_close(&image);
}

static void second_open_reuses(void **state) {
    const struct place *p = *state;
    struct host_image first = open_image(p), second = open_image(p);
    struct stat a, b;
    assert_int_equal(fstat(first.root_fd, &a), 0);
    assert_int_equal(fstat(second.root_fd, &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_string_equal(first.fingerprint, second.fingerprint);
    assert_true((fcntl(first.root_fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(first.lock_fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_store_is_clean(p, 1);
    host_image_close(&first);
    host_image_close(&second);
    host_image_close(&second); /* harmless */
}

/* Makes an image look unused for two days. */
static void age(const struct place *p, const char *fingerprint) {
    char path[PATH_MAX];
    assert_int_equal(str_format(path, sizeof path, "%s/images/host/%s/lock", p->state, fingerprint),
                     0);
    time_t then = time(NULL) - (time_t)2 * 24 * 3600;
    const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void changed_host(void **state) {
    const struct place *p = *state;
    struct host_image first = open_image(p);
    put(p->host, "etc/services", "http 8080/tcp\n");
    struct host_image second = open_image(p);
    assert_string_not_equal(first.fingerprint, second.fingerprint);
    assert_string_equal(content(&first, "etc/services"), "http 80/tcp");
    assert_string_equal(content(&second, "etc/services"), "http 8080/tcp");
    host_image_close(&first);
    host_image_close(&second);
}

/* Of three unused images the young one stays, the old one goes, and the old but open one stays. */
static void old_images_go(void **state) {
    const struct place *p = *state;
    struct host_image open = open_image(p);
    put(p->host, "etc/services", "old\n");
    struct host_image old = open_image(p);
    put(p->host, "etc/services", "young, and longer\n");
    struct host_image young = open_image(p);
    host_image_close(&old);
    host_image_close(&young);
    age(p, open.fingerprint);
    age(p, old.fingerprint);
    put_link(p->host, "lib32", "usr/lib32");
    struct host_image last = open_image(p);
    assert_store_is_clean(p, 3);
    assert_string_equal(content(&open, "etc/services"), "http 80/tcp");
    const struct host_image *kept[] = {&open, &young, &last};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        char path[PATH_MAX];
        assert_int_equal(str_format(path, sizeof path, "%s/images/host/%s/rootfs/etc", p->state,
                                    kept[i]->fingerprint),
                         0);
        assert_int_equal(access(path, F_OK), 0);
    }
    host_image_close(&open);
    host_image_close(&last);
}

static void use_keeps_it_young(void **state) {
    const struct place *p = *state;
    struct host_image image = open_image(p);
    age(p, image.fingerprint);
    host_image_close(&image);
    image = open_image(p);
    struct stat st;
    assert_int_equal(fstat(image.lock_fd, &st), 0);
    assert_in_range(st.st_mtime, time(NULL) - 60, time(NULL) + 60);
    host_image_close(&image);
}

static void concurrent_opens(void **state) {
    const struct place *p = *state;
    enum { PROCESSES = 8 };
    pid_t pids[PROCESSES];
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0)
            continue;
        struct host_image image = HOST_IMAGE_NONE;
        struct stat st = {0};
        if (host_image_open_from(p->host, p->state, &image, NULL) < 0)
            _exit(1);
        (void)fstat(image.root_fd, &st);
        _exit(fd_write_all(pipes[1], &st.st_ino, sizeof st.st_ino) < 0);
    }
    ino_t inodes[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        assert_int_equal(fd_read_all(pipes[0], &inodes[i], sizeof inodes[i]), 1);
        assert_int_equal(inodes[i], inodes[0]);
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    assert_store_is_clean(p, 1);
}

static void leftovers_are_removed(void **state) {
    const struct place *p = *state;
    put(p->state, "images/host/.new/rootfs/etc/half", "x");
    put(p->state, "images/host/.old/rootfs/etc/half", "x");
    struct host_image image = open_image(p);
    assert_false(exists(&image, "etc/half"));
    assert_store_is_clean(p, 1);
    host_image_close(&image);
}

/* Kills a builder at many points; whatever it leaves, the next open is whole. */
static void killed_builder(void **state) {
    const struct place *p = *state;
    put(p->host, "etc/fonts/a.conf", "a\n");
    for (long delay = 0; delay < 40; delay++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct host_image image;
            _exit(host_image_open_from(p->host, p->state, &image, NULL) < 0);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = delay * 100000}, NULL);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        struct host_image image = open_image(p);
        assert_string_equal(content(&image, "etc/fonts/a.conf"), "a");
        assert_true(exists(&image, "etc/passwd"));
        assert_store_is_clean(p, 1);
        host_image_close(&image);
        char path[PATH_MAX];
        join(path, p->state, "images");
        assert_int_equal(path_remove_tree(AT_FDCWD, path), 0);
    }
}

static void damaged_image_is_made_again(void **state) {
    const struct place *p = *state;
    struct host_image image = open_image(p);
    char path[PATH_MAX];
    assert_int_equal(
        str_format(path, sizeof path, "%s/images/host/%s/rootfs", p->state, image.fingerprint), 0);
    host_image_close(&image);
    assert_int_equal(path_remove_tree(AT_FDCWD, path), 0);
    image = open_image(p);
    assert_true(exists(&image, "etc/passwd"));
    assert_store_is_clean(p, 1);
    host_image_close(&image);
}

static void missing_state_folder(void **state) {
    const struct place *p = *state;
    char path[PATH_MAX];
    join(path, p->root, "nowhere");
    struct host_image image = HOST_IMAGE_NONE;
    struct cay_error err = {0};
    assert_int_equal(host_image_open_from(p->host, path, &image, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.remedy, "--state-dir"));
    assert_int_equal(image.root_fd, -1);
}

/* In a child that is not root, since root may write everywhere. Returns its exit status. */
static int open_as_nobody(const struct place *p) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct host_image image = HOST_IMAGE_NONE;
        struct cay_error err = {0};
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(2);
        int r = host_image_open_from(p->host, p->state, &image, &err);
        _exit(r == -CAY_FORBIDDEN && strstr(err.message, p->state) != NULL &&
                      strstr(err.remedy, "--state-dir") != NULL
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void read_only_state_folder(void **state) {
    const struct place *p = *state;
    assert_int_equal(chmod(p->state, 0555), 0);
    assert_int_equal(open_as_nobody(p), 0);
    assert_int_equal(chmod(p->state, 0755), 0);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(real_host),
        CASE(accounts),
        CASE(shell_falls_back),
        CASE(nothing_of_the_host),
        CASE(copies_are_bounded),
        CASE(too_many_entries),
        CASE(alternatives),
        CASE(certificates),
        CASE(mounts),
        CASE(second_open_reuses),
        CASE(changed_host),
        CASE(old_images_go),
        CASE(use_keeps_it_young),
        CASE(concurrent_opens),
        CASE(leftovers_are_removed),
        CASE(killed_builder),
        CASE(damaged_image_is_made_again),
        CASE(missing_state_folder),
        CASE(read_only_state_folder),
    };
    return cmocka_run_group_tests_name("host_image", tests, NULL, NULL);
}
