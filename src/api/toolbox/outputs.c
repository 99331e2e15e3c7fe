#include "api/toolbox/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/record/key.h"

enum { COUNT_MAX = 64 };

const struct outputs_rules outputs_rules = {.one_bytes = UINT64_C(256) << 20,
                                            .owner_bytes = UINT64_C(512) << 20,
                                            .all_bytes = UINT64_C(1) << 30,
                                            .keep_ms = 10 * 60 * 1000};

struct entry {
    char id[ID_SIZE]; /* "": nothing is here */
    char owner[OWNER_SIZE];
    uint64_t size;
    int64_t expires_ms; /* 0: it is being written */
};

struct outputs {
    int folder;
    struct outputs_rules rules;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t sweeper; /* from the first one on */
    bool has_sweeper, ends;
    struct entry entries[COUNT_MAX];
};

static int drop_file(void *user, int folder, const char *name) {
    (void)user;
    return path_remove_tree(folder, name);
}

static void init_condition(pthread_cond_t *c) {
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as clock_ms() */
    (void)pthread_cond_init(c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

int outputs_open(const char *folder, const struct outputs_rules *rules, struct outputs **ret,
                 struct cay_error *err) {
    struct outputs *o = calloc(1, sizeof *o);
    if (o == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    o->rules = *rules;
    (void)pthread_mutex_init(&o->lock, NULL);
    init_condition(&o->changed);
    int r = mkdir(folder, 0700) < 0 && errno != EEXIST ? -errno : 0;
    o->folder = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 && o->folder < 0)
        r = -errno;
    if (r == 0)
        r = path_each(o->folder, drop_file, NULL);
    if (r < 0) {
        outputs_free(o);
        return error_storage(err, -r, "opening the folder of long outputs");
    }
    *ret = o;
    return 0;
}

void outputs_free(struct outputs *o) {
    (void)pthread_mutex_lock(&o->lock);
    o->ends = true;
    (void)pthread_cond_signal(&o->changed);
    (void)pthread_mutex_unlock(&o->lock);
    if (o->has_sweeper)
        (void)pthread_join(o->sweeper, NULL);
    fd_close(&o->folder);
    (void)pthread_cond_destroy(&o->changed);
    (void)pthread_mutex_destroy(&o->lock);
    free(o);
}

/* ---- budgets ---- */

/* With the lock. What is being written does not count yet: one_bytes bounds it. */
static void report(struct outputs *o, const char *owner) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < COUNT_MAX; i++)
        if (o->entries[i].expires_ms != 0 && str_equal(o->entries[i].owner, owner))
            bytes += o->entries[i].size;
    if (o->rules.changed != NULL)
        o->rules.changed(o->rules.user, owner, bytes);
}

/* ---- the end of their time ---- */

/* With the lock. When the next one has to go; 0: there is none. */
static int64_t sweep(struct outputs *o) {
    int64_t next = 0;
    for (size_t i = 0; i < COUNT_MAX; i++) {
        struct entry *e = &o->entries[i];
        if (e->id[0] == '\0' || e->expires_ms == 0)
            continue;
        if (clock_expired(e->expires_ms)) {
            (void)unlinkat(o->folder, e->id, 0); /* nobody else removes it */
            const struct entry gone = *e;
            *e = (struct entry){0};
            report(o, gone.owner);
        } else {
            next = clock_earlier(next, e->expires_ms);
        }
    }
    return next;
}

