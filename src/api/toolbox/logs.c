/* What a session's command has printed: at once, as a stream, or over a WebSocket. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "api/http/ws.h"
#include "api/toolbox/session.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "wire/client_command.h"
#include "wire/client_session.h"

enum { SEND_MS = 60 * 1000 };

enum { CLOSE_DONE = 1000, CLOSE_FAILED = 1011 };

/* Asks for the logs of the call's command. */
static int ask(struct call *c, struct toolbox *t, bool follow, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    uint64_t number = 0;
    int r = toolbox_session_name(c, name, err);
    if (r == 0)
        r = toolbox_session_number(c, &number, err);
    if (r == 0)
        r = toolbox_begin(c, t, err);
    toolbox_hurry(t);
    return r < 0 ? r : wire_session_logs(&t->wire, name, number, 0, 0, follow, err);
}

/* The first frame says whether there are any; an error can still be an answer of its own. */
static int ask_and_see(struct call *c, struct toolbox *t, struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    int r = ask(c, t, true, err);
    if (r < 0)
        return r;
    r = wire_call_receive_exactly(&t->wire, &reader, &f, err);
    return r == 0 && f.type != WIRE_STARTED ? wire_call_broken(err, "an unexpected frame") : r;
}

/* ---- at once ---- */

static int answer_all(struct call *c, struct cay_error *err) {
    enum toolbox_form form = toolbox_form_of(c);
    struct exec_outcome outcome;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    _cleanup_(toolbox_output_free) struct toolbox_output out = TOOLBOX_OUTPUT_INIT;
    out.wants_marks = form == TOOLBOX_MARKED;
    out.wants_parts = form == TOOLBOX_SPLIT;
    int r = ask(c, &t, false, err);
    if (r == 0)
        r = toolbox_carry(c, &t, NULL, clock_deadline(TOOLBOX_WAIT_MS), &out, &outcome, err);
    if (r < 0)
        return r;
    if (form != TOOLBOX_SPLIT) {
        c->answer.is_plain = true;
        (void)buf_append(&c->answer.body, buf_text(&out.all), out.all.len);
        return 0;
    }
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    toolbox_put_output(&w, &out, form);
    jsonw_end_object(&w);
    return 0;
}

/* ---- as a stream ---- */

struct log_stream {
    struct stream stream; /* first */
    struct toolbox t;
    struct wire_reader reader;
    int client; /* to be watched for its end */
    bool is_marked;
    const char *mark, *data; /* what is to be passed on */
    size_t mark_len, len;
    bool ended;
};

static size_t take(const char **from, size_t *left, char *to, size_t size) {
    size_t n = MIN(*left, size);
    if (n > 0)
        memcpy(to, *from, n);
    *from += n;
    *left -= n;
    return n;
}

/* True if there is something to pass on, or it has ended. */
static bool next_piece(struct log_stream *s) {
    struct wire_command_event e;
    int n;
    while ((n = wire_command_next(&s->reader, &e, NULL)) > 0) {
        if (e.kind == WIRE_COMMAND_ENDED)
            return s->ended = true;
        if (e.kind != WIRE_COMMAND_OUTPUT || e.len == 0)
            continue;
        s->data = e.data;
        s->len = e.len;
        s->mark = toolbox_mark(e.is_stderr);
        s->mark_len = s->is_marked ? TOOLBOX_MARK_SIZE : 0;
        return true;
    }
    s->ended = n < 0;
    return s->ended;
}

static void wait_for_piece(struct log_stream *s) {
    struct pollfd fds[] = {{.fd = s->t.wire.fd, .events = POLLIN},
                           {.fd = s->client, .events = POLLRDHUP}};
    if (poll(fds, ARRAY_LEN(fds), -1) < 0) {
        s->ended = errno != EINTR;
        return;
    }
    if (fds[1].revents != 0 ||
        (fds[0].revents != 0 && wire_reader_fill(&s->reader, s->t.wire.fd) <= 0))
        s->ended = true;
}

static size_t read_stream(struct stream *stream, char *data, size_t size) {
    struct log_stream *s = (struct log_stream *)stream;
    while (!s->ended && s->mark_len + s->len == 0 && !next_piece(s))
        wait_for_piece(s);
    size_t n = take(&s->mark, &s->mark_len, data, size);
    return n + take(&s->data, &s->len, data + n, size - n);
}

