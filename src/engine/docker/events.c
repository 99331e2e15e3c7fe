/* Ends of containers, as Docker tells them. A stream that breaks (dockerd was restarted) is opened
 * again; what ended meanwhile is found by looking. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/docker/internal.h"
#include "engine/docker/transport/pump.h"

/* {"type":["container"]}, escaped. Not by event and label too: podman has another name for the one,
 * and wants the value of the other. */
#define EVENTS "/events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D"

/* Those of one container until now: {"type":["container"],"container":["cay-ID"]} */
#define PAST                                                                                       \
    "/events?since=1&until=%lld.%03d&filters=%%7B%%22type%%22%%3A%%5B%%22container%%22%%5D%%2C%%"  \
    "22"                                                                                           \
    "container%%22%%3A%%5B%%22cay-%s%%22%%5D%%7D"

enum { LINE_MAX_BYTES = 256 * 1024, AGAIN_MS = 500, PAST_MS = 2000, SIGNAL_EXIT = 128 };

struct stream {
    struct docker_engine *d;
    struct buf line;
    const struct docker_answer *answer;
    bool has_swept;
};

static bool is_closing(const struct docker_engine *d) {
    return __atomic_load_n(&d->closing, __ATOMIC_ACQUIRE);
}

/* As wait() would have told it. */
static int wait_status(int exit_code) {
    if (exit_code < 0)
        return -1;
    return exit_code > SIGNAL_EXIT ? exit_code - SIGNAL_EXIT : exit_code << 8;
}

static void report(struct docker_engine *d, const char *id, int exit_code) {
    struct engine_end end = {.status = wait_status(exit_code),
                             .cause = exit_code < 0 ? ENGINE_END_UNSEEN : ENGINE_END_UNASKED};
    struct docker_container c;
    memcpy(end.id, id, ID_SIZE);
    docker_pump_end(id);
    end.oom_killed = docker_inspect(d, id, "/json", &c, NULL) == 0 && c.oom_killed;
    if (d->engine.ended != NULL)
        d->engine.ended(d->engine.user, &end);
}

static void take_line(struct stream *s, const char *line, size_t len) {
    struct docker_event event;
    if (docker_parse_event(line, len, s->d->label, &event, NULL) < 0)
        return;
    if (str_equal(event.action, "die"))
        report(s->d, event.id, event.exit_code);
    else if (str_equal(event.action, "commit")) /* perhaps for one who is gone */
        docker_passing_sweep(s->d);
}

static int on_data(void *user, const char *data, size_t len) {
    struct stream *s = user;
    if (is_closing(s->d) || buf_append(&s->line, data, len) < 0)
        return -1;
    for (;;) {
        const char *end = memchr(buf_text(&s->line), '\n', s->line.len);
        if (end == NULL)
            return 0;
        size_t n = (size_t)(end - s->line.data);
        take_line(s, s->line.data, n);
        buf_consume(&s->line, n + 1);
    }
}

/* ---- what has been told before ---- */

static uint64_t count_lines(const struct docker_engine *d, const struct buf *lines,
                            const char *action) {
    uint64_t count = 0;
    const char *text = buf_text(lines);
    for (size_t at = 0; at < lines->len;) {
        const char *end = memchr(text + at, '\n', lines->len - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : lines->len - at;
        struct docker_event event;
        count += n > 0 && docker_parse_event(text + at, n, d->label, &event, NULL) == 0 &&
                 str_equal(event.action, action);
        at += n + 1;
    }
    return count;
}

uint64_t docker_events_oom(struct docker_engine *d, const char *id) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    int64_t now = clock_wall_ms();
    int r = str_format(path, sizeof path, PAST, (long long)(now / 1000), (int)(now % 1000), id);
    struct docker_call call = {.method = "GET", .path = path, .timeout_ms = PAST_MS};
    return r == 0 && docker_ask(d->api, &call, &a, NULL) == 0 && a.status == 200
               ? count_lines(d, &a.body, "oom")
               : 0;
}

/* ---- what ends ---- */

/* Tells of all that do not run: of most it has been told before, which harms nothing. */
static void look(struct docker_engine *d) {
    _cleanup_(freep) struct engine_sandbox *v = NULL;
    size_t count = 0;
    if (docker_list(d, &v, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count && !is_closing(d); i++)
        if (v[i].state == ENGINE_STOPPED)
            report(d, v[i].id, -1);
}

/* Asked about every second. What others have left is looked for when Docker is there, and after its
 * events are heard: no end must wait for it. */
static bool is_over(void *user) {
    struct stream *s = user;
    if (!s->has_swept && s->answer->status == 200 && !is_closing(s->d)) {
        s->has_swept = true;
        docker_passing_sweep(s->d);
    }
    return is_closing(s->d);
}

/* Returns when the stream has ended; true if there was one. */
static bool follow(struct docker_engine *d) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct stream s = {.d = d, .line = BUF_INIT(LINE_MAX_BYTES), .answer = &a};
    struct docker_call call = {.method = "GET",
                               .path = EVENTS,
                               .timeout_ms = -1,
                               .sink = on_data,
                               .is_over = is_over,
                               .user = &s};
    (void)docker_ask(d->api, &call, &a, NULL); /* each operation says what is wrong with Docker */
    buf_free(&s.line);
    return a.status == 200;
}

static void *listen_to_events(void *arg) {
    struct docker_engine *d = arg;
    bool was_there = true;
    for (bool first = true; !is_closing(d); first = false) {
        if (!first)
            look(d);
        bool is_there = follow(d);
        if (was_there && !is_closing(d))
            log_event(LOG_LEVEL_WARN, "Docker tells of no ends any more", "home", "%s", d->home);
        was_there = is_there;
        if (!is_closing(d))
            (void)usleep(AGAIN_MS * 1000);
    }
    return NULL;
}

void docker_events_stop(struct docker_engine *d) {
    __atomic_store_n(&d->closing, true, __ATOMIC_RELEASE);
    if (d->listening)
        (void)pthread_join(d->listener, NULL);
    d->listening = false;
}

int docker_events_start(struct docker_engine *d, struct cay_error *err) {
    if (pthread_create(&d->listener, NULL, listen_to_events, d) != 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for Docker's events");
    d->listening = true;
    return 0;
}
