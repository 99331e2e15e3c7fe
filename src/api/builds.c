#include "api/builds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "api/build_file.h"
#include "api/images.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"

enum {
    RUNNING_MAX = 2, /* at the same time; the others wait */
    OWNER_MAX = 8,   /* not at their end, of one owner */
    UNFINISHED_MAX = 24,
    KEPT_MAX = 64, /* all, of which the oldest at their end go first */
    LOG_MAX = 1 << 20,
    CANCEL_LOOK_MS = 100,
    UNCLAIMED_MS = 60 * 1000, /* then a build that nobody runs counts as given up */
    LINE_SHOWN = 160,
};

#define PREFIX "cay-build/"
static const char cut_short[] = "\n… the log is longer than what is kept of it\n";

struct build {
    struct builds *all;
    struct build *next; /* older */
    unsigned references;
    char name[REFERENCE_TEXT_SIZE];
    char owner[OWNER_SIZE];
    bool is_snapshot;
    char *dockerfile;
    enum build_state state;
    bool has_runner;
    char reason[SANDBOX_TEXT_SIZE];
    int64_t created_ms, updated_ms, born; /* born: monotonic */
    struct buf log;
    int cancel;
    int contexts; /* -1: none */
    int file;     /* where it is kept; -1: nowhere */
    char file_name[ID_SIZE];
};

struct builds {
    const struct image_ops *ops;
    pthread_mutex_t lock; /* of all that follows, and of every build */
    pthread_cond_t changed;
    struct build *first; /* newest first */
    int folder;          /* where they are kept; -1: nowhere */
    unsigned running;
};

/* ---- the table; with the lock held ---- */

static void put(struct build *one) {
    if (--one->references > 0)
        return;
    fd_close(&one->cancel);
    fd_close(&one->contexts);
    fd_close(&one->file);
    buf_free(&one->log);
    free(one->dockerfile);
    free(one);
}

static bool is_finished(const struct build *one) {
    return one->state == BUILD_DONE || one->state == BUILD_FAILED;
}

static struct build *find(const struct builds *b, const char *name) {
    struct build *one = b->first;
    while (one != NULL && !str_equal(one->name, name))
        one = one->next;
    return one;
}

static void forget(struct builds *b, struct build *one) {
    struct build **at = &b->first;
    while (*at != NULL && *at != one)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = one->next;
    if (one->file >= 0)
        (void)unlinkat(b->folder, one->file_name, 0);
    fd_close(&one->file);
    put(one);
}

static void look(const struct build *one, struct build_view *ret) {
    *ret = (struct build_view){
        .state = one->state, .created_ms = one->created_ms, .updated_ms = one->updated_ms};
    memcpy(ret->name, one->name, sizeof ret->name);
    memcpy(ret->reason, one->reason, sizeof ret->reason);
}

/* As it is now, to the disk. */
static void keep(const struct build *one) {
    struct build_note n = {.is_snapshot = one->is_snapshot};
    look(one, &n.view);
    memcpy(n.owner, one->owner, sizeof n.owner);
    build_file_note(one->file, &n);
}

/* What no runner came for within a minute, since its sandbox was removed before. */
static bool is_unclaimed(const struct build *one) {
    return !one->has_runner && !is_finished(one) && clock_ms() - one->born > UNCLAIMED_MS;
}

static void make_room(struct builds *b) {
    size_t count = 0;
    for (struct build *one = b->first, *next; one != NULL; one = next) {
        next = one->next;
        if (is_unclaimed(one) || (++count >= KEPT_MAX && is_finished(one)))
            forget(b, one);
    }
}

static int check_limits(const struct builds *b, const char *owner, struct cay_error *err) {
    size_t all = 0, own = 0;
    for (const struct build *one = b->first; one != NULL; one = one->next) {
        all += !is_finished(one);
        own += !is_finished(one) && str_equal(one->owner, owner);
    }
    if (own < OWNER_MAX && all < UNFINISHED_MAX)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "%zu builds are under way or waiting already",
              own < OWNER_MAX ? all : own);
    return error_remedy(err, "wait for some of them");
}

static int check_name(struct builds *b, const char *name, struct cay_error *err) {
    struct build *before = find(b, name);
    if (before == NULL)
        return 0;
    if (is_finished(before)) {
        forget(b, before);
        return 0;
    }
    error_set(err, CAY_CONFLICT, "'%.200s' is being built already", name);
    return error_remedy(err, "wait for it, or delete it");
}

