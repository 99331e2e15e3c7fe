/* Named volumes: in memory, since sandboxes ask for them by name, and in the database. The row
 * comes before the files and goes after them, so that no files are ever nobody's. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/access/intent.h"
#include "manager/files/volume_change.h"

enum { VOLUMES_MAX = 10000 };

/* ---- the table; with the lock held ---- */

struct budget_charge volumes_charge(const struct volume *v) {
    struct budget_charge c = budget_charge_for(v->owner, v->made_by);
    c.amount[BUDGET_VOLUMES] = 1;
    budget_add_disk(&c, BUDGET_DISK_VOLUMES, v->size_bytes);
    return c;
}

/* The key whose limits hold for it. */
static const char *volumes_key(const struct volume *v) {
    return v->made_by[0] != '\0' ? v->made_by : v->owner;
}

/* What it takes of the budget is charged, or asked for first. */
static int add(struct manager *m, const struct volume *v, bool asks, struct cay_error *err) {
    if (m->volume_count == VOLUMES_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "Maximum number of volumes (%d) reached", VOLUMES_MAX);
        return error_remedy(err, "remove one with: cay volume rm NAME");
    }
    struct volume *more = reallocarray(m->volumes, m->volume_count + 1, sizeof *more);
    if (more == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    m->volumes = more;
    const struct budget_charge charge = volumes_charge(v);
    int r = asks ? budget_admit(m, &charge, err) : budget_charge(m, &charge, err);
    if (r == 0)
        m->volumes[m->volume_count++] = *v;
    return r;
}

struct volume *volumes_find_id(const struct manager *m, const char *id) {
    for (size_t i = 0; i < m->volume_count; i++)
        if (str_equal(m->volumes[i].id, id))
            return &m->volumes[i];
    return NULL;
}

static struct volume *find_name(const struct manager *m, const char *owner, const char *name) {
    for (size_t i = 0; i < m->volume_count; i++)
        if (str_equal(m->volumes[i].owner, owner) && str_equal(m->volumes[i].name, name))
            return &m->volumes[i];
    return NULL;
}

static void drop(struct manager *m, const char *id) {
    struct volume *v = volumes_find_id(m, id);
    if (v == NULL)
        return;
    const struct budget_charge charge = volumes_charge(v);
    budget_release(m, &charge);
    size_t at = (size_t)(v - m->volumes);
    memmove(v, v + 1, (--m->volume_count - at) * sizeof *v);
}

static bool is_visible(const struct volume *v, const struct key *caller) {
    return key_sees_all(caller) || str_equal(v->owner, key_owner(caller));
}

static int refuse_unknown(const char *who, struct cay_error *err) {
    char shown[80];
    error_set(err, CAY_NOT_FOUND, "there is no volume '%s'", str_escape(shown, sizeof shown, who));
    return error_remedy(err, "make it with: cay volume create NAME; a folder of the host begins "
                             "with '/'");
}

int volumes_find(const struct manager *m, const struct key *caller, const char *who,
                 struct volume **ret, struct cay_error *err) {
    struct volume *v = find_name(m, key_owner(caller), who);
    if (v == NULL)
        v = volumes_find_id(m, who);
    for (size_t i = 0; v == NULL && i < m->volume_count; i++)
        if (str_equal(m->volumes[i].name, who) && is_visible(&m->volumes[i], caller))
            v = &m->volumes[i];
    if (v == NULL || !is_visible(v, caller))
        return refuse_unknown(who, err);
    *ret = v;
    return 0;
}

static bool uses(const struct sandbox_record *r, const char *id) {
    for (size_t i = 0; i < r->volumes.len; i++)
        if (str_starts(r->volumes.v[i], id) && strchr(":/", r->volumes.v[i][ID_LEN]) != NULL)
            return true;
    return false;
}

int volumes_check_rest(const struct volume *v, struct cay_error *err) {
    if (!v->passing && !v->growing)
        return 0;
    error_set(err, CAY_CONFLICT, "volume '%s' is being %s", v->name,
              v->growing ? "resized" : "made or removed");
    return error_remedy(err, "try again in a moment");
}

