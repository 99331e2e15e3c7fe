#include "api/metrics/health.h"

#include <cay.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/metrics/vitals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "manager/engines.h"
#include "manager/files/space.h"
#include "manager/manager.h"

enum {
    STALE_MS = 60 * 1000, /* the watcher measures every few seconds */
    CHECKS_MAX = 4 + ENGINE_KINDS + 2 * VITALS_DISKS + VITALS_PROCESSES,
    NAME_SIZE = 40,
};

/* One thing that has to be well. */
struct check {
    char name[NAME_SIZE];
    struct cay_error err; /* CAY_OK: it is */
    /* What was counted, if it was: how much there is and how much of it is left. */
    bool has_figures;
    uint64_t total, left;
};

struct checks {
    struct check v[CHECKS_MAX];
    size_t count;
};

/* ---- probes: no key, no detail, no waiting ---- */

bool health_is_probe(const struct target *t) {
    return t->segments == 1 &&
           (str_equal(t->segment[0], "livez") || str_equal(t->segment[0], "readyz"));
}

static int answer_ok(struct call *c) {
    c->answer.is_plain = true;
    (void)buf_puts(&c->answer.body, "ok");
    return 0;
}

static int live(struct call *c, struct cay_error *err) {
    (void)err;
    return answer_ok(c);
}

static int ready(struct call *c, struct cay_error *err) {
    if (manager_check_ready(c->manager, err) == 0)
        return answer_ok(c);
    c->answer.status = (unsigned)cay_code_http(CAY_UNAVAILABLE);
    c->answer.is_plain = true;
    (void)buf_puts(&c->answer.body, "not ready");
    return 0;
}

/* ---- checks ---- */

static struct check *add(struct checks *all, const char *kind, const char *what) {
    struct check *k = &all->v[all->count++];
    *k = (struct check){.err = {.code = CAY_OK}};
    (void)snprintf(k->name, sizeof k->name, what[0] == '\0' ? "%s" : "%s.%s", kind, what);
    return k;
}

static void add_figures(struct checks *all, const char *kind, const char *what, uint64_t total,
                        uint64_t left, bool is_short) {
    struct check *k = add(all, kind, what);
    k->has_figures = true;
    k->total = total;
    k->left = left;
    if (!is_short)
        return;
    error_set(&k->err, CAY_UNAVAILABLE, "%s of %s: %llu of %llu left", kind, what,
              (unsigned long long)left, (unsigned long long)total);
    (void)error_remedy(&k->err, "see the runbook in docs/operating.md");
}

static void check_engines(struct checks *all, struct manager *m) {
    for (enum engine_kind kind = ENGINE_NATIVE; kind < ENGINE_KINDS; kind++) {
        struct manager_engine e;
        manager_engine_look(m, kind, &e);
        if (!e.is_used)
            continue;
        struct check *k = add(all, "engine", engine_kind_name(kind));
        if (!e.is_up)
            k->err = e.why;
    }
}

static void check_vitals(struct checks *all, const struct vitals *v) {
    for (size_t i = 0; i < VITALS_DISKS && v->disks[i].place != NULL; i++) {
        const struct vitals_disk *d = &v->disks[i];
        add_figures(all, "disk", d->place, d->bytes, d->free_bytes, vitals_is_short_of_bytes(d));
        if (d->inodes > 0)
            add_figures(all, "inodes", d->place, d->inodes, d->free_inodes,
                        vitals_is_short_of_inodes(d));
    }
    for (size_t i = 0; i < v->process_count; i++) {
        const struct vitals_process *p = &v->processes[i];
        if (p->fds_max > 0)
            add_figures(all, "descriptors", p->name, p->fds_max,
                        p->fds < p->fds_max ? p->fds_max - p->fds : 0, vitals_is_short_of_fds(p));
    }
}

