#include "api/daytona/tombstones.h"

#include <pthread.h>

#include "base/clock.h"
#include "manager/record/key.h"

enum { GONE_MAX = 128, GONE_MS = 60 * 1000 };

static struct {
    pthread_mutex_t lock;
    struct sandbox_record record[GONE_MAX]; /* a ring */
    int64_t until[GONE_MAX];                /* monotonic; 0: none */
    size_t next;
} gone = {.lock = PTHREAD_MUTEX_INITIALIZER};

void daytona_gone_add(const struct sandbox_record *r) {
    struct sandbox_record copy;
    if (sandbox_record_copy(r, &copy) < 0)
        return;
    (void)pthread_mutex_lock(&gone.lock);
    sandbox_record_free(&gone.record[gone.next]);
    gone.record[gone.next] = copy;
    gone.until[gone.next] = clock_deadline(GONE_MS);
    gone.next = (gone.next + 1) % GONE_MAX;
    (void)pthread_mutex_unlock(&gone.lock);
}

static bool is_meant(size_t i, const struct key *caller, const char *who) {
    const struct sandbox_record *r = &gone.record[i];
    return gone.until[i] != 0 && !clock_expired(gone.until[i]) &&
           (key_sees_all(caller) || str_equal(r->owner, key_owner(caller))) &&
           (str_equal(r->id, who) || str_equal(r->name, who));
}

bool daytona_gone_find(const struct key *caller, const char *who, struct sandbox_record *ret) {
    bool found = false;
    (void)pthread_mutex_lock(&gone.lock);
    for (size_t i = 0; i < GONE_MAX && !found; i++)
        found = is_meant(i, caller, who) && sandbox_record_copy(&gone.record[i], ret) == 0;
    (void)pthread_mutex_unlock(&gone.lock);
    return found;
}
