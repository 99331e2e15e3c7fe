/* Callers wait for the answer with their tag; one thread reads all answers. A launcher that dies
 * fails whatever waits, and what is asked for until there is another one. */
#include "engine/native/native_engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/native/launcher.h"

enum { AGAIN_MS = 500 };

/* One who waits; lives on his stack. */
struct call {
    uint64_t tag;
    bool answered; /* else the launcher is gone */
    bool done;
    struct launcher_answer *answer;
    struct call *next;
};

/* A throw-away sandbox, from asking for it to its once_end. */
struct once {
    uint64_t tag;
    bool ended, oom_killed;
    struct cay_error err; /* why it never began */
    struct once *next;
};

struct native_engine {
    struct engine engine; /* first */
    pthread_mutex_t lock; /* of all that follows but sock */
    pthread_cond_t changed;
    struct call *calls;
    struct once *onces;
    uint64_t last_tag;
    bool gone;               /* the launcher, */
    int64_t gone_at;         /* since */
    pthread_mutex_t sending; /* of sock, which the reader uses without: it is closed after it */
    int sock;
    pthread_t reader;
    bool reading;                       /* there is one */
    struct native_engine_source source; /* of one that is started when it is needed */
    int64_t tried_at;                   /* when that was last done; 0: never */
};

static struct native_engine *native_of(struct engine *e) {
    return (struct native_engine *)e;
}

static int unavailable(const struct native_engine *n, struct cay_error *err) {
    if (n->source.connect != NULL) {
        error_set(err, CAY_UNAVAILABLE, "the engine has ended");
        return error_remedy(err, "try again in a moment; the daemon's log says why it has");
    }
    error_set(err, CAY_UNAVAILABLE, "the launcher has ended");
    return error_remedy(err, "the daemon starts a new one: try again in a moment");
}

/* ---- the reader ---- */

static void tell_ended(const struct native_engine *n, const struct launcher_answer *a) {
    struct engine_end end = {.oom_killed = a->oom_killed != 0, .status = a->status};
    memcpy(end.id, a->id, ID_SIZE);
    if (n->engine.ended != NULL)
        n->engine.ended(n->engine.user, &end);
}

static void note_once(struct native_engine *n, const struct launcher_answer *a) {
    for (struct once *o = n->onces; o != NULL; o = o->next) {
        if (o->tag != a->tag || a->event == LAUNCHER_STARTED)
            continue;
        o->ended = true;
        o->oom_killed = a->event == LAUNCHER_ENDED && a->oom_killed != 0;
        if (a->event == LAUNCHER_FAILED)
            o->err = a->err;
    }
}

static void hand_over(struct native_engine *n, const struct launcher_answer *a) {
    (void)pthread_mutex_lock(&n->lock);
    note_once(n, a);
    for (struct call *c = n->calls; c != NULL; c = c->next)
        if (c->tag == a->tag && !c->done) {
            *c->answer = *a;
            c->answered = c->done = true;
        }
    (void)pthread_cond_broadcast(&n->changed);
    (void)pthread_mutex_unlock(&n->lock);
}

static void fail_all(struct native_engine *n) {
    (void)pthread_mutex_lock(&n->lock);
    n->gone = true;
    n->gone_at = clock_ms();
    for (struct call *c = n->calls; c != NULL; c = c->next)
        c->done = true;
    for (struct once *o = n->onces; o != NULL; o = o->next)
        o->ended = true; /* they end with their launcher */
    (void)pthread_cond_broadcast(&n->changed);
    (void)pthread_mutex_unlock(&n->lock);
}

/* What a launcher says is believed no further than it must be. */
static bool receive(const struct native_engine *n, struct launcher_answer *a) {
    ssize_t got;
    do
        got = recv(n->sock, a, sizeof *a, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof *a)
        return false;
    a->id[ID_SIZE - 1] = '\0';
    if (a->event == LAUNCHER_FAILED)
        error_sanitize(&a->err);
    if (a->event == LAUNCHER_HAS_LIST && a->list.count > LAUNCHER_PAGE)
        return false;
    return true;
}

static void *read_answers(void *arg) {
    struct native_engine *n = arg;
    struct launcher_answer a;
    while (receive(n, &a))
        if (a.event == LAUNCHER_KEPT_ENDED)
            tell_ended(n, &a);
        else
            hand_over(n, &a);
    fail_all(n);
    return NULL;
}

