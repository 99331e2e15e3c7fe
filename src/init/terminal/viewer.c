/* The connections of a terminal's keeper: viewers, and those who ask one thing. A viewer reads the
 * kept past from a position of his own. One who falls behind what is kept is told how much he has
 * missed, and goes on from there. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/files/tree.h"
#include "init/terminal/terminal.h"

enum {
    MESSAGE_MAX = 4096,
    OUT_MAX = WIRE_DATA_MAX + 2 * MESSAGE_MAX,
    TITLE_MAX = 256,
    CWD_MAX = 1024
};

void viewer_free(struct viewer *v) {
    fd_close(&v->fd);
    wire_reader_free(&v->reader);
    buf_free(&v->out);
    buf_free(&v->input);
    free(v);
}

/* ---- answers ---- */

static void put_message(struct viewer *v, enum wire_type type, const struct buf *b) {
    wire_put_frame(&v->out, type, b->data, b->len);
    v->gone |= b->failed || v->out.failed;
}

static void put_error(struct viewer *v, const struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_error(&b, err);
    put_message(v, WIRE_ERROR, &b);
    v->answered = true;
}

static void put_end(struct buf *b, const struct terminal *t) {
    wire_put_number(b, WIRE_TAG_RUNNING, t->running);
    wire_put_number(b, WIRE_TAG_EXIT, (uint64_t)t->exit_code);
    wire_put_number(b, WIRE_TAG_SIGNAL, (uint64_t)t->signal);
}

static void put_done(const struct terminal *t, struct viewer *v) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    put_end(&b, t);
    put_message(v, WIRE_DONE, &b);
    v->answered = true;
}

static unsigned count_viewers(const struct terminal *t) {
    unsigned count = 0;
    for (size_t i = 0; i < t->viewer_count; i++)
        count += t->viewers[i]->attached && !t->viewers[i]->gone;
    return count;
}

/* The words of the program, as far as they fit. */
static const char *title_of(const struct terminal *t, char title[static TITLE_MAX]) {
    size_t len = 0;
    const char *const *argv = t->start->program.argv;
    if (t->start->is_shell)
        return "";
    for (size_t i = 0; argv[i] != NULL && len < TITLE_MAX - 1; i++) {
        int n = snprintf(title + len, TITLE_MAX - len, "%s%s", i > 0 ? " " : "", argv[i]);
        len = n < 0 ? TITLE_MAX : len + (size_t)n;
    }
    return title;
}

static void put_entry(const struct terminal *t, struct viewer *v) {
    char title[TITLE_MAX];
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_string(&b, WIRE_TAG_NAME, t->start->at.name);
    wire_put_string(&b, WIRE_TAG_TEXT, title_of(t, title));
    if (strlen(t->start->program.cwd) <= CWD_MAX)
        wire_put_string(&b, WIRE_TAG_CWD, t->start->program.cwd);
    wire_put_number(&b, WIRE_TAG_PID, (uint64_t)t->program.pid);
    wire_put_number(&b, WIRE_TAG_ROWS, t->rows);
    wire_put_number(&b, WIRE_TAG_COLS, t->cols);
    wire_put_number(&b, WIRE_TAG_MTIME_MS, (uint64_t)t->wall_ms);
    wire_put_number(&b, WIRE_TAG_SIZE, t->past.end - t->past.begin);
    wire_put_number(&b, WIRE_TAG_VIEWERS, count_viewers(t));
    wire_put_number(&b, WIRE_TAG_BUSY, terminal_is_busy(t));
    wire_put_number(&b, WIRE_TAG_LAZY, t->start->is_lazy);
    wire_put_number(&b, WIRE_TAG_WAITS, t->waits);
    put_end(&b, t);
    put_message(v, WIRE_ENTRY, &b);
    v->answered = true;
}

static void put_activity(const struct terminal *t, struct viewer *v) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_VIEWERS, count_viewers(t));
    wire_put_number(&b, WIRE_TAG_BUSY, terminal_is_busy(t));
    wire_put_number(&b, WIRE_TAG_QUIET_MS, (uint64_t)(clock_ms() - t->active_ms));
    put_message(v, WIRE_DONE, &b);
    v->answered = true;
}

/* ---- requests ---- */

static bool take_size(const struct wire_message *m, unsigned *rows, unsigned *cols) {
    uint64_t r = m->number[WIRE_TAG_ROWS], c = m->number[WIRE_TAG_COLS];
    if (r == 0 || c == 0 || r > TERMINAL_SIZE_MAX || c > TERMINAL_SIZE_MAX)
        return false;
    *rows = (unsigned)r;
    *cols = (unsigned)c;
    return true;
}

