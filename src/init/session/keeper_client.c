/* The connections of a keeper. Each asked one thing; whoever follows a command reads its logs at
 * his own pace, so a slow reader holds up nobody, and one who hangs up ends nothing. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/session/keeper.h"

enum {
    MESSAGE_MAX = 4096,
    /* the state of every command fits, so does a piece of a log with what goes around it */
    OUT_MAX = KEEPER_COMMANDS * (KEEPER_TEXT_MAX + 512) + WIRE_DATA_MAX + MESSAGE_MAX,
};

void client_free(struct client *cl) {
    fd_close(&cl->fd);
    wire_reader_free(&cl->reader);
    buf_free(&cl->out);
    buf_free(&cl->asked);
    buf_free(&cl->text);
    free(cl);
}

/* ---- answers ---- */

static void put_message(struct client *cl, enum wire_type type, const struct buf *b) {
    wire_put_frame(&cl->out, type, b->data, b->len);
    cl->gone |= b->failed || cl->out.failed;
}

static void put_error(struct client *cl, const struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_error(&b, err);
    put_message(cl, WIRE_ERROR, &b);
    cl->answered = true;
}

static void put_started(struct client *cl, const struct command *c) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_NUMBER, c->number);
    wire_put_number(&b, WIRE_TAG_RESTARTED, c->restarted);
    put_message(cl, WIRE_STARTED, &b);
}

static void put_state(struct buf *b, const struct command *c) {
    wire_put_number(b, WIRE_TAG_RUNNING, c->running);
    wire_put_number(b, WIRE_TAG_EXIT, (uint64_t)c->exit_code);
    wire_put_number(b, WIRE_TAG_RESTARTED, c->restarted);
    wire_put_number(b, WIRE_TAG_ENDED, c->fatal);
    wire_put_number(b, WIRE_TAG_REASON, c->reason);
    wire_put_number(b, WIRE_TAG_SIGNAL, (uint64_t)c->signal);
    wire_put_number(b, WIRE_TAG_TRUNCATED,
                    c->capped[0] || c->capped[1] || c->capped[KEEPER_REPORTS]);
    wire_put_number(b, WIRE_TAG_ELAPSED_US, (uint64_t)c->elapsed_us);
    if (c->spill[0].path[0] != '\0')
        wire_put_string(b, WIRE_TAG_PATH, c->spill[0].path);
    if (c->spill[1].path[0] != '\0')
        wire_put_string(b, WIRE_TAG_TARGET, c->spill[1].path);
}

/* c is NULL where the answer is about no command. */
static void put_done(struct client *cl, const struct command *c) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    if (c != NULL)
        put_state(&b, c);
    put_message(cl, WIRE_DONE, &b);
    cl->answered = true;
}

/* ---- requests ---- */

static int begin_exec(struct keeper *k, struct client *cl, const struct wire_message *m,
                      struct cay_error *err) {
    struct command *c;
    int r = command_start(k, m, &c, err);
    if (r < 0)
        return r;
    put_started(cl, c);
    cl->number = c->number;
    cl->follow = true;
    cl->closes = true;
    cl->feeds = c->reads;
    if (m->number[WIRE_TAG_ASYNC] != 0)
        put_done(cl, NULL);
    return 0;
}

/* A text that is too long for a message comes behind the request. */
static int await_text(struct client *cl, const struct wire_message *m, struct cay_error *err) {
    uint64_t size = m->number[WIRE_TAG_SIZE];
    if (size > WIRE_TEXT_MAX || m->string[WIRE_TAG_TEXT] != NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "the code has more than %d bytes",
                         WIRE_TEXT_MAX);
    cl->asked = BUF_INIT(WIRE_MESSAGE_MAX);
    cl->text = BUF_INIT(WIRE_TEXT_MAX + 1);
    if (buf_append(&cl->asked, m->data, m->len) < 0)
        return error_sys(err, ENOMEM, "keeping a request");
    cl->text_missing = size;
    return 0;
}