static int admit(struct builds *b, struct build *one, struct cay_error *err) {
    make_room(b);
    int r = check_limits(b, one->owner, err);
    if (r == 0)
        r = check_name(b, one->name, err);
    if (r < 0)
        return r;
    one->next = b->first;
    b->first = one;
    one->file = build_file_make(b->folder, one->file_name);
    keep(one);
    return 0;
}

/* ---- those of before ---- */

static void append_log(struct build *one, const char *data, size_t len) {
    size_t at = one->log.len;
    if (buf_append(&one->log, data, len) == 0)
        build_file_log(one->file, at, data, len);
}

/* Newest first. */
static void insert(struct builds *b, struct build *one) {
    struct build **at = &b->first;
    while (*at != NULL && (*at)->created_ms > one->created_ms)
        at = &(*at)->next;
    one->next = *at;
    *at = one;
}

static void give_up(struct build *one) {
    static const char line[] = "error: the daemon ended while it was being built\n";
    if (is_finished(one))
        return;
    one->state = BUILD_FAILED;
    one->updated_ms = clock_wall_ms();
    (void)snprintf(one->reason, sizeof one->reason,
                   "the daemon ended while it was being built; ask for it again");
    append_log(one, line, strlen(line));
    keep(one);
}

static int load_one(void *user, int folder, const char *name) {
    struct builds *b = user;
    struct build_note n;
    struct build *one = calloc(1, sizeof *one);
    if (one == NULL)
        return 0;
    *one = (struct build){.all = b, .references = 1, .cancel = -1, .contexts = -1, .file = -1};
    one->log = BUF_INIT(LOG_MAX + sizeof cut_short + LINE_SHOWN);
    if (id_is_valid(name))
        one->file = build_file_open(folder, name, &n, &one->log);
    if (one->file < 0) {
        (void)unlinkat(folder, name, 0); /* nothing that we wrote */
        put(one);
        return 0;
    }
    memcpy(one->file_name, name, ID_SIZE);
    memcpy(one->name, n.view.name, sizeof one->name);
    memcpy(one->owner, n.owner, sizeof one->owner);
    memcpy(one->reason, n.view.reason, sizeof one->reason);
    one->is_snapshot = n.is_snapshot;
    one->state = n.view.state;
    one->created_ms = n.view.created_ms;
    one->updated_ms = n.view.updated_ms;
    give_up(one);
    insert(b, one);
    return 0;
}

int builds_keep(struct builds *b, const char *folder, struct cay_error *err) {
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of builds");
    b->folder = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (b->folder < 0)
        return error_errno(err, "opening the folder of builds");
    int r = path_each(b->folder, load_one, b);
    return r < 0 ? error_sys(err, -r, "reading the folder of builds") : 0;
}

/* ---- making them ---- */