static int check_attach(const struct terminal *t, const struct wire_message *m,
                        struct cay_error *err) {
    if (!t->running && !t->waits && m->number[WIRE_TAG_RUNNING] != 0) {
        error_set(err, CAY_CONFLICT, "the program of terminal '%s' has ended with exit code %d",
                  t->start->at.name, t->exit_code);
        return error_remedy(err, "remove it with 'cay terminal rm', and make it anew");
    }
    if (count_viewers(t) < TERMINAL_VIEWERS)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "%d viewers look at this terminal already", TERMINAL_VIEWERS);
    return error_remedy(err, "end some of them");
}

/* A full-screen program paints anew, whether the size is another or not. */
static void ask_to_paint(struct terminal *t, unsigned rows, unsigned cols) {
    pid_t group = terminal_foreground(t);
    bool same = rows == t->rows && cols == t->cols;
    if (same && group > 1 && vt_has_other_screen(&t->past.at_end))
        (void)kill(-group, SIGWINCH);
}

static int attach(struct terminal *t, struct viewer *v, const struct wire_message *m,
                  struct cay_error *err) {
    int r = check_attach(t, m, err);
    if (r == 0 && t->waits) {
        (void)take_size(m, &t->rows, &t->cols); /* as its first viewer sees it, if he says */
        r = terminal_start_program(t, err);
    }
    if (r < 0)
        return r;
    unsigned rows = t->rows, cols = t->cols;
    v->writes = m->number[WIRE_TAG_STDIN] != 0;
    scrollback_make_room(&t->past);
    v->position = t->past.begin;
    v->used = ++t->uses;
    v->attached = true;
    (void)take_size(m, &v->rows, &v->cols); /* none is fine */
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_VIEWERS, count_viewers(t));
    put_message(v, WIRE_STARTED, &b);
    _cleanup_(buf_free) struct buf modes = BUF_INIT(MESSAGE_MAX);
    vt_put_modes(&t->past.at_begin, &modes);
    if (modes.len > 0)
        put_message(v, WIRE_STDOUT, &modes);
    terminal_follow_size(t);
    ask_to_paint(t, rows, cols);
    return 0;
}

static int resize(struct terminal *t, struct viewer *v, const struct wire_message *m,
                  struct cay_error *err) {
    unsigned rows, cols;
    if (!take_size(m, &rows, &cols)) {
        error_set(err, CAY_INVALID_ARGUMENT, "that is no size of a terminal");
        return error_remedy(err, "rows and columns are 1 to %d", TERMINAL_SIZE_MAX);
    }
    terminal_set_size(t, rows, cols);
    put_done(t, v);
    return 0;
}

static int end_program(struct terminal *t, struct viewer *v, const struct wire_message *m,
                       struct cay_error *err) {
    uint64_t number = m->present[WIRE_TAG_SIGNAL] ? m->number[WIRE_TAG_SIGNAL] : SIGKILL;
    if (number == 0 || number >= NSIG)
        return error_set(err, CAY_INVALID_ARGUMENT, "there is no such signal");
    tree_signal((int)number, NULL);
    put_done(t, v);
    return 0;
}

static void take_request(struct terminal *t, struct viewer *v, const struct wire_message *m) {
    struct cay_error err = {0};
    int r = 0;
    v->op = (enum wire_op)m->number[WIRE_TAG_OP];
    switch (v->op) {
    case WIRE_OP_TERMINAL_ATTACH:
        r = attach(t, v, m, &err);
        break;
    case WIRE_OP_TERMINAL_LIST:
        put_entry(t, v);
        break;
    case WIRE_OP_TERMINAL_RESIZE:
        r = resize(t, v, m, &err);
        break;
    case WIRE_OP_TERMINAL_KILL:
        r = end_program(t, v, m, &err);
        break;
    case WIRE_OP_TERMINAL_DELETE:
        t->deleted = true; /* answered when nothing is left */
        break;
    case WIRE_OP_ACTIVITY:
        put_activity(t, v);
        break;
    default:
        v->gone = true;
    }
    if (r < 0)
        put_error(v, &err);
}

/* ---- frames that follow ---- */

static void use(struct terminal *t, struct viewer *v) {
    v->used = ++t->uses;
    t->active_ms = clock_ms();
    terminal_follow_size(t);
}

static int take_input(struct terminal *t, struct viewer *v, const struct wire_frame *f) {
    if (!v->writes)
        return -EPROTO;
    use(t, v);
    return t->program.in < 0 ? 0 : buf_append(&v->input, f->data, f->len);
}

static int take_window(struct terminal *t, struct viewer *v, const struct wire_message *m) {
    if (take_size(m, &v->rows, &v->cols))
        use(t, v);
    return 0;
}

