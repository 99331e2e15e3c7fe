#include "wire/client_terminal.h"

#include <signal.h>

#include "base/error.h"

enum { ANSWER_MAX = 16 * 1024 };

static void begin(const struct wire_call *c, enum wire_op op, const char *name, struct buf *b) {
    wire_call_begin(c, op, b);
    wire_put_string(b, WIRE_TAG_NAME, name);
}

static void put_size(struct buf *b, unsigned rows, unsigned cols) {
    wire_put_number(b, WIRE_TAG_ROWS, rows);
    wire_put_number(b, WIRE_TAG_COLS, cols);
}

/* ---- questions with one answer ---- */

static int expect_done(const struct wire_call *c, const struct buf *b, struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    int r = wire_call_send(c, WIRE_REQUEST, b, err);
    if (r == 0)
        r = wire_call_receive(c, &reader, &f, err);
    if (r == 0 && f.type != WIRE_DONE)
        r = wire_call_broken(err, "an unexpected frame");
    return r;
}

int wire_terminal_create(const struct wire_call *c, const char *name,
                         const struct wire_terminal_create *create, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_TERMINAL_CREATE, name, &b);
    put_size(&b, create->rows, create->cols);
    wire_put_number(&b, WIRE_TAG_LAZY, create->lazy);
    for (const char *const *p = create->argv; p != NULL && *p != NULL; p++)
        wire_put_string(&b, WIRE_TAG_ARG, *p);
    for (const char *const *p = create->env; p != NULL && *p != NULL; p++)
        wire_put_string(&b, WIRE_TAG_ENV, *p);
    return expect_done(c, &b, err);
}

int wire_terminal_resize(const struct wire_call *c, const char *name, unsigned rows, unsigned cols,
                         struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_TERMINAL_RESIZE, name, &b);
    put_size(&b, rows, cols);
    return expect_done(c, &b, err);
}

int wire_terminal_kill(const struct wire_call *c, const char *name, int signal,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_TERMINAL_KILL, name, &b);
    wire_put_number(&b, WIRE_TAG_SIGNAL, (uint64_t)signal);
    return expect_done(c, &b, err);
}

int wire_terminal_delete(const struct wire_call *c, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_TERMINAL_DELETE, name, &b);
    return expect_done(c, &b, err);
}

/* ---- lists ---- */

static bool is_end(const struct wire_message *m) {
    return m->number[WIRE_TAG_EXIT] <= 255 && m->number[WIRE_TAG_SIGNAL] < NSIG;
}

static int take_terminal(const struct wire_message *m, struct wire_terminal *t,
                         struct cay_error *err) {
    const uint64_t *n = m->number;
    *t = (struct wire_terminal){
        .name = m->string[WIRE_TAG_NAME],
        .text = m->string[WIRE_TAG_TEXT],
        .cwd = m->present[WIRE_TAG_CWD] ? m->string[WIRE_TAG_CWD] : "",
        .running = n[WIRE_TAG_RUNNING] != 0,
        .lazy = n[WIRE_TAG_LAZY] != 0,
        .waits = n[WIRE_TAG_WAITS] != 0,
        .busy = n[WIRE_TAG_BUSY] != 0,
        .exit_code = (int)(n[WIRE_TAG_EXIT] & 255),
        .signal = (int)(n[WIRE_TAG_SIGNAL] & 127),
        .rows = (unsigned)n[WIRE_TAG_ROWS],
        .cols = (unsigned)n[WIRE_TAG_COLS],
        .viewers = (unsigned)n[WIRE_TAG_VIEWERS],
        .bytes = n[WIRE_TAG_SIZE],
        .started_ms = (int64_t)n[WIRE_TAG_MTIME_MS],
    };
    bool good = wire_call_is_name(t->name) && t->text != NULL && is_end(m) &&
                n[WIRE_TAG_ROWS] <= WIRE_TERMINAL_SIZE_MAX &&
                n[WIRE_TAG_COLS] <= WIRE_TERMINAL_SIZE_MAX && n[WIRE_TAG_VIEWERS] <= UINT16_MAX;
    return good ? 0 : wire_call_broken(err, "a bad terminal");
}