static int start_exec(struct keeper *k, struct client *cl, const struct wire_message *m,
                      struct cay_error *err) {
    if (m->number[WIRE_TAG_SIZE] == 0)
        return begin_exec(k, cl, m, err);
    int r = command_check_idle(k, err);
    return r < 0 ? r : await_text(cl, m, err);
}

static int find_command(struct keeper *k, struct client *cl, const struct wire_message *m,
                        struct command **ret, struct cay_error *err) {
    *ret = command_find(k, m->number[WIRE_TAG_NUMBER]);
    if (*ret != NULL) {
        cl->number = (*ret)->number;
        return 0;
    }
    error_set(err, CAY_NOT_FOUND, "the session has no such command");
    return error_remedy(err, "see 'cay session status'; the last %d are kept", KEEPER_COMMANDS);
}

static int start_logs(struct keeper *k, struct client *cl, const struct wire_message *m,
                      struct cay_error *err) {
    struct command *c;
    uint64_t stream = m->number[WIRE_TAG_STREAM];
    if (stream > 2)
        return error_set(err, CAY_INVALID_ARGUMENT, "there is no such stream");
    int r = find_command(k, cl, m, &c, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < KEEPER_STREAMS; i++) {
        cl->muted[i] = stream != 0 && stream != i + 1;
        cl->offset[i] = m->number[WIRE_TAG_OFFSET];
    }
    cl->follow = m->number[WIRE_TAG_FOLLOW] != 0;
    put_started(cl, c);
    return 0;
}

static bool has_feeder(const struct keeper *k, uint64_t number) {
    for (size_t i = 0; i < k->client_count; i++)
        if (k->clients[i]->feeds && k->clients[i]->number == number && !k->clients[i]->gone)
            return true;
    return false;
}

static int start_input(struct keeper *k, struct client *cl, const struct wire_message *m,
                       struct cay_error *err) {
    struct command *c;
    int r = find_command(k, cl, m, &c, err);
    if (r < 0)
        return r;
    if (!c->running || !c->reads || c->in < 0 || has_feeder(k, c->number)) {
        error_set(err, CAY_CONFLICT, "command %llu takes no input from here",
                  (unsigned long long)c->number);
        return error_remedy(err, !c->running ? "it has ended"
                                             : "start it with --input, and feed it from one place");
    }
    put_started(cl, c);
    cl->feeds = true;
    cl->closes = m->number[WIRE_TAG_CLOSE] != 0;
    return 0;
}

static int start_signal(struct keeper *k, struct client *cl, const struct wire_message *m,
                        struct cay_error *err) {
    uint64_t number = m->number[WIRE_TAG_SIGNAL];
    struct command *c;
    int r = find_command(k, cl, m, &c, err);
    if (r < 0)
        return r;
    if (number == 0 || number >= NSIG)
        return error_set(err, CAY_INVALID_ARGUMENT, "there is no such signal");
    if (c->running)
        command_signal(k, c, (int)number);
    put_done(cl, c);
    return 0;
}

static void put_self(const struct keeper *k, struct client *cl) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(2 * MESSAGE_MAX);
    if (k->start->label != NULL)
        wire_put_string(&b, WIRE_TAG_TEXT, k->start->label);
    wire_put_string(&b, WIRE_TAG_CWD, k->start->cwd);
    wire_put_number(&b, WIRE_TAG_MTIME_MS, (uint64_t)k->made_ms);
    wire_put_number(&b, WIRE_TAG_RUNNING, k->shell.pid > 0);
    wire_put_number(&b, WIRE_TAG_BUSY, command_running(k) != NULL);
    put_message(cl, WIRE_DONE, &b);
    cl->answered = true;
}

static void put_status(struct keeper *k, struct client *cl) {
    for (size_t i = 0; i < k->command_count; i++) {
        const struct command *c = k->commands[i];
        _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
        wire_put_number(&b, WIRE_TAG_NUMBER, c->number);
        wire_put_string(&b, WIRE_TAG_TEXT, c->text);
        wire_put_number(&b, WIRE_TAG_MTIME_MS, (uint64_t)c->wall_ms);
        wire_put_number(&b, WIRE_TAG_SIZE, c->size[0] + c->size[1] + c->size[KEEPER_REPORTS]);
        put_state(&b, c);
        put_message(cl, WIRE_ENTRY, &b);
    }
    put_done(cl, NULL);
}

