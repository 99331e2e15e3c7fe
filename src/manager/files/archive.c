/* Archives: what a sandbox has written, kept outside of the engine while nobody needs it.
 *
 * The order keeps one whole copy at every moment. To archive: row "archiving", archive, row
 * "archived", and only then the files go. To restore: row "restoring", files, start, row "started",
 * and only then the archive goes. A row with archive_bytes may have an archive; one without has
 * none. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engines.h"
#include "manager/files/space.h"
#include "manager/internal.h"

/* ---- for who has the turn ---- */

/* The archive's size; 1 for one that is not finished. */
static void note_archive(struct manager *m, struct sandbox *s, int64_t bytes) {
    (void)pthread_mutex_lock(&m->lock);
    s->record.archive_bytes = bytes;
    s->deadline = 0; /* it takes what it takes: whoever does it watches its progress */
    (void)pthread_mutex_unlock(&m->lock);
}

const struct archive_ops *archives_of(const struct manager *m, const struct sandbox_record *r) {
    return engine_can(r->engine, ENGINE_HAS_ARCHIVES) ? NULL
                                                      : m->archives; /* of disks that we made */
}

static bool has_archives(const struct manager *m, const struct sandbox_record *r) {
    return engine_can(r->engine, ENGINE_HAS_ARCHIVES) || m->archives != NULL;
}

static int require_archives(const struct manager *m, const struct sandbox *s,
                            struct cay_error *err) {
    if (has_archives(m, &s->record))
        return 0;
    error_set(err, CAY_UNSUPPORTED, "sandboxes are not archived here");
    return error_remedy(err, "stop it instead: cay stop");
}

/* Its files are in the archive: they and its processes' socket are not needed any more. What fails
 * is tried again by the clean-up. */
int archive_empty(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = drive_remove(m, s->record.id, err);
    if (r == 0)
        socket_remove(s->record.id);
    return r;
}

static int write_archive(struct manager *m, struct sandbox *s, struct cay_error *err) {
    uint64_t bytes = 0;
    const struct archive_ops *a = archives_of(m, &s->record);
    int r = a != NULL ? a->write(m->user, &s->record, turn_progress(s), &bytes, err)
                      : drive_archive(m, &s->record, &bytes, err);
    if (r < 0)
        return r;
    note_archive(m, s, (int64_t)MAX(bytes, (uint64_t)1));
    return turn_become(m, s, SANDBOX_ARCHIVED, NULL, err);
}

int change_archive(struct manager *m, struct sandbox *s, permission may, struct cay_error *err) {
    struct cay_error here = {0};
    int64_t before = s->record.archive_bytes;
    int r = require_archives(m, s, err);
    if (r == 0)
        r = manager_check_space(m, err);
    if (r < 0)
        return r;
    note_archive(m, s, MAX(before, (int64_t)1));
    r = turn_become(m, s, SANDBOX_ARCHIVING, may, err);
    if (r < 0) {
        note_archive(m, s, before);
        return r;
    }
    r = write_archive(m, s, &here);
    if (r == 0) {
        if (archive_empty(m, s, &here) < 0)
            log_event(LOG_LEVEL_WARN, "files of an archived sandbox not removed", "why", "%s: %s",
                      s->record.id, here.message);
        return 0;
    }
    (void)error_prefix(&here, "archiving sandbox '%s'", s->record.name);
    /* which a restart would find too */
    (void)turn_become_for(m, s, SANDBOX_STOPPED, here.message, here.remedy, NULL);
    if (err != NULL)
        *err = here;
    return r;
}

int archive_bring_back(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct cay_error here = {0};
    (void)pthread_mutex_lock(&m->lock);
    enum sandbox_state state = s->record.state;
    (void)pthread_mutex_unlock(&m->lock);
    if (state != SANDBOX_ARCHIVED && state != SANDBOX_RESTORING)
        return 0;
    int r = require_archives(m, s, err);
    if (r == 0)
        r = manager_check_space(m, err);
    if (r == 0)
        r = turn_become(m, s, SANDBOX_RESTORING, NULL, err);
    if (r < 0)
        return r;
    note_archive(m, s, s->record.archive_bytes);
    const struct archive_ops *a = archives_of(m, &s->record); /* else the engine's start does it */
    r = a != NULL ? a->restore(m->user, &s->record, turn_progress(s), &here) : 0;
    if (r == 0)
        return 0;
    (void)turn_become(m, s, SANDBOX_ARCHIVED, NULL, NULL); /* which a restart would find too */
    (void)error_prefix(&here, "restoring sandbox '%s'", s->record.name);
    if (err != NULL)
        *err = here;
    return r;
}

int archive_drop(struct manager *m, struct sandbox *s, struct cay_error *err) {
    const struct archive_ops *a = archives_of(m, &s->record);
    if (s->record.archive_bytes == 0 || !has_archives(m, &s->record))
        return 0;
    int r =
        a != NULL ? a->remove(m->user, s->record.id, err) : drive_unarchive(m, s->record.id, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&m->lock);
    s->record.archive_bytes = 0;
    (void)pthread_mutex_unlock(&m->lock);
    return turn_save(m, s, DB_FLUSH_LATER, err);
}

bool archive_is_needless(const struct sandbox *s) {
    enum sandbox_state state = s->record.state;
    /* a container that was made from its archive needs it as long as it is there */
    return !engine_can(s->record.engine, ENGINE_HAS_ARCHIVES) && s->record.archive_bytes != 0 &&
           !s->changing &&
           (state == SANDBOX_STARTED || state == SANDBOX_STOPPED || state == SANDBOX_PAUSED);
}

/* ---- the verb ---- */

static int archive(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    enum sandbox_state state = s->record.state;
    int r = 0;
    if (state == SANDBOX_ERROR || state == SANDBOX_CREATING || state == SANDBOX_DESTROYING)
        r = turn_refuse(s, "archived", err);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0 || state == SANDBOX_ARCHIVED)
        return r;
    if (state == SANDBOX_RESTORING) /* as a failure left it */
        return turn_become(m, s, SANDBOX_ARCHIVED, NULL, err);
    r = require_archives(m, s, err); /* before anything is stopped for it */
    if (r == 0 && state != SANDBOX_STOPPED && state != SANDBOX_ARCHIVING)
        r = change_stop(m, s, "", NULL, state == SANDBOX_PAUSED ? 0 : settings_grace(m), err);
    return r < 0 ? r : change_archive(m, s, NULL, err);
}

int manager_archive(struct manager *m, const char *who, int progress_fd, struct cay_error *err) {
    struct sandbox *s;
    int r = turn_take(m, who, &s, err);
    if (r < 0)
        return r;
    turn_report(m, s, &progress_fd);
    r = archive(m, s, err);
    turn_end(m, s);
    return r;
}

/* ---- by itself ---- */

bool archive_is_due(const struct manager *m, const struct sandbox *s) {
    int64_t since = clock_ms() - s->stopped_at;
    return has_archives(m, &s->record) && s->record.state == SANDBOX_STOPPED &&
           s->operations == 0 && !s->record.pooled && s->record.auto_archive_minutes > 0 &&
           since >= limits_minutes_ms(&m->limits, s->record.auto_archive_minutes);
}
