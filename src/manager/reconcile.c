/* Table and engines, compared. An engine is right about what runs, the table about what should. Of
 * one that is away nothing is known, so nothing is changed about its sandboxes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/files/backup.h"
#include "manager/internal.h"

/* What the engine has; SEEN_NOTHING if it does not know the sandbox at all. */
enum seen { SEEN_NOTHING, SEEN_STOPPED, SEEN_RUNNING, SEEN_PAUSED, SEEN_COUNT };

enum repair {
    KEEP,
    BE_STARTED, /* it runs: adopted */
    BE_PAUSED,
    THAW,       /* it stood still for a backup, of which nobody knows any more */
    RESUME,     /* the same for a snapshot */
    UNBACKED,   /* the same, and it goes on already */
    BE_STOPPED, /* a transition that got this far */
    BE_ARCHIVED,
    EMPTY,      /* it is archived: its files are to go */
    ENDED,      /* nobody asked for it */
    LOST,       /* its files are gone */
    UNFINISHED, /* it was promised, but not made */
    STOP,       /* it should not run */
    HALT,       /* the same, and it stays in error */
    REMOVE,
};

static const enum repair repairs[SANDBOX_STATE_COUNT][SEEN_COUNT] = {
    /*                      nothing stopped     running     paused */
    [SANDBOX_CREATING] = {REMOVE, REMOVE, REMOVE, REMOVE},
    [SANDBOX_STARTING] = {LOST, BE_STOPPED, BE_STARTED, BE_PAUSED},
    [SANDBOX_STARTED] = {LOST, ENDED, KEEP, BE_PAUSED},
    [SANDBOX_STOPPING] = {LOST, BE_STOPPED, STOP, STOP},
    [SANDBOX_STOPPED] = {LOST, KEEP, STOP, STOP},
    [SANDBOX_PAUSED] = {LOST, ENDED, BE_STARTED, KEEP},
    [SANDBOX_ARCHIVING] = {BE_ARCHIVED, BE_STOPPED, STOP, STOP},
    [SANDBOX_ARCHIVED] = {KEEP, EMPTY, STOP, STOP},
    [SANDBOX_RESTORING] = {BE_ARCHIVED, BE_STOPPED, BE_STARTED, BE_PAUSED},
    [SANDBOX_DESTROYING] = {REMOVE, REMOVE, REMOVE, REMOVE},
    [SANDBOX_ERROR] = {KEEP, KEEP, HALT, HALT},
};

/* What an engine has. */
struct view {
    struct engine_sandbox *v; /* sorted by id */
    size_t count;
    bool is_known; /* it was asked, and has said so */
};

static int compare_ids(const void *a, const void *b) {
    return strcmp(((const struct engine_sandbox *)a)->id, ((const struct engine_sandbox *)b)->id);
}

static const struct engine_sandbox *find(const struct view *view, const char *id) {
    struct engine_sandbox key = {0};
    memcpy(key.id, id, sizeof key.id);
    return view->count == 0 ? NULL : bsearch(&key, view->v, view->count, sizeof key, compare_ids);
}

static enum seen seen_as(const struct engine_sandbox *found) {
    if (found == NULL)
        return SEEN_NOTHING;
    return found->state == ENGINE_RUNNING  ? SEEN_RUNNING
           : found->state == ENGINE_PAUSED ? SEEN_PAUSED
                                           : SEEN_STOPPED;
}

/* ---- the repairs; with the turn ---- */

static void note_loss(struct manager *m, struct sandbox *s) {
    char time[32];
    struct cay_error why = {0};
    error_set(&why, CAY_NOT_FOUND, "its files are gone");
    if (s->record.backup_ms != 0)
        (void)error_remedy(&why, "what its backup of %s has is used then",
                           clock_iso8601(s->record.backup_ms, time));
    else
        (void)error_remedy(&why, "restore them from a backup, or begin with empty ones");
    turn_fail(m, s, &why);
}

static int note_unfinished(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct cay_error why = {0};
    int r = drive_stop(m, s->record.id, err);
    if (r < 0 && r != -CAY_NOT_FOUND)
        return r;
    error_set(&why, CAY_UNAVAILABLE, "the daemon ended while it was being made");
    turn_fail(m, s, &why);
    return 0;
}

/* A transition that was cut off. One that was on its way to stop keeps its reason. */
static int be_stopped(struct manager *m, struct sandbox *s, struct cay_error *err) {
    char why[SANDBOX_TEXT_SIZE];
    (void)pthread_mutex_lock(&m->lock);
    if (s->record.state == SANDBOX_STOPPING)
        memcpy(why, s->record.reason, sizeof why);
    else
        (void)snprintf(why, sizeof why, "the daemon ended while it was %s",
                       sandbox_state_name(s->record.state));
    (void)pthread_mutex_unlock(&m->lock);
    if (why[0] != '\0')
        log_event(LOG_LEVEL_WARN, "sandbox stopped", "why", "%s (%s): %s", s->record.id,
                  s->record.name, why);
    return turn_become_because(m, s, SANDBOX_STOPPED, why, NULL, err);
}

