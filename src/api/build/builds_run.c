/* What a build does once somebody runs it: it waits for its place, the process beside us builds,
 * and what that says becomes the log. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "api/build/builds_internal.h"
#include "api/images.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    RUNNING_MAX = 2, /* at the same time, one of each key; the others wait */
    CANCEL_LOOK_MS = 100,
    LINE_SHOWN = 160,
};

static const char cut_short[] = "\n… the log is longer than what is kept of it\n";

/* ---- the log ---- */

static void note(struct build *one, const char *data, size_t len) {
    (void)pthread_mutex_lock(&one->all->lock);
    size_t room = one->log.len < BUILD_LOG_MAX ? BUILD_LOG_MAX - one->log.len : 0;
    build_append_log(one, data, MIN(len, room));
    if (len > room && room > 0)
        build_append_log(one, cut_short, strlen(cut_short));
    (void)pthread_cond_broadcast(&one->all->changed);
    (void)pthread_mutex_unlock(&one->all->lock);
}

struct listening {
    struct build *one;
    int in;
};

static void *listen_to(void *arg) {
    const struct listening *l = arg;
    char chunk[4096];
    ssize_t n;
    while ((n = TEMP_FAILURE_RETRY(read(l->in, chunk, sizeof chunk))) > 0)
        note(l->one, chunk, (size_t)n);
    return NULL;
}

/* The last line that says something, for who sees no log; with the lock held. */
static void last_line(const struct build *one, char out[static LINE_SHOWN]) {
    const char *text = buf_text(&one->log), *end = text + one->log.len;
    char line[LINE_SHOWN];
    while (end > text && strchr("\r\n\t ", end[-1]) != NULL)
        end--;
    const char *begin = end;
    while (begin > text && begin[-1] != '\n')
        begin--;
    size_t len = MIN((size_t)(end - begin), sizeof line - 1);
    memcpy(line, end - len, len);
    line[len] = '\0';
    (void)str_escape(out, LINE_SHOWN, line);
}

ssize_t build_read_log(struct build *one, size_t from, char *data, size_t size, int64_t wait_ms) {
    int64_t until = clock_ms() + wait_ms;
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    (void)pthread_mutex_lock(&one->all->lock);
    while (one->log.len <= from && !build_is_finished(one) && clock_ms() < until)
        (void)pthread_cond_timedwait(&one->all->changed, &one->all->lock, &at);
    size_t n = one->log.len > from ? MIN(one->log.len - from, size) : 0;
    if (n > 0)
        memcpy(data, one->log.data + from, n);
    bool ended = build_is_finished(one);
    (void)pthread_mutex_unlock(&one->all->lock);
    return n > 0 || ended ? (ssize_t)n : -EAGAIN;
}

/* ---- running ---- */

