#include "api/metrics/vitals.h"

#include <pthread.h>

#include "base/auto.h"

/* What must be left. Of something small, a fiftieth. */
enum { BYTES_LEFT = 64 << 20, INODES_LEFT = 1024, FDS_LEFT = 64, PART = 50 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vitals current;

void vitals_set(const struct vitals *v) {
    (void)pthread_mutex_lock(&lock);
    current = *v;
    (void)pthread_mutex_unlock(&lock);
}

void vitals_get(struct vitals *ret) {
    (void)pthread_mutex_lock(&lock);
    *ret = current;
    (void)pthread_mutex_unlock(&lock);
}

bool vitals_is_short_of_bytes(const struct vitals_disk *d) {
    return d->bytes > 0 && d->free_bytes < MIN((uint64_t)BYTES_LEFT, d->bytes / PART);
}

bool vitals_is_short_of_inodes(const struct vitals_disk *d) {
    return d->inodes > 0 && d->free_inodes < MIN((uint64_t)INODES_LEFT, d->inodes / PART);
}

bool vitals_is_short_of_fds(const struct vitals_process *p) {
    return p->fds_max > 0 && p->fds + FDS_LEFT > p->fds_max;
}
