#include "manager/files/hold.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/files/space.h"
#include "manager/internal.h"

#define HELD "paused: the disk of the host is nearly full"
#define REMEDY                                                                                     \
    "remove sandboxes (cay rm, cay prune) or images (cay image prune), or enlarge the disk; it "   \
    "goes on by itself when there is space again"

enum {
    ROUND_MS = 5000, /* between two looks, */
    LEAST_MS = 250,  /* the less is left the sooner, */
    STILL_MS = 1000, /* but not when nothing changes */
    FLOOR_PART = 4,  /* of the reserve: sandboxes together leave so much */
    HOLD_PART = 2,   /* the same: those that write are paused when less is left, */
    ALL_PART = 8,    /* and all when others have taken what sandboxes leave */
};
/* Faster than sandboxes write: the next look comes before they could have taken what is left. */
static const uint64_t bytes_per_ms = UINT64_C(4) << 20;
/* Below it the engine limits them, so that no look has to come in time. */
static const uint64_t tight_bytes = UINT64_C(1) << 30;

/* ---- for others ---- */

bool hold_has(const struct sandbox_record *r) {
    return r->state == SANDBOX_PAUSED && str_equal(r->reason, HELD);
}

int hold_adopt(struct manager *m, struct sandbox *s, struct cay_error *err) {
    bool is_full = manager_check_space(m, NULL) < 0;
    return turn_become_for(m, s, SANDBOX_PAUSED, is_full ? HELD : "", is_full ? REMEDY : "", err);
}

void hold_look(struct manager *m) {
    m->hold.look_now = m->hold.is_tight;
    if (m->hold.look_now)
        duty_wake(m);
}

int hold_check(const struct manager *m, const struct sandbox *s, struct cay_error *err) {
    if (!m->hold.is_holding || !hold_has(&s->record))
        return 0;
    error_set(err, CAY_RESOURCE_EXHAUSTED, "sandbox '%s' is " HELD, s->record.name);
    return error_remedy(err, "%s", s->record.remedy);
}

