#include "wire/client_session.h"

#include <string.h>

#include "base/error.h"

enum { ANSWER_MAX = 16 * 1024, TEXT_INSIDE_MAX = WIRE_MESSAGE_MAX / 2 };

static void begin(const struct wire_call *c, enum wire_op op, const char *name, struct buf *b) {
    wire_call_begin(c, op, b);
    if (name != NULL)
        wire_put_string(b, WIRE_TAG_NAME, name);
    if (c->kind != WIRE_SESSION_SHELL)
        wire_put_number(b, WIRE_TAG_KIND, c->kind);
}

/* ---- answers ---- */

typedef int entry_fn(void *arg, const struct wire_message *m, struct cay_error *err);

/* Entries, at most max of them, and the end. */
static int receive_entries(const struct wire_call *c, uint64_t max, entry_fn *each, void *arg,
                           struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    for (uint64_t count = 0;; count++) {
        struct wire_frame f;
        struct wire_message m;
        int r = wire_call_receive(c, &reader, &f, err);
        if (r == 0 && f.type == WIRE_DONE)
            return 0;
        if (r == 0 && (f.type != WIRE_ENTRY || count == max))
            return wire_call_broken(err, "an unexpected frame");
        if (r == 0)
            r = wire_call_parse(&f, ANSWER_MAX, &m, err);
        if (r == 0)
            r = each(arg, &m, err);
        if (r != 0)
            return r;
    }
}

static int ask(const struct wire_call *c, const struct buf *b, uint64_t max, entry_fn *each,
               void *arg, struct cay_error *err) {
    int r = wire_call_send(c, WIRE_REQUEST, b, err);
    return r < 0 ? r : receive_entries(c, max, each, arg, err);
}

int wire_session_create(const struct wire_call *c, const char *name, const char *shell,
                        const char *const *env, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_CREATE, name, &b);
    if (shell != NULL)
        wire_put_string(&b, WIRE_TAG_PATH, shell);
    for (; env != NULL && *env != NULL; env++)
        wire_put_string(&b, WIRE_TAG_ENV, *env);
    return ask(c, &b, 0, NULL, NULL, err);
}

int wire_session_delete(const struct wire_call *c, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_DELETE, name, &b);
    return ask(c, &b, 0, NULL, NULL, err);
}

/* ---- lists ---- */

struct list {
    wire_session_fn *each;
    wire_command_fn *each_command;
    wire_context_fn *each_context;
    void *arg;
};

static int take_session(void *arg, const struct wire_message *m, struct cay_error *err) {
    const struct list *l = arg;
    const char *name = m->string[WIRE_TAG_NAME];
    return wire_call_is_name(name) ? l->each(l->arg, name, err)
                                   : wire_call_broken(err, "a bad name");
}

int wire_session_list(const struct wire_call *c, wire_session_fn *each, void *arg,
                      struct cay_error *err) {
    struct list l = {.each = each, .arg = arg};
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_call_begin(c, WIRE_OP_SESSION_LIST, &b);
    return ask(c, &b, WIRE_SESSIONS_MAX, take_session, &l, err);
}

static int take_command(void *arg, const struct wire_message *m, struct cay_error *err) {
    const struct list *l = arg;
    const char *text = m->string[WIRE_TAG_TEXT];
    const struct wire_session_command cmd = {
        .number = m->number[WIRE_TAG_NUMBER],
        .text = text,
        .running = m->number[WIRE_TAG_RUNNING] != 0,
        .exit_code = (int)(m->number[WIRE_TAG_EXIT] & 255),
        .reason = (enum wire_reason)m->number[WIRE_TAG_REASON],
        .restarted = m->number[WIRE_TAG_RESTARTED] != 0,
        .truncated = m->number[WIRE_TAG_TRUNCATED] != 0,
        .bytes = m->number[WIRE_TAG_SIZE],
        .started_ms = (int64_t)m->number[WIRE_TAG_MTIME_MS],
        .elapsed_us = (int64_t)m->number[WIRE_TAG_ELAPSED_US],
    };
    if (text == NULL || cmd.number == 0 || m->number[WIRE_TAG_EXIT] > 255 ||
        m->number[WIRE_TAG_REASON] > WIRE_REASON_OUTPUT || cmd.elapsed_us < 0)
        return wire_call_broken(err, "a bad command");
    return l->each_command(l->arg, &cmd, err);
}

int wire_session_status(const struct wire_call *c, const char *name, wire_command_fn *each,
                        void *arg, struct cay_error *err) {
    struct list l = {.each_command = each, .arg = arg};
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_STATUS, name, &b);
    return ask(c, &b, WIRE_SESSION_COMMANDS_MAX, take_command, &l, err);
}

/* ---- contexts ---- */

/* Behind the driver's, where a sandbox of an older version takes them for arguments that the driver
 * ignores. */
static void put_program(const struct wire_context_start *start, struct buf *b) {
    uint64_t count = 0;
    for (; start->woken[count] != NULL; count++)
        wire_put_string(b, WIRE_TAG_ARG, start->woken[count]);
    wire_put_number(b, WIRE_TAG_PROGRAM, count);
}

