#include "remote/op_session.h"

#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "remote/follow.h"
#include "remote/gate.h"
#include "wire/client_session.h"

enum { SMALL_MAX = 64 * 1024, TEXT_MAX = 4 * 1024 * 1024, SHOWN_MAX = 1023 };

/* What gives a command an empty input. */
#define EMPTY_BEFORE "{ "
#define EMPTY_AFTER  "\n} </dev/null"
/* And one that comes by a pipe. */
#define PIPE_BEGIN  "mkdir -p /tmp/."
#define PIPE_BEFORE "/pipe 2>/dev/null &\n{ "
#define PIPE_AFTER  "\n} < /tmp/."

/* ---- their life ---- */

int session_make(struct op *o, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(SMALL_MAX);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "sessionId", name);
    jsonw_end_object(&w);
    return toolbox_json(&o->toolbox, "POST", "/process/session", &body, NULL, err);
}

int session_end(struct op *o, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    follow_put_path(&path, name, "");
    return toolbox_json(&o->toolbox, "DELETE", buf_text(&path), NULL, NULL, err);
}

/* What a shell must do to be where and what the request says; nothing mostly. */
static void put_beginning(const struct op *o, struct buf *b) {
    const char *cwd = op_text(o, WIRE_TAG_CWD);
    if (cwd[0] != '\0' && !str_equal(cwd, o->toolbox.work_dir)) {
        (void)buf_puts(b, "mkdir -p -- ");
        toolbox_put_quoted(b, cwd);
        (void)buf_puts(b, " && cd -- ");
        toolbox_put_quoted(b, cwd);
        (void)buf_putc(b, '\n');
    }
    for (const char *p = NULL; (p = wire_next_string(&o->message, WIRE_TAG_ENV, p)) != NULL;)
        if (op_is_own_env(o, p)) {
            (void)buf_puts(b, "export ");
            (void)buf_append(b, p, strcspn(p, "=") + 1);
            toolbox_put_quoted(b, p + strcspn(p, "=") + 1);
            (void)buf_putc(b, '\n');
        }
}

int op_session_create(struct op *o, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(TEXT_MAX);
    struct follow f = {.op = o, .session = op_text(o, WIRE_TAG_NAME)};
    struct cay_error ignored;
    if (op_text(o, WIRE_TAG_PATH)[0] != '\0')
        return gate_unsupported(err, "chooses the shell of a session", "leave --shell away");
    int r = session_make(o, f.session, err);
    if (r < 0)
        return r;
    put_beginning(o, &text);
    if (text.failed)
        r = error_set(err, CAY_INVALID_ARGUMENT, "the environment is too long");
    else if (text.len > 0)
        r = follow_start(&f, buf_text(&text), err);
    if (r < 0)
        (void)session_end(o, f.session, &ignored);
    return r < 0 ? r : op_done(o, err);
}

int op_session_delete(struct op *o, struct cay_error *err) {
    int r = session_end(o, op_text(o, WIRE_TAG_NAME), err);
    return r < 0 ? r : op_done(o, err);
}

/* Names that cay could not have given are left out; so are those of single commands. */
int op_session_list(struct op *o, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf b = BUF_INIT(SMALL_MAX);
    int r = toolbox_json(&o->toolbox, "GET", "/process/session", NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), one;
    uint64_t count = 0;
    for (size_t i = 0; r == 0 && json_item(&root, i, &one) && count < WIRE_SESSIONS_MAX; i++) {
        const char *name = far_string(&one, "sessionId", "");
        if (!wire_call_is_name(name) || (str_starts(name, "cay-") && strlen(name) == 20))
            continue;
        buf_clear(&b);
        wire_put_string(&b, WIRE_TAG_NAME, name);
        r = op_send(o, WIRE_ENTRY, &b, err);
        count++;
    }
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_COUNT, count);
    return r < 0 ? r : op_send(o, WIRE_DONE, &b, err);
}

/* ---- their commands ---- */

static int ask_session(struct op *o, struct json_document **ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    follow_put_path(&path, op_text(o, WIRE_TAG_NAME), "");
    return toolbox_json(&o->toolbox, "GET", buf_text(&path), NULL, ret, err);
}

static bool command_at(const struct json_document *doc, size_t index, struct json *list,
                       struct json *ret) {
    struct json top = json_root(doc, "");
    *list = (struct json){0};
    (void)json_get_array(&top, "commands", JSON_OPTIONAL, list, NULL);
    if (list->value == NULL || !json_item(list, index, ret))
        return false;
    *ret = (struct json){.value = ret->value, .key = ""};
    return true;
}