/* For what is in front, as the keys of a terminal do it. */
static int take_signal(struct terminal *t, const struct viewer *v, const struct wire_message *m) {
    uint64_t number = m->number[WIRE_TAG_SIGNAL];
    pid_t group = terminal_foreground(t);
    if (!v->writes || number == 0 || number >= NSIG)
        return -EPROTO;
    if (group > 1)
        (void)kill(-group, (int)number); /* gone already is fine */
    return 0;
}

static int take_frame(struct terminal *t, struct viewer *v, const struct wire_frame *f) {
    struct wire_message m;
    if (f->type == WIRE_INPUT)
        return take_input(t, v, f);
    if (f->type == WIRE_INPUT_END)
        return 0; /* a viewer who types no more still looks */
    if ((f->type != WIRE_WINDOW && f->type != WIRE_SIGNAL) || wire_parse(f->data, f->len, &m) < 0)
        return -EPROTO;
    return f->type == WIRE_WINDOW ? take_window(t, v, &m) : take_signal(t, v, &m);
}

static void take_frames(struct terminal *t, struct viewer *v) {
    struct wire_frame f;
    int r = 0;
    while (!v->gone && (r = wire_reader_next(&v->reader, &f)) > 0)
        if (!v->answered && (!v->attached || take_frame(t, v, &f) < 0))
            v->gone = true;
    v->gone |= r < 0;
}

void viewer_read(struct terminal *t, struct viewer *v) {
    if (wire_reader_fill(&v->reader, v->fd) <= 0)
        v->gone = true;
    else
        take_frames(t, v);
}

void viewer_take_input(struct viewer *v, size_t taken) {
    buf_consume(&v->input, taken);
    v->credit += taken;
}

/* ---- what is to be shown ---- */

static void put_credit(struct viewer *v) {
    if (v->credit < WIRE_TERMINAL_CREDIT / 4)
        return;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_COUNT, v->credit);
    put_message(v, WIRE_CREDIT, &b);
    v->credit = 0;
}

static void skip_what_is_lost(struct terminal *t, struct viewer *v) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(MESSAGE_MAX);
    _cleanup_(buf_free) struct buf modes = BUF_INIT(MESSAGE_MAX);
    scrollback_make_room(&t->past);
    wire_put_number(&b, WIRE_TAG_SIZE, t->past.begin - v->position);
    put_message(v, WIRE_ENTRY, &b);
    vt_put_all_modes(&t->past.at_begin, &modes);
    put_message(v, WIRE_STDOUT, &modes);
    v->position = t->past.begin;
}

void viewer_fill(struct terminal *t, struct viewer *v) {
    const char *data;
    if (!v->attached || v->answered || v->out.len > 0)
        return;
    put_credit(v);
    if (v->position < t->past.begin)
        skip_what_is_lost(t, v);
    size_t len = MIN(scrollback_at(&t->past, v->position, &data), (size_t)WIRE_DATA_MAX);
    if (len > 0) {
        wire_put_frame(&v->out, WIRE_STDOUT, data, len);
        v->gone |= v->out.failed;
        v->position += len;
    } else if (!t->running) {
        put_done(t, v);
    }
}

void viewer_send(struct viewer *v) {
    ssize_t n = send(v->fd, v->out.data, v->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0)
        buf_consume(&v->out, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        v->gone = true;
}

/* ---- the hand-over ---- */

static void begin(struct terminal *t, struct viewer *v) {
    struct wire_frame f;
    struct wire_message m;
    if (wire_reader_next(&v->reader, &f) <= 0 || f.type != WIRE_REQUEST ||
        wire_parse(f.data, f.len, &m) < 0) {
        v->gone = true;
        return;
    }
    take_request(t, v, &m);
    take_frames(t, v);
}

static int refuse(const struct viewer *v) {
    struct cay_error err = {0};
    error_set(&err, CAY_LIMIT_REACHED, "%d connections use this terminal already",
              TERMINAL_CONNECTIONS);
    (void)error_remedy(&err, "end some of them");
    (void)wire_send_error(v->fd, &err); /* short enough not to block on a fresh connection */
    return -EBUSY;
}

void viewer_accept(struct terminal *t) {
    struct viewer *v = calloc(1, sizeof *v);
    if (v == NULL)
        return;
    *v = (struct viewer){.fd = -1,
                         .reader = WIRE_READER_INIT,
                         .out = BUF_INIT(OUT_MAX),
                         .input = BUF_INIT(WIRE_TERMINAL_CREDIT + WIRE_DATA_MAX)};
    int r = place_accept(t->start->at.listener, &v->fd, &v->reader);
    if (r == 0 && t->viewer_count == TERMINAL_CONNECTIONS)
        r = refuse(v);
    if (r < 0) {
        viewer_free(v);
        return;
    }
    t->viewers[t->viewer_count++] = v;
    begin(t, v);
}
