/* Backups: a copy of what a sandbox has written, kept beside archives while the sandbox lives on.
 *
 * A thread makes it, with the sandbox's turn, and freezes what runs as long as files are copied.
 * How far it is, is noted with the sandbox (a note that goes with it), before anything is done: a
 * next daemon that finds one under way lets the sandbox go on, and calls it failed. A backup that
 * fails leaves the one before. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engines.h"
#include "manager/files/backup.h"
#include "manager/internal.h"

enum { NOTE_SIZE = 96 };

static const char note_kind[] = "backup";

/* ---- the note ---- */

/* "Completed 1763233200000 4711" */
static int save(struct manager *m, struct sandbox *s, struct cay_error *err) {
    char text[NOTE_SIZE];
    (void)pthread_mutex_lock(&m->lock);
    (void)snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64,
                   backup_state_name(s->record.backup), s->record.backup_ms,
                   s->record.backup_bytes);
    (void)pthread_mutex_unlock(&m->lock);
    return db_secret_set(m->db, s->record.id, note_kind, text, true, err);
}

static bool read_note(char *text, struct sandbox_record *r) {
    char *time = strchr(text, ' '), *bytes = time == NULL ? NULL : strchr(time + 1, ' ');
    if (bytes == NULL)
        return false;
    *time++ = '\0';
    *bytes++ = '\0';
    for (enum backup_state i = BACKUP_NONE; i <= BACKUP_ERROR; i++)
        if (str_equal(backup_state_name(i), text))
            r->backup = i;
    return str_to_i64(time, 0, INT64_MAX, &r->backup_ms) == 0 &&
           str_to_i64(bytes, 0, INT64_MAX, &r->backup_bytes) == 0;
}

void backup_load(struct manager *m, struct sandbox *s) {
    char text[NOTE_SIZE];
    if (db_secret_get(m->db, s->record.id, note_kind, text, sizeof text, NULL) == 0 &&
        !read_note(text, &s->record))
        log_event(LOG_LEVEL_WARN, "the note of a backup makes no sense", "id", "%s", s->record.id);
}

static int become(struct manager *m, struct sandbox *s, enum backup_state state,
                  struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    enum backup_state before = s->record.backup;
    s->record.backup = state;
    s->record.updated_ms = clock_wall_ms();
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    int r = save(m, s, err);
    if (r < 0) {
        (void)pthread_mutex_lock(&m->lock);
        s->record.backup = before;
        (void)pthread_mutex_unlock(&m->lock);
    }
    return r;
}

/* ---- for who has the turn ---- */

bool backup_is_under_way(const struct sandbox_record *r) {
    return r->backup == BACKUP_PENDING || r->backup == BACKUP_IN_PROGRESS;
}

/* It is backed up by its engine. */
static bool is_engines(const struct sandbox_record *r) {
    return engine_can(r->engine, ENGINE_HAS_ARCHIVES);
}

static bool has_backups(const struct manager *m, const struct sandbox_record *r) {
    return is_engines(r) || (m->archives != NULL && m->archives->backup != NULL);
}

static void end_maker(struct manager *m, struct sandbox *s) {
    struct cay_error ignored; /* then it is waited for */
    (void)pthread_mutex_lock(&m->lock);
    bool is_under_way = backup_is_under_way(&s->record);
    s->wants_no_backup |= is_under_way;
    (void)pthread_mutex_unlock(&m->lock);
    if (is_under_way && !is_engines(&s->record))
        (void)m->archives->end_backup(m->user, s->record.id, &ignored);
}

void backup_give_up(struct manager *m, const char *who) {
    struct sandbox *s = NULL;
    (void)pthread_mutex_lock(&m->lock);
    if (table_find(m, who, &s, NULL) == 0)
        (void)sandbox_ref(s);
    (void)pthread_mutex_unlock(&m->lock);
    if (s == NULL)
        return;
    end_maker(m, s);
    (void)pthread_mutex_lock(&m->lock);
    sandbox_unref(s);
    (void)pthread_mutex_unlock(&m->lock);
}

void backup_give_up_all(struct manager *m) {
    size_t count = 0;
    struct sandbox **v = table_snapshot(m, &count);
    for (size_t i = 0; v != NULL && i < count; i++)
        end_maker(m, v[i]);
    if (v != NULL)
        table_snapshot_free(m, v, count);
}

