/* What became of a sandbox, as an answer. */
#include <stdlib.h>

#include "api/call.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/manager.h"

static void write_event(struct jsonw *w, const void *row) {
    const struct manager_event *e = row;
    jsonw_put_integer(w, "number", e->number);
    jsonw_put_time(w, "time", e->time_ms);
    jsonw_put_string(w, "state", e->state);
    jsonw_put_string(w, "text", e->text);
}

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
        call_answer_all(c, write_event, all, count, sizeof *all);
    free(all);
    return r;
}
