/* A run of code in a context over a WebSocket. The context's keeper runs it and keeps what it
 * prints: a client who is lost loses nothing, and finds the run again by "attach". */
#include <signal.h>
#include <string.h>

#include "api/http/ws.h"
#include "api/toolbox/interpreter.h"
#include "api/toolbox/python.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "lib/python/context.h"
#include "wire/client_command.h"
#include "wire/client_session.h"

enum {
    REQUEST_MS = 60 * 1000,
    TIMEOUT_S = 10 * 60, /* unless the client says one; 0 is none */
    TIMEOUT_MAX_S = 30 * 24 * 3600,
    LATER_MAX = 4096, /* bytes of a message while it runs */
    INTERRUPTED = 130,
    CLOSE_DONE = 1000,
    CLOSE_REFUSED = 1008,
    CLOSE_FAILED = 1011,
    CLOSE_TIMEOUT = 4008, /* as Daytona's clients know it */
};

struct request {
    struct json_document *doc;
    const char *code;
    char name[WIRE_NAME_MAX + 1];
    struct strv env;
    int64_t timeout_s;
    bool attach;  /* to the last run, instead of beginning one */
    bool results; /* values come as messages only, not as output too */
};

struct run {
    struct call *call;
    struct ws *ws;
    struct request request;
    struct toolbox box;
    struct wire_reader reader;
    struct context_reader report;
    struct interpreter_writer tell;
    bool is_new;                  /* the interpreter: the one before had ended */
    bool was_reported;            /* that it is */
    char python[PYTHON_HOW_SIZE]; /* how it began, if it was made for this run */
    int64_t began_ms;
};

static void run_free(struct run *r) {
    json_free(r->request.doc);
    strv_free(&r->request.env);
    toolbox_end(&r->box);
    wire_reader_free(&r->reader);
    context_reader_free(&r->report);
    interpreter_writer_free(&r->tell);
}

static void refuse(const struct run *r, const struct cay_error *err) {
    char reason[WS_REASON_MAX + 1];
    bool ours = err->code == CAY_INTERNAL || err->code == CAY_UNAVAILABLE;
    (void)snprintf(reason, sizeof reason, "%.*s", WS_REASON_MAX - 3, err->message);
    ws_close(r->ws, ours ? CLOSE_FAILED : CLOSE_REFUSED, reason);
}

/* ---- the request ---- */

static int read_members(struct request *q, const struct json *root, struct cay_error *err) {
    const char *id = NULL;
    q->timeout_s = TIMEOUT_S;
    int r = json_get_string(root, "contextId", JSON_OPTIONAL, &id, err);
    if (r == 0)
        r = toolbox_name_of(id != NULL && id[0] != '\0' ? id : CONTEXT_DEFAULT, q->name, err);
    if (r == 0)
        r = json_get_bool(root, "attach", JSON_OPTIONAL, &q->attach, err);
    if (r == 0)
        r = json_get_bool(root, "results", JSON_OPTIONAL, &q->results, err);
    if (r == 0)
        r = json_get_string(root, "code", q->attach ? JSON_OPTIONAL : JSON_REQUIRED, &q->code, err);
    if (r == 0)
        r = json_get_integer(root, "timeout", JSON_OPTIONAL, 0, TIMEOUT_MAX_S, &q->timeout_s, err);
    if (r == 0)
        r = toolbox_read_env(root, "envs", &q->env, err);
    if (r == 0 && !q->attach && q->code[strspn(q->code, " \t\r\n")] == '\0')
        r = error_set(err, CAY_INVALID_ARGUMENT, "code: it is empty");
    return r;
}

static int read_request(struct run *r, const struct ws_message *m, struct cay_error *err) {
    int failed = json_parse("request", m->data, m->len, &r->request.doc, err);
    if (failed < 0)
        return failed;
    struct json root = json_root(r->request.doc, "");
    return read_members(&r->request, &root, err);
}

/* ---- the beginning ---- */

