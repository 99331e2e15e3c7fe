/* After damage to the database the daemon changes nothing by itself and for nobody, until somebody
 * has decided: to restore a backup, or to go on with what was saved. A file in the daemon's folder
 * says so, and what was found. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/files/rescue.h"
#include "manager/internal.h"

#define MARK "rescue.txt"

int manager_check_rescue(struct manager *m, struct cay_error *err) {
    if (!m->is_rescue)
        return 0;
    error_set(err, CAY_UNAVAILABLE,
              "the database was damaged; what could be saved is served, and nothing is changed");
    return error_remedy(err, "daemon/" MARK " in the state folder says what was lost; restore a "
                             "backup of daemon/cay.db, or go on without; then remove " MARK
                             " and restart the daemon (docs/operating.md)");
}

int rescue_open(struct manager *m, const char *folder, struct cay_error *err) {
    char path[PATH_MAX], mark[PATH_MAX], kept[PATH_MAX], name[64];
    (void)snprintf(name, sizeof name, "damaged-%lld", (long long)(clock_wall_ms() / 1000));
    int r = path_join(path, sizeof path, folder, "cay.db");
    if (r == 0)
        r = path_join(mark, sizeof mark, folder, MARK);
    if (r == 0)
        r = path_join(kept, sizeof kept, folder, name);
    if (r < 0)
        return error_sys(err, -r, "naming the database in '%s'", folder);
    r = db_open_or_salvage(path, kept, mark, &m->db, err);
    m->is_rescue = access(mark, F_OK) == 0;
    if (m->is_rescue)
        log_event(LOG_LEVEL_ERROR, "the database was damaged: nothing is changed", "see", "%s",
                  mark);
    return r;
}

/* ---- what has lost its row ---- */

static enum sandbox_state state_of(enum engine_state state) {
    return state == ENGINE_RUNNING  ? SANDBOX_STARTED
           : state == ENGINE_PAUSED ? SANDBOX_PAUSED
                                    : SANDBOX_STOPPED;
}

/* As much of it as the engine knows. */
static int make_record(const struct manager *m, enum engine_kind kind,
                       const struct engine_sandbox *e, struct sandbox_record *ret) {
    if (sandbox_record_copy(&m->defaults, ret) < 0 ||
        str_copy(ret->name, sizeof ret->name, e->id) < 0 ||
        str_copy(ret->image_name, sizeof ret->image_name, e->image[0] == '\0' ? "host" : e->image) <
            0)
        return -ENOMEM;
    memcpy(ret->id, e->id, sizeof ret->id);
    memcpy(ret->image, e->image, sizeof ret->image);
    ret->state = state_of(e->state);
    ret->engine = kind;
    if (ret->tier == TIER_NONE)
        ret->tier = m->best_tier[kind];
    ret->memory_bytes = e->memory_bytes;
    ret->disk_bytes = e->disk_bytes;
    ret->cpu_quota_us = e->cpu_quota_us;
    ret->pids = e->pids;
    ret->on_failure = FAILURE_KEEP;
    ret->auto_stop_minutes = ret->auto_archive_minutes = 0; /* it was somebody's: left alone */
    ret->auto_delete_minutes = -1;
    ret->created_ms = ret->updated_ms = ret->active_ms = clock_wall_ms();
    struct cay_error ignored; /* without its image it is still to be looked into */
    if (m->describe == NULL || m->describe(m->user, ret, &ignored) < 0 || ret->work_dir[0] == '\0')
        return str_copy(ret->work_dir, sizeof ret->work_dir, "/");
    return 0;
}

static int adopt(struct manager *m, enum engine_kind kind, const struct engine_sandbox *e,
                 struct cay_error *err) {
    struct sandbox *s = calloc(1, sizeof *s);
    if (s == NULL || make_record(m, kind, e, &s->record) < 0) {
        free(s);
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    (void)sandbox_ref(s);
    s->active_at = s->stopped_at = clock_ms();
    int r = db_add(m->db, &s->record, DB_FLUSH, err);
    (void)pthread_mutex_lock(&m->lock);
    if (r == 0)
        r = table_add(m, s, err);
    sandbox_unref(s);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

/* In memory only: whoever goes on with what was saved has the reconciler compare. */
static void see(struct manager *m, const char *id, enum sandbox_state state) {
    (void)pthread_mutex_lock(&m->lock);
    struct sandbox *s = table_find_id(m, id);
    if (s != NULL && s->record.state != SANDBOX_ERROR && s->record.state != SANDBOX_ARCHIVED)
        s->record.state = state;
    if (s != NULL)
        (void)quota_settle(m, s, NULL); /* its account is there */
    (void)pthread_mutex_unlock(&m->lock);
}

static int adopt_unknown(struct manager *m, enum engine_kind kind, const struct engine_sandbox *v,
                         size_t count, struct buf *text, struct cay_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        (void)pthread_mutex_lock(&m->lock);
        bool is_known = table_find_id(m, v[i].id) != NULL;
        (void)pthread_mutex_unlock(&m->lock);
        if (is_known) {
            see(m, v[i].id, state_of(v[i].state));
            continue;
        }
        r = adopt(m, kind, &v[i], err);
        (void)buf_printf(text,
                         "sandbox %s had lost its row: name, owner, labels, environment, volumes "
                         "and intervals are gone; its files, image and limits are not.\n",
                         v[i].id);
    }
    return r;
}

static int adopt_of(struct manager *m, enum engine_kind kind, struct buf *text,
                    struct cay_error *err) {
    _cleanup_(freep) struct engine_sandbox *v = NULL;
    struct engine *e = m->engines[kind];
    size_t count = 0;
    int r = e == NULL || !m->is_used[kind] ? 0 : e->ops->list(e, &v, &count, err);
    if (r < 0 && kind != m->kind) {
        (void)buf_printf(text, "engine %s is away: sandboxes of it may have lost their rows.\n",
                         engine_kind_name(kind));
        return 0;
    }
    return r < 0 ? r : adopt_unknown(m, kind, v, count, text, err);
}

int rescue_adopt(struct manager *m, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(1 << 20);
    int r = 0;
    for (enum engine_kind k = ENGINE_NATIVE; r == 0 && k < ENGINE_KINDS; k++)
        r = adopt_of(m, k, &text, err);
    _cleanup_(closep) int fd = text.len == 0 ? -1 : open(MARK, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0)
        (void)fd_write_all(fd, text.data, text.len); /* the list of sandboxes shows them too */
    return r;
}
