#include "engine/native/idrange.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

static int try_lock(int fd, unsigned index) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

#define LEASES "/run/cay-ids"

int idrange_open(struct cay_error *err) {
    int fd = open(LEASES, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    error_errno(err, "opening the id leases " LEASES);
    return error_remedy(err, "/run must be writable: it keeps two sandboxes from the same ids");
}

uid_t idrange_take(int file, unsigned *hint, struct cay_error *err) {
    for (unsigned i = 0; i < IDRANGE_COUNT; i++) {
        unsigned index = (*hint)++ % IDRANGE_COUNT;
        int r = try_lock(file, index);
        if (r == 0)
            return IDRANGE_FIRST + index * (uid_t)IDRANGE_SIZE;
        if (r == -EAGAIN || r == -EACCES)
            continue;
        (void)error_sys(err, -r, "leasing an id range");
        return 0;
    }
    error_set(err, CAY_LIMIT_REACHED, "all %d id ranges are in use", IDRANGE_COUNT);
    (void)error_remedy(err, "end some sandboxes first");
    return 0;
}

int idrange_lease(struct idrange *ret, struct cay_error *err) {
    _cleanup_(closep) int fd = idrange_open(err);
    if (fd < 0)
        return fd;
    /* Start at a different place in each process, so that they rarely try the same. */
    unsigned hint = (unsigned)getpid();
    uid_t base = idrange_take(fd, &hint, err);
    if (base == 0)
        return -(int)err->code;
    *ret = (struct idrange){.lock = TAKE_FD(fd), .base = base};
    return 0;
}

void idrange_release(struct idrange *r) {
    fd_close(&r->lock);
}
