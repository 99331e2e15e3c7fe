/* The audit: shown, verified, trimmed. */
#include "manager/audit.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

enum { LIMIT = 100 };

/* ---- what is shown ---- */

static const struct audit_row no_row;
static const struct audit_verdict no_verdict;

static void write_chain(struct sheet *s, const char *name, const unsigned char *chain) {
    char hex[2 * HASH_SIZE + 1];
    for (size_t i = 0; i < HASH_SIZE; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", chain[i]);
    sheet_string(s, name, hex);
}

static void write_row(struct sheet *s, const void *row) {
    const struct audit_row *a = row;
    sheet_integer(s, "number", a->number);
    sheet_time(s, "time", a->time_ms);
    sheet_string(s, "who", a->who);
    sheet_string(s, "action", a->action);
    sheet_string(s, "object", a->object);
    sheet_string(s, "result", a->result);
    sheet_string(s, "detail", a->detail);
    write_chain(s, "chain", a->chain);
}

static const struct sheet_kind shape_row = {write_row, sizeof(struct audit_row), &no_row};

static void write_verdict(struct sheet *s, const void *row) {
    const struct audit_verdict *v = row;
    sheet_bool(s, "ok", v->ok);
    sheet_integer(s, "rows", v->rows);
    sheet_integer(s, "first", v->first);
    sheet_integer(s, "last", v->last);
    write_chain(s, "chain", v->head);
    sheet_integer(s, "badRow", v->bad);
    sheet_optional(s, "why", v->why);
}

static const struct sheet_kind shape_verdict = {write_verdict, sizeof(struct audit_verdict),
                                                &no_verdict};

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
        sheet_write_all(&c->answer.body, c->wants_tsv, &shape_row, rows, count);
    return r;
}

int audit_verify_handle(struct call *c, struct cay_error *err) {
    struct audit_verdict verdict;
    int r = manager_audit_verify(c->manager, &verdict, err);
    if (r == 0)
        call_answer(c, &shape_verdict, &verdict);
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