/* A watcher that hangs has met a disk that does. */
static void check_watcher(struct checks *all, const struct vitals *v) {
    struct check *k = add(all, "watcher", "");
    int64_t age_ms = clock_ms() - v->at_ms;
    if (v->at_ms == 0 || age_ms < STALE_MS)
        return;
    error_set(&k->err, CAY_UNAVAILABLE, "disks and processes were last measured %lld s ago",
              (long long)(age_ms / 1000));
    (void)error_remedy(&k->err, "see whether the disk of the state folder hangs");
}

static void check_all(struct checks *all, struct manager *m) {
    struct vitals v;
    struct check *k = add(all, "database", "");
    (void)manager_check_database(m, &k->err);
    k = add(all, "rescue", "");
    (void)manager_check_rescue(m, &k->err);
    k = add(all, "disk", "reserve");
    (void)manager_check_space(m, &k->err);
    check_engines(all, m);
    vitals_get(&v);
    check_watcher(all, &v);
    check_vitals(all, &v);
}

static const struct check *first_failure(const struct checks *all) {
    for (size_t i = 0; i < all->count; i++)
        if (all->v[i].err.code != CAY_OK)
            return &all->v[i];
    return NULL;
}

/* ---- /healthz ---- */

static void write_check(struct jsonw *w, const struct check *k) {
    jsonw_key(w, k->name);
    jsonw_begin_object(w);
    jsonw_put_string(w, "status", k->err.code == CAY_OK ? "ok" : "fail");
    if (k->err.code != CAY_OK) {
        struct cay_error shown = k->err;
        error_sanitize(&shown);
        jsonw_put_string(w, "reason", shown.message);
        jsonw_put_string(w, "remedy", shown.remedy);
    }
    if (k->has_figures) {
        jsonw_put_unsigned(w, "total", k->total);
        jsonw_put_unsigned(w, "left", k->left);
    }
    jsonw_end_object(w);
}

static int write_detail(struct call *c, const struct checks *all) {
    const struct check *failed = first_failure(all);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "status", failed == NULL ? "ok" : "fail");
    jsonw_put_string(&w, "version", cay_version());
    jsonw_key(&w, "checks");
    jsonw_begin_object(&w);
    for (size_t i = 0; i < all->count; i++)
        write_check(&w, &all->v[i]);
    jsonw_end_object(&w);
    if (failed != NULL) { /* the members of every error */
        struct cay_error shown = failed->err;
        error_sanitize(&shown);
        c->answer.status = (unsigned)cay_code_http(CAY_UNAVAILABLE);
        jsonw_put_string(&w, "code", cay_code_name(CAY_UNAVAILABLE));
        jsonw_put_string(&w, "message", shown.message);
        jsonw_put_string(&w, "remedy", shown.remedy);
        jsonw_put_unsigned(&w, "statusCode", c->answer.status);
    }
    jsonw_end_object(&w);
    (void)buf_putc(&c->answer.body, '\n');
    return 0;
}

static bool wants_detail(const struct call *c) {
    const char *accept = call_header(c, "Accept");
    return target_query(&c->target, "verbose") != NULL ||
           (accept != NULL && strstr(accept, "application/json") != NULL);
}

/* The short answer is what it has always been: "ok", or the error. */
static int health(struct call *c, struct cay_error *err) {
    struct checks all = {.count = 0};
    check_all(&all, c->manager);
    if (wants_detail(c))
        return write_detail(c, &all);
    const struct check *failed = first_failure(&all);
    if (failed == NULL)
        return answer_ok(c);
    *err = failed->err;
    err->code = CAY_UNAVAILABLE;
    return -CAY_UNAVAILABLE;
}

static const struct route routes[] = {
    {"GET", "/livez", live, NEED_NO_KEY},
    {"GET", "/readyz", ready, NEED_NO_KEY},
    {"GET", "/healthz", health, NEED_NOTHING},
};
const struct route_table health_routes = {routes, ARRAY_LEN(routes)};
