/* Making a sandbox: at once, or with lines that tell how far it is. */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/metrics/metrics.h"
#include "api/own/progress_stream.h"
#include "api/shape/shape.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

/* A sandbox in the making, whose progress is the answer. */
struct creation {
    struct manager *manager;
    int client;
    struct key caller;
    struct sandbox_record request;
    struct sandbox_record made;
    struct audit_intent intent;
};

static int make_measured(struct manager *m, const struct sandbox_record *request, int progress,
                         int client, struct sandbox_record *ret, struct cay_error *err) {
    int64_t began = clock_us();
    int r = manager_create_for(m, request, progress, client, ret, err);
    if (r == 0)
        metrics_observe(METRICS_CREATE, clock_us() - began);
    else
        metrics_create_failed(err->code);
    return r;
}

/* ---- with its progress ---- */

static int make(void *user, int progress_fd, struct cay_error *err) {
    struct creation *c = user;
    c->intent =
        (struct audit_intent){.who = c->caller.name, .action = "sandbox.create", .detail = ""};
    manager_audit_announce(&c->intent);
    int r = make_measured(c->manager, &c->request, progress_fd, c->client, &c->made, err);
    manager_audit_announce(NULL);
    return r;
}

static void note(void *user, int result, const struct cay_error *err) {
    const struct creation *c = user;
    char detail[AUDIT_DETAIL_SIZE];
    if (c->intent.is_written && result == 0)
        return;
    audit_describe(result < 0 ? &c->request : &c->made, detail);
    manager_audit(c->manager, c->caller.name, "sandbox.create", c->made.id,
                  result < 0 ? cay_code_name(err->code) : "ok", detail);
}

static void write_made(void *user, struct buf *out) {
    const struct creation *c = user;
    jsonw_write_object(out, shape_put_sandbox, &c->made);
}

static void release(void *user) {
    struct creation *c = user;
    sandbox_record_free(&c->request);
    sandbox_record_free(&c->made);
    free(c);
}

static const struct progress_work creating = {
    .run = make, .note = note, .answer = write_made, .release = release};

/* Takes the request's strings. */
static int create_with_progress(struct call *call, struct sandbox_record *request,
                                struct cay_error *err) {
    struct creation *c = calloc(1, sizeof *c);
    if (c == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *c = (struct creation){.manager = call->manager,
                           .client = call_socket(call),
                           .caller = call->caller,
                           .request = *request};
    *request = (struct sandbox_record){0};
    return progress_stream_begin(call, &creating, c, err);
}

/* ---- at once ---- */

/* The answer, and what the audit says of what was made, or wished for if it failed. */
static void answer_made(struct call *call, const struct sandbox_record *r, int result) {
    if (result == 0)
        call_answer(call, shape_put_sandbox, r);
    audit_describe(r, call->detail);
    memcpy(call->object, r->id, sizeof r->id);
}

static int create(struct call *call, const struct sandbox_record *request, struct cay_error *err) {
    struct sandbox_record made = {0};
    int r = make_measured(call->manager, request, -1, call_socket(call), &made, err);
    answer_made(call, r < 0 ? request : &made, r);
    sandbox_record_free(&made);
    return r;
}

/* ---- and not waited for ---- */

static int create_later(struct call *call, const struct sandbox_record *request,
                        struct cay_error *err) {
    struct sandbox_record made = {0};
    int r = manager_create_later(call->manager, request, &made, err);
    answer_made(call, r < 0 ? request : &made, r);
    sandbox_record_free(&made);
    return r;
}

static int make_as_asked(struct call *call, struct sandbox_record *request, struct cay_error *err) {
    bool wait = true;
    int r = target_query(&call->target, "wait") == NULL
                ? 0
                : target_flag(&call->target, "wait", &wait, err);
    if (r < 0)
        return r;
    if (!wait)
        return create_later(call, request, err);
    return call->wants_progress ? create_with_progress(call, request, err)
                                : create(call, request, err);
}

/* Folders of the host are for who runs the daemon; the others have volumes of their own. */
static int check_volumes(const struct call *call, const struct sandbox_record *request,
                         struct cay_error *err) {
    for (size_t i = 0; i < request->volumes.len; i++) {
        if (request->volumes.v[i][0] != '/' || key_sees_all(&call->caller))
            continue;
        error_set(err, CAY_FORBIDDEN, "this key may not show folders of the host");
        return error_remedy(err, "use a named volume: cay volume create NAME");
    }
    return 0;
}

int create_handle(struct call *call, struct cay_error *err) {
    struct sandbox_record request = {0};
    int r = shape_read_create(&call->body, &request, err);
    key_stamp(&call->caller, request.owner, request.made_by);
    if (r == 0)
        r = access_check_volumes(&call->caller, &request.volumes, err);
    if (r == 0)
        r = check_volumes(call, &request, err);
    if (r == 0)
        r = make_as_asked(call, &request, err);
    sandbox_record_free(&request);
    return r;
}