/* ---- callers ---- */

static int connect_to(struct native_engine *n, int sock, struct cay_error *err);
static void disconnect(struct native_engine *n);

static bool is_gone(struct native_engine *n) {
    (void)pthread_mutex_lock(&n->lock);
    bool gone = n->gone;
    (void)pthread_mutex_unlock(&n->lock);
    return gone;
}

/* With n->sending held. */
static void start_again(struct native_engine *n) {
    struct cay_error err;
    int sock = n->source.connect(n->source.user, &err);
    n->tried_at = clock_ms();
    if (sock < 0)
        return;
    disconnect(n);
    (void)pthread_mutex_lock(&n->lock);
    n->gone = false;
    (void)pthread_mutex_unlock(&n->lock);
    (void)connect_to(n, sock, &err);
}

/* One that is started when it is needed is, but not again and again if it does not live. */
static void have_launcher(struct native_engine *n) {
    if (n->source.connect == NULL || !is_gone(n))
        return;
    (void)pthread_mutex_lock(&n->sending);
    if (is_gone(n) && (n->tried_at == 0 || clock_ms() - n->tried_at > AGAIN_MS))
        start_again(n);
    (void)pthread_mutex_unlock(&n->sending);
}

static int begin(struct native_engine *n, struct call *c) {
    have_launcher(n);
    (void)pthread_mutex_lock(&n->lock);
    bool gone = n->gone;
    if (!gone) {
        c->tag = ++n->last_tag;
        c->next = n->calls;
        n->calls = c;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return gone ? -EPIPE : 0;
}

static void end(struct native_engine *n, const struct call *c) {
    (void)pthread_mutex_lock(&n->lock);
    struct call **at = &n->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    (void)pthread_mutex_unlock(&n->lock);
}

static void wait_for(struct native_engine *n, const struct call *c) {
    (void)pthread_mutex_lock(&n->lock);
    while (!c->done)
        (void)pthread_cond_wait(&n->changed, &n->lock);
    (void)pthread_mutex_unlock(&n->lock);
}

/* Sends the request, with a descriptor or -1, and waits for its answer. */
static int ask(struct native_engine *n, struct launcher_request *r, size_t mounts, int fd,
               struct launcher_answer *answer, struct cay_error *err) {
    struct call call = {.answer = answer};
    if (begin(n, &call) < 0)
        return unavailable(n, err);
    r->tag = call.tag;
    r->fds = fd >= 0 ? LAUNCHER_LISTENER : 0;
    (void)pthread_mutex_lock(&n->sending);
    int sent = fd_send(n->sock, r, launcher_request_size(mounts), &fd, fd >= 0 ? 1 : 0);
    (void)pthread_mutex_unlock(&n->sending);
    if (sent == 0)
        wait_for(n, &call);
    end(n, &call);
    if (sent < 0 || !call.answered)
        return unavailable(n, err);
    if (answer->event != LAUNCHER_FAILED)
        return 0;
    *err = answer->err;
    return -(int)err->code;
}

/* With room for the mounts of the spec, which are many bytes and rarely there. */
static struct launcher_request *new_request(enum launcher_op op, const struct sandbox_spec *spec,
                                            struct cay_error *err) {
    struct launcher_request *r = calloc(1, launcher_request_size(spec->mount_count));
    if (r == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    r->op = op;
    r->spec = *spec;
    r->spec.mounts = NULL; /* means nothing elsewhere */
    r->spec.mount_count = 0;
    return r;
}

static int ask_about(struct engine *e, enum launcher_op op, const char *id,
                     struct launcher_answer *answer, struct cay_error *err) {
    struct sandbox_spec spec = {0};
    if (id[0] != '\0' && !id_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    memcpy(spec.id, id, id[0] != '\0' ? ID_SIZE : 1);
    _cleanup_(freep) struct launcher_request *r = new_request(op, &spec, err);
    return r == NULL ? -CAY_RESOURCE_EXHAUSTED : ask(native_of(e), r, 0, -1, answer, err);
}

static int do_to(struct engine *e, enum launcher_op op, const char *id, struct cay_error *err) {
    struct launcher_answer answer;
    return ask_about(e, op, id, &answer, err);
}

/* ---- the operations ---- */

static int engine_start(struct engine *e, const struct sandbox_spec *spec, const char *image,
                        int listener, struct cay_error *err) {
    struct launcher_answer answer;
    if (spec->mount_count > SPEC_MOUNTS_MAX || !id_is_valid(spec->id) || strlen(image) >= HEX_SIZE)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be started");
    _cleanup_(freep) struct launcher_request *r = new_request(LAUNCHER_KEEP, spec, err);
    if (r == NULL)
        return -CAY_RESOURCE_EXHAUSTED;
    memcpy(r->image, image, strlen(image) + 1);
    if (spec->mount_count > 0)
        memcpy(r->mounts, spec->mounts, spec->mount_count * sizeof r->mounts[0]);
    return ask(native_of(e), r, spec->mount_count, listener, &answer, err);
}

static int engine_stop(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_STOP, id, err);
}

static int engine_pause(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_PAUSE, id, err);
}

static int engine_resume(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_RESUME, id, err);
}