int backup_drop(struct manager *m, struct sandbox *s, struct cay_error *err) {
    if (s->record.backup == BACKUP_NONE || !has_backups(m, &s->record))
        return 0;
    return is_engines(&s->record) ? drive_backup_remove(m, s->record.id, err)
                                  : m->archives->remove_backup(m->user, s->record.id, err);
}

/* Whose container somebody removed is stopped, as one that ended. */
static bool may_be_lost(const struct sandbox_record *r) {
    return r->state == SANDBOX_ERROR || (is_engines(r) && r->state == SANDBOX_STOPPED);
}

/* The engine makes it as one that was archived, and has an archive of it from then on. */
static int restore_by_engine(struct manager *m, struct sandbox *s, bool *ret,
                             struct cay_error *err) {
    int r = drive_backup_restore(m, s->record.id, ret, err);
    (void)pthread_mutex_lock(&m->lock);
    if (r == 0 && *ret)
        s->record.archive_bytes = MAX(s->record.archive_bytes, (int64_t)1);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

int backup_bring_back(struct manager *m, struct sandbox *s, struct cay_error *err) {
    char time[32], text[64];
    bool restored = false;
    (void)pthread_mutex_lock(&m->lock);
    bool is_lost = may_be_lost(&s->record) && s->record.backup_ms != 0;
    if (is_lost)
        s->deadline = 0; /* it takes what it takes */
    (void)pthread_mutex_unlock(&m->lock);
    if (!is_lost || !has_backups(m, &s->record))
        return 0;
    int r = is_engines(&s->record) ? restore_by_engine(m, s, &restored, err)
                                   : m->archives->restore_backup(m->user, &s->record,
                                                                 turn_progress(s), &restored, err);
    if (r < 0)
        return error_prefix(err, "restoring sandbox '%s' from its backup", s->record.name);
    if (restored) {
        (void)snprintf(text, sizeof text, "its files are those of its backup of %s",
                       clock_iso8601(s->record.backup_ms, time));
        event_note(m, s, text);
    }
    return 0;
}

/* ---- making one ---- */

static int write_backup(struct manager *m, struct sandbox *s, struct cay_error *err) {
    uint64_t bytes = 0, max = quota_disk_left(m, s);
    int r = max == 0                 ? -CAY_LIMIT_REACHED
            : is_engines(&s->record) ? drive_backup(m, &s->record, max, &bytes, err)
                                     : m->archives->backup(m->user, &s->record, max, &bytes, err);
    if (r == -CAY_LIMIT_REACHED) {
        char text[32];
        error_set(err, CAY_LIMIT_REACHED, "the key's disk has no more than %s for it",
                  str_bytes(max, text));
        return error_remedy(err,
                            "remove or shrink a sandbox, or ask for a key with a higher --disk");
    }
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&m->lock);
    s->record.backup_bytes = (int64_t)bytes;
    s->record.backup_ms = clock_wall_ms();
    (void)quota_settle(m, s, NULL); /* its account is there */
    (void)pthread_mutex_unlock(&m->lock);
    return 0;
}

/* What runs stands still meanwhile, so that the files are those of one moment. ret: it still does,
 * since its engine went away. */
static int copy_frozen(struct manager *m, struct sandbox *s, bool runs, bool *ret,
                       struct cay_error *err) {
    struct cay_error later;
    int r = runs ? drive_pause(m, s->record.id, err) : 0;
    if (r < 0)
        return r;
    r = write_backup(m, s, err);
    int back = runs ? drive_resume(m, s->record.id, &later) : 0;
    *ret = back < 0;
    if (r == 0 && back < 0)
        *err = later;
    return r < 0 ? r : back;
}

static int check_state(const struct sandbox *s, struct cay_error *err) {
    enum sandbox_state state = s->record.state;
    if (state == SANDBOX_STARTED || state == SANDBOX_STOPPED || state == SANDBOX_PAUSED)
        return 0;
    return turn_refuse(s, "backed up", err);
}

static int make(struct manager *m, struct sandbox *s, bool *ret_frozen, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    s->deadline = 0; /* whoever does it watches its progress */
    bool runs = s->record.state == SANDBOX_STARTED;
    int r = check_state(s, err);
    if (r == 0 && s->wants_no_backup)
        r = error_set(err, CAY_CONFLICT, "nobody wants it any more");
    (void)pthread_mutex_unlock(&m->lock);
    if (r == 0)
        r = become(m, s, BACKUP_IN_PROGRESS, err);
    return r < 0 ? r : copy_frozen(m, s, runs, ret_frozen, err);
}

