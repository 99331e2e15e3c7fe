/* What a key uses of its budget, and what is left: for its holder, for whoever runs the daemon, and
 * as metrics. */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/metrics/page.h"
#include "api/metrics/prometheus.h"
#include "api/shape/shape.h"
#include "base/auto.h"
#include "base/error.h"
#include "manager/manager.h"

enum { METRICS_KEYS_MAX = 500, CPU_PERIOD_US = 100000 };

struct usage_row {
    const struct budget_row *row;
    struct budget_usage usage;
};

static void write_amount(struct jsonw *w, const char *name, enum budget_unit unit,
                         uint64_t amount) {
    if (unit == BUDGET_QUOTA)
        jsonw_put_number(w, name, (double)amount / CPU_PERIOD_US);
    else
        jsonw_put_unsigned(w, name, amount);
}

static void write_usage(struct jsonw *w, const void *row) {
    static const char *const units[] = {
        [BUDGET_COUNT] = "count", [BUDGET_BYTES] = "bytes", [BUDGET_QUOTA] = "processors"};
    const struct usage_row *u = row;
    jsonw_put_string(w, "name", u->row->name);
    jsonw_put_string(w, "unit", units[u->row->unit]);
    write_amount(w, "used", u->row->unit, u->usage.used);
    if (u->usage.limit == 0)
        jsonw_put_optional(w, "limit", "");
    else
        write_amount(w, "limit", u->row->unit, u->usage.limit);
    if (u->usage.left == UINT64_MAX)
        jsonw_put_optional(w, "left", "");
    else
        write_amount(w, "left", u->row->unit, u->usage.left);
}

/* The organisation of the caller; whoever sees all names any. Others' are as unknown as none. */
static int find_organization(const struct call *c, const char *name, struct key *ret,
                             struct cay_error *err) {
    struct key own = {0};
    if (key_sees_all(&c->caller))
        return manager_organization_get(c->manager, name, ret, err);
    if (c->caller.organization[0] != '\0' &&
        manager_key_by_id(c->manager, c->caller.organization, &own) && str_equal(own.name, name)) {
        *ret = own;
        return 0;
    }
    error_set(err, CAY_FORBIDDEN, "this key sees the usage of its own organisation only");
    return error_remedy(err, "omit ?organization=");
}

/* Keys of others are unknown to whoever does not see all. */
static int find_key(const struct call *c, struct key *ret, struct cay_error *err) {
    const char *name = target_query(&c->target, "key");
    const char *organization = target_query(&c->target, "organization");
    *ret = c->caller;
    if (organization != NULL)
        return find_organization(c, organization, ret, err);
    if (name == NULL || str_equal(name, c->caller.name))
        return 0;
    if (key_sees_all(&c->caller))
        return manager_key_get(c->manager, name, ret, err);
    error_set(err, CAY_FORBIDDEN, "this key sees its own usage only");
    return error_remedy(err, "omit ?key=");
}

int usage_handle(struct call *c, struct cay_error *err) {
    struct key k;
    struct budget_usage usage[BUDGET_ITEMS];
    struct usage_row rows[BUDGET_ITEMS];
    int r = find_key(c, &k, err);
    if (r < 0)
        return r;
    manager_budget_usage(c->manager, &k, usage);
    for (size_t i = 0; i < BUDGET_ITEMS; i++)
        rows[i] = (struct usage_row){&budget_table[i], usage[i]};
    call_answer_all(c, write_usage, rows, BUDGET_ITEMS, sizeof *rows);
    return 0;
}

/* ---- metrics ---- */

struct measured_key {
    const struct key *key;
    struct budget_usage usage[BUDGET_ITEMS];
};

static double in_units(enum budget_item item, uint64_t amount) {
    return budget_table[item].unit == BUDGET_QUOTA ? (double)amount / CPU_PERIOD_US
                                                   : (double)amount;
}

/* Without what is 0: most keys use little of the table, and each sample costs its reader. */
static void write_samples(struct buf *out, const char *name, const struct measured_key *keys,
                          size_t count, size_t offset) {
    for (size_t i = 0; i < count; i++)
        for (enum budget_item j = 0; j < BUDGET_ITEMS; j++) {
            uint64_t amount;
            memcpy(&amount, (const char *)&keys[i].usage[j] + offset, sizeof amount);
            const struct prometheus_label labels[] = {
                {"key", keys[i].key->name}, {"item", budget_table[j].name}, {NULL, NULL}};
            if (amount > 0)
                prometheus_sample(out, name, labels, in_units(j, amount));
        }
}

static void write_keys(struct buf *out, struct manager *m, const struct key *keys, size_t count) {
    size_t shown = MIN(count, (size_t)METRICS_KEYS_MAX);
    _cleanup_(freep) struct measured_key *v = calloc(shown + 1, sizeof *v);
    if (v == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < shown; i++) {
        v[i].key = &keys[i];
        manager_budget_usage(m, &keys[i], v[i].usage);
    }
    prometheus_family(out, "cay_key_used", "gauge",
                      "What a key uses of its budget: bytes, processors, or a number.");
    write_samples(out, "cay_key_used", v, shown, offsetof(struct budget_usage, used));
    prometheus_family(out, "cay_key_limit", "gauge", "The limit of it, where the key has one.");
    write_samples(out, "cay_key_limit", v, shown, offsetof(struct budget_usage, limit));
    prometheus_gauge(out, "cay_keys_omitted", "Keys beyond the first 500, which are not shown.",
                     (double)(count - shown));
}

void metrics_page_keys(struct buf *out, struct manager *m, const struct key *caller) {
    _cleanup_(freep) struct key *keys = NULL;
    size_t count = 0;
    struct cay_error err;
    if (caller != NULL && !key_sees_all(caller)) {
        if (caller->id[0] != '\0') /* without a key nothing of keys is shown */
            write_keys(out, m, caller, 1);
        return;
    }
    if (manager_key_list(m, &keys, &count, &err) < 0)
        out->failed = true;
    else
        write_keys(out, m, keys, count);
}