int wire_terminal_list(const struct wire_call *c, wire_terminal_fn *each, void *arg,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    wire_call_begin(c, WIRE_OP_TERMINAL_LIST, &b);
    int r = wire_call_send(c, WIRE_REQUEST, &b, err);
    for (unsigned count = 0; r == 0; count++) {
        struct wire_frame f;
        struct wire_message m;
        struct wire_terminal t;
        r = wire_call_receive(c, &reader, &f, err);
        if (r == 0 && f.type == WIRE_DONE)
            return 0;
        if (r == 0 && (f.type != WIRE_ENTRY || count == WIRE_TERMINALS_MAX))
            r = wire_call_broken(err, "an unexpected frame");
        if (r == 0)
            r = wire_call_parse(&f, ANSWER_MAX, &m, err);
        if (r == 0)
            r = take_terminal(&m, &t, err);
        if (r == 0)
            r = each(arg, &t, err);
    }
    return r;
}

/* ---- looking ---- */

int wire_terminal_attach(const struct wire_call *c, const char *name,
                         const struct wire_terminal_attach *attach, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    begin(c, WIRE_OP_TERMINAL_ATTACH, name, &b);
    put_size(&b, attach->rows, attach->cols);
    wire_put_number(&b, WIRE_TAG_STDIN, !attach->read_only);
    wire_put_number(&b, WIRE_TAG_RUNNING, attach->only_running);
    int r = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (r == 0)
        r = wire_call_receive_exactly(c, &reader, &f, err);
    if (r == 0 && f.type != WIRE_STARTED)
        r = wire_call_broken(err, "an unexpected frame");
    return r;
}

static int take_event(const struct wire_frame *f, struct wire_terminal_event *ret,
                      struct cay_error *err) {
    struct wire_message m;
    int r = wire_call_parse(f, ANSWER_MAX, &m, err);
    if (r < 0)
        return r;
    switch (f->type) {
    case WIRE_ENTRY:
        ret->kind = WIRE_TERMINAL_SKIPPED;
        ret->count = m.number[WIRE_TAG_SIZE];
        return 1;
    case WIRE_CREDIT:
        ret->kind = WIRE_TERMINAL_CREDITS;
        ret->count = MIN(m.number[WIRE_TAG_COUNT], (uint64_t)WIRE_TERMINAL_CREDIT);
        return 1;
    case WIRE_DONE:
        ret->kind = WIRE_TERMINAL_ENDED;
        ret->exit_code = (int)(m.number[WIRE_TAG_EXIT] & 255);
        ret->signal = (int)(m.number[WIRE_TAG_SIGNAL] & 127);
        return is_end(&m) ? 1 : wire_call_broken(err, "a bad end");
    case WIRE_ERROR:
        return wire_call_error(&m, err);
    default:
        return wire_call_broken(err, "an unexpected frame");
    }
}

int wire_terminal_next(struct wire_reader *r, struct wire_terminal_event *ret,
                       struct cay_error *err) {
    struct wire_frame f;
    int n = wire_reader_next(r, &f);
    if (n <= 0)
        return n < 0 ? wire_call_broken(err, "a malformed frame") : 0;
    *ret = (struct wire_terminal_event){.kind = WIRE_TERMINAL_OUTPUT, .data = f.data, .len = f.len};
    return f.type == WIRE_STDOUT ? 1 : take_event(&f, ret, err);
}

int wire_terminal_type(int fd, const void *data, size_t len) {
    return wire_send_data(fd, WIRE_INPUT, data, len);
}

int wire_terminal_window(int fd, unsigned rows, unsigned cols) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    put_size(&b, rows, cols);
    return wire_send(fd, WIRE_WINDOW, &b);
}

/* ---- activity ---- */

int wire_activity(const struct wire_call *c, struct wire_activity *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    struct wire_message m;
    wire_call_begin(c, WIRE_OP_ACTIVITY, &b);
    int r = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (r == 0)
        r = wire_call_receive(c, &reader, &f, err);
    if (r == 0 && f.type != WIRE_DONE)
        r = wire_call_broken(err, "an unexpected frame");
    if (r == 0)
        r = wire_call_parse(&f, ANSWER_MAX, &m, err);
    if (r != 0)
        return r;
    *ret = (struct wire_activity){
        .commands = m.number[WIRE_TAG_COMMANDS],
        .viewers = m.number[WIRE_TAG_VIEWERS],
        .busy = m.number[WIRE_TAG_BUSY],
        .quiet_ms = -1,
    };
    if (m.present[WIRE_TAG_QUIET_MS])
        ret->quiet_ms = (int64_t)MIN(m.number[WIRE_TAG_QUIET_MS], (uint64_t)INT64_MAX);
    return 0;
}