int builds_new(const struct image_ops *ops, struct builds **ret, struct cay_error *err) {
    pthread_condattr_t attr;
    struct builds *b = calloc(1, sizeof *b);
    if (b == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    b->ops = ops;
    b->folder = -1;
    (void)pthread_mutex_init(&b->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&b->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    *ret = b;
    return 0;
}

/* With the lock held. */
static void wait_for_runner(struct build *one) {
    while (one->has_runner)
        (void)pthread_cond_wait(&one->all->changed, &one->all->lock);
}

void builds_free(struct builds *b) {
    (void)pthread_mutex_lock(&b->lock);
    while (b->first != NULL) {
        (void)eventfd_write(b->first->cancel, 1);
        wait_for_runner(b->first);
        forget(b, b->first);
    }
    (void)pthread_mutex_unlock(&b->lock);
    fd_close(&b->folder);
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

static int make_name(char name[static REFERENCE_TEXT_SIZE], struct cay_error *err) {
    char a[ID_SIZE], b[ID_SIZE];
    int r = id_new(a, err);
    if (r == 0)
        r = id_new(b, err);
    if (r == 0)
        (void)snprintf(name, REFERENCE_TEXT_SIZE, PREFIX "%s%s", a, b);
    return r;
}

static int fill(struct build *one, const char *owner, const char *name, const char *dockerfile,
                struct cay_error *err) {
    one->references = 1;
    one->contexts = one->file = -1;
    one->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    one->log = BUF_INIT(LOG_MAX + sizeof cut_short + LINE_SHOWN);
    one->created_ms = one->updated_ms = clock_wall_ms();
    one->born = clock_ms();
    one->is_snapshot = name[0] != '\0';
    one->dockerfile = strdup(dockerfile);
    if (one->cancel < 0 || one->dockerfile == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (str_copy(one->owner, sizeof one->owner, owner) < 0 ||
        str_copy(one->name, sizeof one->name, name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name is too long");
    return one->is_snapshot ? 0 : make_name(one->name, err);
}

int builds_add(struct builds *b, const char *owner, const char *name, const char *dockerfile,
               struct build **ret, struct cay_error *err) {
    struct build *one = calloc(1, sizeof *one);
    if (one == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    one->all = b;
    int r = fill(one, owner, name, dockerfile, err);
    (void)pthread_mutex_lock(&b->lock);
    if (r == 0)
        r = admit(b, one, err);
    if (r == 0) {
        one->references++;
        *ret = one;
    } else {
        put(one);
    }
    (void)pthread_mutex_unlock(&b->lock);
    return r;
}

void build_give_contexts(struct build *one, int contexts) {
    one->contexts = contexts;
}

bool builds_is_name(const char *image_name) {
    return str_starts(image_name, PREFIX);
}

/* ---- the log ---- */

static void note(struct build *one, const char *data, size_t len) {
    (void)pthread_mutex_lock(&one->all->lock);
    size_t room = one->log.len < LOG_MAX ? LOG_MAX - one->log.len : 0;
    append_log(one, data, MIN(len, room));
    if (len > room && room > 0)
        append_log(one, cut_short, strlen(cut_short));
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
    while (one->log.len <= from && !is_finished(one) && clock_ms() < until)
        (void)pthread_cond_timedwait(&one->all->changed, &one->all->lock, &at);
    size_t n = one->log.len > from ? MIN(one->log.len - from, size) : 0;
    if (n > 0)
        memcpy(data, one->log.data + from, n);
    bool ended = is_finished(one);
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
    struct image_build_order order = {.name = one->is_snapshot ? one->name : "",
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

/* With the lock held: true once it is one of those that run. */
static bool take_place(struct build *one) {
    if (one->state == BUILD_PENDING && one->all->running < RUNNING_MAX) {
        one->all->running++;
        one->state = BUILD_RUNNING;
        one->updated_ms = clock_wall_ms();
        keep(one);
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
    if (result < 0) {
        (void)snprintf(one->reason, sizeof one->reason, "%.320s%s%s", err->message,
                       line[0] != '\0' ? "; its log ends with: " : "", line);
    }
    one->updated_ms = clock_wall_ms();
    keep(one);
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
    put(one);
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
    struct build *one = find(b, name);
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
    look(one, ret_view);
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

/* ---- looking ---- */

static bool may_see(const struct key *caller, const struct build *one) {
    return key_sees_all(caller) || str_equal(one->owner, caller->id);
}

struct build *builds_find(struct builds *b, const struct key *caller, const char *name) {
    (void)pthread_mutex_lock(&b->lock);
    struct build *one = find(b, name);
    if (one != NULL && !may_see(caller, one))
        one = NULL;
    if (one != NULL)
        one->references++;
    (void)pthread_mutex_unlock(&b->lock);
    return one;
}

void builds_each(struct builds *b, const struct key *caller,
                 void (*fn)(void *user, const struct build_view *view), void *user) {
    (void)pthread_mutex_lock(&b->lock);
    for (const struct build *one = b->first; one != NULL; one = one->next) {
        struct build_view view;
        if (!one->is_snapshot || one->state == BUILD_DONE || !may_see(caller, one))
            continue;
        look(one, &view);
        fn(user, &view);
    }
    (void)pthread_mutex_unlock(&b->lock);
}

void build_look(struct build *one, struct build_view *ret) {
    (void)pthread_mutex_lock(&one->all->lock);
    look(one, ret);
    (void)pthread_mutex_unlock(&one->all->lock);
}

enum build_state builds_drop(struct build *one) {
    struct builds *b = one->all;
    (void)pthread_mutex_lock(&b->lock);
    (void)eventfd_write(one->cancel, 1); /* full: it was told before */
    wait_for_runner(one);
    enum build_state state = one->state;
    forget(b, one);
    (void)pthread_mutex_unlock(&b->lock);
    return state;
}

void build_unref(struct build *one) {
    struct builds *b = one->all;
    (void)pthread_mutex_lock(&b->lock);
    put(one);
    (void)pthread_mutex_unlock(&b->lock);
}
