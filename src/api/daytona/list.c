/* Lists of sandboxes in Daytona's protocol: filtered, sorted, and by pages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "api/daytona/daytona.h"
#include "api/shape/daytona_shape.h"
#include "api/shape/daytona_version.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "manager/manager.h"

enum { LIMIT = 100, LIMIT_MAX = 200, PAGES_MAX = 1000000, ARRAY_VERSION = 128 };

enum sort_key { SORT_CREATED, SORT_ACTIVE, SORT_NAME, SORT_CPU, SORT_MEMORY, SORT_DISK };

/* Bounds of a number, both part of what is wanted. */
struct range {
    int64_t min, max;
};

struct filter {
    const struct target *target;
    const struct key *caller;
    const char *id, *name; /* how they begin, whatever the case; NULL: any */
    struct json_document *labels_text;
    struct strv labels; /* "K=V" that it must have */
    struct range cpu, memory, disk, created, active, destroyed;
    int is_public, is_recoverable; /* -1: whatever */
    enum sort_key sort;
    bool ascending;
};

static void filter_free(struct filter *f) {
    json_free(f->labels_text);
    strv_free(&f->labels);
}

/* ---- what is asked for ---- */

int daytona_query_number(const struct call *c, const char *key, int64_t max, int64_t *ret,
                         struct cay_error *err) {
    const char *text = target_query(&c->target, key);
    if (text == NULL || str_to_i64(text, 1, max, ret) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.40s' is no number from 1 to %lld", key, text,
              (long long)max);
    return error_remedy(err, "correct it, or leave it out");
}