static bool is_at_rest(const struct sandbox *s) {
    return !s->changing &&
           (s->record.state == SANDBOX_STOPPED || s->record.state == SANDBOX_ARCHIVED);
}

int volumes_check_idle(const struct manager *m, const struct volume *v, struct cay_error *err) {
    for (size_t i = 0; i < m->count; i++) {
        const struct sandbox *s = m->boxes[i];
        if (!uses(&s->record, v->id) || is_at_rest(s))
            continue;
        error_set(err, CAY_CONFLICT, "volume '%s' has no size yet, and sandbox '%s' uses it",
                  v->name, s->record.name);
        return error_remedy(err, "stop that one first: cay stop %s", s->record.name);
    }
    return 0;
}

static int check_free(const struct manager *m, const struct volume *v, struct cay_error *err) {
    int busy = volumes_check_rest(v, err);
    if (busy < 0)
        return busy;
    for (size_t i = 0; i < m->count; i++) {
        const struct sandbox_record *r = &m->boxes[i]->record;
        if (!uses(r, v->id))
            continue;
        error_set(err, CAY_CONFLICT, "volume '%s' is used by sandbox '%s'", v->name, r->name);
        return error_remedy(err, "remove that one first: cay rm %s", r->name);
    }
    return 0;
}

static int load_volume(void *user, const struct volume *v, struct cay_error *err) {
    struct volume loaded = *v;
    loaded.passing = loaded.is_unfinished = !v->is_made; /* until volumes_undo */
    return add(user, &loaded, false, err);
}

int volumes_load(struct manager *m, struct cay_error *err) {
    return db_volume_list(m->db, load_volume, m, err);
}

void volumes_note_errors(struct manager *m, const char *id, uint64_t count) {
    struct volume *v = volumes_find_id(m, id);
    if (v == NULL || count <= v->errors)
        return;
    v->errors = count;
    log_event(LOG_LEVEL_WARN, "the file system of a volume has errors", "id",
              "%s: it is read-only until the sandboxes that use it were stopped; the next start "
              "repairs it",
              id);
}

/* ---- for sandboxes ---- */