static void settle(struct manager *m, struct sandbox *s, int result, const struct cay_error *why) {
    char text[SANDBOX_TEXT_SIZE];
    struct cay_error err;
    if (result < 0)
        (void)snprintf(text, sizeof text, "its backup failed: %.400s", why->message);
    else
        (void)snprintf(text, sizeof text, "it was backed up");
    event_note(m, s, text); /* first: whoever sees how it ended finds why */
    if (become(m, s, result < 0 ? BACKUP_ERROR : BACKUP_COMPLETED, &err) < 0)
        log_event(LOG_LEVEL_WARN, "a backup is not noted", "why", "%s", err.message);
}

struct backing {
    struct manager *m;
    struct sandbox *s; /* whose turn it has */
};

static void *back_up(void *arg) {
    struct backing *b = arg;
    struct cay_error why = {0};
    bool is_frozen = false;
    int r = make(b->m, b->s, &is_frozen, &why);
    if (is_frozen) /* it stays under way, or nobody would know why it stands still */
        log_event(LOG_LEVEL_WARN, "a backup left its sandbox frozen", "why", "%s", why.message);
    else
        settle(b->m, b->s, r, &why);
    (void)pthread_mutex_lock(&b->m->lock);
    if (is_frozen)
        reaper_wake(b->m);
    (void)pthread_mutex_unlock(&b->m->lock);
    turn_end(b->m, b->s);
    free(b);
    return NULL;
}

/* ---- the verb ---- */

static int refuse_none(struct cay_error *err) {
    error_set(err, CAY_UNSUPPORTED, "sandboxes are not backed up here");
    return error_remedy(err, "copy what is needed out of it: cay cp");
}

/* Before its turn is waited for, which would take as long as the one that is under way. */
static int check_free(struct manager *m, const char *who, struct cay_error *err) {
    struct sandbox *s = NULL;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_find(m, who, &s, err);
    if (r == 0 && !has_backups(m, &s->record))
        r = refuse_none(err);
    if (r == 0 && backup_is_under_way(&s->record)) {
        error_set(err, CAY_CONFLICT, "sandbox '%s' is being backed up already", s->record.name);
        r = error_remedy(err, "wait for it");
    }
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static int admit(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = check_state(s, err);
    s->wants_no_backup = false;
    (void)pthread_mutex_unlock(&m->lock);
    return r < 0 ? r : become(m, s, BACKUP_PENDING, err);
}

/* Takes the turn over. */
static int begin(struct manager *m, struct sandbox *s, struct cay_error *err) {
    pthread_t thread;
    struct backing *b = calloc(1, sizeof *b);
    if (b == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *b = (struct backing){m, s};
    int r = pthread_create(&thread, NULL, back_up, b);
    if (r == 0)
        return -pthread_detach(thread);
    free(b);
    return error_sys(err, r, "starting a backup");
}

int manager_backup(struct manager *m, const char *who, struct cay_error *err) {
    struct sandbox *s;
    struct cay_error here = {0};
    int r = check_free(m, who, err);
    if (r == 0)
        r = turn_take(m, who, &s, err);
    if (r != 0)
        return r;
    r = admit(m, s, &here);
    if (r == 0) {
        r = begin(m, s, &here);
        if (r == 0)
            return 0;
        settle(m, s, r, &here);
    }
    turn_end(m, s);
    if (err != NULL)
        *err = here;
    return r;
}

/* ---- what a daemon before has left ---- */

void backup_forget(struct manager *m, struct sandbox *s) {
    static const struct cay_error why = {.message = "its engine went away, or the daemon ended"};
    settle(m, s, -1, &why);
}

int backup_thaw(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = drive_resume(m, s->record.id, err);
    if (r == 0)
        backup_forget(m, s);
    return r;
}

void backup_settle_all(struct manager *m) {
    size_t count = 0;
    static const struct cay_error why = {.message = "the daemon ended while it was made"};
    struct sandbox **v = table_snapshot(m, &count);
    for (size_t i = 0; v != NULL && i < count; i++)
        if (backup_is_under_way(&v[i]->record))
            settle(m, v[i], -1, &why);
    if (v != NULL)
        table_snapshot_free(m, v, count);
}
