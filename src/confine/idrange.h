/* Ranges of host ids. Each sandbox gets 65,536 ids of its own, leased by a lock on one byte of a
 * file that is the same for all of the host, whatever the state folder: the kernel gives the lease
 * back when its last holder is gone, however it went.
 *
 * A sandbox that outlives its maker has a mark as well, in the same file: the process that uses the
 * range. It counts as long as that process lives, whoever holds the lock. Marks are read and
 * written under the lock of their range. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;

enum {
    IDRANGE_SIZE = 65536,
    IDRANGE_LOW = 4094,    /* ranges from IDRANGE_FIRST on; then the daemon's and the store's */
    IDRANGE_COUNT = 12288, /* with those from IDRANGE_HIGH on */
    /* The id inside that cay-init has, so that commands (root inside) can neither signal nor
     * inspect it. */
    IDRANGE_INIT_ID = 65533,
};

/* Above what systemd, container tools and /etc/subuid hand out, below 2^31. */
#define IDRANGE_FIRST UINT32_C(0x70000000)

/* No other tool hands these out. They are not the first choice, since some programs take an id for
 * a signed number. */
#define IDRANGE_HIGH UINT32_C(0x80000000)

/* Ids of root's daemons (role_ids.h): a range that no sandbox has. */
#define ROLE_IDS_FIRST UINT32_C(0x7ffe0000)

struct idrange {
    int lock; /* holds the lease; -1 when there is none */
    uid_t base;
};

#define IDRANGE_EMPTY ((struct idrange){.lock = -1})

/* Leases a free range. */
int idrange_lease(struct idrange *ret, struct cay_error *err);
/* Gives it back, unless a copy of the descriptor is open elsewhere. */
void idrange_release(struct idrange *r);

/* Leases the range that starts at base, as after a restart of whoever held it; its mark does not
 * count. -CAY_CONFLICT if another holds it. */
int idrange_lease_again(uid_t base, struct idrange *ret, struct cay_error *err);

/* Marks the range as used by this process (process.h), beyond the end of the lease; pid 0: nobody.
 */
int idrange_mark(const struct idrange *r, pid_t pid, uint64_t start, struct cay_error *err);

/* Removes the mark of a process that has ended, if it is still there; whoever leases the range next
 * would do so, too. */
void idrange_unmark(uid_t base, pid_t pid);

/* For a holder of many: the lease file once, and a lease of any range from it; all end together,
 * when the descriptor is closed. Locks do not tell what the same descriptor holds already, so the
 * holder says what it has; NULL: nothing. */
struct idrange_holder {
    bool (*has)(const void *user, uid_t base);
    const void *user;
};
int idrange_open(struct cay_error *err);
/* *hint is where to look first; it moves on, and is less than 2^31 to begin with. */
int idrange_take(int file, unsigned *hint, const struct idrange_holder *holder, uid_t *ret_base,
                 struct cay_error *err);
/* Ends one of these leases. */
void idrange_give_back(int file, uid_t base);
