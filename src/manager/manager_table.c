#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/manager_internal.h"

enum { PREFIX_MIN = 4, CANDIDATES_MAX = 5 };

void table_wait(struct manager *m, int64_t deadline) {
    if (deadline == 0) {
        (void)pthread_cond_wait(&m->changed, &m->lock);
        return;
    }
    struct timespec until = {.tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000};
    (void)pthread_cond_timedwait(&m->changed, &m->lock, &until);
}

int table_check_open(const struct manager *m, struct cay_error *err) {
    if (m->ready && !m->closing)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "the daemon is %s",
              m->closing ? "shutting down" : "starting up");
    return error_remedy(err, "try again in a moment");
}

struct sandbox *sandbox_ref(struct sandbox *s) {
    s->references++;
    return s;
}

void sandbox_unref(struct sandbox *s) {
    if (--s->references > 0)
        return;
    sandbox_record_free(&s->record);
    free(s);
}

/* ---- finding ---- */

struct sandbox *table_find_id(const struct manager *m, const char *id) {
    for (size_t i = 0; i < m->count; i++)
        if (str_equal(m->boxes[i]->record.id, id))
            return m->boxes[i];
    return NULL;
}

/* What was made ahead is nobody's yet. */
static bool is_visible(const struct sandbox *s, const struct key *caller) {
    return !s->record.pooled &&
           (caller == NULL || key_sees_all(caller) || str_equal(s->record.owner, caller->id));
}

static struct sandbox *find_own_name(const struct manager *m, const char *owner, const char *name) {
    for (size_t i = 0; i < m->count; i++)
        if (str_equal(m->boxes[i]->record.owner, owner) &&
            str_equal(m->boxes[i]->record.name, name))
            return m->boxes[i];
    return NULL;
}

typedef bool (*fit)(const struct sandbox_record *r, const char *who);

static bool has_name(const struct sandbox_record *r, const char *who) {
    return str_equal(r->name, who);
}

static bool has_prefix(const struct sandbox_record *r, const char *who) {
    return strlen(who) >= PREFIX_MIN && str_starts(r->id, who);
}

static size_t find_all(const struct manager *m, const struct key *caller, fit fits, const char *who,
                       struct sandbox **found, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (!is_visible(m->boxes[i], caller) || !fits(&m->boxes[i]->record, who))
            continue;
        if (n < max)
            found[n] = m->boxes[i];
        n++;
    }
    return n;
}

static int refuse_ambiguous(const char *who, struct sandbox *const *found, size_t n,
                            struct cay_error *err) {
    struct buf list = BUF_INIT(400);
    for (size_t i = 0; i < MIN(n, (size_t)CANDIDATES_MAX); i++) {
        const struct sandbox_record *r = &found[i]->record;
        const char *comma = i == 0 ? "" : ", ";
        if (str_equal(r->id, r->name))
            (void)buf_printf(&list, "%s%s", comma, r->id);
        else
            (void)buf_printf(&list, "%s%s (%.24s)", comma, r->id, r->name);
    }
    if (n > CANDIDATES_MAX)
        (void)buf_printf(&list, " and %zu more", n - CANDIDATES_MAX);
    error_set(err, CAY_CONFLICT, "'%s' fits %zu sandboxes: %s", who, n, buf_text(&list));
    (void)error_remedy(err, "give more of the id");
    buf_free(&list);
    return -CAY_CONFLICT;
}

/* An id is no typo of a name. */
static const char *nearest_name(const struct manager *m, const struct key *caller,
                                const char *who) {
    size_t n = 0;
    const char **names = id_is_valid(who) ? NULL : calloc(m->count + 1, sizeof *names);
    for (size_t i = 0; names != NULL && i < m->count; i++)
        if (is_visible(m->boxes[i], caller))
            names[n++] = m->boxes[i]->record.name;
    const char *nearest = names == NULL ? NULL : str_nearest(who, names, n);
    free(names);
    return nearest;
}

static int refuse_unknown(const struct manager *m, const struct key *caller, const char *who,
                          struct cay_error *err) {
    char shown[80];
    const char *nearest = nearest_name(m, caller, who);
    error_set(err, CAY_NOT_FOUND, "there is no sandbox '%s'", str_escape(shown, sizeof shown, who));
    if (nearest != NULL)
        (void)error_remedy(err, "did you mean '%s'?", nearest);
    else
        (void)error_remedy(err, "list the sandboxes with: cay ls");
    return -CAY_NOT_FOUND;
}

int table_find_for(const struct manager *m, const struct key *caller, const char *who,
                   struct sandbox **ret, struct cay_error *err) {
    struct sandbox *found[CANDIDATES_MAX] = {table_find_id(m, who)};
    if (found[0] == NULL || !is_visible(found[0], caller))
        found[0] = find_own_name(m, caller == NULL ? "" : caller->id, who);
    size_t n = found[0] != NULL && is_visible(found[0], caller) ? 1 : 0;
    if (n == 0)
        n = find_all(m, caller, has_name, who, found, CANDIDATES_MAX);
    if (n == 0)
        n = find_all(m, caller, has_prefix, who, found, CANDIDATES_MAX);
    if (n == 0)
        return refuse_unknown(m, caller, who, err);
    if (n > 1)
        return refuse_ambiguous(who, found, n, err);
    *ret = found[0];
    return 0;
}

int table_find(const struct manager *m, const char *who, struct sandbox **ret,
               struct cay_error *err) {
    return table_find_for(m, NULL, who, ret, err);
}

int table_check_name(const struct manager *m, const char *owner, const char *name,
                     struct cay_error *err) {
    const struct sandbox *s = find_own_name(m, owner, name);
    if (s == NULL)
        return 0;
    error_set(err, CAY_CONFLICT, "the name '%s' is taken by sandbox %s", name, s->record.id);
    return error_remedy(err, "choose another name, or remove that one with: cay rm %s", name);
}

/* ---- adding and dropping ---- */

int table_add(struct manager *m, struct sandbox *s, struct cay_error *err) {
    if (m->count == m->room) {
        size_t room = MAX(2 * m->room, (size_t)64);
        struct sandbox **v = reallocarray(m->boxes, room, sizeof(struct sandbox *));
        if (v == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        m->boxes = v;
        m->room = room;
    }
    m->boxes[m->count++] = sandbox_ref(s);
    m->is_used[s->record.engine] = true;
    return 0;
}

void table_drop(struct manager *m, struct sandbox *s) {
    for (size_t i = 0; i < m->count; i++) {
        if (m->boxes[i] != s)
            continue;
        for (m->count--; i < m->count; i++)
            m->boxes[i] = m->boxes[i + 1];
        s->gone = true;
        sandbox_unref(s);
        return;
    }
}

struct sandbox **table_snapshot(struct manager *m, size_t *ret_count) {
    (void)pthread_mutex_lock(&m->lock);
    struct sandbox **v = calloc(m->count + 1, sizeof(struct sandbox *));
    *ret_count = v == NULL ? 0 : m->count;
    for (size_t i = 0; i < *ret_count; i++)
        v[i] = sandbox_ref(m->boxes[i]);
    (void)pthread_mutex_unlock(&m->lock);
    return v;
}

void table_snapshot_free(struct manager *m, struct sandbox **v, size_t count) {
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < count; i++)
        sandbox_unref(v[i]);
    (void)pthread_mutex_unlock(&m->lock);
    free(v);
}
