/* The audit: shown, verified, trimmed. */
#include "manager/record/audit.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

enum { LIMIT = 100 };

/* ---- what is shown ---- */

static void write_chain(struct jsonw *w, const char *name, const unsigned char *chain) {
    char hex[2 * HASH_SIZE + 1];
    for (size_t i = 0; i < HASH_SIZE; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", chain[i]);
    jsonw_put_string(w, name, hex);
}

static void write_row(struct jsonw *w, const void *row) {
    const struct audit_row *a = row;
    jsonw_put_integer(w, "number", a->number);
    jsonw_put_time(w, "time", a->time_ms);
    jsonw_put_string(w, "who", a->who);
    jsonw_put_string(w, "action", a->action);
    jsonw_put_string(w, "object", a->object);
    jsonw_put_string(w, "result", a->result);
    jsonw_put_string(w, "detail", a->detail);
    write_chain(w, "chain", a->chain);
}

static void write_verdict(struct jsonw *w, const void *row) {
    const struct audit_verdict *v = row;
    jsonw_put_bool(w, "ok", v->ok);
    jsonw_put_integer(w, "rows", v->rows);
    jsonw_put_integer(w, "first", v->first);
    jsonw_put_integer(w, "last", v->last);
    write_chain(w, "chain", v->head);
    jsonw_put_integer(w, "badRow", v->bad);
    jsonw_put_optional(w, "why", v->why);
}

/* ---- handlers ---- */

static int read_number(const struct call *c, const char *key, int64_t min, int64_t max,
                       int64_t *ret, struct cay_error *err) {
    const char *text = target_query(&c->target, key);
    if (text == NULL || str_to_i64(text, min, max, ret) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.40s' is no number from %lld to %lld", key, text,
              (long long)min, (long long)max);
    return error_remedy(err, "correct it, or leave it out");
}

static int read_since(const struct call *c, int64_t *ret, struct cay_error *err) {
    const char *text = target_query(&c->target, "since");
    if (text == NULL || clock_from_iso8601(text, ret) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "since: '%.40s' is no time", text);
    return error_remedy(err, "write it as in 2027-01-31T12:00:00Z");
}

int audit_list_handle(struct call *c, struct cay_error *err) {
    int64_t since = INT64_MIN, after = -1, limit = LIMIT;
    _cleanup_(freep) struct audit_row *rows = NULL;
    size_t count = 0;
    int r = read_since(c, &since, err);
    if (r == 0)
        r = read_number(c, "after", 0, INT64_MAX, &after, err);
    if (r == 0)
        r = read_number(c, "limit", 1, AUDIT_PAGE_MAX, &limit, err);
    if (r == 0)
        r = manager_audit_list(c->manager, since, after, (size_t)limit, &rows, &count, err);
    if (r == 0)
        call_answer_all(c, write_row, rows, count, sizeof *rows);
    return r;
}

int audit_verify_handle(struct call *c, struct cay_error *err) {
    struct audit_verdict verdict;
    int r = manager_audit_verify(c->manager, &verdict, err);
    if (r == 0)
        call_answer(c, write_verdict, &verdict);
    return r;
}

int audit_trim_handle(struct call *c, struct cay_error *err) {
    int64_t through = 0;
    int r = read_number(c, "through", 1, INT64_MAX, &through, err);
    if (r == 0 && through == 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "through: up to which row is not said");
        r = error_remedy(err, "say it, as in ?through=1000");
    }
    if (r == 0)
        r = manager_audit_trim(c->manager, through, c->caller.name, err);
    c->is_noted = r == 0;
    c->answer.status = 204;
    return r;
}