static void put_activity(const struct keeper *k, struct client *cl) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_COMMANDS, command_running(k) != NULL);
    if (k->ended_ms != 0)
        wire_put_number(&b, WIRE_TAG_QUIET_MS, (uint64_t)(clock_ms() - k->ended_ms));
    put_message(cl, WIRE_DONE, &b);
    cl->answered = true;
}

static void take_request(struct keeper *k, struct client *cl, const struct wire_message *m) {
    struct cay_error err = {0};
    int r = 0;
    cl->op = (enum wire_op)m->number[WIRE_TAG_OP];
    switch (cl->op) {
    case WIRE_OP_SESSION_EXEC:
        r = start_exec(k, cl, m, &err);
        break;
    case WIRE_OP_SESSION_LOGS:
        r = start_logs(k, cl, m, &err);
        break;
    case WIRE_OP_SESSION_INPUT:
        r = start_input(k, cl, m, &err);
        break;
    case WIRE_OP_SESSION_STATUS:
        put_status(k, cl);
        break;
    case WIRE_OP_SESSION_SIGNAL:
        r = start_signal(k, cl, m, &err);
        break;
    case WIRE_OP_SESSION_LIST:
        put_self(k, cl);
        break;
    case WIRE_OP_ACTIVITY:
        put_activity(k, cl);
        break;
    case WIRE_OP_SESSION_DELETE:
        k->deleted = true; /* answered when nothing is left */
        break;
    default:
        cl->gone = true;
    }
    if (r < 0)
        put_error(cl, &err);
}

/* ---- frames that follow ---- */

static int take_input(const struct keeper *k, struct client *cl, struct command *c,
                      const struct wire_frame *f) {
    if (!cl->feeds || cl->input_over)
        return -EPROTO;
    return command_take_input(k, c, f->data, f->len);
}

static int take_text(struct keeper *k, struct client *cl, const struct wire_frame *f) {
    struct wire_message m;
    struct cay_error err = {0};
    if (f->type != WIRE_INPUT || f->len > cl->text_missing ||
        buf_append(&cl->text, f->data, f->len) < 0)
        return -EPROTO;
    cl->text_missing -= f->len;
    if (cl->text_missing > 0)
        return 0;
    int r = wire_parse(cl->asked.data, cl->asked.len, &m);
    if (r < 0)
        return r;
    m.string[WIRE_TAG_TEXT] = buf_text(&cl->text);
    if (begin_exec(k, cl, &m, &err) < 0)
        put_error(cl, &err);
    buf_free(&cl->asked);
    buf_free(&cl->text);
    return 0;
}

static int take_frame(struct keeper *k, struct client *cl, const struct wire_frame *f) {
    if (cl->text_missing > 0)
        return take_text(k, cl, f);
    struct command *c = cl->number != 0 ? command_find(k, cl->number) : NULL;
    struct wire_message m;
    if (c == NULL)
        return -EPROTO;
    switch (f->type) {
    case WIRE_INPUT:
        return take_input(k, cl, c, f);
    case WIRE_INPUT_END:
        cl->input_over = true;
        c->input_ended |= cl->closes && cl->feeds;
        return 0;
    case WIRE_STDOUT_END:
    case WIRE_STDERR_END:
        cl->muted[f->type == WIRE_STDERR_END] = true;
        return 0;
    case WIRE_SIGNAL:
        if (wire_parse(f->data, f->len, &m) < 0)
            return -EPROTO;
        if (cl->follow && m.number[WIRE_TAG_SIGNAL] - 1 < NSIG - 1)
            command_signal(k, c, (int)m.number[WIRE_TAG_SIGNAL]);
        return 0;
    case WIRE_WINDOW:
        return 0; /* there is no terminal */
    default:
        return -EPROTO;
    }
}