/* The number of a command is its place in the list; 0 is the last. */
static int find_command(struct op *o, uint64_t number, struct follow *f, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json list, one;
    int r = ask_session(o, &doc, err);
    if (r < 0)
        return r;
    (void)command_at(doc, 0, &list, &one);
    size_t count = list.value != NULL ? json_count(&list) : 0;
    size_t index = number == 0 ? count - 1 : (size_t)number - 1;
    if (count > 0 && number <= count && command_at(doc, index, &list, &one) &&
        str_copy(f->command, sizeof f->command, far_string(&one, "id", "")) == 0)
        return 0;
    error_set(err, CAY_NOT_FOUND, "session '%.64s' has no such command", op_text(o, WIRE_TAG_NAME));
    return error_remedy(err, "see 'cay session status'");
}

/* The number of a command by its id. */
static int number_of(struct op *o, const struct follow *f, uint64_t *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json list, one;
    int r = ask_session(o, &doc, err);
    *ret = 0;
    for (size_t i = 0; r == 0 && command_at(doc, i, &list, &one); i++)
        if (str_equal(far_string(&one, "id", ""), f->command))
            *ret = i + 1;
    return r;
}

static int report_start(struct op *o, const struct follow *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    uint64_t number;
    int r = number_of(o, f, &number, err);
    wire_put_number(&b, WIRE_TAG_NUMBER, number);
    return r < 0 ? r : op_send(o, WIRE_STARTED, &b, err);
}

/* In the shell itself, so that it keeps what the command sets; its input comes by a pipe with a
 * name. */
static void put_text(const struct op *o, const struct feed *feed, struct buf *b) {
    const char *text = op_text(o, WIRE_TAG_TEXT), *d = feed->folder;
    if (op_number(o, WIRE_TAG_ASYNC) != 0 && op_number(o, WIRE_TAG_STDIN) != 0) {
        (void)buf_puts(b, text);
    } else if (d[0] == '\0') {
        (void)buf_printf(b, EMPTY_BEFORE "%s" EMPTY_AFTER, text);
    } else {
        (void)buf_printf(b, "mkdir -p %s && mkfifo %s/pipe\n( ", d, d);
        feed_put_loop(feed, b);
        (void)buf_printf(b, " ) > %s" PIPE_BEFORE "%s\n} < %s/pipe\n", d, text, d);
        (void)buf_printf(b, "(c=$?; : > %s/end; wait; rm -rf %s; exit $c)", d, d);
    }
}

int op_session_exec(struct op *o, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(TEXT_MAX);
    _cleanup_(feed_free) struct feed feed = {.op = o, .ended = true};
    struct follow f = {.op = o,
                       .session = op_text(o, WIRE_TAG_NAME),
                       .feed = &feed,
                       .timeout_ms = (int64_t)MIN(op_number(o, WIRE_TAG_TIMEOUT_MS), INT64_MAX / 2),
                       .quiet_ms = (int64_t)MIN(op_number(o, WIRE_TAG_QUIET_MS), INT64_MAX / 2)};
    bool async = op_number(o, WIRE_TAG_ASYNC) != 0;
    int r = async ? 0 : feed_begin(&feed, o, err);
    put_text(o, &feed, &text);
    if (r == 0 && text.failed)
        r = error_set(err, CAY_INVALID_ARGUMENT, "the command is too long");
    if (r == 0)
        r = follow_start(&f, buf_text(&text), err);
    if (r == 0)
        r = report_start(o, &f, err);
    if (r < 0 || async)
        return r < 0 ? r : op_done(o, err);
    r = follow_run(&f, err);
    f.running |= f.reason != WIRE_REASON_EXIT; /* nobody can end it alone */
    feed_remove(&feed);
    return r < 0 ? r : follow_report(&f, err);
}

/* ---- what is kept of them ---- */

/* The command without what put_text put around it. */
static const char *unwrap(const char *text, size_t *ret_len) {
    const char *begin = NULL, *end = NULL, *next;
    *ret_len = strlen(text);
    if (str_starts(text, EMPTY_BEFORE) && str_ends(text, EMPTY_AFTER)) {
        begin = text + strlen(EMPTY_BEFORE);
        end = text + *ret_len - strlen(EMPTY_AFTER);
    } else if (str_starts(text, PIPE_BEGIN) && (begin = strstr(text, PIPE_BEFORE)) != NULL) {
        begin += strlen(PIPE_BEFORE);
        for (next = begin; (next = strstr(next, PIPE_AFTER)) != NULL; next++)
            end = next;
    }
    if (end == NULL)
        return text;
    *ret_len = (size_t)(end - begin);
    return begin;
}