static int engine_remove(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_REMOVE, id, err);
}

static int engine_volume_make(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_VOLUME_MAKE, id, err);
}

static int engine_volume_remove(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_VOLUME_REMOVE, id, err);
}

static int engine_resize(struct engine *e, const struct sandbox_spec *spec, struct cay_error *err) {
    struct launcher_answer answer;
    _cleanup_(freep) struct launcher_request *r = new_request(LAUNCHER_RESIZE, spec, err);
    return r == NULL ? -CAY_RESOURCE_EXHAUSTED : ask(native_of(e), r, 0, -1, &answer, err);
}

static int measure(struct engine *e, enum launcher_op op, const char *id, struct engine_stats *ret,
                   struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_about(e, op, id, &answer, err);
    if (r == 0)
        *ret = answer.stats;
    return r;
}

static int engine_stats(struct engine *e, const char *id, struct engine_stats *ret,
                        struct cay_error *err) {
    return measure(e, LAUNCHER_STATS, id, ret, err);
}

static int engine_usage(struct engine *e, const char *id, struct engine_stats *ret,
                        struct cay_error *err) {
    return measure(e, LAUNCHER_USAGE, id, ret, err);
}

/* ---- what engines keep by themselves ---- */

static int ask_with_image(struct engine *e, enum launcher_op op, const char *id, const char *image,
                          struct launcher_answer *answer, struct cay_error *err) {
    struct sandbox_spec spec = {0};
    if (!id_is_valid(id) || !hex_is_valid(image))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be kept");
    memcpy(spec.id, id, ID_SIZE);
    _cleanup_(freep) struct launcher_request *r = new_request(op, &spec, err);
    if (r == NULL)
        return -CAY_RESOURCE_EXHAUSTED;
    memcpy(r->image, image, HEX_SIZE);
    return ask(native_of(e), r, 0, -1, answer, err);
}

static int engine_archive(struct engine *e, const char *id, const char *image, uint64_t *ret_bytes,
                          struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_with_image(e, LAUNCHER_ARCHIVE, id, image, &answer, err);
    if (r == 0)
        *ret_bytes = answer.stats.disk_bytes;
    return r;
}

static int engine_unarchive(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_UNARCHIVE, id, err);
}

static int engine_snapshot(struct engine *e, const char *id, const char *image,
                           char ret[static HEX_SIZE], struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_with_image(e, LAUNCHER_SNAPSHOT, id, image, &answer, err);
    if (r < 0)
        return r;
    if (memchr(answer.image, '\0', HEX_SIZE) == NULL || !hex_is_valid(answer.image))
        return error_set(err, CAY_INTERNAL, "the engine sent the id of an image that is none");
    memcpy(ret, answer.image, HEX_SIZE);
    return 0;
}

/* ---- throw-away sandboxes ---- */

static int send_request(struct native_engine *n, const struct launcher_request *r, size_t mounts,
                        int fd) {
    (void)pthread_mutex_lock(&n->sending);
    int sent = fd_send(n->sock, r, launcher_request_size(mounts), &fd, fd >= 0 ? 1 : 0);
    (void)pthread_mutex_unlock(&n->sending);
    return sent;
}