/* The same for one that still runs. */
static int stop(struct manager *m, struct sandbox *s, struct cay_error *err) {
    char why[SANDBOX_TEXT_SIZE] = "";
    (void)pthread_mutex_lock(&m->lock);
    if (s->record.state == SANDBOX_STOPPING || s->record.state == SANDBOX_STOPPED)
        memcpy(why, s->record.reason, sizeof why);
    (void)pthread_mutex_unlock(&m->lock);
    return change_stop(m, s, why, NULL, 0, err);
}

static int repair(struct manager *m, struct sandbox *s, enum repair what, bool first,
                  struct cay_error *err) {
    switch (what) {
    case BE_STARTED:
        return turn_become(m, s, SANDBOX_STARTED, NULL, err);
    case BE_PAUSED:
        return hold_adopt(m, s, err);
    case THAW:
        return backup_thaw(m, s, err);
    case RESUME:
        log_event(LOG_LEVEL_WARN, "sandbox resumed", "why",
                  "%s (%s): it was paused for a snapshot that was cut off", s->record.id,
                  s->record.name);
        return change_resume(m, s, err);
    case UNBACKED:
        backup_forget(m, s);
        return 0;
    case BE_STOPPED:
        return be_stopped(m, s, err);
    case BE_ARCHIVED:
        return turn_become(m, s, SANDBOX_ARCHIVED, NULL, err);
    case EMPTY:
        return archive_empty(m, s, err);
    case ENDED:
        return failure_note_end(m, s, first, err);
    case LOST:
        note_loss(m, s);
        return 0;
    case UNFINISHED:
        return note_unfinished(m, s, err);
    case STOP:
        return stop(m, s, err);
    case HALT:
        return drive_stop(m, s->record.id, err);
    case REMOVE:
        return change_remove(m, s, NULL, err);
    case KEEP:
        break;
    }
    return 0;
}

/* ---- all of them ---- */

/* How a sandbox was before the engine was asked. If it was being changed, the engine's answer may
 * show it before or after that change, whatever its state is now. */
struct before {
    struct sandbox *s;
    unsigned turns;
    bool changing; /* what the engine says of it may be of any moment of that change */
};

/* The end of a sandbox is reported a little after it is seen: worth a second look, for the reason.
 */
static enum repair choose(struct manager *m, const struct before *b,
                          const struct engine_sandbox *found, bool first) {
    struct sandbox *s = b->s;
    (void)pthread_mutex_lock(&m->lock);
    bool stale = b->changing || s->changing || s->turns != b->turns;
    enum repair what = stale ? KEEP : repairs[s->record.state][seen_as(found)];
    if (what == ENDED && !s->has_end && found->has_ended) {
        s->end = found->end;
        s->has_end = true;
    }
    if (what == REMOVE && s->record.state == SANDBOX_CREATING && s->record.reason[0] != '\0')
        what = UNFINISHED; /* its progress was shown to somebody */
    if (what == BE_PAUSED && s->record.state == SANDBOX_STARTED && backup_is_under_way(&s->record))
        what = THAW;
    if (what == KEEP && !stale && change_is_held(s) && !s->held)
        what = RESUME;
    if (what == KEEP && !stale && !first && backup_is_under_way(&s->record)) /* nobody makes it */
        what = UNBACKED;
    if (what == ENDED && !first && !s->has_end && !s->missed) {
        s->missed = true;
        what = KEEP;
    } else if (!stale) {
        s->missed = false;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return what;
}

/* What cannot be repaired is told, and left as it is; without an engine there is no point in going
 * on. */
static int settle(struct manager *m, const struct before *b, const struct engine_sandbox *found,
                  bool first, struct cay_error *err) {
    enum repair what = choose(m, b, found, first);
    if (what == KEEP || !turn_try(m, b->s, b->turns))
        return 0;
    int r = repair(m, b->s, what, first, err);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "sandbox not repaired", "why", "%s: %s", b->s->record.id,
                  err->message);
    turn_end(m, b->s);
    return r == -CAY_UNAVAILABLE ? r : 0;
}

static int remove_unknown(struct manager *m, enum engine_kind kind, const char *id,
                          struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    bool known = table_find_id(m, id) != NULL;
    (void)pthread_mutex_unlock(&m->lock);
    if (known)
        return 0;
    log_event(LOG_LEVEL_WARN, "removing a sandbox that nobody knows", "id", "%s", id);
    int r = drive_remove_lost(m, kind, id, err);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "sandbox not removed", "why", "%s", err->message);
    socket_remove(id);
    return r == -CAY_UNAVAILABLE ? r : 0;
}

/* A row was there before its sandbox, so an engine with sandboxes has a database that was used. */
static int check_same_world(struct manager *m, const struct view *view, struct cay_error *err) {
    if (view->count == 0 || !m->was_unused)
        return 0;
    error_set(err, CAY_CONFLICT, "the database is new, but there are %zu sandboxes, such as %s",
              view->count, view->v[0].id);
    return error_remedy(err, "put the database back that knows them, or, if they are not needed, "
                             "remove the folder 'sandboxes' in the state folder");
}