static void put_shown(struct buf *b, const char *text) {
    char shown[SHOWN_MAX + 1];
    size_t len;
    const char *command = unwrap(text, &len);
    (void)snprintf(shown, sizeof shown, "%.*s", (int)MIN(len, (size_t)SHOWN_MAX), command);
    wire_put_string(b, WIRE_TAG_TEXT, shown);
}

int op_session_status(struct op *o, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf b = BUF_INIT(SMALL_MAX);
    struct json list, one;
    int r = ask_session(o, &doc, err);
    for (size_t i = 0; r == 0 && i < WIRE_SESSION_COMMANDS_MAX && command_at(doc, i, &list, &one);
         i++) {
        int64_t code = far_integer(&one, "exitCode", INT64_MIN);
        buf_clear(&b);
        wire_put_number(&b, WIRE_TAG_NUMBER, i + 1);
        put_shown(&b, far_string(&one, "command", ""));
        wire_put_number(&b, WIRE_TAG_RUNNING, code == INT64_MIN);
        wire_put_number(&b, WIRE_TAG_EXIT, code >= 0 && code <= 255 ? (uint64_t)code : 255);
        r = op_send(o, WIRE_ENTRY, &b, err);
    }
    return r < 0 ? r : op_done(o, err);
}

static int send_stream(struct op *o, struct follow *f, int which, const char *text,
                       struct cay_error *err) {
    size_t len = strlen(text), skip = (size_t)MIN(f->skip[which], (uint64_t)len);
    if (f->only != 0 && f->only != which + 1)
        return 0;
    int r = wire_send_data(o->fd, which == 0 ? WIRE_STDOUT : WIRE_STDERR, text + skip, len - skip);
    return r < 0 ? error_sys(err, -r, "passing the logs on") : 0;
}

static int send_logs(struct op *o, struct follow *f, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    follow_put_path(&path, f->session, "/command/");
    (void)buf_printf(&path, "%s/logs", f->command);
    int r = toolbox_json(&o->toolbox, "GET", buf_text(&path), NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = send_stream(o, f, 0, far_string(&root, "stdout", ""), err);
    if (r == 0)
        r = send_stream(o, f, 1, far_string(&root, "stderr", ""), err);
    if (r < 0)
        return r;
    r = follow_ask(f, err);
    f->running = r == 0;
    return MIN(r, 0);
}

int op_session_logs(struct op *o, struct cay_error *err) {
    uint64_t offset = op_number(o, WIRE_TAG_OFFSET);
    struct follow f = {.op = o,
                       .session = op_text(o, WIRE_TAG_NAME),
                       .only = (int)MIN(op_number(o, WIRE_TAG_STREAM), UINT64_C(2)),
                       .skip = {offset, offset}};
    int r = find_command(o, op_number(o, WIRE_TAG_NUMBER), &f, err);
    if (r == 0)
        r = report_start(o, &f, err);
    if (r == 0)
        r = op_number(o, WIRE_TAG_FOLLOW) != 0 ? follow_run(&f, err) : send_logs(o, &f, err);
    return r < 0 ? r : follow_report(&f, err);
}

/* ---- input ---- */

static int post_input(struct op *o, const struct follow *f, const struct wire_frame *frame,
                      struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    _cleanup_(buf_free) struct buf body = BUF_INIT(TEXT_MAX);
    _cleanup_(buf_free) struct buf credit = BUF_INIT(64);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_key(&w, "data");
    jsonw_bytes(&w, frame->data, frame->len);
    jsonw_end_object(&w);
    follow_put_path(&path, f->session, "/command/");
    (void)buf_printf(&path, "%s/input", f->command);
    int r = toolbox_json(&o->toolbox, "POST", buf_text(&path), &body, NULL, err);
    wire_put_number(&credit, WIRE_TAG_COUNT, frame->len);
    return r < 0 ? r : op_send(o, WIRE_CREDIT, &credit, err);
}

int op_session_input(struct op *o, struct cay_error *err) {
    struct follow f = {.op = o, .session = op_text(o, WIRE_TAG_NAME)};
    struct wire_frame frame;
    if (op_number(o, WIRE_TAG_CLOSE) != 0)
        return gate_unsupported(err, "cannot end the input of a command", "add --keep-open");
    int r = find_command(o, op_number(o, WIRE_TAG_NUMBER), &f, err);
    if (r == 0)
        r = report_start(o, &f, err);
    if (r < 0)
        return r;
    while ((r = op_next(o, &frame, err)) > 0 && frame.type != WIRE_INPUT_END)
        if (frame.type == WIRE_INPUT && frame.len > 0 && (r = post_input(o, &f, &frame, err)) < 0)
            break;
    return r < 0 ? r : follow_report(&f, err);
}
