/* The engines, asked with patience: one that is away (its launcher died) is back in a moment. */
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "manager/internal.h"

enum { AWAY_MS = 5000, PAUSE_MIN_MS = 20, PAUSE_MAX_MS = 400 };

struct patience {
    int64_t until, pause;
};

static struct patience patience_new(void) {
    return (struct patience){clock_deadline(AWAY_MS), PAUSE_MIN_MS};
}

/* True if it is worth another try, after a pause. Before the manager is ready nobody could tell it
 * of another launcher. */
static bool try_again(struct manager *m, struct patience *p, int result) {
    (void)pthread_mutex_lock(&m->lock);
    bool hopeless = m->closing || !m->ready;
    (void)pthread_mutex_unlock(&m->lock);
    if (result != -CAY_UNAVAILABLE || hopeless || clock_expired(p->until))
        return false;
    struct timespec t = {.tv_nsec = p->pause * 1000000};
    (void)nanosleep(&t, NULL);
    p->pause = MIN(2 * p->pause, (int64_t)PAUSE_MAX_MS);
    return true;
}

typedef int (*engine_call)(struct engine *e, const char *id, struct cay_error *err);

struct engine *drive_engine(struct manager *m, const char *id) {
    (void)pthread_mutex_lock(&m->lock);
    const struct sandbox *s = table_find_id(m, id);
    struct engine *e = s != NULL ? m->engines[s->record.engine] : NULL;
    (void)pthread_mutex_unlock(&m->lock);
    return e != NULL ? e : m->engine;
}

/* Engines fill err, so there always is one. */
static int ask(struct manager *m, struct engine *e, engine_call call, const char *id,
               struct cay_error *err) {
    struct patience p = patience_new();
    struct cay_error here = {0};
    int r;
    do
        r = call(e, id, &here);
    while (try_again(m, &p, r));
    if (r < 0 && err != NULL)
        *err = here;
    return r;
}

int drive_volume_remove(struct manager *m, const char *id, struct cay_error *err) {
    return ask(m, m->engine, m->engine->ops->volume_remove, id, err);
}

int drive_volume_size(struct manager *m, volume_call call, const char *id, uint64_t bytes,
                      struct cay_error *err) {
    struct patience p = patience_new();
    struct cay_error here = {0};
    int r;
    do
        r = call(m->engine, id, bytes, &here);
    while (try_again(m, &p, r));
    if (r < 0 && err != NULL)
        *err = here;
    return r;
}

int drive_stop(struct manager *m, const char *id, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return ask(m, e, e->ops->stop, id, err);
}

int drive_pause(struct manager *m, const char *id, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return ask(m, e, e->ops->pause, id, err);
}

int drive_resume(struct manager *m, const char *id, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return ask(m, e, e->ops->resume, id, err);
}

int drive_remove(struct manager *m, const char *id, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return ask(m, e, e->ops->remove, id, err);
}

int drive_remove_lost(struct manager *m, enum engine_kind kind, const char *id,
                      struct cay_error *err) {
    return ask(m, m->engines[kind], m->engines[kind]->ops->remove, id, err);
}

int drive_stats(struct manager *m, const char *id, struct engine_stats *ret,
                struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    struct patience p = patience_new();
    struct cay_error here = {0};
    int r;
    do
        r = e->ops->stats(e, id, ret, &here);
    while (try_again(m, &p, r));
    if (r < 0 && err != NULL)
        *err = here;
    return r;
}

int drive_archive(struct manager *m, const struct sandbox_record *r, uint64_t *ret_bytes,
                  struct cay_error *err) {
    struct engine *e = drive_engine(m, r->id);
    return e->ops->archive(e, r->id, r->image, ret_bytes, err);
}

int drive_unarchive(struct manager *m, const char *id, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return ask(m, e, e->ops->unarchive, id, err);
}

int drive_backup(struct manager *m, const struct sandbox_record *r, uint64_t max_bytes,
                 uint64_t *ret_bytes, struct cay_error *err) {
    struct engine *e = drive_engine(m, r->id);
    return e->ops->backup(e, r->id, r->image, max_bytes, ret_bytes, err);
}

int drive_backup_restore(struct manager *m, const char *id, bool *ret, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return e->ops->backup_restore(e, id, ret, err);
}

int drive_backup_remove(struct manager *m, const char *id, struct cay_error *err) {
    struct engine *e = drive_engine(m, id);
    return ask(m, e, e->ops->backup_remove, id, err);
}

int manager_snapshot(struct manager *m, const struct sandbox_record *r, char image[static HEX_SIZE],
                     struct cay_error *err) {
    struct engine *e = drive_engine(m, r->id);
    return e->ops->snapshot(e, r->id, r->image, image, err);
}

int drive_resize(struct manager *m, const struct sandbox_spec *spec, struct cay_error *err) {
    struct engine *e = drive_engine(m, spec->id);
    struct patience p = patience_new();
    struct cay_error here = {0};
    int r;
    do
        r = e->ops->resize(e, spec, &here);
    while (try_again(m, &p, r));
    if (r < 0 && err != NULL)
        *err = here;
    return r;
}

/* Where the answer was lost it may run, so it is stopped before the next try. */
int drive_start(struct manager *m, const struct sandbox_spec *spec, const char *image, int listener,
                struct cay_error *err) {
    struct engine *e = drive_engine(m, spec->id);
    struct patience p = patience_new();
    int r = e->ops->start(e, spec, image, listener, err);
    while (try_again(m, &p, r)) {
        r = drive_stop(m, spec->id, err);
        if (r == 0 || r == -CAY_NOT_FOUND)
            r = e->ops->start(e, spec, image, listener, err);
    }
    return r;
}