/* The first frame says whether it has begun. */
static int ask(struct run *r, struct cay_error *err) {
    const struct request *q = &r->request;
    const struct wire_session_exec exec = {.text = q->code,
                                           .env = (const char *const *)q->env.v,
                                           .echo = !q->results,
                                           .timeout_ms = q->timeout_s * 1000};
    struct wire_frame f;
    _cleanup_(wire_reader_free) struct wire_reader first = WIRE_READER_INIT;
    toolbox_end(&r->box);
    int failed = interpreter_begin(r->call, &r->box, err);
    if (failed == 0)
        failed = q->attach ? wire_session_logs(&r->box.wire, q->name, 0, 0, 0, true, err)
                           : wire_session_exec(&r->box.wire, q->name, &exec, err);
    if (failed == 0)
        failed = wire_call_receive_exactly(&r->box.wire, &first, &f, err);
    if (failed != 0)
        return failed;
    struct wire_message m;
    if (f.type != WIRE_STARTED || wire_parse(f.data, f.len, &m) < 0)
        return wire_call_broken(err, "an unexpected frame");
    r->is_new = m.number[WIRE_TAG_RESTARTED] != 0;
    return 0;
}

/* Waits until the run that keeps the context busy has ended: 0, or 1 if the client went. */
static int wait_for_turn(struct run *r) {
    struct cay_error err;
    struct wire_command_event e;
    struct ws_message ignored;
    int n = 0, event;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    if (interpreter_begin(r->call, &t, &err) < 0 ||
        wire_session_logs(&t.wire, r->request.name, 0, 0, UINT32_MAX, true, &err) < 0)
        return 0; /* the next try says why */
    for (;;) {
        while ((n = wire_command_next(&reader, &e, &err)) > 0)
            if (e.kind == WIRE_COMMAND_ENDED)
                return 0;
        if (n < 0)
            return 0;
        event = ws_wait(r->ws, t.wire.fd, 0, &ignored);
        if (event <= 0)
            return 1;
        if (event == WS_OTHER && wire_reader_fill(&reader, t.wire.fd) <= 0)
            return 0;
    }
}

/* Somebody else may have made it in this moment. */
static int make_default(struct run *r, struct cay_error *err) {
    struct cay_error why = {0};
    int failed =
        interpreter_create(r->call, CONTEXT_DEFAULT, context_language(NULL, err), NULL, &why, err);
    if (failed == 0 && r->call->interpreters != NULL)
        (void)python_how(why.message[0] == '\0' ? NULL : why.message, r->python);
    return failed == -CAY_CONFLICT ? 0 : failed;
}

/* 0, 1 if the client went, or negative with err. */
static int begin(struct run *r, struct cay_error *err) {
    bool is_default = str_equal(r->request.name, CONTEXT_DEFAULT) && !r->request.attach;
    for (;;) {
        int failed = ask(r, err);
        if (failed == -CAY_NOT_FOUND && is_default) {
            is_default = false;
            failed = make_default(r, err);
        } else if (failed == -CAY_CONFLICT && !r->request.attach) {
            toolbox_end(&r->box);
            failed = wait_for_turn(r);
        } else {
            return failed;
        }
        if (failed != 0)
            return failed;
    }
}

/* ---- the end ---- */

static void report_new(struct run *r) {
    static const char text[] = "[cay: the interpreter had ended; this is a new one, without what "
                               "the old one knew]\n";
    if (!r->is_new || r->was_reported)
        return;
    r->was_reported = true;
    interpreter_report_output(&r->tell, true, text, sizeof text - 1);
    interpreter_report_restart(&r->tell);
}

static void report_death(struct run *r, const struct exec_outcome *o, bool is_oom) {
    char text[160];
    if (is_oom)
        (void)snprintf(text, sizeof text,
                       "the interpreter was killed: the sandbox is out of memory");
    else if (o->signal == SIGKILL)
        (void)snprintf(text, sizeof text, "the interpreter was killed");
    else if (o->signal != 0)
        (void)snprintf(text, sizeof text, "the interpreter was ended by signal %d", o->signal);
    else
        (void)snprintf(text, sizeof text, "the interpreter ended itself with exit code %d",
                       o->exit_code);
    interpreter_report_error(&r->tell, "InterpreterExit", text, "");
}