static void close_stream(struct stream *stream) {
    struct log_stream *s = (struct log_stream *)stream;
    wire_reader_free(&s->reader);
    toolbox_end(&s->t);
    free(s);
}

static int answer_stream(struct call *c, struct cay_error *err) {
    struct log_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *s = (struct log_stream){
        .stream = {read_stream, close_stream},
        .t = TOOLBOX_INIT,
        .reader = WIRE_READER_INIT,
        .client = call_socket(c),
        .is_marked = toolbox_form_of(c) == TOOLBOX_MARKED,
    };
    int r = ask_and_see(c, &s->t, err);
    if (r < 0) {
        close_stream(&s->stream);
        return r;
    }
    c->answer.is_plain = true;
    c->answer.stream = &s->stream;
    return 0;
}

/* ---- over a WebSocket ---- */

struct talk {
    struct ws *ws;
    int fd;
    struct wire_reader reader;
    char *piece; /* a mark and a frame's bytes */
};

static int send_piece(const struct talk *t, const struct wire_command_event *e) {
    if (e->len == 0)
        return 0;
    memcpy(t->piece, toolbox_mark(e->is_stderr), TOOLBOX_MARK_SIZE);
    memcpy(t->piece + TOOLBOX_MARK_SIZE, e->data, e->len);
    return ws_send(t->ws, WS_BINARY, t->piece, TOOLBOX_MARK_SIZE + e->len, clock_deadline(SEND_MS));
}

/* What was read goes on: 0, or 1 when it is over. */
static int pass_on(struct talk *t) {
    struct wire_command_event e;
    struct cay_error err;
    int n;
    while ((n = wire_command_next(&t->reader, &e, &err)) > 0) {
        if (e.kind == WIRE_COMMAND_ENDED) {
            ws_close(t->ws, CLOSE_DONE, "");
            return 1;
        }
        if (e.kind == WIRE_COMMAND_OUTPUT && send_piece(t, &e) < 0)
            return 1;
    }
    if (n < 0)
        ws_close(t->ws, CLOSE_FAILED, err.message);
    return n < 0;
}

static void converse(struct talk *t) {
    struct ws_message ignored;
    while (pass_on(t) == 0) {
        int event = ws_wait(t->ws, t->fd, 0, &ignored);
        if (event <= 0)
            return;
        if (event == WS_OTHER && wire_reader_fill(&t->reader, t->fd) <= 0) {
            ws_close(t->ws, CLOSE_FAILED, "the sandbox ended, or the session was deleted");
            return;
        }
    }
}

static void talk(struct call *c, struct ws *w) {
    struct talk t = {.ws = w, .fd = c->answer.connection, .reader = WIRE_READER_INIT};
    t.piece = malloc(TOOLBOX_MARK_SIZE + WIRE_DATA_MAX);
    if (t.piece == NULL)
        ws_close(w, CLOSE_FAILED, "no memory");
    else
        converse(&t);
    free(t.piece);
    wire_reader_free(&t.reader);
}

static int answer_websocket(struct call *c, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_accept(c, err);
    if (r == 0)
        r = ask_and_see(c, &t, err);
    if (r < 0)
        return r;
    toolbox_hand_over(&t, c);
    c->answer.talk = talk;
    return 0;
}

int toolbox_logs_handle(struct call *c, struct cay_error *err) {
    bool follow;
    int r = target_flag(&c->target, "follow", &follow, err);
    if (r < 0)
        return r;
    if (c->wants_websocket)
        return answer_websocket(c, err);
    return follow ? answer_stream(c, err) : answer_all(c, err);
}

/* ---- of what never ran ---- */

static void talk_of_nothing(struct call *c, struct ws *w) {
    (void)c;
    ws_close(w, CLOSE_DONE, "");
}

int toolbox_no_logs_handle(struct call *c, struct cay_error *err) {
    static const struct toolbox_output nothing = {.wants_parts = true};
    if (c->wants_websocket) {
        c->answer.talk = talk_of_nothing;
        return toolbox_accept(c, err);
    }
    if (toolbox_form_of(c) != TOOLBOX_SPLIT) {
        c->answer.is_plain = true;
        return 0;
    }
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    toolbox_put_output(&w, &nothing, TOOLBOX_SPLIT);
    jsonw_end_object(&w);
    return 0;
}
