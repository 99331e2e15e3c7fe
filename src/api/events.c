/* What became of a sandbox, as an answer. */
#include <stdlib.h>

#include "api/call.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/manager.h"

static const struct manager_event no_event;

static void write_event(struct sheet *s, const void *row) {
    const struct manager_event *e = row;
    sheet_integer(s, "number", e->number);
    sheet_time(s, "time", e->time_ms);
    sheet_string(s, "state", e->state);
    sheet_string(s, "text", e->text);
}

static const struct sheet_kind kind = {write_event, sizeof(struct manager_event), &no_event};

static int read_after(const struct target *t, int64_t *ret, struct cay_error *err) {
    const char *text = target_query(t, "after");
    *ret = 0;
    if (text == NULL || str_to_i64(text, 0, INT64_MAX, ret) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "after: '%.40s' is not the number of an event", text);
    return error_remedy(err, "give the number of the last one that you have, or leave it away");
}

int events_handle(struct call *c, struct cay_error *err) {
    struct manager_event *all = NULL;
    size_t count = 0;
    int64_t after;
    int r = read_after(&c->target, &after, err);
    if (r == 0)
        r = manager_events(c->manager, c->who, after, &all, &count, err);
    if (r == 0)
        sheet_write_all(&c->answer.body, c->wants_tsv, &kind, all, count);
    free(all);
    return r;
}
