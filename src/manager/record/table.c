#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/internal.h"
#include "manager/record/index.h"

enum { PREFIX_MIN = 4, CANDIDATES_MAX = 5, NEIGHBOURS_MAX = 128, AHEAD_MAX_MS = 1000 };

static void wait_on(pthread_cond_t *cond, struct manager *m, int64_t deadline) {
    if (deadline == 0) {
        (void)pthread_cond_wait(cond, &m->lock);
        return;
    }
    struct timespec until = {.tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000};
    (void)pthread_cond_timedwait(cond, &m->lock, &until);
}

void table_wait(struct manager *m, int64_t deadline) {
    wait_on(&m->changed, m, deadline);
}

void duty_wait(struct manager *m, int64_t deadline) {
    wait_on(&m->duty, m, deadline);
}

void duty_wake(struct manager *m) {
    (void)pthread_cond_broadcast(&m->duty);
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
    struct table_rows rows = index_rows(m, TABLE_BY_ID);
    size_t at = index_search(&rows, TABLE_BY_ID, &(struct index_key){.id = id});
    return at < rows.count && str_equal(rows.v[at]->record.id, id) ? rows.v[at] : NULL;
}

/* What was made ahead is nobody's yet. */
static bool is_visible(const struct sandbox *s, const struct key *caller) {
    return !s->record.pooled && (caller == NULL || key_sees_all(caller) ||
                                 str_equal(s->record.owner, key_owner(caller)));
}

static struct sandbox *find_own_name(const struct manager *m, const char *owner, const char *name) {
    struct table_rows rows = index_rows(m, TABLE_BY_NAME);
    size_t at =
        index_search(&rows, TABLE_BY_NAME, &(struct index_key){.name = name, .owner = owner});
    bool found = at < rows.count && str_equal(rows.v[at]->record.name, name) &&
                 str_equal(rows.v[at]->record.owner, owner);
    return found ? rows.v[at] : NULL;
}

typedef bool (*fit)(const struct sandbox_record *r, const char *who);

static bool has_name(const struct sandbox_record *r, const char *who) {
    return str_equal(r->name, who);
}

static bool has_prefix(const struct sandbox_record *r, const char *who) {
    return str_starts(r->id, who);
}

/* Those that fit stand one behind the other from there. */
static size_t find_all(const struct manager *m, const struct key *caller, enum table_order order,
                       fit fits, const char *who, struct sandbox **found, size_t max) {
    struct table_rows rows = index_rows(m, order);
    size_t n = 0;
    size_t at =
        index_search(&rows, order, &(struct index_key){.id = who, .name = who, .owner = ""});
    for (; at < rows.count && fits(&rows.v[at]->record, who); at++) {
        table_looks++;
        if (!is_visible(rows.v[at], caller))
            continue;
        if (n < max)
            found[n] = rows.v[at];
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

/* An id is no typo of a name. Of many sandboxes only those are compared whose names are near. */
static const char *nearest_name(const struct manager *m, const struct key *caller,
                                const char *who) {
    const char *names[2 * NEIGHBOURS_MAX];
    size_t n = 0;
    if (id_is_valid(who))
        return NULL;
    struct table_rows rows = table_rows_of(m, caller);
    if (rows.count > ARRAY_LEN(names))
        rows = index_rows(m, TABLE_BY_NAME);
    size_t at =
        rows.count <= ARRAY_LEN(names)
            ? 0
            : index_search(&rows, TABLE_BY_NAME, &(struct index_key){.name = who, .owner = ""});
    size_t from = at > NEIGHBOURS_MAX ? at - NEIGHBOURS_MAX : 0;
    for (size_t i = from; i < rows.count && i < from + ARRAY_LEN(names); i++, table_looks++)
        if (is_visible(rows.v[i], caller))
            names[n++] = rows.v[i]->record.name;
    return str_nearest(who, names, n);
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
        found[0] = find_own_name(m, caller == NULL ? "" : key_owner(caller), who);
    size_t n = found[0] != NULL && is_visible(found[0], caller) ? 1 : 0;
    bool sees_all = caller == NULL || key_sees_all(caller);
    if (n == 0 && sees_all)
        n = find_all(m, caller, TABLE_BY_NAME, has_name, who, found, CANDIDATES_MAX);
    if (n == 0 && strlen(who) >= PREFIX_MIN)
        n = find_all(m, caller, TABLE_BY_ID, has_prefix, who, found, CANDIDATES_MAX);
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

struct table_rows table_rows_of(const struct manager *m, const struct key *caller) {
    return caller == NULL || key_sees_all(caller) ? index_rows(m, TABLE_BY_AGE)
                                                  : table_rows_of_owner(m, key_owner(caller));
}

struct table_rows table_rows_of_owner(const struct manager *m, const char *owner) {
    struct table_rows all = index_rows(m, TABLE_BY_OWNER);
    if (all.count == 0)
        return all;
    struct index_key first = {.owner = owner, .created_ms = INT64_MIN, .id = ""};
    struct index_key last = {.owner = owner, .created_ms = INT64_MAX, .id = "~"};
    size_t from = index_search(&all, TABLE_BY_OWNER, &first);
    size_t to = index_search(&all, TABLE_BY_OWNER, &last);
    return (struct table_rows){all.v + from, to - from};
}

struct table_rows table_rows_pooled(const struct manager *m) {
    return index_rows(m, TABLE_POOLED);
}

size_t table_rows_until(const struct table_rows *rows, int64_t created_ms, const char *id) {
    size_t at =
        index_search(rows, TABLE_BY_AGE, &(struct index_key){.created_ms = created_ms, .id = id});
    bool is_there = at < rows->count && str_equal(rows->v[at]->record.id, id);
    return at + is_there;
}

int64_t table_next_created(struct manager *m) {
    int64_t now = clock_wall_ms(), last = m->last_created_ms;
    m->last_created_ms = now <= last && last - now < AHEAD_MAX_MS ? last + 1 : now;
    return m->last_created_ms;
}

/* ---- adding and dropping ---- */

int table_add(struct manager *m, struct sandbox *s, struct cay_error *err) {
    if (m->count == m->room) {
        size_t room = MAX(2 * m->room, (size_t)64);
        struct sandbox **v = reallocarray(m->boxes, room, sizeof(struct sandbox *));
        if (v == NULL || index_reserve(m, room) < 0) {
            m->boxes = v != NULL ? v : m->boxes;
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        }
        m->boxes = v;
        m->room = room;
    }
    int r = quota_settle(m, s, err);
    if (r < 0)
        return r;
    s->place = m->count;
    m->boxes[m->count++] = sandbox_ref(s);
    table_in(m, s);
    m->is_used[s->record.engine] = true;
    return 0;
}

void table_drop(struct manager *m, struct sandbox *s) {
    if (s->place >= m->count || m->boxes[s->place] != s)
        return;
    table_out(m, s);
    budget_release(m, &s->charge);
    m->boxes[s->place] = m->boxes[--m->count];
    m->boxes[s->place]->place = s->place;
    s->gone = true;
    sandbox_unref(s);
}

void table_free(struct manager *m) {
    while (m->count > 0)
        table_drop(m, m->boxes[m->count - 1]);
    free(m->boxes);
    index_free(m);
    budget_free(m);
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