static void take_frames(struct keeper *k, struct client *cl) {
    struct wire_frame f;
    int r = 0;
    while (!cl->gone && (r = wire_reader_next(&cl->reader, &f)) > 0)
        if (!cl->answered && take_frame(k, cl, &f) < 0)
            cl->gone = true;
    cl->gone |= r < 0;
}

void client_read(struct keeper *k, struct client *cl) {
    if (wire_reader_fill(&cl->reader, cl->fd) <= 0)
        cl->gone = true;
    else
        take_frames(k, cl);
}

/* ---- what is to be said ---- */

static bool put_log(struct keeper *k, struct client *cl, const struct command *c) {
    static const enum wire_type types[KEEPER_STREAMS] = {WIRE_STDOUT, WIRE_STDERR, WIRE_REPORT};
    for (int i = 0; i < KEEPER_STREAMS; i++) {
        size_t n = cl->muted[i] ? 0 : command_read_log(k, c, i, cl->offset[i]);
        if (n == 0)
            continue;
        wire_put_frame(&cl->out, types[i], k->data, n);
        cl->gone |= cl->out.failed;
        cl->offset[i] += n;
        return true;
    }
    return false;
}

void client_fill(struct keeper *k, struct client *cl) {
    if (cl->answered || cl->out.len > 0 || cl->number == 0)
        return;
    const struct command *c = command_find(k, cl->number);
    if (c == NULL) {
        cl->gone = true; /* too old, its log is gone */
    } else if (cl->op == WIRE_OP_SESSION_INPUT) {
        if (!c->running || (cl->input_over && c->input.len == 0))
            put_done(cl, NULL);
    } else if (!put_log(k, cl, c) && (!c->running || !cl->follow)) {
        put_done(cl, c);
    }
}

void client_give_credit(struct keeper *k, const struct command *c, size_t taken) {
    for (size_t i = 0; i < k->client_count; i++) {
        struct client *cl = k->clients[i];
        if (!cl->feeds || cl->number != c->number || cl->answered)
            continue;
        cl->credit += taken;
        if (cl->credit < WIRE_INPUT_CREDIT / 4)
            return;
        _cleanup_(buf_free) struct buf b = BUF_INIT(64);
        wire_put_number(&b, WIRE_TAG_COUNT, cl->credit);
        put_message(cl, WIRE_CREDIT, &b);
        cl->credit = 0;
        return;
    }
}

void client_send(struct client *cl) {
    ssize_t n = send(cl->fd, cl->out.data, cl->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0)
        buf_consume(&cl->out, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        cl->gone = true;
}

/* ---- the hand-over ---- */

static bool begin(struct keeper *k, struct client *cl) {
    struct wire_frame f;
    struct wire_message m;
    if (wire_reader_next(&cl->reader, &f) <= 0 || f.type != WIRE_REQUEST ||
        wire_parse(f.data, f.len, &m) < 0)
        return false;
    take_request(k, cl, &m);
    take_frames(k, cl);
    return !cl->gone;
}

static int refuse(const struct client *cl) {
    struct cay_error err = {0};
    error_set(&err, CAY_LIMIT_REACHED, "%d connections follow this session already",
              KEEPER_CLIENTS);
    (void)error_remedy(&err, "end some of them");
    (void)wire_send_error(cl->fd, &err); /* short enough not to block on a fresh connection */
    return -EBUSY;
}

void client_accept(struct keeper *k) {
    struct client *cl = calloc(1, sizeof *cl);
    if (cl == NULL)
        return;
    *cl = (struct client){.fd = -1, .reader = WIRE_READER_INIT, .out = BUF_INIT(OUT_MAX)};
    int r = place_accept(k->start->at.listener, &cl->fd, &cl->reader);
    if (r == 0 && k->client_count == KEEPER_CLIENTS)
        r = refuse(cl);
    if (r < 0) {
        client_free(cl);
        return;
    }
    k->clients[k->client_count++] = cl;
    cl->gone |= !begin(k, cl);
}