/* A descriptor with the text, at its beginning. */
static int text_fd(const char *text, struct cay_error *err) {
    _cleanup_(closep) int fd = memfd_create("dockerfile", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? error_sys(err, -r, "keeping the Dockerfile") : TAKE_FD(fd);
}

/* The process beside us writes to a pipe, which ends with it. */
static int build_heard(struct build *one, struct image_build_order *order, char id[static HEX_SIZE],
                       struct cay_error *err) {
    int ends[2];
    pthread_t listener;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    struct listening l = {one, ends[0]};
    int r = pthread_create(&listener, NULL, listen_to, &l);
    if (r == 0) {
        order->log = ends[1];
        r = one->all->ops->build(one->all->ops->user, order, id, err);
    } else {
        r = error_sys(err, r, "starting to read the log");
        listener = pthread_self();
    }
    (void)close(ends[1]);
    if (order->log >= 0)
        (void)pthread_join(listener, NULL);
    (void)close(ends[0]);
    return r;
}

static int build_it(struct build *one, int cancel, char id[static HEX_SIZE],
                    struct cay_error *err) {
    _cleanup_(closep) int dockerfile = text_fd(one->dockerfile, err);
    struct image_build_order order = {.owner = one->owner,
                                      .made_by = one->made_by,
                                      .name = one->is_snapshot ? one->name : "",
                                      .dockerfile = dockerfile,
                                      .contexts = one->contexts,
                                      .log = -1,
                                      .cancel = cancel};
    return dockerfile < 0 ? dockerfile : build_heard(one, &order, id, err);
}

static bool is_readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Whether the owner has a place already that he must not double: the other one is for others. */
static bool has_share(const struct build *one) {
    if (one->owner[0] == '\0')
        return false;
    for (const struct build *b = one->all->first; b != NULL; b = b->next)
        if (b->state == BUILD_RUNNING && str_equal(b->owner, one->owner))
            return true;
    return false;
}

/* With the lock held: true once it is one of those that run. */
static bool take_place(struct build *one) {
    if (one->state == BUILD_PENDING && one->all->running < RUNNING_MAX && !has_share(one)) {
        one->all->running++;
        one->state = BUILD_RUNNING;
        one->updated_ms = clock_wall_ms();
        build_keep(one);
    }
    return one->state == BUILD_RUNNING;
}

/* Its cancelling is told by a descriptor, not by the condition: hence the looks. */
static int wait_for_place(struct build *one, int cancel, struct cay_error *err) {
    struct builds *b = one->all;
    bool given_up = false;
    (void)pthread_mutex_lock(&b->lock);
    while (!take_place(one) && !given_up) {
        int64_t until = clock_ms() + CANCEL_LOOK_MS;
        struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
        (void)pthread_cond_timedwait(&b->changed, &b->lock, &at);
        given_up = is_readable(cancel);
    }
    (void)pthread_mutex_unlock(&b->lock);
    return given_up ? error_set(err, CAY_CONFLICT, "nobody wants it any more") : 0;
}

static void settle(struct build *one, int result, const struct cay_error *err) {
    char line[LINE_SHOWN] = "", text[sizeof err->message + sizeof err->remedy + 16];
    struct builds *b = one->all;
    if (result < 0) {
        (void)snprintf(text, sizeof text, "error: %s; %s\n", err->message, err->remedy);
        (void)pthread_mutex_lock(&b->lock);
        last_line(one, line);
        (void)pthread_mutex_unlock(&b->lock);
        note(one, text, strlen(text));
    }
    (void)pthread_mutex_lock(&b->lock);
    if (one->state == BUILD_RUNNING)
        b->running--;
    one->state = result < 0 ? BUILD_FAILED : BUILD_DONE;
    build_discharge(one);
    if (result < 0) {
        (void)snprintf(one->reason, sizeof one->reason, "%.320s%s%s", err->message,
                       line[0] != '\0' ? "; its log ends with: " : "", line);
    }
    one->updated_ms = clock_wall_ms();
    build_keep(one);
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

static int run(struct build *one, int cancel, char id[static HEX_SIZE], struct cay_error *err) {
    struct cay_error why = {0};
    int r = wait_for_place(one, cancel, &why);
    if (r == 0)
        r = build_it(one, cancel, id, &why);
    settle(one, r, &why);
    if (r < 0) {
        error_set(err, why.code, "%s", one->reason);
        (void)error_remedy(err, "%s", why.remedy);
    }
    return r;
}

/* With the lock held: true if nobody else runs it. Its runner has a reference. */
static bool claim(struct build *one) {
    bool is_mine = one->state == BUILD_PENDING && !one->has_runner;
    one->has_runner |= is_mine;
    if (is_mine)
        one->references++;
    return is_mine;
}

static void unclaim(struct build *one) {
    struct builds *b = one->all;
    (void)pthread_mutex_lock(&b->lock);
    one->has_runner = false;
    (void)pthread_cond_broadcast(&b->changed);
    build_put(one);
    (void)pthread_mutex_unlock(&b->lock);
}

/* What ran before, and is asked for again by whoever starts its sandbox. */
static int refuse_run(const struct build *one, struct cay_error *err) {
    if (one != NULL && one->state == BUILD_FAILED) {
        error_set(err, CAY_CONFLICT, "%s", one->reason);
        return error_remedy(err, "mend the Dockerfile, and create the sandbox again");
    }
    error_set(err, CAY_NOT_FOUND, "the image of this sandbox was never built");
    return error_remedy(err, "the daemon ended meanwhile: create the sandbox again");
}

int builds_run(struct builds *b, const char *name, int cancel, char id[static HEX_SIZE],
               struct cay_error *err) {
    (void)pthread_mutex_lock(&b->lock);
    struct build *one = builds_lookup(b, NULL, name);
    bool is_mine = one != NULL && claim(one);
    int r = is_mine ? 0 : refuse_run(one, err);
    (void)pthread_mutex_unlock(&b->lock);
    if (!is_mine)
        return r;
    r = run(one, cancel, id, err);
    unclaim(one);
    return r;
}

static void *run_apart(void *arg) {
    struct build *one = arg;
    struct cay_error ignored; /* kept in it */
    char id[HEX_SIZE];
    (void)run(one, one->cancel, id, &ignored);
    unclaim(one);
    return NULL;
}

int builds_start(struct build *one, struct build_view *ret_view, struct cay_error *err) {
    pthread_t thread;
    (void)pthread_mutex_lock(&one->all->lock);
    bool is_mine = claim(one);
    (void)take_place(one); /* so that its first look says whether it runs */
    build_show(one, ret_view);
    (void)pthread_mutex_unlock(&one->all->lock);
    if (!is_mine)
        return error_set(err, CAY_CONFLICT, "it runs already");
    int r = pthread_create(&thread, NULL, run_apart, one);
    if (r == 0)
        return -pthread_detach(thread);
    struct cay_error why;
    r = error_sys(&why, r, "starting a build");
    settle(one, r, &why);
    unclaim(one);
    if (err != NULL)
        *err = why;
    return r;
}
