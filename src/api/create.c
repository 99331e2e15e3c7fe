/* Making a sandbox: at once, or with lines that tell how far it is. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "api/metrics.h"
#include "api/shape.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

enum { LINE_SIZE = 1024, WAITING_MAX = 1024 * 1024 };

/* A sandbox in the making, whose progress is the answer. */
struct creation {
    struct stream stream;
    struct manager *manager;
    struct key caller;
    bool wants_tsv;
    struct sandbox_record request;
    int progress[2];
    pthread_t maker;
    bool is_made; /* the maker was joined */
    struct sandbox_record made;
    struct cay_error err;
    int result;
    char line[LINE_SIZE]; /* the last one, as far as it came */
    size_t line_len;
    struct buf waiting; /* to be sent */
};

static int make_measured(struct manager *m, const struct sandbox_record *request, int progress,
                         struct sandbox_record *ret, struct cay_error *err) {
    int64_t began = clock_us();
    int r = manager_create(m, request, progress, ret, err);
    if (r == 0)
        metrics_observe(METRICS_CREATE, clock_us() - began);
    return r;
}

static void put_detail(const struct sandbox_record *r, char out[static AUDIT_DETAIL_SIZE]) {
    out[0] = '\0';
    if (r->name[0] != '\0')
        (void)snprintf(out, AUDIT_DETAIL_SIZE, "name %s, image %.100s", r->name, r->image_name);
}

static void note(const struct creation *c) {
    char detail[AUDIT_DETAIL_SIZE];
    put_detail(c->result < 0 ? &c->request : &c->made, detail);
    manager_audit(c->manager, c->caller.name, "sandbox.create", c->made.id,
                  c->result < 0 ? cay_code_name(c->err.code) : "ok", detail);
}

static void *make(void *user) {
    struct creation *c = user;
    c->result = make_measured(c->manager, &c->request, c->progress[1], &c->made, &c->err);
    if (c->result < 0)
        metrics_failed(c->err.code);
    note(c);
    fd_close(&c->progress[1]); /* which ends what the reader waits for */
    return NULL;
}

/* ---- lines ---- */

static void end_line(struct creation *c) {
    char shown[2 * LINE_SIZE];
    c->line[c->line_len] = '\0';
    if (c->line_len > 0)
        (void)buf_printf(&c->waiting, "progress %s\n", str_escape(shown, sizeof shown, c->line));
    c->line_len = 0;
}

static void take_progress(struct creation *c, const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' || data[i] == '\r')
            end_line(c);
        else if (c->line_len < sizeof c->line - 1)
            c->line[c->line_len++] = data[i];
    }
}

static void finish(struct creation *c) {
    end_line(c);
    (void)pthread_join(c->maker, NULL);
    c->is_made = true;
    (void)buf_puts(&c->waiting, c->result < 0 ? "error\n" : "done\n");
    if (c->result < 0)
        shape_error(&c->waiting, c->wants_tsv, &c->err, (unsigned)cay_code_http(c->err.code));
    else
        sheet_write_one(&c->waiting, c->wants_tsv, &shape_sandbox, &c->made);
}

/* ---- the stream ---- */

static size_t read_creation(struct stream *s, char *data, size_t size) {
    struct creation *c = (struct creation *)s;
    char chunk[LINE_SIZE];
    while (c->waiting.len == 0 && !c->is_made) {
        ssize_t n = TEMP_FAILURE_RETRY(read(c->progress[0], chunk, sizeof chunk));
        if (n > 0)
            take_progress(c, chunk, (size_t)n);
        else
            finish(c);
    }
    size_t len = MIN(size, c->waiting.len);
    if (len > 0) {
        memcpy(data, c->waiting.data, len);
        buf_consume(&c->waiting, len);
    }
    return len;
}

static void release(struct creation *c) {
    fd_close(&c->progress[0]);
    fd_close(&c->progress[1]);
    sandbox_record_free(&c->request);
    sandbox_record_free(&c->made);
    buf_free(&c->waiting);
    free(c);
}

/* If the client has gone, the sandbox is made all the same; whoever tells its progress must not be
 * held up by a full pipe. */
static void close_creation(struct stream *s) {
    struct creation *c = (struct creation *)s;
    char ignored[LINE_SIZE];
    while (!c->is_made && TEMP_FAILURE_RETRY(read(c->progress[0], ignored, sizeof ignored)) > 0)
        ;
    if (!c->is_made)
        (void)pthread_join(c->maker, NULL);
    release(c);
}

/* Takes the request's strings. */
static int create_with_progress(struct call *call, struct sandbox_record *request,
                                struct cay_error *err) {
    struct creation *c = calloc(1, sizeof *c);
    if (c == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *c = (struct creation){
        .stream = {.read = read_creation, .close = close_creation},
        .manager = call->manager,
        .caller = call->caller,
        .wants_tsv = call->wants_tsv,
        .request = *request,
        .progress = {-1, -1},
        .waiting = BUF_INIT(WAITING_MAX),
    };
    *request = (struct sandbox_record){0};
    int r = 0;
    if (pipe2(c->progress, O_CLOEXEC) < 0)
        r = error_errno(err, "making a pipe");
    else if (pthread_create(&c->maker, NULL, make, c) != 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for the new sandbox");
    if (r < 0) {
        release(c);
        return r;
    }
    call->answer.is_plain = true;
    call->answer.stream = &c->stream;
    call->is_noted = true; /* when it is done */
    return 0;
}

/* ---- at once ---- */

/* The answer, and what the audit says of what was made, or wished for if it failed. */
static void answer_made(struct call *call, const struct sandbox_record *r, int result) {
    if (result == 0)
        call_answer(call, &shape_sandbox, r);
    put_detail(r, call->detail);
    memcpy(call->object, r->id, sizeof r->id);
}

static int create(struct call *call, const struct sandbox_record *request, struct cay_error *err) {
    struct sandbox_record made = {0};
    int r = make_measured(call->manager, request, -1, &made, err);
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
    memcpy(request.owner, call->caller.id, sizeof request.owner);
    if (r == 0)
        r = access_check_volumes(&call->caller, &request.volumes, err);
    if (r == 0)
        r = check_volumes(call, &request, err);
    if (r == 0)
        r = make_as_asked(call, &request, err);
    sandbox_record_free(&request);
    return r;
}