static void finish(struct run *r, const struct exec_outcome *o) {
    bool late = o->reason == WIRE_REASON_TIMEOUT || o->reason == WIRE_REASON_QUIET;
    r->is_new |= o->restarted; /* it may have been found out late */
    report_new(r);
    interpreter_report_rest(&r->tell);
    for (int i = 0; i < 2; i++)
        if (o->file[i][0] != '\0')
            interpreter_report_file(&r->tell, i == 1, o->file[i]);
    bool is_oom = o->fatal && toolbox_ran_out_of_memory(r->call, o->exit_code, r->began_ms);
    if (o->fatal && !late)
        report_death(r, o, is_oom);
    if (late) {
        ws_close(r->ws, CLOSE_TIMEOUT,
                 o->fatal ? "timed out; the interpreter did not stop and was ended"
                          : "timed out; what the code had done stays");
        return;
    }
    bool was_interrupted = o->exit_code == INTERRUPTED && !o->fatal;
    interpreter_report_end(&r->tell, was_interrupted ? "interrupted" : "completed", o->exit_code,
                           is_oom, r->python);
    ws_close(r->ws, CLOSE_DONE, "");
}

/* ---- in between ---- */

static void report_report(struct run *r, const char *data, size_t len) {
    struct context_record record;
    context_reader_add(&r->report, data, len);
    while (context_reader_next(&r->report, &record))
        interpreter_report_record(&r->tell, &record);
}

/* What was read goes on: 0, or 1 when it is over. */
static int pass_on(struct run *r) {
    struct wire_command_event e;
    struct cay_error err;
    int n;
    while ((n = wire_command_next(&r->reader, &e, &err)) > 0 && !r->tell.gone) {
        if (e.kind == WIRE_COMMAND_OUTPUT)
            interpreter_report_output(&r->tell, e.is_stderr, e.data, e.len);
        else if (e.kind == WIRE_COMMAND_REPORT)
            report_report(r, e.data, e.len);
        if (e.kind == WIRE_COMMAND_ENDED) {
            finish(r, &e.outcome);
            return 1;
        }
    }
    if (n < 0)
        refuse(r, &err);
    return n < 0 || r->tell.gone;
}

/* {"type":"interrupt"} is the one thing to say meanwhile. */
static void take_message(struct run *r, const struct ws_message *m) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    struct cay_error ignored; /* the run goes on */
    const char *type = NULL;
    if (json_parse("message", m->data, m->len, &doc, &ignored) < 0)
        return;
    struct json root = json_root(doc, "");
    if (json_get_string(&root, "type", JSON_REQUIRED, &type, &ignored) < 0 ||
        !str_equal(type, "interrupt") || interpreter_begin(r->call, &t, &ignored) < 0)
        return;
    (void)wire_session_signal(&t.wire, r->request.name, SIGINT, &ignored);
}

static void converse(struct run *r) {
    struct ws_message m;
    while (pass_on(r) == 0) {
        int event = ws_wait(r->ws, r->box.wire.fd, 0, &m);
        if (event <= 0)
            return;
        if (event == WS_MESSAGE)
            take_message(r, &m);
        else if (wire_reader_fill(&r->reader, r->box.wire.fd) <= 0) {
            ws_close(r->ws, CLOSE_FAILED, "the sandbox ended, or the context was deleted");
            return;
        }
    }
}

void interpreter_talk(struct call *c, struct ws *w) {
    struct cay_error err = {0};
    struct ws_message m;
    _cleanup_(run_free) struct run r = {.call = c,
                                        .ws = w,
                                        .box = TOOLBOX_INIT,
                                        .reader = WIRE_READER_INIT,
                                        .report = CONTEXT_READER_INIT,
                                        .began_ms = clock_ms()};
    interpreter_writer_init(&r.tell, w);
    if (ws_wait(w, -1, clock_deadline(REQUEST_MS), &m) != WS_MESSAGE)
        return;
    ws_set_message_max(w, LATER_MAX);
    ws_outlast(w);
    int failed = read_request(&r, &m, &err);
    if (failed == 0)
        failed = begin(&r, &err);
    if (failed > 0)
        return;
    if (failed < 0) {
        refuse(&r, &err);
        return;
    }
    if (!r.request.attach)
        report_new(&r);
    converse(&r);
}
