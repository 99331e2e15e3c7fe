#include "confine/idrange.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/process.h"

enum {
    MARKS = 4096,  /* where they begin, behind the bytes that are locked */
    STRIDE = 521,  /* between processes that start one after the other */
    PATIENCE = 50, /* times a millisecond, for those who only look at a mark */
};

/* In a hint: a holder of thousands does not try them all again for each. */
#define LOW_ARE_TAKEN (1U << 31)

struct mark {
    uint64_t start;
    int64_t pid; /* 0: nobody */
};

static uid_t base_of(unsigned index) {
    return index < IDRANGE_LOW ? IDRANGE_FIRST + index * (uid_t)IDRANGE_SIZE
                               : IDRANGE_HIGH + (index - IDRANGE_LOW) * (uid_t)IDRANGE_SIZE;
}

static unsigned index_of(uid_t base) {
    return base < IDRANGE_HIGH ? (base - IDRANGE_FIRST) / IDRANGE_SIZE
                               : IDRANGE_LOW + (base - IDRANGE_HIGH) / IDRANGE_SIZE;
}

static bool is_base(uid_t base) {
    if (base < IDRANGE_FIRST || (base >= ROLE_IDS_FIRST && base < IDRANGE_HIGH))
        return false;
    return index_of(base) < IDRANGE_COUNT && base % IDRANGE_SIZE == 0;
}

static int set_lock(int fd, unsigned index, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static off_t mark_at(unsigned index) {
    return MARKS + (off_t)(index * sizeof(struct mark));
}

static int write_mark(int fd, unsigned index, const struct mark *m) {
    ssize_t n = pwrite(fd, m, sizeof *m, mark_at(index));
    return n < 0 ? -errno : n == (ssize_t)sizeof *m ? 0 : -ENOSPC;
}

/* One whose process is gone is removed. */
static bool is_marked(int fd, unsigned index) {
    struct mark m;
    if (pread(fd, &m, sizeof m, mark_at(index)) != (ssize_t)sizeof m || m.pid == 0)
        return false;
    if (process_may_live((pid_t)m.pid, m.start))
        return true;
    (void)write_mark(fd, index, &(struct mark){0}); /* it means nothing anyway */
    return false;
}

/* 0 or -errno; -EAGAIN if it is in use. */
static int try_lease(int fd, unsigned index) {
    int r = set_lock(fd, index, F_WRLCK);
    if (r < 0)
        return r == -EACCES ? -EAGAIN : r;
    if (!is_marked(fd, index))
        return 0;
    (void)set_lock(fd, index, F_UNLCK);
    return -EAGAIN;
}

#define LEASES "/run/cay-ids"

int idrange_open(struct cay_error *err) {
    int fd = open(LEASES, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    error_errno(err, "opening the id leases " LEASES);
    return error_remedy(err, "/run must be writable: it keeps two sandboxes from the same ids");
}

/* One of the `count` ranges from `first` on: its index, -EAGAIN if all are taken, or -errno. */
static int take_among(int file, unsigned first, unsigned count, unsigned *hint,
                      const struct idrange_holder *holder) {
    for (unsigned i = 0; i < count; i++) {
        unsigned index = first + (*hint)++ % count;
        if (holder != NULL && holder->has(holder->user, base_of(index)))
            continue;
        int r = try_lease(file, index);
        if (r != -EAGAIN)
            return r < 0 ? r : (int)index;
    }
    return -EAGAIN;
}

int idrange_take(int file, unsigned *hint, const struct idrange_holder *holder, uid_t *ret,
                 struct cay_error *err) {
    int index = -EAGAIN;
    if ((*hint & LOW_ARE_TAKEN) == 0)
        index = take_among(file, 0, IDRANGE_LOW, hint, holder);
    if (index == -EAGAIN) {
        *hint |= LOW_ARE_TAKEN;
        index = take_among(file, IDRANGE_LOW, IDRANGE_COUNT - IDRANGE_LOW, hint, holder);
    }
    if (index == -EAGAIN)
        *hint = 0;
    if (index >= 0) {
        *ret = base_of((unsigned)index);
        return 0;
    }
    if (index != -EAGAIN)
        return error_sys(err, -index, "leasing an id range");
    error_set(err, CAY_LIMIT_REACHED, "all %d id ranges are in use", IDRANGE_COUNT);
    return error_remedy(err, "end some sandboxes first");
}

int idrange_lease(struct idrange *ret, struct cay_error *err) {
    _cleanup_(closep) int fd = idrange_open(err);
    if (fd < 0)
        return fd;
    /* A different place in each process, so that they rarely try the same; and from there on, so
     * that one that leases many does not try again what it has found taken. */
    static unsigned hint;
    if (hint == 0)
        hint = ((unsigned)getpid() * STRIDE) & ~LOW_ARE_TAKEN;
    uid_t base;
    int r = idrange_take(fd, &hint, NULL, &base, err);
    if (r < 0)
        return r;
    *ret = (struct idrange){.lock = TAKE_FD(fd), .base = base};
    return 0;
}

void idrange_give_back(int file, uid_t base) {
    (void)set_lock(file, index_of(base), F_UNLCK); /* at worst it ends with the descriptor */
}

int idrange_lease_again(uid_t base, struct idrange *ret, struct cay_error *err) {
    if (!is_base(base))
        return error_set(err, CAY_INVALID_ARGUMENT, "%u is not the start of an id range", base);
    _cleanup_(closep) int fd = idrange_open(err);
    if (fd < 0)
        return fd;
    int r = -EAGAIN;
    for (int i = 0; i < PATIENCE && (r == -EAGAIN || r == -EACCES); i++) {
        r = set_lock(fd, index_of(base), F_WRLCK);
        if (r < 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    if (r < 0)
        return error_set(err, CAY_CONFLICT, "the id range at %u is leased by another", base);
    *ret = (struct idrange){.lock = TAKE_FD(fd), .base = base};
    return 0;
}

int idrange_mark(const struct idrange *r, pid_t pid, uint64_t start, struct cay_error *err) {
    struct mark m = {.start = start, .pid = pid};
    int code = write_mark(r->lock, index_of(r->base), &m);
    if (code == 0)
        return 0;
    error_sys(err, -code, "marking an id range in " LEASES);
    return error_remedy(err, "make room in /run");
}

void idrange_unmark(uid_t base, pid_t pid) {
    struct mark m;
    _cleanup_(closep) int fd = is_base(base) ? idrange_open(NULL) : -1;
    if (fd < 0 || set_lock(fd, index_of(base), F_WRLCK) < 0)
        return;
    if (pread(fd, &m, sizeof m, mark_at(index_of(base))) == (ssize_t)sizeof m && m.pid == pid)
        (void)write_mark(fd, index_of(base), &(struct mark){0}); /* it means nothing anyway */
}

void idrange_release(struct idrange *r) {
    fd_close(&r->lock);
}