static void *sweep_all(void *arg) {
    struct outputs *o = arg;
    (void)pthread_mutex_lock(&o->lock);
    while (!o->ends) {
        int64_t next = sweep(o);
        const struct timespec when = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000};
        if (next == 0)
            (void)pthread_cond_wait(&o->changed, &o->lock);
        else
            (void)pthread_cond_timedwait(&o->changed, &o->lock, &when);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* With the lock. Without a thread they go when the next one comes. */
static void have_swept(struct outputs *o) {
    if (!o->has_sweeper)
        o->has_sweeper = pthread_create(&o->sweeper, NULL, sweep_all, o) == 0;
    (void)pthread_cond_signal(&o->changed);
}

/* ---- writing ---- */

static struct entry *find(struct outputs *o, const char *id) {
    for (size_t i = 0; i < COUNT_MAX; i++)
        if (str_equal(o->entries[i].id, id))
            return &o->entries[i];
    return NULL;
}

/* NULL if this owner has as many as are free: half of them alone, half of what is left beside
 * another who does the same. */
static struct entry *find_place(struct outputs *o, const char *owner) {
    size_t own = 0, free_places = 0;
    for (size_t i = 0; i < COUNT_MAX; i++) {
        bool is_free = o->entries[i].id[0] == '\0';
        free_places += is_free;
        own += !is_free && str_equal(o->entries[i].owner, owner);
    }
    return own < free_places ? find(o, "") : NULL;
}

void output_begin(struct outputs *o, const char *owner, struct output *ret) {
    struct cay_error ignored; /* then there is none */
    *ret = OUTPUT_NONE;
    ret->all = o;
    char id[ID_SIZE];
    if ((o->rules.left != NULL && o->rules.left(o->rules.user, owner) == 0) ||
        id_new(id, &ignored) < 0)
        return;
    (void)pthread_mutex_lock(&o->lock);
    (void)sweep(o);
    struct entry *e = find_place(o, owner);
    if (e != NULL) {
        ret->fd = openat(o->folder, id, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (ret->fd >= 0) {
            (void)snprintf(e->owner, sizeof e->owner, "%s", owner);
            memcpy(e->id, id, sizeof id);
            memcpy(ret->id, id, sizeof id);
        }
    }
    (void)pthread_mutex_unlock(&o->lock);
}

/* Takes as much room as there is, at most len. */
static size_t take_room(struct outputs *o, const char *id, size_t len) {
    uint64_t all = 0, own = 0, room = 0;
    (void)pthread_mutex_lock(&o->lock);
    struct entry *e = find(o, id);
    for (size_t i = 0; e != NULL && i < COUNT_MAX; i++) {
        all += o->entries[i].size;
        own += str_equal(o->entries[i].owner, e->owner) ? o->entries[i].size : 0;
    }
    if (e != NULL) {
        room = MIN(o->rules.all_bytes - MIN(o->rules.all_bytes, all),
                   o->rules.owner_bytes - MIN(o->rules.owner_bytes, own));
        room = MIN(room, o->rules.one_bytes - MIN(o->rules.one_bytes, e->size));
        room = MIN(room, (uint64_t)len);
        e->size += room;
    }
    (void)pthread_mutex_unlock(&o->lock);
    return (size_t)room;
}

void output_add(struct output *w, const char *data, size_t len) {
    if (w->id[0] == '\0' || w->is_cut)
        return;
    size_t room = take_room(w->all, w->id, len);
    bool is_full = fd_write_all(w->fd, data, room) < 0; /* the disk; some of it may be there */
    w->is_cut = is_full || room < len;
    w->size += is_full ? 0 : room;
}

void output_end(struct output *w, bool keeps) {
    if (w->id[0] != '\0') {
        int64_t now = clock_ms();
        (void)pthread_mutex_lock(&w->all->lock);
        struct entry *e = find(w->all, w->id);
        e->expires_ms = keeps ? now + w->all->rules.keep_ms : now;
        report(w->all, e->owner);
        (void)sweep(w->all);
        have_swept(w->all);
        (void)pthread_mutex_unlock(&w->all->lock);
    }
    fd_close(&w->fd);
}

/* ---- reading ---- */

int outputs_find(struct outputs *o, const struct key *caller, const char *id, uint64_t *ret_bytes,
                 struct cay_error *err) {
    int fd = -1;
    struct stat st;
    (void)pthread_mutex_lock(&o->lock);
    const struct entry *e = id_is_valid(id) ? find(o, id) : NULL;
    if (e != NULL && e->expires_ms != 0 && !clock_expired(e->expires_ms) &&
        (key_sees_all(caller) || str_equal(e->owner, key_owner(caller))))
        fd = openat(o->folder, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    (void)pthread_mutex_unlock(&o->lock);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        *ret_bytes = (uint64_t)st.st_size;
        return fd;
    }
    fd_close(&fd);
    error_set(err, CAY_NOT_FOUND, "there is no such output");
    return error_remedy(err, "it is kept for %lld minutes: run the program again",
                        (long long)(o->rules.keep_ms / 60000));
}
