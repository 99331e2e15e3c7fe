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

int idrange_lease(int state_dir, struct idrange *ret, struct cay_error *err) {
    _cleanup_(closep) int fd = openat(state_dir, "ids", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        error_errno(err, "opening the id lease file of the state folder");
        return error_remedy(err, "make the state folder writable, or name another: --state-dir DIR");
    }
    /* Start at a different place in each process, so that they rarely try the same. */
    unsigned first = (unsigned)getpid();
    for (unsigned i = 0; i < IDRANGE_COUNT; i++) {
        unsigned index = (first + i) % IDRANGE_COUNT;
        int r = try_lock(fd, index);
        if (r == -EAGAIN || r == -EACCES)
            continue;
        if (r < 0)
            return error_sys(err, -r, "leasing an id range");
        *ret = (struct idrange){.lock = TAKE_FD(fd),
                                .base = IDRANGE_FIRST + index * (uid_t)IDRANGE_SIZE};
        return 0;
    }
    error_set(err, CAY_LIMIT_REACHED, "all %d id ranges are in use", IDRANGE_COUNT);
    return error_remedy(err, "end some sandboxes first");
}

void idrange_release(struct idrange *r) {
    fd_close(&r->lock);
}