void hold_note_disk(void *manager, const struct engine_disk *disk) {
    struct manager *m = manager;
    (void)pthread_mutex_lock(&m->lock);
    struct sandbox *s = table_find_id(m, disk->id);
    if (s == NULL && disk->news == ENGINE_DISK_DAMAGED)
        volumes_note_errors(m, disk->id, disk->number);
    if (s != NULL && disk->news == ENGINE_DISK_WRITES)
        s->disk.is_writing = true;
    if (s != NULL && disk->news == ENGINE_DISK_DAMAGED)
        s->disk.errors = disk->number;
    if (s != NULL && disk->news == ENGINE_DISK_REPAIRED) {
        s->disk.repair = disk->number == 0 ? REPAIRED : REPAIRED_HARD;
        m->hold.look_now = true;
        duty_wake(m);
    }
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- one sandbox ---- */

enum action { NOTHING, HOLD, RELEASE, TELL_DAMAGE };

static enum action choose(struct manager *m, struct sandbox *s, unsigned *turns) {
    enum action what = NOTHING;
    (void)pthread_mutex_lock(&m->lock);
    bool runs = s->record.state == SANDBOX_STARTED && !s->record.pooled;
    *turns = s->turns;
    if (m->hold.is_holding && runs && (s->disk.is_writing || m->hold.holds_all))
        what = HOLD;
    else if (!m->hold.is_holding && hold_has(&s->record))
        what = RELEASE;
    else if (s->disk.errors > 0 && !s->disk.is_damage_reported && runs)
        what = TELL_DAMAGE;
    s->disk.is_writing = false;
    (void)pthread_mutex_unlock(&m->lock);
    return what;
}

static int report_damage(struct manager *m, struct sandbox *s, struct cay_error *err) {
    char reason[SANDBOX_TEXT_SIZE], remedy[SANDBOX_TEXT_SIZE];
    (void)snprintf(reason, sizeof reason,
                   "its file system has errors (%llu) and may have become read-only",
                   (unsigned long long)s->disk.errors);
    (void)snprintf(remedy, sizeof remedy,
                   "copy out what is needed, then stop and start it, which repairs the file "
                   "system: cay stop %s; the kernel's log says what failed",
                   s->record.id);
    int r = turn_become_for(m, s, SANDBOX_STARTED, reason, remedy, err);
    (void)pthread_mutex_lock(&m->lock);
    s->disk.is_damage_reported = r == 0;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static int act(struct manager *m, struct sandbox *s, enum action what, struct cay_error *err) {
    switch (what) {
    case HOLD:
        return change_pause(m, s, HELD, REMEDY, err);
    case RELEASE:
        return change_resume(m, s, err);
    case TELL_DAMAGE:
        return report_damage(m, s, err);
    case NOTHING:
        break;
    }
    return 0;
}

static void note_repair(struct manager *m, struct sandbox *s) {
    (void)pthread_mutex_lock(&m->lock);
    bool is_news = s->disk.repair != NOT_REPAIRED, is_hard = s->disk.repair == REPAIRED_HARD;
    s->disk.repair = NOT_REPAIRED;
    (void)pthread_mutex_unlock(&m->lock);
    if (!is_news)
        return;
    const char *text = is_hard ? "its file system had errors and was repaired (e2fsck -y): files "
                                 "may be missing or changed"
                               : "its file system had errors and was repaired (e2fsck -p)";
    event_note(m, s, text);
    log_event(LOG_LEVEL_WARN, "the file system of a sandbox was repaired", "id", "%s: %s",
              s->record.id, text);
}

static void look_after(struct manager *m, struct sandbox *s) {
    static const char *const words[] = {
        [HOLD] = "sandbox paused: the disk is nearly full",
        [RELEASE] = "sandbox goes on: the disk has space again",
        [TELL_DAMAGE] = "the file system of a sandbox has errors",
    };
    struct cay_error err = {0};
    unsigned turns;
    note_repair(m, s);
    enum action what = choose(m, s, &turns);
    if (what == NOTHING || !turn_try(m, s, turns))
        return;
    int r = act(m, s, what, &err);
    log_event(LOG_LEVEL_WARN, words[what], r < 0 ? "failed" : "id", "%s%s%s", s->record.id,
              r < 0 ? ": " : "", r < 0 ? err.message : "");
    turn_end(m, s);
}

/* ---- rounds ---- */

/* With the lock held. What is promised is as good as written. */
static void judge(struct manager *m, const struct engine_space *now, uint64_t reserve) {
    struct hold *h = &m->hold;
    uint64_t left = now->free_bytes - MIN(now->promised_bytes, now->free_bytes);
    bool was_holding = h->is_holding;
    h->is_tight = reserve > 0 && left < reserve + tight_bytes;
    h->is_holding = reserve > 0 && (left < reserve / HOLD_PART || (was_holding && left < reserve));
    h->holds_all = left < reserve / ALL_PART;
    if (h->is_holding != was_holding)
        log_event(LOG_LEVEL_WARN,
                  h->is_holding ? "the disk is nearly full: sandboxes that write are paused"
                                : "the disk has space again",
                  "bytes", "%llu", (unsigned long long)left);
    h->space = *now;
}

static void look_after_all(struct manager *m) {
    size_t count;
    struct sandbox **all = table_snapshot(m, &count);
    for (size_t i = 0; all != NULL && i < count; i++)
        look_after(m, all[i]);
    if (all != NULL)
        table_snapshot_free(m, all, count);
}

static uint64_t measure_reserve(struct manager *m) {
    struct manager_space space;
    struct cay_error ignored;
    return manager_space(m, &space, &ignored) < 0 ? 0 : space.reserve_bytes;
}

/* How long to wait until the next one. */
static int64_t next_round(const struct engine_space *before, const struct engine_space *now,
                          uint64_t reserve) {
    uint64_t left = now->free_bytes - MIN(now->free_bytes, now->promised_bytes + reserve);
    if (now->limited > 0 && memcmp(before, now, sizeof *now) == 0)
        return STILL_MS;
    return now->disks == 0 ? ROUND_MS
                           : MAX(LEAST_MS, (int64_t)MIN(left / bytes_per_ms, (uint64_t)ROUND_MS));
}

static int64_t look(struct manager *m) {
    struct engine *e = m->engines[ENGINE_NATIVE];
    struct engine_space now = {0};
    struct cay_error err;
    if (!engine_is_used(m, ENGINE_NATIVE))
        return ROUND_MS; /* asking would start its launcher */
    uint64_t reserve = measure_reserve(m);
    struct engine_space_marks marks = {.floor_bytes = reserve / FLOOR_PART,
                                       .hold_bytes = reserve / HOLD_PART};
    if (e->ops->space(e, &marks, &now, &err) < 0)
        return STILL_MS; /* there is another launcher soon */
    (void)pthread_mutex_lock(&m->lock);
    struct engine_space before = m->hold.space;
    judge(m, &now, reserve);
    (void)pthread_mutex_unlock(&m->lock);
    look_after_all(m);
    return next_round(&before, &now, reserve);
}

/* ---- the thread ---- */

static void *watch(void *arg) {
    struct manager *m = arg;
    int64_t pause_ms = look(m);
    (void)pthread_mutex_lock(&m->lock);
    for (int64_t began = clock_ms(); !m->closing; began = clock_ms()) {
        while (!m->closing && clock_ms() < began + pause_ms &&
               !(m->hold.look_now && clock_ms() >= began + LEAST_MS))
            duty_wait(m, began + (m->hold.look_now ? LEAST_MS : pause_ms));
        m->hold.look_now = false;
        (void)pthread_mutex_unlock(&m->lock);
        pause_ms = look(m);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    worker_end(m, &m->hold.watching);
    return NULL;
}

int hold_start(struct manager *m, struct cay_error *err) {
    struct engine *e = m->engines[ENGINE_NATIVE];
    if (e == NULL || e->ops->space == NULL)
        return 0;
    e->disk = hold_note_disk;
    int r = worker_start(m, &m->hold.watcher, watch, &m->hold.watching, err);
    m->hold.has_watcher = r == 0;
    return r;
}