/* Whose owner is nobody else may have any by its id. */
int volumes_resolve(struct manager *m, const char *owner, const char *text, struct strv *ret,
                    struct cay_error *err) {
    char name[NAME_MAX_LEN + 1] = "";
    size_t len = strcspn(text, ":/"); /* "NAME:BOX" or "NAME/PATH:BOX" */
    if (len >= sizeof name || text[len] == '\0')
        return refuse_unknown(text, err);
    memcpy(name, text, len);
    (void)pthread_mutex_lock(&m->lock);
    const struct volume *v = find_name(m, owner, name);
    if (v == NULL)
        v = volumes_find_id(m, name);
    if (v != NULL && owner[0] != '\0' && !str_equal(v->owner, owner))
        v = NULL;
    int r = v == NULL ? refuse_unknown(name, err) : 0;
    if (v != NULL && strv_pushf(ret, "%s%s", v->id, text + len) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

int volumes_check(const struct manager *m, const struct sandbox_record *r, struct cay_error *err) {
    for (size_t i = 0; i < r->volumes.len; i++) {
        char id[ID_SIZE] = "";
        if (r->volumes.v[i][0] == '/')
            continue;
        (void)snprintf(id, sizeof id, "%s", r->volumes.v[i]);
        const struct volume *v = volumes_find_id(m, id);
        if (v == NULL)
            return refuse_unknown(id, err);
        int e = v->passing ? volumes_check_rest(v, err)
                           : volumes_check_bound(m, sandbox_record_key(r), v, err);
        if (e < 0)
            return e;
    }
    return 0;
}

/* ---- for callers ---- */

static int take_place(struct manager *m, struct volume *v, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0 && find_name(m, v->owner, v->name) != NULL) {
        error_set(err, CAY_CONFLICT, "a volume with the name '%s' exists", v->name);
        r = error_remedy(err, "choose another name");
    }
    if (r == 0)
        r = volumes_choose_size(m, volumes_key(v), &v->size_bytes, err);
    if (r == 0)
        r = add(m, v, true, err);
    if (r == 0)
        m->changes++;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

/* The end of making or removing one. */
static void settle(struct manager *m, const struct volume *now, bool stays) {
    (void)pthread_mutex_lock(&m->lock);
    struct volume *v = volumes_find_id(m, now->id);
    if (v != NULL) {
        v->passing = false;
        v->is_made = now->is_made;
    }
    if (!stays)
        drop(m, now->id);
    m->changes--;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

static int make(struct manager *m, struct volume *v, struct cay_error *err) {
    int r = db_volume_add(m->db, v, err);
    if (r < 0)
        return r;
    r = drive_volume_size(m, m->engine->ops->volume_make, v->id, v->size_bytes, err);
    v->is_made = r == 0;
    if (r == 0)
        r = db_volume_update(m->db, v, err);
    if (r < 0)
        (void)db_volume_remove(m->db, v->id, NULL); /* or the next manager undoes it */
    return r;
}

int manager_volume_create(struct manager *m, const struct key *caller,
                          const struct volume_request *request, struct volume *ret,
                          struct cay_error *err) {
    struct volume v = {
        .created_ms = clock_wall_ms(), .size_bytes = request->size_bytes, .passing = true};
    int r = request_name(request->name, err);
    if (r == 0)
        r = id_new(v.id, err);
    if (r < 0)
        return r;
    key_stamp(caller, v.owner, v.made_by);
    memcpy(v.name, request->name, sizeof v.name);
    r = take_place(m, &v, err);
    if (r < 0)
        return r;
    r = make(m, &v, err);
    settle(m, &v, r == 0);
    *ret = v;
    return r;
}

int manager_volume_get(struct manager *m, const struct key *caller, const char *who,
                       struct volume *ret, struct cay_error *err) {
    struct volume *v = NULL;
    (void)pthread_mutex_lock(&m->lock);
    int r = volumes_find(m, caller, who, &v, err);
    if (r == 0)
        *ret = *v;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static int forget(struct manager *m, const char *id, const char *who, struct cay_error *err) {
    struct intent_write w = intent_open(m, DB_FLUSH, INTENT_VOLUME);
    int r;
    do
        r = db_volume_remove(m->db, id, err);
    while (intent_again(&w, &r, who, "", err));
    return r;
}

static int unmake(struct manager *m, const struct volume *v, const char *who,
                  struct cay_error *err) {
    int r = drive_volume_remove(m, v->id, err);
    return r < 0 ? r : forget(m, v->id, who, err);
}

int manager_volume_remove(struct manager *m, const struct key *caller, const char *who,
                          struct cay_error *err) {
    struct volume *v = NULL, gone = {0};
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0)
        r = volumes_find(m, caller, who, &v, err);
    if (r == 0)
        r = check_free(m, v, err);
    if (r == 0) {
        v->passing = true;
        gone = *v;
        m->changes++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = unmake(m, &gone, who, err);
    settle(m, &gone, r < 0);
    return r;
}

/* One that this process did not begin to make: nobody else touches it. */
static bool take_unmade(struct manager *m, struct volume *ret) {
    bool found = false;
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; !found && i < m->volume_count; i++) {
        *ret = m->volumes[i];
        found = ret->is_unfinished;
        if (found) {
            m->volumes[i].is_unfinished = false;
            m->changes++;
        }
    }
    (void)pthread_mutex_unlock(&m->lock);
    return found;
}

void volumes_undo(struct manager *m) {
    struct volume v;
    while (take_unmade(m, &v)) {
        struct cay_error err = {0};
        int r = unmake(m, &v, v.name, &err);
        if (r < 0)
            log_event(LOG_LEVEL_WARN, "a volume that was not made is left", "volume", "%s", v.id);
        settle(m, &v, false);
    }
}

int manager_volume_list(struct manager *m, const struct key *caller, struct volume **ret,
                        size_t *ret_count, struct cay_error *err) {
    size_t n = 0;
    (void)pthread_mutex_lock(&m->lock);
    struct volume *v = calloc(m->volume_count + 1, sizeof *v);
    for (size_t i = 0; v != NULL && i < m->volume_count; i++)
        if (is_visible(&m->volumes[i], caller))
            v[n++] = m->volumes[i];
    (void)pthread_mutex_unlock(&m->lock);
    if (v == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *ret = v;
    *ret_count = n;
    return 0;
}
