#include "engine/disk/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

#define CONTROL "/dev/loop-control"

enum {
    WAIT_MS = 5000, /* for one that is just being attached or let go */
    TRIES_MAX = 64, /* others take free devices too */
    PATH_SIZE = 64,
};

static int no_devices(struct cay_error *err, int sys, const char *path) {
    (void)error_sys(err, sys, "opening %s", path);
    if (err != NULL)
        err->code = CAY_UNSUPPORTED;
    (void)error_remedy(err, "the kernel needs loop devices (modprobe loop); in a container, pass "
                            "/dev/loop-control and /dev/loop* to it");
    return -CAY_UNSUPPORTED;
}

int loop_probe(struct cay_error *err) {
    _cleanup_(closep) int control = open(CONTROL, O_RDWR | O_CLOEXEC);
    return control < 0 ? no_devices(err, errno, CONTROL) : 0;
}

static void pause_ms(long ms) {
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000 * 1000}, NULL);
}

/* ---- one that is attached ---- */

static bool is_of(int loop, const struct stat *file) {
    struct loop_info64 info;
    return ioctl(loop, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file->st_dev &&
           info.lo_inode == file->st_ino;
}

/* What it says is true as long as the descriptor is open. */
static int open_if_of(const char *name, const struct stat *file) {
    char path[PATH_SIZE];
    if (str_format(path, sizeof path, "/sys/block/%s/loop/backing_file", name) < 0 ||
        access(path, F_OK) < 0 || str_format(path, sizeof path, "/dev/%s", name) < 0)
        return -1;
    _cleanup_(closep) int loop = open(path, O_RDWR | O_CLOEXEC);
    return loop >= 0 && is_of(loop, file) ? TAKE_FD(loop) : -1;
}

/* The device of the file, or -1. */
static int find(const struct stat *file) {
    _cleanup_(closedirp) DIR *d = opendir("/sys/block");
    const struct dirent *e;
    int loop = -1;
    while (loop < 0 && d != NULL &&
           (e = readdir(d)) != NULL) /* NOLINT(concurrency-mt-unsafe): own stream */
        if (str_starts(e->d_name, "loop"))
            loop = open_if_of(e->d_name, file);
    return loop;
}

/* ---- a new one ---- */

/* In a container nobody makes nodes for devices that are new. */
static int open_device(int number, char path[static PATH_SIZE]) {
    (void)snprintf(path, PATH_SIZE, "/dev/loop%d", number);
    int loop = open(path, O_RDWR | O_CLOEXEC);
    if (loop >= 0 || errno != ENOENT)
        return loop;
    if (mknod(path, S_IFBLK | 0600, makedev(LOOP_MAJOR, (unsigned)number)) < 0 && errno != EEXIST)
        return -1;
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Direct where the file system can, so that nothing is cached twice. */
static int attach_new(int file, struct cay_error *err) {
    const struct loop_config config = {.fd = (unsigned)file,
                                       .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
    _cleanup_(closep) int control = open(CONTROL, O_RDWR | O_CLOEXEC);
    if (control < 0)
        return no_devices(err, errno, CONTROL);
    for (int i = 0; i < TRIES_MAX; i++) {
        char path[PATH_SIZE];
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return error_errno(err, "looking for a free loop device");
        _cleanup_(closep) int loop = open_device(number, path);
        if (loop < 0)
            return no_devices(err, errno, path);
        if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return TAKE_FD(loop);
        if (errno != EBUSY)
            return error_errno(err, "attaching a loop device");
    }
    error_set(err, CAY_RESOURCE_EXHAUSTED, "others take every loop device that becomes free");
    return error_remedy(err, "try again");
}

int loop_attach(int file, struct cay_error *err) {
    struct stat st;
    if (fstat(file, &st) < 0)
        return error_errno(err, "looking at the file of a disk");
    for (struct clock_patience patience = clock_patience_of(WAIT_MS);; pause_ms(2)) {
        if (flock(file, LOCK_EX | LOCK_NB) == 0)
            return attach_new(file, err);
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_errno(err, "locking the file of a disk");
        int loop = find(&st);
        if (loop >= 0)
            return loop;
        if (clock_patience_ends(&patience)) {
            error_set(err, CAY_CONFLICT, "the disk is in use");
            return error_remedy(err, "something holds a lock on its file: 'lslocks' tells what");
        }
    }
}

int loop_grow(int loop) {
    return ioctl(loop, LOOP_SET_CAPACITY, 0) < 0 ? -errno : 0;
}
