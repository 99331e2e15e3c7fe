#include "remote/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "client/daemon.h"
#include "remote/demux.h"
#include "remote/socket.h"

enum { PATH_SIZE_MAX = 4096, BODY_MAX = 8 * 1024 * 1024, ENDING_MS = 10000, LOOK_MS = 50 };

#define PROTOCOL "X-Daytona-SDK-Version~0.218.0"

void follow_put_path(struct buf *path, const char *session, const char *after) {
    (void)buf_puts(path, "/process/session/");
    daemon_put_escaped(path, session);
    (void)buf_puts(path, after);
}

static void put_command_path(const struct follow *f, const char *after, struct buf *path) {
    follow_put_path(path, f->session, "/command/");
    daemon_put_escaped(path, f->command);
    (void)buf_puts(path, after);
}

int follow_start(struct follow *f, const char *text, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE_MAX);
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "command", text);
    jsonw_put_bool(&w, "runAsync", true);
    jsonw_put_bool(&w, "suppressInputEcho", true);
    jsonw_end_object(&w);
    follow_put_path(&path, f->session, "/exec");
    if (jsonw_finish(&w) < 0 || path.failed)
        return error_set(err, CAY_INVALID_ARGUMENT, "the command is too long");
    int r = toolbox_json(&f->op->toolbox, "POST", buf_text(&path), &body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    f->began_us = clock_us();
    r = str_copy(f->command, sizeof f->command, far_string(&root, "cmdId", ""));
    return r < 0 || f->command[0] == '\0'
               ? error_set(err, CAY_UNAVAILABLE, "the remote answered against the protocol")
               : 0;
}

/* ---- output ---- */

struct carrying {
    struct follow *follow;
    struct cay_error *err;
    int64_t quiet_deadline;
};

static int pass(void *arg, int stream, const char *data, size_t len) {
    struct carrying *c = arg;
    struct follow *f = c->follow;
    size_t skip = (size_t)MIN(f->skip[stream], (uint64_t)len);
    f->skip[stream] -= skip;
    len -= skip;
    if (len == 0 || (f->only != 0 && f->only != stream + 1))
        return 0;
    c->quiet_deadline = clock_deadline(f->quiet_ms);
    if (f->output_max > 0 && len > f->output_max - f->sent) {
        len = (size_t)(f->output_max - f->sent);
        f->reason = WIRE_REASON_OUTPUT;
    }
    f->sent += len;
    int r = wire_send_data(f->op->fd, stream == 0 ? WIRE_STDOUT : WIRE_STDERR, data + skip, len);
    f->hung_up |= r < 0;
    return r < 0 || f->reason == WIRE_REASON_OUTPUT ? -ECANCELED : 0;
}

/* ---- what cay sends ---- */

static int pass_signal(struct follow *f, int number, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    if (f->pid_file == NULL) { /* nobody can be reached: it is left to itself */
        f->reason = WIRE_REASON_SIGNAL;
        f->exit_code = 128 + number;
        f->running = true;
        return 0;
    }
    (void)buf_printf(&b, "kill -%d $(cat %s)", number, f->pid_file);
    int r = toolbox_execute(&f->op->toolbox, buf_text(&b), NULL, err);
    return MIN(r, 0); /* it may have ended meanwhile */
}

/* Looks until it has ended, for a while: 1, or 0 if it runs still. */
static int await_end(struct follow *f, struct cay_error *err) {
    int64_t deadline = clock_deadline(ENDING_MS);
    int r;
    while ((r = follow_ask(f, err)) == 0 && !clock_expired(deadline))
        (void)poll(NULL, 0, LOOK_MS);
    return r;
}

/* That a command which has ended takes no more input is no failure. It removes the folder of its
 * input a moment before that. */
static int judge_feed(struct follow *f, int r) {
    struct cay_error ignored;
    if (r == 0 || await_end(f, &ignored) <= 0)
        return r;
    f->feed->ended = true;
    feed_free(f->feed);
    return 0;
}

static int take_frame(struct follow *f, const struct wire_frame *frame, struct cay_error *err) {
    struct wire_message m;
    switch (frame->type) {
    case WIRE_INPUT:
    case WIRE_INPUT_END:
        return f->feed != NULL ? judge_feed(f, feed_take(f->feed, frame, err)) : 0;
    case WIRE_SIGNAL:
        if (wire_parse(frame->data, frame->len, &m) < 0 || m.number[WIRE_TAG_SIGNAL] >= NSIG)
            return error_set(err, CAY_INVALID_ARGUMENT, "a malformed signal");
        return pass_signal(f, (int)m.number[WIRE_TAG_SIGNAL], err);
    default:
        return 0;
    }
}