static bool add_once(struct native_engine *n, struct once *o) {
    (void)pthread_mutex_lock(&n->lock);
    bool gone = n->gone;
    if (!gone) {
        o->tag = ++n->last_tag;
        o->next = n->onces;
        n->onces = o;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return !gone;
}

/* With the lock held. */
static struct once *take_once(struct native_engine *n, uint64_t tag) {
    struct once **at = &n->onces;
    while (*at != NULL && (*at)->tag != tag)
        at = &(*at)->next;
    struct once *o = *at;
    if (o != NULL)
        *at = o->next;
    return o;
}

static int engine_once(struct engine *e, const struct sandbox_spec *spec, int connection,
                       uint64_t *ret_tag, struct cay_error *err) {
    struct native_engine *n = native_of(e);
    if (spec->mount_count > SPEC_MOUNTS_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be started");
    _cleanup_(freep) struct launcher_request *r = new_request(LAUNCHER_START, spec, err);
    _cleanup_(freep) struct once *o = calloc(1, sizeof *o);
    if (r == NULL || o == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (!add_once(n, o))
        return unavailable(n, err);
    r->tag = *ret_tag = o->tag;
    r->fds = LAUNCHER_CONNECTION;
    if (spec->mount_count > 0)
        memcpy(r->mounts, spec->mounts, spec->mount_count * sizeof r->mounts[0]);
    if (send_request(n, r, spec->mount_count, connection) == 0) {
        (void)TAKE_PTR(o); /* the list's, until it is taken from there */
        return 0;
    }
    (void)pthread_mutex_lock(&n->lock);
    (void)take_once(n, o->tag);
    (void)pthread_mutex_unlock(&n->lock);
    return unavailable(n, err);
}

static int engine_once_end(struct engine *e, uint64_t tag, bool *ret_oom, struct cay_error *err) {
    struct native_engine *n = native_of(e);
    _cleanup_(freep) struct launcher_request *r =
        new_request(LAUNCHER_END, &(struct sandbox_spec){0}, err);
    if (r != NULL) {
        r->tag = tag;
        (void)send_request(n, r, 0, -1); /* what is gone has ended */
    }
    (void)pthread_mutex_lock(&n->lock);
    struct once *o = n->onces;
    while (o != NULL && o->tag != tag)
        o = o->next;
    while (o != NULL && ret_oom != NULL && !o->ended)
        (void)pthread_cond_wait(&n->changed, &n->lock);
    o = take_once(n, tag);
    (void)pthread_mutex_unlock(&n->lock);
    int result = 0;
    if (o != NULL && ret_oom != NULL)
        *ret_oom = o->oom_killed;
    if (o != NULL && o->err.code != CAY_OK) {
        *err = o->err;
        result = -(int)err->code;
    }
    free(o);
    return result;
}

static int64_t engine_gone_ms(struct engine *e) {
    struct native_engine *n = native_of(e);
    (void)pthread_mutex_lock(&n->lock);
    int64_t ms = n->gone ? MAX(clock_ms() - n->gone_at, (int64_t)1) : 0;
    (void)pthread_mutex_unlock(&n->lock);
    return ms;
}

/* Entries that are none would be trusted by whoever finds them. */
static bool page_is_sane(const struct launcher_answer *page) {
    for (uint32_t i = 0; i < page->list.count; i++) {
        const struct engine_sandbox *s = &page->list.entries[i];
        if (memchr(s->id, '\0', sizeof s->id) == NULL || !id_is_valid(s->id) ||
            memchr(s->image, '\0', sizeof s->image) == NULL ||
            (s->image[0] != '\0' && !hex_is_valid(s->image)) || (unsigned)s->state > ENGINE_PAUSED)
            return false;
    }
    return true;
}

static int engine_list(struct engine *e, struct engine_sandbox **ret, size_t *ret_count,
                       struct cay_error *err) {
    _cleanup_(freep) struct engine_sandbox *all = NULL;
    size_t count = 0;
    struct launcher_answer page;
    do {
        int r = ask_about(e, LAUNCHER_LIST, count > 0 ? all[count - 1].id : "", &page, err);
        if (r < 0)
            return r;
        if (page.event != LAUNCHER_HAS_LIST || !page_is_sane(&page))
            return error_set(err, CAY_INTERNAL, "the launcher sent a list that is none");
        struct engine_sandbox *more = reallocarray(all, count + page.list.count + 1, sizeof *more);
        if (more == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        all = more;
        memcpy(all + count, page.list.entries, page.list.count * sizeof *all);
        count += page.list.count;
    } while (page.list.count == LAUNCHER_PAGE);
    *ret = TAKE_PTR(all);
    *ret_count = count;
    return 0;
}

/* ---- life ---- */

/* Ends the reader, if there is one; the socket is closed after it, so that it reads from no other.
 */
static void disconnect(struct native_engine *n) {
    if (n->sock >= 0)
        (void)shutdown(n->sock, SHUT_RDWR);
    if (n->reading)
        (void)pthread_join(n->reader, NULL);
    n->reading = false;
    fd_close(&n->sock);
}

/* A launcher takes over what lives with the first request about it, and tells of what has died
 * meanwhile. Nobody waits for the answer to this one. */
static void greet(const struct native_engine *n) {
    struct cay_error err;
    _cleanup_(freep) struct launcher_request *r =
        new_request(LAUNCHER_LIST, &(struct sandbox_spec){0}, &err);
    if (r != NULL)
        (void)fd_send(n->sock, r, launcher_request_size(0), NULL, 0); /* gone: the reader sees it */
}

static int connect_to(struct native_engine *n, int sock, struct cay_error *err) {
    n->sock = sock;
    n->reading = pthread_create(&n->reader, NULL, read_answers, n) == 0;
    if (n->reading) {
        greet(n);
        return 0;
    }
    fail_all(n);
    fd_close(&n->sock);
    return error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for the launcher's answers");
}

static void engine_close(struct engine *e) {
    struct native_engine *n = native_of(e);
    (void)pthread_mutex_lock(&n->sending);
    disconnect(n);
    (void)pthread_mutex_unlock(&n->sending);
    (void)pthread_mutex_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->sending);
    (void)pthread_cond_destroy(&n->changed);
    free(n);
}

static const struct engine_ops ops = {
    .start = engine_start,
    .stop = engine_stop,
    .pause = engine_pause,
    .resume = engine_resume,
    .remove = engine_remove,
    .resize = engine_resize,
    .volume_make = engine_volume_make,
    .volume_remove = engine_volume_remove,
    .stats = engine_stats,
    .usage = engine_usage,
    .once = engine_once,
    .once_end = engine_once_end,
    .archive = engine_archive,
    .unarchive = engine_unarchive,
    .snapshot = engine_snapshot,
    .list = engine_list,
    .gone_ms = engine_gone_ms,
    .close = engine_close,
};

static struct native_engine *new_engine(void (*ended)(void *user, const struct engine_end *end),
                                        void *user, struct cay_error *err) {
    struct native_engine *n = calloc(1, sizeof *n);
    if (n == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    n->engine = (struct engine){.ops = &ops, .ended = ended, .user = user};
    n->sock = -1;
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_mutex_init(&n->sending, NULL);
    (void)pthread_cond_init(&n->changed, NULL);
    return n;
}

int native_engine_open_later(const struct native_engine_source *source,
                             void (*ended)(void *user, const struct engine_end *end), void *user,
                             struct engine **ret, struct cay_error *err) {
    struct native_engine *n = new_engine(ended, user, err);
    if (n == NULL)
        return -CAY_RESOURCE_EXHAUSTED;
    n->source = *source;
    n->gone = true;
    n->gone_at = clock_ms();
    *ret = &n->engine;
    return 0;
}

int native_engine_open(int sock, void (*ended)(void *user, const struct engine_end *end),
                       void *user, struct engine **ret, struct cay_error *err) {
    struct native_engine *n = new_engine(ended, user, err);
    if (n == NULL) {
        (void)close(sock);
        return -CAY_RESOURCE_EXHAUSTED;
    }
    int r = connect_to(n, sock, err);
    if (r < 0) {
        engine_close(&n->engine);
        return r;
    }
    *ret = &n->engine;
    return 0;
}

int native_engine_reconnect(struct engine *e, int sock, struct cay_error *err) {
    struct native_engine *n = native_of(e);
    (void)pthread_mutex_lock(&n->sending);
    disconnect(n);
    (void)pthread_mutex_lock(&n->lock);
    n->gone = false;
    (void)pthread_mutex_unlock(&n->lock);
    int r = connect_to(n, sock, err);
    (void)pthread_mutex_unlock(&n->sending);
    return r;
}
