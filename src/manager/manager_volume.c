/* Named volumes: in memory, since sandboxes ask for them by name, and in the database. The row
 * comes before the folder and goes after it, so that no folder is ever nobody's. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "manager/intent.h"
#include "manager/manager_internal.h"

enum { VOLUMES_MAX = 10000 };

/* ---- the table; with the lock held ---- */

static int add(struct manager *m, const struct volume *v, struct cay_error *err) {
    if (m->volume_count == VOLUMES_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "Maximum number of volumes (%d) reached", VOLUMES_MAX);
        return error_remedy(err, "remove one with: cay volume rm NAME");
    }
    struct volume *more = reallocarray(m->volumes, m->volume_count + 1, sizeof *more);
    if (more == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    m->volumes = more;
    m->volumes[m->volume_count++] = *v;
    return 0;
}

static struct volume *find_id(const struct manager *m, const char *id) {
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
    struct volume *v = find_id(m, id);
    if (v == NULL)
        return;
    size_t at = (size_t)(v - m->volumes);
    memmove(v, v + 1, (--m->volume_count - at) * sizeof *v);
}

static bool is_visible(const struct volume *v, const struct key *caller) {
    return key_sees_all(caller) || str_equal(v->owner, caller->id);
}

static int refuse_unknown(const char *who, struct cay_error *err) {
    char shown[80];
    error_set(err, CAY_NOT_FOUND, "there is no volume '%s'", str_escape(shown, sizeof shown, who));
    return error_remedy(err, "make it with: cay volume create NAME; a folder of the host begins "
                             "with '/'");
}

static int find(const struct manager *m, const struct key *caller, const char *who,
                struct volume **ret, struct cay_error *err) {
    struct volume *v = find_name(m, caller->id, who);
    if (v == NULL)
        v = find_id(m, who);
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

static int check_free(const struct manager *m, const struct volume *v, struct cay_error *err) {
    if (v->passing) {
        error_set(err, CAY_CONFLICT, "volume '%s' is being made or removed", v->name);
        return error_remedy(err, "try again in a moment");
    }
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
    return add(user, v, err);
}

int volumes_load(struct manager *m, struct cay_error *err) {
    return db_volume_list(m->db, load_volume, m, err);
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
        v = find_id(m, name);
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
        const struct volume *v = find_id(m, id);
        if (v == NULL || v->passing)
            return refuse_unknown(id, err);
    }
    return 0;
}

/* ---- for callers ---- */

/* The key as it is now: the caller's copy may be of before a change. */
static int check_quota(const struct manager *m, const char *owner, struct cay_error *err) {
    const struct key *k = owner[0] == '\0' ? NULL : keys_find(m, owner);
    int64_t count = 0;
    for (size_t i = 0; k != NULL && i < m->volume_count; i++)
        count += str_equal(m->volumes[i].owner, owner);
    if (k == NULL || k->max_volumes == 0 || count < k->max_volumes)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "Maximum number of volumes (%lld) of key '%s' reached",
              (long long)k->max_volumes, k->name);
    return error_remedy(err, "remove one with: cay volume rm NAME, or ask for a key with a higher "
                             "--max-volumes");
}

static int take_place(struct manager *m, const struct volume *v, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0 && find_name(m, v->owner, v->name) != NULL) {
        error_set(err, CAY_CONFLICT, "a volume with the name '%s' exists", v->name);
        r = error_remedy(err, "choose another name");
    }
    if (r == 0)
        r = check_quota(m, v->owner, err);
    if (r == 0)
        r = add(m, v, err);
    if (r == 0)
        m->changes++;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

/* The end of making or removing one. */
static void settle(struct manager *m, const char *id, bool stays) {
    (void)pthread_mutex_lock(&m->lock);
    struct volume *v = find_id(m, id);
    if (v != NULL)
        v->passing = false;
    if (!stays)
        drop(m, id);
    m->changes--;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

int manager_volume_create(struct manager *m, const struct key *caller, const char *name,
                          struct volume *ret, struct cay_error *err) {
    struct volume v = {.created_ms = clock_wall_ms(), .passing = true};
    int r = request_name(name, err);
    if (r == 0)
        r = id_new(v.id, err);
    if (r < 0)
        return r;
    memcpy(v.owner, caller->id, sizeof v.owner);
    (void)snprintf(v.name, sizeof v.name, "%s", name);
    r = take_place(m, &v, err);
    if (r < 0)
        return r;
    r = db_volume_add(m->db, &v, err);
    if (r == 0) {
        r = drive_volume(m, m->engine->ops->volume_make, v.id, err);
        if (r < 0)
            (void)db_volume_remove(m->db, v.id, NULL); /* an empty one more, at worst */
    }
    settle(m, v.id, r == 0);
    *ret = v;
    return r;
}

int manager_volume_get(struct manager *m, const struct key *caller, const char *who,
                       struct volume *ret, struct cay_error *err) {
    struct volume *v = NULL;
    (void)pthread_mutex_lock(&m->lock);
    int r = find(m, caller, who, &v, err);
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

int manager_volume_remove(struct manager *m, const struct key *caller, const char *who,
                          struct cay_error *err) {
    struct volume *v = NULL;
    char id[ID_SIZE] = "";
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0)
        r = find(m, caller, who, &v, err);
    if (r == 0)
        r = check_free(m, v, err);
    if (r == 0) {
        v->passing = true;
        memcpy(id, v->id, sizeof id);
        m->changes++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = drive_volume(m, m->engine->ops->volume_remove, id, err);
    if (r == 0)
        r = forget(m, id, who, err);
    settle(m, id, r < 0);
    return r;
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