static int take_frames(struct follow *f, struct cay_error *err) {
    struct wire_frame frame;
    int r;
    while ((r = wire_reader_next(&f->op->reader, &frame)) > 0) {
        int x = take_frame(f, &frame, err);
        if (x < 0)
            return x;
    }
    if (r < 0)
        return error_sys(err, -r, "reading a request");
    bool more = op_has_frame(f->op); /* then this is done again */
    return f->feed == NULL || more ? 0 : judge_feed(f, feed_flush(f->feed, err));
}

/* ---- until its end ---- */

static bool is_over(const struct follow *f) {
    return f->hung_up || f->reason != WIRE_REASON_EXIT;
}

/* 1: go on; 0: there is nothing more. */
static int turn(struct carrying *c, struct ws *ws, struct demux *d, int64_t deadline) {
    struct follow *f = c->follow;
    struct ws_message m;
    int event = ws_wait(ws, f->op->fd, clock_earlier(deadline, c->quiet_deadline), &m);
    if (event == -ETIMEDOUT) {
        f->reason = clock_expired(deadline) ? WIRE_REASON_TIMEOUT : WIRE_REASON_QUIET;
        return 0;
    }
    if (event == WS_MESSAGE)
        return demux_take(d, m.data, m.len, pass, c) == 0;
    if (event != WS_OTHER)
        return 0;
    if (wire_reader_fill(&f->op->reader, f->op->fd) <= 0) {
        f->hung_up = true;
        return 0;
    }
    int r = take_frames(f, c->err);
    return r < 0 ? r : !is_over(f);
}

static int carry(struct follow *f, struct cay_error *err) {
    struct socket s;
    struct demux d = {0};
    struct carrying c = {.follow = f, .err = err, .quiet_deadline = clock_deadline(f->quiet_ms)};
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE_MAX);
    int64_t deadline = clock_deadline(f->timeout_ms);
    put_command_path(f, "/logs?follow=true", &path);
    int r = socket_open(&f->op->toolbox, buf_text(&path), PROTOCOL, &s, err);
    if (r == 0)
        r = take_frames(f, err);
    if (r == 0)
        while (!is_over(f) && (r = turn(&c, s.ws, &d, deadline)) > 0)
            continue;
    if (r == 0 && !is_over(f))
        (void)demux_end(&d, pass, &c);
    socket_close(&s);
    return MIN(r, 0);
}

int follow_ask(struct follow *f, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE_MAX);
    put_command_path(f, "", &path);
    int r = toolbox_json(&f->op->toolbox, "GET", buf_text(&path), NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    int64_t code = far_integer(&root, "exitCode", INT64_MIN);
    if (code == INT64_MIN)
        return 0;
    f->exit_code = code >= 0 && code <= 255 ? (int)code : 255;
    return 1;
}

/* Its exit code may come a moment after its last output. */
static int await_code(struct follow *f, struct cay_error *err) {
    int r = await_end(f, err);
    if (r != 0)
        return MIN(r, 0);
    error_set(err, CAY_UNAVAILABLE, "the connection to the command broke off");
    return error_remedy(err, "it may go on: look before it is run again");
}

int follow_run(struct follow *f, struct cay_error *err) {
    int r = carry(f, err);
    if (r < 0)
        return r;
    if (!is_over(f))
        return await_code(f, err);
    if (f->reason != WIRE_REASON_SIGNAL)
        f->exit_code = 124;
    return 0;
}

int follow_report(struct follow *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(512);
    wire_put_number(&b, WIRE_TAG_EXIT, (uint64_t)f->exit_code);
    wire_put_number(&b, WIRE_TAG_REASON, f->reason);
    wire_put_number(&b, WIRE_TAG_TRUNCATED, f->reason == WIRE_REASON_OUTPUT);
    wire_put_number(&b, WIRE_TAG_RUNNING, f->running);
    wire_put_number(&b, WIRE_TAG_ELAPSED_US, (uint64_t)(clock_us() - f->began_us));
    return op_send(f->op, WIRE_DONE, &b, err);
}