/* That one starts the driver, and says nothing. */
static int receive_made(const struct wire_call *c, struct wire_context_made *ret,
                        struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    struct wire_message m;
    int r = wire_call_receive(c, &reader, &f, err);
    if (r == 0 && f.type != WIRE_DONE)
        return wire_call_broken(err, "an unexpected frame");
    if (r == 0)
        r = wire_call_parse(&f, ANSWER_MAX, &m, err);
    if (r == 0 && ret != NULL)
        *ret = (struct wire_context_made){.is_woken = m.number[WIRE_TAG_PROGRAM] != 0,
                                          .exit_code = (int)(m.number[WIRE_TAG_EXIT] & 255)};
    return r;
}

int wire_context_create(const struct wire_call *c, const char *name,
                        const struct wire_context_start *start, struct wire_context_made *ret,
                        struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_CREATE, name, &b);
    wire_put_string(&b, WIRE_TAG_TEXT, start->language);
    if (start->shell != NULL)
        wire_put_string(&b, WIRE_TAG_PATH, start->shell);
    for (const char *const *a = start->driver; a != NULL && *a != NULL; a++)
        wire_put_string(&b, WIRE_TAG_ARG, *a);
    if (start->program > 0)
        put_program(start, &b);
    for (const char *const *e = start->env; e != NULL && *e != NULL; e++)
        wire_put_string(&b, WIRE_TAG_ENV, *e);
    int r = wire_call_send_with(c, WIRE_REQUEST, &b, start->program, err);
    return r < 0 ? r : receive_made(c, ret, err);
}

static int take_context(void *arg, const struct wire_message *m, struct cay_error *err) {
    const struct list *l = arg;
    const struct wire_context context = {
        .name = m->string[WIRE_TAG_NAME],
        .language = m->string[WIRE_TAG_TEXT],
        .cwd = m->string[WIRE_TAG_CWD],
        .made_ms = (int64_t)m->number[WIRE_TAG_MTIME_MS],
        .is_alive = m->number[WIRE_TAG_RUNNING] != 0,
        .is_busy = m->number[WIRE_TAG_BUSY] != 0,
    };
    if (context.name == NULL || !wire_call_is_name(context.name) || context.language == NULL ||
        context.cwd == NULL)
        return wire_call_broken(err, "a bad context");
    return l->each_context(l->arg, &context, err);
}

int wire_context_list(const struct wire_call *c, wire_context_fn *each, void *arg,
                      struct cay_error *err) {
    struct list l = {.each_context = each, .arg = arg};
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_LIST, NULL, &b);
    return ask(c, &b, WIRE_SESSIONS_MAX, take_context, &l, err);
}

int wire_session_signal(const struct wire_call *c, const char *name, int number,
                        struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_SIGNAL, name, &b);
    wire_put_number(&b, WIRE_TAG_SIGNAL, (uint64_t)number);
    return ask(c, &b, 0, NULL, NULL, err);
}

/* ---- what is carried ---- */

int wire_session_exec(const struct wire_call *c, const char *name,
                      const struct wire_session_exec *exec, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    size_t len = strlen(exec->text);
    bool follows = len > TEXT_INSIDE_MAX;
    if (len > WIRE_TEXT_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "the code has more than %d bytes",
                         WIRE_TEXT_MAX);
    begin(c, WIRE_OP_SESSION_EXEC, name, &b);
    if (follows)
        wire_put_number(&b, WIRE_TAG_SIZE, len);
    else
        wire_put_string(&b, WIRE_TAG_TEXT, exec->text);
    for (const char *const *e = exec->env; e != NULL && *e != NULL; e++)
        wire_put_string(&b, WIRE_TAG_ENV, *e);
    wire_put_number(&b, WIRE_TAG_ASYNC, exec->async);
    wire_put_number(&b, WIRE_TAG_STDIN, exec->want_stdin);
    wire_put_number(&b, WIRE_TAG_ECHO, exec->echo);
    wire_put_number(&b, WIRE_TAG_TIMEOUT_MS, (uint64_t)exec->timeout_ms);
    wire_put_number(&b, WIRE_TAG_QUIET_MS, (uint64_t)exec->quiet_ms);
    int r = wire_call_send(c, WIRE_REQUEST, &b, err);
    return r < 0 || !follows ? r : wire_call_send_data(c, exec->text, len, err);
}

int wire_session_logs(const struct wire_call *c, const char *name, uint64_t number, int stream,
                      uint64_t offset, bool follow, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_LOGS, name, &b);
    wire_put_number(&b, WIRE_TAG_NUMBER, number);
    wire_put_number(&b, WIRE_TAG_STREAM, (uint64_t)stream);
    wire_put_number(&b, WIRE_TAG_OFFSET, offset);
    wire_put_number(&b, WIRE_TAG_FOLLOW, follow);
    return wire_call_send(c, WIRE_REQUEST, &b, err);
}

int wire_session_input(const struct wire_call *c, const char *name, uint64_t number, bool close,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    begin(c, WIRE_OP_SESSION_INPUT, name, &b);
    wire_put_number(&b, WIRE_TAG_NUMBER, number);
    wire_put_number(&b, WIRE_TAG_CLOSE, close);
    return wire_call_send(c, WIRE_REQUEST, &b, err);
}
