#include "api/own/progress_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "api/metrics/metrics.h"
#include "api/shape/shape.h"
#include "base/error.h"

enum { LINE_SIZE = 1024, WAITING_MAX = 1024 * 1024 };

/* Work under way, whose progress is the answer. */
struct told {
    struct stream stream; /* first */
    const struct progress_work *work;
    void *user;
    int progress[2];
    pthread_t worker;
    bool is_done; /* the worker was joined */
    struct cay_error err;
    int result;
    char line[LINE_SIZE]; /* the last one, as far as it came */
    size_t line_len;
    struct buf waiting; /* to be sent */
};

static void *run(void *user) {
    struct told *t = user;
    t->result = t->work->run(t->user, t->progress[1], &t->err);
    if (t->result < 0)
        metrics_failed(t->err.code);
    t->work->note(t->user, t->result, &t->err);
    fd_close(&t->progress[1]); /* which ends what the reader waits for */
    return NULL;
}

/* ---- lines ---- */

static void end_line(struct told *t) {
    char shown[2 * LINE_SIZE];
    t->line[t->line_len] = '\0';
    if (t->line_len > 0)
        (void)buf_printf(&t->waiting, "progress %s\n", str_escape(shown, sizeof shown, t->line));
    t->line_len = 0;
}

static void take_progress(struct told *t, const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' || data[i] == '\r')
            end_line(t);
        else if (t->line_len < sizeof t->line - 1)
            t->line[t->line_len++] = data[i];
    }
}

static void finish(struct told *t) {
    end_line(t);
    (void)pthread_join(t->worker, NULL);
    t->is_done = true;
    (void)buf_puts(&t->waiting, t->result < 0 ? "error\n" : "done\n");
    if (t->result < 0)
        shape_error(&t->waiting, &t->err, (unsigned)cay_code_http(t->err.code));
    else
        t->work->answer(t->user, &t->waiting);
}

/* ---- the stream ---- */

static size_t read_progress(struct stream *s, char *data, size_t size) {
    struct told *t = (struct told *)s;
    char chunk[LINE_SIZE];
    while (t->waiting.len == 0 && !t->is_done) {
        ssize_t n = TEMP_FAILURE_RETRY(read(t->progress[0], chunk, sizeof chunk));
        if (n > 0)
            take_progress(t, chunk, (size_t)n);
        else
            finish(t);
    }
    size_t len = MIN(size, t->waiting.len);
    if (len > 0) {
        memcpy(data, t->waiting.data, len);
        buf_consume(&t->waiting, len);
    }
    return len;
}

static void release(struct told *t) {
    fd_close(&t->progress[0]);
    fd_close(&t->progress[1]);
    t->work->release(t->user);
    buf_free(&t->waiting);
    free(t);
}

/* If the client has gone, it is done all the same; whoever tells its progress must not be held up
 * by a full pipe. */
static void close_told(struct stream *s) {
    struct told *t = (struct told *)s;
    char ignored[LINE_SIZE];
    while (!t->is_done && TEMP_FAILURE_RETRY(read(t->progress[0], ignored, sizeof ignored)) > 0)
        ;
    if (!t->is_done)
        (void)pthread_join(t->worker, NULL);
    release(t);
}

int progress_stream_begin(struct call *c, const struct progress_work *work, void *user,
                          struct cay_error *err) {
    struct told *t = calloc(1, sizeof *t);
    if (t == NULL) {
        work->release(user);
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    *t = (struct told){
        .stream = {.read = read_progress, .close = close_told},
        .work = work,
        .user = user,
        .progress = {-1, -1},
        .waiting = BUF_INIT(WAITING_MAX),
    };
    int r = 0;
    if (pipe2(t->progress, O_CLOEXEC) < 0)
        r = error_errno(err, "making a pipe");
    else if (pthread_create(&t->worker, NULL, run, t) != 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for it");
    if (r < 0) {
        release(t);
        return r;
    }
    c->answer.is_plain = true;
    c->answer.stream = &t->stream;
    c->is_noted = true; /* when it is done */
    return 0;
}
