/* The environment that a sandbox's commands get. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "manager/internal.h"

static bool is_named(const struct strv *list, const char *entry) {
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < list->len; i++)
        if (strcspn(list->v[i], "=") == len && memcmp(list->v[i], entry, len) == 0)
            return true;
    return false;
}

static int merge(const struct strv *env, const struct strv *set, const struct strv *unset,
                 struct strv *ret, struct cay_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < env->len; i++)
        if (!is_named(set, env->v[i]) && !is_named(unset, env->v[i]))
            r = strv_push(ret, env->v[i]);
    for (size_t i = 0; r == 0 && i < set->len; i++)
        r = strv_push(ret, set->v[i]);
    return r < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : request_env(ret, err);
}

static void swap_env(struct manager *m, struct sandbox *s, struct strv *env) {
    (void)pthread_mutex_lock(&m->lock);
    struct strv before = s->record.env;
    s->record.env = *env;
    s->record.updated_ms = clock_wall_ms();
    *env = before;
    (void)pthread_mutex_unlock(&m->lock);
}

int manager_change_env(struct manager *m, const char *who, const struct strv *set,
                       const struct strv *unset, struct cay_error *err) {
    struct sandbox *s = NULL;
    _cleanup_(strv_free) struct strv env = {0};
    int r = turn_take(m, who, &s, err);
    if (r < 0 || s == NULL)
        return r;
    r = merge(&s->record.env, set, unset, &env, err); /* changed in turns only */
    if (r == 0) {
        swap_env(m, s, &env);
        r = turn_save(m, s, DB_FLUSH, err);
        if (r < 0)
            swap_env(m, s, &env);
    }
    turn_end(m, s);
    return r;
}
