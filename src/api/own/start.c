/* Starting, and archiving: what is done at once, or with lines that tell how far an archive is. */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/metrics/metrics.h"
#include "api/own/progress_stream.h"
#include "api/shape/shape.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

typedef int (*change)(struct manager *m, const char *who, int progress_fd, struct cay_error *err);

static int start_measured(struct manager *m, const char *who, int progress_fd,
                          struct cay_error *err) {
    int64_t began = clock_us();
    int r = manager_start_with_progress(m, who, progress_fd, err);
    if (r == 0)
        metrics_observe(METRICS_START, clock_us() - began);
    return r;
}

/* One that is told. */
struct waking {
    change change;
    struct manager *manager;
    char caller[sizeof((struct key *)NULL)->name];
    char action[ROUTE_ACTION_SIZE];
    char id[ID_SIZE];
    struct sandbox_record record; /* as it is afterwards */
    struct audit_intent intent;
};

static int run(void *user, int progress_fd, struct cay_error *err) {
    struct waking *w = user;
    w->intent = (struct audit_intent){.who = w->caller, .action = w->action, .detail = ""};
    manager_audit_announce(&w->intent);
    int r = w->change(w->manager, w->id, progress_fd, err);
    manager_audit_announce(NULL);
    return r < 0 ? r : manager_get(w->manager, w->id, &w->record, err);
}

static void note(void *user, int result, const struct cay_error *err) {
    struct waking *w = user;
    if (w->intent.is_written && result == 0)
        return;
    manager_audit(w->manager, w->caller, w->action, w->id,
                  result < 0 ? cay_code_name(err->code) : "ok", "");
}

static void answer(void *user, struct buf *out) {
    const struct waking *w = user;
    jsonw_write_object(out, shape_put_sandbox, &w->record);
}

static void release(void *user) {
    struct waking *w = user;
    sandbox_record_free(&w->record);
    free(w);
}

static const struct progress_work work = {
    .run = run, .note = note, .answer = answer, .release = release};

static int report(struct call *c, change what, struct cay_error *err) {
    struct waking *w = calloc(1, sizeof *w);
    if (w == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    w->change = what;
    w->manager = c->manager;
    memcpy(w->caller, c->caller.name, sizeof w->caller);
    memcpy(w->id, c->id, sizeof w->id);
    (void)route_action(c->route, w->action);
    return progress_stream_begin(c, &work, w, err);
}

static int make(struct call *c, change what, struct cay_error *err) {
    if (c->wants_progress)
        return report(c, what, err);
    struct sandbox_record r = {0};
    int e = what(c->manager, c->who, -1, err);
    if (e == 0)
        e = manager_get(c->manager, c->who, &r, err);
    if (e == 0)
        call_answer(c, shape_put_sandbox, &r);
    sandbox_record_free(&r);
    return e;
}

int start_handle(struct call *c, struct cay_error *err) {
    return make(c, start_measured, err);
}

int archive_handle(struct call *c, struct cay_error *err) {
    return make(c, manager_archive, err);
}
