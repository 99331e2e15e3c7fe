/* How large named volumes are: chosen, charged to the disk of the owner's key, and raised. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/files/volume_change.h"

static const uint64_t size_by_default = UINT64_C(5) << 30;

/* True if volumes have a limit here; *why has the reason if not. */
static bool can_limit(const struct manager *m, struct cay_error *why) {
    *why = m->no_disk_limits;
    if (m->kind == ENGINE_NATIVE)
        return why->code == CAY_OK;
    error_set(why, CAY_UNSUPPORTED, "the engine %s limits no volumes", engine_kind_name(m->kind));
    (void)error_remedy(why, "use engine = \"native\", as root");
    return false;
}

static int refuse_size(const struct cay_error *why, struct cay_error *err) {
    if (err != NULL)
        *err = *why;
    return error_prefix(err, "the size of a volume cannot be limited here");
}

int volumes_check_bound(const struct manager *m, const char *owner, const struct volume *v,
                        struct cay_error *err) {
    struct cay_error why;
    const struct key *k = owner[0] == '\0' ? NULL : keys_find(m, owner);
    if (k != NULL && k->max_disk_bytes == 0 && k->organization[0] != '\0')
        k = keys_find(m, k->organization);
    if (v->size_bytes > 0 || k == NULL || k->max_disk_bytes == 0)
        return 0;
    bool can = can_limit(m, &why);
    error_set(err, CAY_UNSUPPORTED, "volume '%s' has no size limit, and %s '%s' has a disk limit",
              v->name, k->is_organization ? "organisation" : "key", k->name);
    return can ? error_remedy(err, "give it a size: cay volume resize %s SIZE", v->name)
               : error_remedy(err, "volumes have a limit with the native engine, as root only");
}

int volumes_choose_size(const struct manager *m, const char *owner, uint64_t *size,
                        struct cay_error *err) {
    struct cay_error why;
    bool can = can_limit(m, &why);
    if (!can && *size > 0)
        return refuse_size(&why, err);
    if (can && *size == 0)
        *size = m->limits.volume_size_bytes > 0 ? m->limits.volume_size_bytes : size_by_default;
    if (*size == 0) {
        const struct volume unlimited = {.name = "(new)"};
        return volumes_check_bound(m, owner, &unlimited, err);
    }
    return spec_check_volume_size(*size, err);
}

/* ---- resizing ---- */

static int check_larger(const struct manager *m, const struct volume *v, uint64_t size,
                        struct cay_error *err) {
    struct cay_error why;
    char has[32];
    if (!can_limit(m, &why))
        return refuse_size(&why, err);
    int r = spec_check_volume_size(size, err);
    if (r < 0)
        return r;
    if (size < v->size_bytes) {
        error_set(err, CAY_CONFLICT, "volume '%s' has %s, and cannot become smaller", v->name,
                  str_bytes(v->size_bytes, has));
        return error_remedy(err, "make another one, and copy what it has");
    }
    return 0;
}

/* The new charge comes first, so that a volume is never without one. With the lock held. */
static int recharge(struct manager *m, struct volume *v, uint64_t size, bool asks,
                    struct cay_error *err) {
    const struct budget_charge held = volumes_charge(v);
    struct volume next = *v;
    next.size_bytes = size;
    const struct budget_charge wanted = volumes_charge(&next);
    int r = asks ? budget_check(m, &wanted, &held, err) : 0;
    if (r == 0)
        r = budget_charge(m, &wanted, err);
    if (r < 0)
        return r;
    budget_release(m, &held);
    v->size_bytes = size;
    return 0;
}

/* Charges the new size, and keeps others from removing or resizing it. *ret_before is how it was.
 */
static int begin(struct manager *m, const struct key *caller, const char *who, uint64_t size,
                 struct volume *ret_before, struct cay_error *err) {
    struct volume *v = NULL;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0)
        r = volumes_find(m, caller, who, &v, err);
    if (r == 0)
        r = volumes_check_rest(v, err);
    if (r == 0)
        r = check_larger(m, v, size, err);
    if (r == 0 && v->size_bytes == 0)
        r = volumes_check_idle(m, v, err);
    if (r == 0) {
        *ret_before = *v;
        r = recharge(m, v, size, true, err);
    }
    if (r == 0) {
        v->growing = true;
        v->passing = ret_before->size_bytes == 0; /* its files move: nobody starts with it */
        m->changes++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static void end(struct manager *m, const struct volume *now) {
    (void)pthread_mutex_lock(&m->lock);
    struct volume *v = volumes_find_id(m, now->id);
    if (v != NULL) {
        v->growing = v->passing = false;
        (void)recharge(m, v, now->size_bytes, false, NULL); /* too much is charged, at worst */
    }
    m->changes--;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

/* The row of a disk comes first, so that it never has more than is charged for it; that of a folder
 * comes last, so that none has a size before it is a disk. */
static int grow(struct manager *m, const struct volume *before, const struct volume *after,
                struct cay_error *err) {
    bool is_disk = before->size_bytes > 0;
    int r = is_disk ? db_volume_update(m->db, after, err) : 0;
    if (r < 0)
        return r;
    r = drive_volume_size(m, m->engine->ops->volume_grow, after->id, after->size_bytes, err);
    if (r == 0 && !is_disk)
        r = db_volume_update(m->db, after, err);
    if (r < 0 && is_disk)
        (void)db_volume_update(m->db, before, NULL); /* charged too much, at worst */
    return r;
}

int manager_volume_resize(struct manager *m, const struct key *caller, const char *who,
                          uint64_t size_bytes, struct volume *ret, struct cay_error *err) {
    struct volume before;
    int r = begin(m, caller, who, size_bytes, &before, err);
    if (r < 0)
        return r;
    struct volume after = before;
    after.size_bytes = size_bytes;
    r = grow(m, &before, &after, err);
    end(m, r < 0 ? &before : &after);
    *ret = after;
    return r;
}
