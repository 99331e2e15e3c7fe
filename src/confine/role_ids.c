#include "confine/role_ids.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

#define DEFAULT_STATE "/var/lib/cay"

enum {
    LOCKS = 1 << 24, /* where the locked bytes begin, behind everything that sandboxes use */
    BLOCKS_OF_DAEMONS = ROLE_BLOCKS - ROLE_BLOCKS_OF_RUNS,
};

/* 0 or -errno; -EAGAIN if another process has it. */
static int try_lock(int file, unsigned block) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKS + (off_t)block, .l_len = 1};
    if (fcntl(file, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

static int lease_among(unsigned first, unsigned count, unsigned hint, struct role_ids *ret,
                       struct cay_error *err) {
    _cleanup_(closep) int file = idrange_open(err);
    if (file < 0)
        return file;
    for (unsigned i = 0; i < count; i++) {
        unsigned block = first + (hint + i) % count;
        int r = try_lock(file, block);
        if (r < 0 && r != -EAGAIN)
            return error_sys(err, -r, "leasing ids for the daemon's processes");
        if (r == 0) {
            *ret = (struct role_ids){.lock = TAKE_FD(file),
                                     .base = ROLE_IDS_FIRST + (uid_t)block * ROLES_MAX};
            return 0;
        }
    }
    error_set(err, CAY_LIMIT_REACHED, "all %u blocks of ids for daemons are in use", count);
    return error_remedy(err, "end some daemons or runs first");
}

/* FNV-1a: the same block for the same folder, and rarely the same for two. */
static unsigned hash(const char *text) {
    uint32_t h = UINT32_C(2166136261);
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT32_C(16777619);
    return h;
}

static unsigned first_choice(const char *state_dir, uid_t former) {
    uid_t offset = former - ROLE_IDS_FIRST;
    if (former >= ROLE_IDS_FIRST && offset < (uid_t)BLOCKS_OF_DAEMONS * ROLES_MAX)
        return offset / ROLES_MAX;
    return str_equal(state_dir, DEFAULT_STATE) ? 0 : 1 + hash(state_dir) % (BLOCKS_OF_DAEMONS - 1);
}

int role_ids_lease(const char *state_dir, uid_t former, struct role_ids *ret,
                   struct cay_error *err) {
    return lease_among(0, BLOCKS_OF_DAEMONS, first_choice(state_dir, former), ret, err);
}

int role_ids_lease_run(struct role_ids *ret, struct cay_error *err) {
    return lease_among(BLOCKS_OF_DAEMONS, ROLE_BLOCKS_OF_RUNS, (unsigned)getpid(), ret, err);
}

void role_ids_release(struct role_ids *ids) {
    fd_close(&ids->lock);
}
