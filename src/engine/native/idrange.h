/* Ranges of host ids. Each sandbox gets 65,536 ids of its own, leased by a lock on one byte of a
 * file that is the same for all of the host, whatever the state folder: the kernel gives the lease
 * back when its last holder is gone, however it went. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct cay_error;

enum {
    IDRANGE_SIZE = 65536,
    IDRANGE_COUNT = 4095, /* one more follows: the image store's */
    /* The id inside that cay-init has, so that commands (root inside) can neither signal nor
     * inspect it. */
    IDRANGE_INIT_ID = 65533,
};

/* Above what systemd, container tools and /etc/subuid hand out, below 2^31. */
#define IDRANGE_FIRST UINT32_C(0x70000000)

struct idrange {
    int lock; /* holds the lease; -1 when there is none */
    uid_t base;
};

#define IDRANGE_EMPTY ((struct idrange){.lock = -1})

/* Leases a free range. */
int idrange_lease(struct idrange *ret, struct cay_error *err);
/* Gives it back, unless a copy of the descriptor is open elsewhere. */
void idrange_release(struct idrange *r);

/* For a holder of many: the lease file once, and a lease of any range from it; all end together,
 * when the descriptor is closed. Returns the base or 0 with err. */
int idrange_open(struct cay_error *err);
uid_t idrange_take(int file, unsigned *hint, struct cay_error *err);
