#include "api/build/builds_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "api/build/build_file.h"
#include "api/images.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

enum {
    KEPT_MAX = 64,            /* all, of which the oldest at their end go first */
    UNCLAIMED_MS = 60 * 1000, /* then a build that nobody runs counts as given up */
};

#define PREFIX "cay-build/"

/* ---- the table; with the lock held ---- */

void build_put(struct build *one) {
    if (--one->references > 0)
        return;
    fd_close(&one->cancel);
    fd_close(&one->contexts);
    fd_close(&one->file);
    buf_free(&one->log);
    free(one->dockerfile);
    free(one);
}

bool build_is_finished(const struct build *one) {
    return one->state == BUILD_DONE || one->state == BUILD_FAILED;
}

struct build *builds_lookup(const struct builds *b, const char *owner, const char *name) {
    struct build *one = b->first;
    while (one != NULL &&
           !(str_equal(one->name, name) && (owner == NULL || str_equal(one->owner, owner))))
        one = one->next;
    return one;
}

static const char *payer(const struct build *one) {
    return one->made_by[0] != '\0' ? one->made_by : one->owner;
}

static int charge(struct build *one, struct cay_error *err) {
    const struct image_ops *ops = one->all->ops;
    int r = ops->take_build == NULL ? 0 : ops->take_build(ops->user, payer(one), err);
    one->is_charged = r == 0 && ops->take_build != NULL;
    return r;
}

void build_discharge(struct build *one) {
    const struct image_ops *ops = one->all->ops;
    if (one->is_charged)
        ops->give_build(ops->user, payer(one));
    one->is_charged = false;
}

static void forget(struct builds *b, struct build *one) {
    struct build **at = &b->first;
    while (*at != NULL && *at != one)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = one->next;
    build_discharge(one);
    if (one->file >= 0)
        (void)unlinkat(b->folder, one->file_name, 0);
    fd_close(&one->file);
    build_put(one);
}

void build_show(const struct build *one, struct build_view *ret) {
    *ret = (struct build_view){
        .state = one->state, .created_ms = one->created_ms, .updated_ms = one->updated_ms};
    memcpy(ret->name, one->name, sizeof ret->name);
    memcpy(ret->reason, one->reason, sizeof ret->reason);
}

void build_keep(const struct build *one) {
    struct build_note n = {.is_snapshot = one->is_snapshot};
    build_show(one, &n.view);
    memcpy(n.owner, one->owner, sizeof n.owner);
    build_file_note(one->file, &n);
}

void build_append_log(struct build *one, const char *data, size_t len) {
    size_t at = one->log.len;
    if (buf_append(&one->log, data, len) == 0)
        build_file_log(one->file, at, data, len);
}

/* What no runner came for within a minute, since its sandbox was removed before. */
static bool is_unclaimed(const struct build *one) {
    return !one->has_runner && !build_is_finished(one) && clock_ms() - one->born > UNCLAIMED_MS;
}

static void make_room(struct builds *b) {
    size_t count = 0;
    for (struct build *one = b->first, *next; one != NULL; one = next) {
        next = one->next;
        if (is_unclaimed(one) || (++count >= KEPT_MAX && build_is_finished(one)))
            forget(b, one);
    }
}

static int check_name(struct builds *b, const char *owner, const char *name,
                      struct cay_error *err) {
    struct build *before = builds_lookup(b, owner, name);
    if (before == NULL)
        return 0;
    if (build_is_finished(before)) {
        forget(b, before);
        return 0;
    }
    error_set(err, CAY_CONFLICT, "'%.200s' is being built already", name);
    return error_remedy(err, "wait for it, or delete it");
}

static int admit(struct builds *b, struct build *one, struct cay_error *err) {
    make_room(b);
    int r = check_name(b, one->owner, one->name, err);
    if (r == 0)
        r = charge(one, err);
    if (r < 0)
        return r;
    one->next = b->first;
    b->first = one;
    one->file = build_file_make(b->folder, one->file_name);
    build_keep(one);
    return 0;
}

/* ---- those of before ---- */

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
    if (build_is_finished(one))
        return;
    one->state = BUILD_FAILED;
    one->updated_ms = clock_wall_ms();
    (void)snprintf(one->reason, sizeof one->reason,
                   "the daemon ended while it was being built; ask for it again");
    build_append_log(one, line, strlen(line));
    build_keep(one);
}

static int load_one(void *user, int folder, const char *name) {
    struct builds *b = user;
    struct build_note n;
    struct build *one = calloc(1, sizeof *one);
    if (one == NULL)
        return 0;
    *one = (struct build){.all = b, .references = 1, .cancel = -1, .contexts = -1, .file = -1};
    one->log = BUF_INIT(BUILD_LOG_MAX + BUILD_LOG_END);
    if (id_is_valid(name))
        one->file = build_file_open(folder, name, &n, &one->log);
    if (one->file < 0) {
        (void)unlinkat(folder, name, 0); /* nothing that we wrote */
        build_put(one);
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

static int fill(struct build *one, const char *owner, const char *made_by, const char *name,
                const char *dockerfile, struct cay_error *err) {
    one->references = 1;
    one->contexts = one->file = -1;
    one->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    one->log = BUF_INIT(BUILD_LOG_MAX + BUILD_LOG_END);
    one->created_ms = one->updated_ms = clock_wall_ms();
    one->born = clock_ms();
    one->is_snapshot = name[0] != '\0';
    one->dockerfile = strdup(dockerfile);
    if (one->cancel < 0 || one->dockerfile == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (str_copy(one->owner, sizeof one->owner, owner) < 0 ||
        str_copy(one->made_by, sizeof one->made_by, made_by) < 0 ||
        str_copy(one->name, sizeof one->name, name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name is too long");
    return one->is_snapshot ? 0 : make_name(one->name, err);
}

int builds_add(struct builds *b, const char *owner, const char *made_by, const char *name,
               const char *dockerfile, struct build **ret, struct cay_error *err) {
    struct build *one = calloc(1, sizeof *one);
    if (one == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    one->all = b;
    int r = fill(one, owner, made_by, name, dockerfile, err);
    (void)pthread_mutex_lock(&b->lock);
    if (r == 0)
        r = admit(b, one, err);
    if (r == 0) {
        one->references++;
        *ret = one;
    } else {
        build_put(one);
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

/* ---- looking ---- */

static bool may_see(const struct key *caller, const struct build *one) {
    return key_sees_all(caller) || str_equal(one->owner, key_owner(caller));
}

struct build *builds_find(struct builds *b, const struct key *caller, const char *name) {
    (void)pthread_mutex_lock(&b->lock);
    bool sees_all = key_sees_all(caller);
    struct build *one = builds_lookup(b, sees_all ? "" : key_owner(caller), name);
    if (one == NULL && sees_all)
        one = builds_lookup(b, NULL, name);
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
        build_show(one, &view);
        fn(user, &view);
    }
    (void)pthread_mutex_unlock(&b->lock);
}

void build_look(struct build *one, struct build_view *ret) {
    (void)pthread_mutex_lock(&one->all->lock);
    build_show(one, ret);
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
    build_put(one);
    (void)pthread_mutex_unlock(&b->lock);
}