static int read_time(const struct target *t, const char *key, int64_t *ret, struct cay_error *err) {
    const char *text = target_query(t, key);
    if (text == NULL || clock_from_iso8601(text, ret) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.40s' is no time", key, text);
    return error_remedy(err, "write it as in 2027-01-31T12:00:00Z");
}

static int read_flag(const struct target *t, const char *key, int *ret, struct cay_error *err) {
    bool flag;
    if (target_query(t, key) == NULL)
        return 0;
    int r = target_flag(t, key, &flag, err);
    *ret = flag;
    return r;
}

/* A JSON object in the query. */
static int read_labels(struct filter *f, struct cay_error *err) {
    const char *text = target_query(f->target, "labels");
    void *iterator = NULL;
    struct json label;
    if (text == NULL || text[0] == '\0')
        return 0;
    int r = json_parse("labels", text, strlen(text), &f->labels_text, err);
    if (r < 0)
        return r;
    struct json root = json_root(f->labels_text, "labels");
    r = json_as_object(&root, err);
    while (r == 0 && json_next(&root, &iterator, &label)) {
        const char *value;
        r = json_as_string(&label, &value, err);
        if (r == 0 && strv_pushf(&f->labels, "%s=%s", label.key, value) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

static int read_sort(struct filter *f, struct cay_error *err) {
    static const char *const names[] = {
        [SORT_CREATED] = "createdAt", [SORT_ACTIVE] = "lastActivityAt", [SORT_NAME] = "name",
        [SORT_CPU] = "cpu",           [SORT_MEMORY] = "memoryGib",      [SORT_DISK] = "diskGib",
    };
    const char *sort = target_query(f->target, "sort"), *order = target_query(f->target, "order");
    size_t i = 0;
    while (sort != NULL && i < ARRAY_LEN(names) && !str_equal(names[i], sort))
        i++;
    if (i == ARRAY_LEN(names)) {
        error_set(err, CAY_INVALID_ARGUMENT, "sort: '%.40s' is nothing to sort by", sort);
        return error_remedy(err, "use createdAt, lastActivityAt, name, cpu, memoryGib or diskGib");
    }
    f->sort = (enum sort_key)i;
    f->ascending = str_equal(order, "asc");
    if (order == NULL || f->ascending || str_equal(order, "desc"))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "order: '%.40s' is neither asc nor desc", order);
    return error_remedy(err, "use one of them");
}

static int read_ranges(const struct call *c, struct filter *f, struct cay_error *err) {
    const struct {
        const char *min, *max;
        struct range *range;
    } numbers[] = {
        {"minCpu", "maxCpu", &f->cpu},
        {"minMemoryGiB", "maxMemoryGiB", &f->memory},
        {"minDiskGiB", "maxDiskGiB", &f->disk},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(numbers); i++) {
        *numbers[i].range = (struct range){0, INT64_MAX};
        r = daytona_query_number(c, numbers[i].min, INT64_MAX, &numbers[i].range->min, err);
        if (r == 0)
            r = daytona_query_number(c, numbers[i].max, INT64_MAX, &numbers[i].range->max, err);
    }
    f->created = f->active = f->destroyed = (struct range){INT64_MIN, INT64_MAX};
    if (r == 0)
        r = read_time(f->target, "createdAtAfter", &f->created.min, err);
    if (r == 0)
        r = read_time(f->target, "createdAtBefore", &f->created.max, err);
    if (r == 0)
        r = read_time(f->target, "lastEventAfter", &f->active.min, err);
    if (r == 0)
        r = read_time(f->target, "lastEventBefore", &f->active.max, err);
    if (r == 0)
        r = read_time(f->target, "autoDestroyAtAfter", &f->destroyed.min, err);
    return r < 0 ? r : read_time(f->target, "autoDestroyAtBefore", &f->destroyed.max, err);
}

/* Also those that no sandbox of ours is ever in. */
static bool is_state(const char *name, size_t len) {
    static const char *const states[] = {
        "creating",          "restoring",        "destroyed",
        "destroying",        "started",          "stopped",
        "starting",          "stopping",         "error",
        "build_failed",      "unknown",          "pending_build",
        "building_snapshot", "pulling_snapshot", "archived",
        "archiving",         "resizing",         "snapshotting",
        "forking",           "pausing",          "paused",
        "resuming",
    };
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (strlen(states[i]) == len && memcmp(states[i], name, len) == 0)
            return true;
    return false;
}

static int check_states(const struct target *t, struct cay_error *err) {
    for (size_t i = 0; i < t->queries; i++) {
        const char *name = t->query[i].value;
        bool is_asked = str_equal(t->query[i].key, "states");
        for (size_t len; is_asked && *name != '\0'; name += len + (name[len] == ',')) {
            len = strcspn(name, ",");
            if (is_state(name, len))
                continue;
            error_set(err, CAY_INVALID_ARGUMENT, "states: '%.*s' is none", (int)MIN(len, 40), name);
            return error_remedy(err, "use started, stopped, archived, error, …");
        }
    }
    return 0;
}

static int filter_read(const struct call *c, struct filter *f, struct cay_error *err) {
    *f = (struct filter){
        .target = &c->target, .caller = &c->caller, .is_public = -1, .is_recoverable = -1};
    f->id = target_query(f->target, "id");
    f->name = target_query(f->target, "name");
    int r = check_states(f->target, err);
    if (r == 0)
        r = read_labels(f, err);
    if (r == 0)
        r = read_ranges(c, f, err);
    if (r == 0)
        r = read_flag(f->target, "isPublic", &f->is_public, err);
    if (r == 0)
        r = read_flag(f->target, "isRecoverable", &f->is_recoverable, err);
    return r < 0 ? r : read_sort(f, err);
}

/* ---- what is wanted ---- */

/* A query that may be repeated, or have several values separated by commas: true if it is not
 * there, or one of them is this. */
static bool is_among(const struct target *t, const char *key, const char *value) {
    bool asked = false;
    size_t len = strlen(value);
    for (size_t i = 0; i < t->queries; i++) {
        if (!str_equal(t->query[i].key, key))
            continue;
        asked = true;
        for (const char *p = t->query[i].value; p != NULL; p = strchr(p, ',')) {
            p += *p == ',';
            if (strncmp(p, value, len) == 0 && (p[len] == '\0' || p[len] == ','))
                return true;
        }
    }
    return !asked;
}

static bool begins_with(const char *text, const char *prefix) {
    return prefix == NULL || strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_within(const struct range *range, int64_t value) {
    return value >= range->min && value <= range->max;
}

/* One that is never destroyed has no time that could be within any. */
static bool ends_within(const struct range *range, int64_t destroy_ms) {
    bool is_open = range->min == INT64_MIN && range->max == INT64_MAX;
    return is_open || (destroy_ms > 0 && is_within(range, destroy_ms));
}

static bool has_labels(const struct sandbox_record *r, const struct strv *labels) {
    for (size_t i = 0; i < labels->len; i++)
        if (!strv_has(&r->labels, labels->v[i]))
            return false;
    return true;
}

static bool has_flags(const struct filter *f, const struct sandbox_record *r) {
    return (f->is_public < 0 || f->is_public == r->is_public) &&
           (f->is_recoverable < 0 || f->is_recoverable == (r->state == SANDBOX_ERROR));
}

static bool is_wanted(void *user, const struct sandbox_record *r) {
    const struct filter *f = user;
    return begins_with(r->id, f->id) && begins_with(r->name, f->name) &&
           has_labels(r, &f->labels) && has_flags(f, r) && is_within(&f->cpu, daytona_cpus(r)) &&
           is_within(&f->memory, daytona_gib(r->memory_bytes)) &&
           is_within(&f->disk, daytona_gib(r->disk_bytes)) &&
           is_within(&f->created, r->created_ms) && is_within(&f->active, r->active_ms) &&
           ends_within(&f->destroyed, r->destroy_ms) &&
           is_among(f->target, "states", daytona_state(r)) &&
           is_among(f->target, "snapshots", r->image_name) &&
           is_among(f->target, "regionIds", DAYTONA_REGION);
}

/* ---- order ---- */

/* Where a sandbox stands in a list. It outlives the sandbox, so that a list of which some are
 * removed while it is read goes on behind the last one that was seen. */
struct place {
    int64_t number;
    char name[NAME_MAX_LEN + 1];
    char id[ID_SIZE];
};

static struct place place_of(const struct sandbox_record *r, enum sort_key sort) {
    struct place p = {.number = sort == SORT_ACTIVE   ? r->active_ms
                                : sort == SORT_CPU    ? r->cpu_quota_us
                                : sort == SORT_MEMORY ? (int64_t)r->memory_bytes
                                : sort == SORT_DISK   ? (int64_t)r->disk_bytes
                                : sort == SORT_NAME   ? 0
                                                      : r->created_ms};
    if (sort == SORT_NAME)
        memcpy(p.name, r->name, sizeof p.name);
    memcpy(p.id, r->id, sizeof p.id);
    return p;
}

static int compare_places(const struct place *a, const struct place *b) {
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    int names = strcmp(a->name, b->name);
    return names != 0 ? names : strcmp(a->id, b->id);
}

static int compare(const void *a, const void *b, void *arg) {
    const struct filter *f = arg;
    struct place x = place_of(a, f->sort), y = place_of(b, f->sort);
    int order = compare_places(&x, &y);
    return f->ascending ? order : -order;
}

/* NUMBER:NAME:ID */
static void put_cursor(struct jsonw *w, const struct place *p) {
    char text[sizeof(struct place) + 32];
    (void)snprintf(text, sizeof text, "%lld:%s:%s", (long long)p->number, p->name, p->id);
    jsonw_put_string(w, "nextCursor", text);
}

static bool parse_cursor(const char *text, struct place *ret) {
    char number[32] = "";
    size_t digits = strcspn(text, ":");
    const char *name = text + digits;
    if (digits >= sizeof number || *name++ != ':')
        return false;
    size_t len = strcspn(name, ":");
    if (len >= sizeof ret->name || name[len] != ':' || !id_is_valid(name + len + 1))
        return false;
    *ret = (struct place){0};
    memcpy(number, text, digits);
    memcpy(ret->name, name, len);
    memcpy(ret->id, name + len + 1, ID_LEN);
    return str_to_i64(number, INT64_MIN, INT64_MAX, &ret->number) == 0;
}

static int read_cursor(const struct filter *f, bool *ret_has, struct place *ret,
                       struct cay_error *err) {
    const char *text = target_query(f->target, "cursor");
    *ret_has = text != NULL && text[0] != '\0';
    if (!*ret_has || parse_cursor(text, ret))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "cursor: '%.60s' is invalid", text);
    return error_remedy(err, "take nextCursor of the answer before, or leave it out");
}

/* How many at the beginning were seen already. */
static size_t skip_seen(const struct filter *f, const struct manager_listing *all,
                        const struct place *last) {
    size_t n = 0;
    for (; n < all->count; n++) {
        struct place here = place_of(&all->v[n], f->sort);
        int order = compare_places(&here, last);
        if ((f->ascending ? order : -order) > 0)
            break;
    }
    return n;
}

/* ---- answers ---- */

static struct manager_page page_of(const struct filter *f) {
    return (struct manager_page){.caller = f->caller,
                                 .newest_first = !f->ascending,
                                 .wanted = is_wanted,
                                 .user = (void *)(uintptr_t)f};
}

/* Everything that is wanted, in the order that is. */
static int take_all(struct call *c, const struct filter *f, struct manager_listing *l,
                    struct cay_error *err) {
    struct manager_page page = page_of(f);
    int r = manager_list_page(c->manager, &page, l, err);
    if (r == 0 && l->count > 1 && f->sort != SORT_CREATED)
        qsort_r(l->v, l->count, sizeof *l->v, compare, (void *)(uintptr_t)f);
    return r;
}

/* By age the manager has them in order, and looks at no more than the page takes. */
static int take_by_age(struct call *c, const struct filter *f, const struct place *after,
                       size_t limit, struct manager_listing *l, struct cay_error *err) {
    struct manager_page page = page_of(f);
    page.limit = limit;
    if (after != NULL) {
        page.has_after = true;
        page.after_ms = after->number;
        memcpy(page.after_id, after->id, sizeof page.after_id);
    }
    return manager_list_page(c->manager, &page, l, err);
}

static void put_items(struct jsonw *w, const struct call *c, const struct sandbox_record *rows,
                      size_t count, bool are_items) {
    char origin[CALL_ORIGIN_SIZE];
    const struct daytona_view view = {call_origin(c, origin), NULL, are_items};
    jsonw_begin_array(w);
    for (size_t i = 0; i < count; i++)
        daytona_write_sandbox(w, &rows[i], &view);
    jsonw_end_array(w);
}

static void write_cursor_page(struct call *c, const struct filter *f,
                              const struct sandbox_record *rows, size_t count, bool has_more) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_key(&w, "items");
    put_items(&w, c, rows, count, true);
    if (has_more) {
        struct place last = place_of(&rows[count - 1], f->sort);
        put_cursor(&w, &last);
    } else {
        jsonw_put_string(&w, "nextCursor", NULL);
    }
    jsonw_end_object(&w);
}

static int answer_cursor(struct call *c, const struct filter *f, struct cay_error *err) {
    int64_t limit = LIMIT;
    struct place after = {0};
    struct manager_listing l = {0};
    bool has_after = false, by_age = f->sort == SORT_CREATED;
    int r = daytona_query_number(c, "limit", LIMIT_MAX, &limit, err);
    if (r == 0)
        r = read_cursor(f, &has_after, &after, err);
    if (r == 0)
        r = by_age ? take_by_age(c, f, has_after ? &after : NULL, (size_t)limit, &l, err)
                   : take_all(c, f, &l, err);
    if (r < 0)
        return r;
    size_t from = has_after && !by_age ? skip_seen(f, &l, &after) : 0;
    size_t count = MIN(l.count - from, (size_t)limit);
    write_cursor_page(c, f, l.v + from, count, l.has_more || from + count < l.count);
    manager_listing_free(&l);
    return 0;
}

static int answer_array(struct call *c, const struct filter *f, struct cay_error *err) {
    struct manager_listing l = {0};
    int r = take_all(c, f, &l, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_items(&w, c, l.v, l.count, false);
    manager_listing_free(&l);
    return 0;
}

static int answer_page(struct call *c, const struct filter *f, struct cay_error *err) {
    int64_t page = 1, limit = LIMIT;
    struct manager_listing l = {0};
    int r = daytona_query_number(c, "page", PAGES_MAX, &page, err);
    if (r == 0)
        r = daytona_query_number(c, "limit", LIMIT_MAX, &limit, err);
    if (r == 0)
        r = take_all(c, f, &l, err);
    if (r < 0)
        return r;
    size_t from = MIN((size_t)((page - 1) * limit), l.count);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_key(&w, "items");
    put_items(&w, c, l.v + from, MIN(l.count - from, (size_t)limit), false);
    jsonw_put_unsigned(&w, "total", l.count);
    jsonw_put_integer(&w, "page", page);
    jsonw_put_unsigned(&w, "totalPages", (l.count + (size_t)limit - 1) / (size_t)limit);
    jsonw_end_object(&w);
    manager_listing_free(&l);
    return 0;
}

static int list(struct call *c,
                int (*answer)(struct call *c, const struct filter *f, struct cay_error *err),
                struct cay_error *err) {
    struct filter f;
    int r = filter_read(c, &f, err);
    if (r == 0)
        r = answer(c, &f, err);
    filter_free(&f);
    return r;
}

int daytona_list_handle(struct call *c, struct cay_error *err) {
    return list(c, daytona_is_before(c, ARRAY_VERSION) ? answer_array : answer_cursor, err);
}

int daytona_pages_handle(struct call *c, struct cay_error *err) {
    return list(c, answer_page, err);
}