static int compare_before(const void *a, const void *b) {
    return strcmp(((const struct before *)a)->s->record.id,
                  ((const struct before *)b)->s->record.id);
}

/* Sorted by id. */
static struct before *remember(struct manager *m, size_t *ret_count) {
    struct sandbox **v = table_snapshot(m, ret_count);
    struct before *all = v == NULL ? NULL : calloc(*ret_count + 1, sizeof *all);
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; all != NULL && i < *ret_count; i++)
        all[i] = (struct before){sandbox_ref(v[i]), v[i]->turns, v[i]->changing};
    (void)pthread_mutex_unlock(&m->lock);
    if (v != NULL)
        table_snapshot_free(m, v, *ret_count);
    if (all != NULL && *ret_count > 0)
        qsort(all, *ret_count, sizeof *all, compare_before);
    return all;
}

static bool was_known(const struct before *all, size_t count, const char *id) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(all[middle].s->record.id, id);
        if (order == 0)
            return true;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return false;
}

static void release(struct manager *m, struct before *all, size_t count) {
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < count; i++)
        sandbox_unref(all[i].s);
    (void)pthread_mutex_unlock(&m->lock);
    free(all);
}

/* ---- what the engines have ---- */

/* Those whose engine it is say so once, for as long as it is away. */
static void note_absence(struct manager *m, enum engine_kind kind, const struct before *all,
                         size_t count, const struct cay_error *why) {
    char text[SANDBOX_TEXT_SIZE];
    (void)snprintf(text, sizeof text, "engine %s is away: %s", engine_kind_name(kind),
                   why->message);
    log_event(LOG_LEVEL_WARN, "an engine is away", "why", "%s; %s", text, why->remedy);
    for (size_t i = 0; i < count; i++)
        if (all[i].s->record.engine == kind)
            event_note(m, all[i].s, text);
}

/* Without the one of sandboxes that do not say, nothing can be promised. */
static int list_engine(struct manager *m, enum engine_kind kind, const struct before *all,
                       size_t count, struct view *ret, struct cay_error *err) {
    struct engine *e = m->engines[kind];
    struct cay_error why = {0};
    (void)pthread_mutex_lock(&m->lock);
    bool is_used = m->is_used[kind] && e != NULL;
    (void)pthread_mutex_unlock(&m->lock);
    if (!is_used)
        return 0;
    int r = e->ops->list(e, &ret->v, &ret->count, &why);
    ret->is_known = r == 0;
    if (r == 0 && ret->count > 0)
        qsort(ret->v, ret->count, sizeof *ret->v, compare_ids);
    if (r < 0 && kind == m->kind) {
        *err = why;
        return r;
    }
    if (r < 0 && !m->is_away[kind])
        note_absence(m, kind, all, count, &why);
    m->is_away[kind] = r < 0;
    return 0;
}

static int compare(struct manager *m, enum engine_kind kind, const struct view *view,
                   const struct before *all, size_t count, bool first, struct cay_error *err) {
    int r = m->is_compared[kind] ? 0 : check_same_world(m, view, err);
    m->is_compared[kind] = r == 0;
    if (r < 0 && kind != m->kind) { /* nothing of it is touched, and the others are served */
        log_event(LOG_LEVEL_WARN, "an engine is left alone", "why", "%s: %s; %s",
                  engine_kind_name(kind), err->message, err->remedy);
        return 0;
    }
    for (size_t i = 0; r == 0 && i < count; i++)
        if (all[i].s->record.engine == kind)
            r = settle(m, &all[i], find(view, all[i].s->record.id), first, err);
    for (size_t i = 0; r == 0 && i < view->count; i++)
        if (!was_known(all, count, view->v[i].id)) /* or it was removed since */
            r = remove_unknown(m, kind, view->v[i].id, err);
    if (r == -CAY_UNAVAILABLE && kind != m->kind) /* it went meanwhile: the next round tells */
        r = 0;
    return r;
}

int reconcile(struct manager *m, bool first, struct cay_error *err) {
    struct view views[ENGINE_KINDS] = {0};
    size_t count = 0;
    struct before *all = remember(m, &count);
    int r = all == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
    for (enum engine_kind k = ENGINE_NATIVE; r == 0 && k < ENGINE_KINDS; k++)
        if (!first || k == m->kind)
            r = list_engine(m, k, all, count, &views[k], err);
    for (enum engine_kind k = ENGINE_NATIVE; r == 0 && k < ENGINE_KINDS; k++)
        if (views[k].is_known)
            r = compare(m, k, &views[k], all, count, first, err);
    for (enum engine_kind k = ENGINE_NATIVE; k < ENGINE_KINDS; k++)
        free(views[k].v);
    if (all != NULL)
        release(m, all, count);
    return r;
}
