#include "daemon/helpers/places.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/holder.h"
#include "base/id.h"
#include "base/path.h"

enum {
    FINISHING_MS = 15 * 1000, /* what a front is given to finish, and some more */
    COPY_STEP = 1 << 20,
};

/* ---- folders ---- */

static int make_own(const struct settings *s, int state, struct cay_error *err) {
    if (mkdirat(state, "daemon", 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making %s/daemon", s->state_dir);
    _cleanup_(closep) int dir =
        openat(state, "daemon", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, "opening %s/daemon", s->state_dir);
    if (fchmod(dir, 0700) < 0 || fchdir(dir) < 0)
        return error_errno(err, "entering %s/daemon", s->state_dir);
    return 0;
}

int places_make(const struct settings *s, struct cay_error *err) {
    _cleanup_(closep) int state = open(s->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return error_errno(err, "opening %s", s->state_dir);
    return make_own(s, state, err);
}

/* ---- files ---- */

/* The folder is the front's, which must not make root write to a file of another. */
static int open_own(const char *name, int flags, struct cay_error *err) {
    _cleanup_(closep) int fd = open(name, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, "opening %s in the daemon's folder", name);
    if (!S_ISREG(st.st_mode) || st.st_nlink > 1) {
        error_set(err, CAY_FORBIDDEN, "%s in the daemon's folder is no file of its own", name);
        return error_remedy(err, "remove it");
    }
    return TAKE_FD(fd);
}

/* 0 if nobody is named who lives and means to go on. */
static pid_t holder(int lock) {
    struct holder found = holder_read(lock);
    return found.is_ending ? 0 : found.pid;
}

static int refuse_lock(int lock, struct cay_error *err) {
    pid_t pid = holder(lock);
    if (pid == 0) {
        error_set(err, CAY_CONFLICT, "a daemon that is ending still uses this state folder");
        return error_remedy(err, "try again in a moment, or name another folder with --state-dir");
    }
    error_set(err, CAY_CONFLICT, "a daemon uses this state folder already (process %d)", (int)pid);
    return error_remedy(
        err, "use that one, stop it with 'cay daemon stop' (sandboxes keep running), or name "
             "another folder with --state-dir");
}

int places_lock(struct cay_error *err) {
    _cleanup_(closep) int lock = open_own("lock", O_RDWR, err);
    if (lock < 0)
        return lock;
    int64_t deadline = clock_deadline(FINISHING_MS);
    while (flock(lock, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return error_errno(err, "locking the daemon's folder");
        if (holder(lock) != 0 || clock_expired(deadline))
            return refuse_lock(lock, err);
        (void)usleep(20 * 1000);
    }
    char text[32];
    int len = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(lock, 0) < 0 || pwrite(lock, text, (size_t)len, 0) != len)
        return error_errno(err, "writing to the daemon's lock");
    return TAKE_FD(lock);
}

void places_lock_renew(int lock) {
    (void)futimens(lock, NULL); /* else whoever waits gives up after a while */
}

void places_lock_ending(int lock) {
    struct stat st;
    if (fstat(lock, &st) == 0) /* else the next daemon is refused and not kept waiting */
        (void)!pwrite(lock, HOLDER_ENDING, strlen(HOLDER_ENDING), st.st_size);
}

int places_log_to_file(struct cay_error *err) {
    _cleanup_(closep) int file = open_own("log", O_RDWR | O_APPEND, err);
    if (file < 0)
        return file;
    _cleanup_(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(file, STDERR_FILENO) < 0)
        return error_errno(err, "leaving the terminal");
    return 0;
}

static int copy_all(int from, int to) {
    off_t at = 0;
    ssize_t n;
    do
        n = sendfile(to, from, &at, COPY_STEP);
    while (n > 0);
    return n < 0 ? -errno : 0;
}

static int keep_old(int log, struct cay_error *err) {
    _cleanup_(closep) int old = open_own("log.1", O_WRONLY, err);
    if (old < 0)
        return old;
    int r = ftruncate(old, 0) < 0 ? -errno : copy_all(log, old);
    return r < 0 ? error_sys(err, -r, "writing log.1 in the daemon's folder") : 0;
}

int places_rotate_log(int log, int64_t max_bytes, struct cay_error *err) {
    struct stat st;
    if (fstat(log, &st) < 0)
        return error_errno(err, "looking at the log");
    if (st.st_size <= max_bytes)
        return 0;
    int r = keep_old(log, err);
    if (ftruncate(log, 0) < 0 && r == 0) /* also if it is lost: a log without end is worse */
        r = error_errno(err, "beginning the log anew");
    return r;
}

/* ---- the key ---- */

static int make_key(const char *path, struct cay_error *err) {
    unsigned char random[32];
    char text[ADMIN_KEY_SIZE] = "cay_", work[PATH_MAX];
    int r = id_random(random, sizeof random);
    if (r < 0)
        return error_sys(err, -r, "making a key");
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(text + 4 + 2 * i, 3, "%02x", random[i]);
    if (str_format(work, sizeof work, "%s.new", path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the state folder's path is too long");
    (void)unlink(work);
    _cleanup_(closep) int fd = open(work, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "making %s", work);
    r = fd_write_all(fd, text, strlen(text));
    if (r == 0)
        r = fd_write_all(fd, "\n", 1);
    if (r < 0)
        return error_sys(err, -r, "writing %s", work);
    if (fsync(fd) < 0 || rename(work, path) < 0)
        return error_errno(err, "making %s", path);
    return 0;
}

static int check_key(const char *path, const char *key, struct cay_error *err) {
    struct stat st;
    if (lstat(path, &st) < 0)
        return error_errno(err, "reading %s", path);
    const char *why = NULL;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        why = "others can read or change it";
    else if (strlen(key) < 32)
        why = "it is shorter than 32 characters";
    if (why == NULL)
        return 0;
    error_set(err, CAY_FORBIDDEN, "the key in %s is not used: %s", path, why);
    return error_remedy(err, "remove the file; a new key is made at the next start");
}

int places_read_key(struct settings *s, struct cay_error *err) {
    char path[PATH_MAX];
    if (path_join(path, sizeof path, s->state_dir, "admin.key") < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the state folder's path is too long");
    if (access(path, F_OK) < 0) {
        int r = make_key(path, err);
        if (r < 0)
            return r;
    }
    ssize_t n = fd_read_file_at(AT_FDCWD, path, s->key, sizeof s->key);
    return n < 0 ? error_sys(err, (int)-n, "reading %s", path) : check_key(path, s->key, err);
}
