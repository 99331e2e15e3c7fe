#include "imager/pull/pull_blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/progress.h"
#include "imager/layer/digest.h"
#include "imager/pull/thread.h"

enum { THREADS_MAX = 4, CHUNK = 256 * 1024 };

enum blob_state { BLOB_COMING, BLOB_VERIFIED, BLOB_STORED };

/* All but `blob` and `item` is guarded by the lock of the whole. */
struct download {
    struct descriptor blob;
    unsigned item;
    enum blob_state state;
    int fd;           /* to read; an open file of its own, without the lock of the store's */
    uint64_t ready;   /* bytes of it that can be read */
    unsigned restart; /* counts how often it began anew */
    bool followed;    /* somebody reads it, and tells the progress */
};

struct pull_blobs {
    const struct image_store *store;
    struct progress *progress;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct download *list;
    size_t count, next;
    bool stopped; /* by the caller, or since one failed */
    bool spoiled;
    struct cay_error err; /* of the first that failed; code 0 if none did */
    struct worker {
        struct pull_blobs *owner;
        struct registry *registry;
        pthread_t thread;
    } workers[THREADS_MAX];
    size_t worker_count;
};

/* What one thread needs while it gets one blob. */
struct transfer {
    struct pull_blobs *owner;
    struct download *download;
    struct blob_work work;
    struct digest *digest;
    uint64_t done;
};

/* ---- state ---- */

static bool is_stopped(struct pull_blobs *b) {
    (void)pthread_mutex_lock(&b->lock);
    bool stopped = b->stopped;
    (void)pthread_mutex_unlock(&b->lock);
    return stopped;
}

/* The first error counts: those after it come from stopping. */
static void fail(struct pull_blobs *b, const struct cay_error *err) {
    (void)pthread_mutex_lock(&b->lock);
    if (!b->stopped)
        b->err = *err;
    b->stopped = true;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

static void set_state(struct pull_blobs *b, struct download *d, enum blob_state state) {
    (void)pthread_mutex_lock(&b->lock);
    d->state = state;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

static void set_ready(struct transfer *t, uint64_t ready) {
    struct pull_blobs *b = t->owner;
    struct download *d = t->download;
    (void)pthread_mutex_lock(&b->lock);
    d->restart += ready < d->ready;
    d->ready = ready;
    bool followed = d->followed;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
    if (!followed)
        progress_update(b->progress, d->item, "downloading", ready);
}

static void set_file(struct transfer *t, int fd) {
    (void)pthread_mutex_lock(&t->owner->lock);
    t->download->fd = fd;
    (void)pthread_mutex_unlock(&t->owner->lock);
}

/* ---- one download ---- */

static int fail_writing(const struct transfer *t, int sys, struct cay_error *err) {
    (void)error_sys(err, sys, "writing blob sha256:%.12s", t->download->blob.hex);
    if (sys == ENOSPC || sys == EDQUOT)
        return error_remedy(err, "free space where the images are (cay image prune), and pull "
                                 "again: it goes on where it stopped");
    return -(int)err->code;
}

static int sink_write(void *user, const void *data, size_t len, struct cay_error *err) {
    struct transfer *t = user;
    if (is_stopped(t->owner))
        return error_set(err, CAY_CONFLICT, "the pull was stopped");
    int r = fd_write_all(t->work.fd, data, len);
    if (r < 0)
        return fail_writing(t, -r, err);
    digest_update(t->digest, data, len);
    t->done += len;
    set_ready(t, t->done);
    return 0;
}

/* Begins the file and its digest anew. */
static int sink_restart(void *user, struct cay_error *err) {
    struct transfer *t = user;
    digest_free(t->digest);
    t->digest = digest_new();
    if (t->digest == NULL)
        return error_sys(err, ENOMEM, "hashing a blob");
    t->done = 0;
    set_ready(t, 0);
    if (ftruncate(t->work.fd, 0) < 0 || lseek(t->work.fd, 0, SEEK_SET) < 0)
        return fail_writing(t, errno, err);
    return 0;
}

/* What an earlier download left counts as if it came again. */
static int take_prefix(struct transfer *t, struct cay_error *err) {
    if (t->work.offset > t->download->blob.size)
        return sink_restart(t, err);
    _cleanup_(freep) char *chunk = malloc(CHUNK);
    if (chunk == NULL)
        return error_sys(err, ENOMEM, "hashing a blob");
    while (t->done < t->work.offset) {
        ssize_t n = pread(t->work.fd, chunk, CHUNK, (off_t)t->done);
        if (n <= 0)
            return error_sys(err, n < 0 ? errno : EIO, "reading unfinished blob sha256:%.12s",
                             t->download->blob.hex);
        digest_update(t->digest, chunk, (size_t)n);
        t->done += (uint64_t)n;
        set_ready(t, t->done);
    }
    if (lseek(t->work.fd, (off_t)t->done, SEEK_SET) < 0)
        return fail_writing(t, errno, err);
    return 0;
}

static int check_digest(struct transfer *t, struct cay_error *err) {
    char hex[HEX_SIZE];
    digest_finish(t->digest, hex);
    if (str_equal(hex, t->download->blob.hex))
        return 0;
    image_store_leave_blob(t->owner->store, &t->work, false);
    (void)pthread_mutex_lock(&t->owner->lock);
    t->owner->spoiled = true;
    (void)pthread_mutex_unlock(&t->owner->lock);
    (void)error_set(err, CAY_UNAVAILABLE,
                    "blob sha256:%.64s came with other content (sha256:%.12s...)",
                    t->download->blob.hex, hex);
    return error_remedy(err, "the registry, or something on the way to it, is broken or hostile; "
                             "tell whoever runs it");
}

/* A second open file, since the lock goes with the first. */
static int open_to_read(int fd, struct cay_error *err) {
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int r = open(path, O_RDONLY | O_CLOEXEC);
    return r < 0 ? error_errno(err, "opening an unfinished blob to read") : r;
}

static int get_rest(struct transfer *t, struct registry *registry, struct cay_error *err) {
    struct blob_sink sink = {.write = sink_write, .restart = sink_restart, .user = t};
    int fd = open_to_read(t->work.fd, err);
    if (fd < 0)
        return fd;
    set_file(t, fd);
    int r = take_prefix(t, err);
    if (r == 0 && t->done < t->download->blob.size)
        r = registry_get_blob(registry, &t->download->blob, t->done, &sink, err);
    if (r == 0)
        r = check_digest(t, err);
    if (r < 0)
        return r;
    set_state(t->owner, t->download, BLOB_VERIFIED);
    return image_store_commit_blob(t->owner->store, &t->work, err);
}

/* It is in the store already, but nobody has compared its size with what this manifest says. */
static int take_stored(struct transfer *t, struct cay_error *err) {
    const struct descriptor *blob = &t->download->blob;
    int fd = image_store_open_blob(t->owner->store, blob->hex);
    if (fd < 0)
        return error_sys(err, -fd, "opening blob sha256:%.12s", blob->hex);
    set_file(t, fd);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_errno(err, "blob sha256:%.12s", blob->hex);
    if ((uint64_t)st.st_size != blob->size)
        return error_set(err, CAY_INVALID_ARGUMENT,
                         "the manifest says that blob sha256:%.12s has %" PRIu64
                         " bytes, but it has %" PRIu64,
                         blob->hex, blob->size, (uint64_t)st.st_size);
    set_ready(t, blob->size);
    return 0;
}

static int get_blob(struct pull_blobs *b, struct download *d, struct registry *registry,
                    struct cay_error *err) {
    struct transfer t = {.owner = b, .download = d, .digest = digest_new()};
    if (t.digest == NULL)
        return error_sys(err, ENOMEM, "hashing a blob");
    int r = image_store_begin_blob(b->store, d->blob.hex, &t.work, err);
    if (r > 0)
        r = take_stored(&t, err);
    else if (r == 0) {
        r = get_rest(&t, registry, err);
        image_store_leave_blob(b->store, &t.work, true);
    }
    digest_free(t.digest);
    return r;
}

static void *work(void *arg) {
    struct worker *w = arg;
    struct pull_blobs *b = w->owner;
    for (;;) {
        (void)pthread_mutex_lock(&b->lock);
        size_t index = b->stopped ? b->count : b->next;
        b->next = index < b->count ? index + 1 : b->next;
        (void)pthread_mutex_unlock(&b->lock);
        if (index >= b->count)
            return NULL;
        struct cay_error err = {0};
        if (get_blob(b, &b->list[index], w->registry, &err) < 0)
            fail(b, &err);
        else
            set_state(b, &b->list[index], BLOB_STORED);
    }
}

/* ---- the whole ---- */

static int start_workers(struct pull_blobs *b, struct registry *registry, struct cay_error *err) {
    size_t count = MIN(b->count, (size_t)THREADS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct worker *w = &b->workers[i];
        w->owner = b;
        int r = registry_clone(registry, &w->registry, err);
        if (r < 0)
            return r;
        r = thread_start(&w->thread, work, w);
        if (r < 0) {
            registry_close(w->registry);
            return error_sys(err, -r, "starting a thread");
        }
        b->worker_count++;
    }
    return 0;
}

int pull_blobs_start(const struct image_store *store, struct registry *registry,
                     struct progress *progress, const struct pull_blob *list, size_t count,
                     struct pull_blobs **ret, struct cay_error *err) {
    struct pull_blobs *b = calloc(1, sizeof *b);
    if (b == NULL || (b->list = calloc(count + 1, sizeof *b->list)) == NULL) {
        free(b);
        return error_sys(err, ENOMEM, "pulling an image");
    }
    b->store = store;
    b->progress = progress;
    b->count = count;
    (void)pthread_mutex_init(&b->lock, NULL); /* neither can fail with these attributes */
    (void)pthread_cond_init(&b->changed, NULL);
    for (size_t i = 0; i < count; i++)
        b->list[i] = (struct download){.blob = list[i].blob, .item = list[i].item, .fd = -1};
    int r = start_workers(b, registry, err);
    if (r < 0)
        pull_blobs_stop(b);
    else
        *ret = b;
    return r;
}

void pull_blobs_stop(struct pull_blobs *b) {
    if (b == NULL)
        return;
    (void)pthread_mutex_lock(&b->lock);
    b->stopped = true;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
    for (size_t i = 0; i < b->worker_count; i++) {
        (void)pthread_join(b->workers[i].thread, NULL);
        registry_close(b->workers[i].registry);
    }
    for (size_t i = 0; i < b->count; i++)
        fd_close(&b->list[i].fd);
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
    free(b->list);
    free(b);
}

bool pull_blobs_spoiled(struct pull_blobs *b) {
    (void)pthread_mutex_lock(&b->lock);
    bool spoiled = b->spoiled;
    (void)pthread_mutex_unlock(&b->lock);
    return spoiled;
}

/* ---- waiting and reading ---- */

/* With the lock held. */
static int stop_error(const struct pull_blobs *b, struct cay_error *err) {
    if (b->err.code == CAY_OK)
        return error_set(err, CAY_CONFLICT, "the pull was stopped");
    if (err != NULL)
        *err = b->err;
    return -(int)b->err.code;
}

static int wait_for(struct pull_blobs *b, const struct download *d, enum blob_state state,
                    struct cay_error *err) {
    int r = 0;
    (void)pthread_mutex_lock(&b->lock);
    while (d->state < state && !b->stopped)
        (void)pthread_cond_wait(&b->changed, &b->lock);
    if (d->state < state)
        r = stop_error(b, err);
    (void)pthread_mutex_unlock(&b->lock);
    return r;
}

int pull_blobs_verify(struct pull_blobs *b, size_t index, struct cay_error *err) {
    return wait_for(b, &b->list[index], BLOB_VERIFIED, err);
}

int pull_blobs_finish(struct pull_blobs *b, struct cay_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < b->count; i++)
        r = wait_for(b, &b->list[i], BLOB_STORED, err);
    return r;
}

/* What can be read now, as it was under the lock. */
struct view {
    int fd;
    uint64_t ready;
    unsigned restart;
};

/* Waits for more than `position` bytes. */
static int wait_for_bytes(struct pull_blobs *b, struct download *d, uint64_t position,
                          struct view *ret, struct cay_error *err) {
    int r = 0;
    (void)pthread_mutex_lock(&b->lock);
    d->followed = true;
    while (d->ready <= position && !b->stopped)
        (void)pthread_cond_wait(&b->changed, &b->lock);
    if (d->ready <= position)
        r = stop_error(b, err);
    *ret = (struct view){.fd = d->fd, .ready = d->ready, .restart = d->restart};
    (void)pthread_mutex_unlock(&b->lock);
    return r;
}

static bool has_restarted(struct pull_blobs *b, const struct download *d, unsigned before) {
    (void)pthread_mutex_lock(&b->lock);
    bool restarted = d->restart != before;
    (void)pthread_mutex_unlock(&b->lock);
    return restarted;
}

int pull_blobs_feed(struct pull_blobs *b, size_t index, int fd, struct cay_error *err) {
    struct download *d = &b->list[index];
    _cleanup_(freep) char *chunk = malloc(CHUNK);
    if (chunk == NULL)
        return error_sys(err, ENOMEM, "reading a blob");
    for (uint64_t position = 0; position < d->blob.size;) {
        struct view v;
        int r = wait_for_bytes(b, d, position, &v, err);
        if (r < 0)
            return r;
        ssize_t n = pread(v.fd, chunk, MIN(v.ready - position, (uint64_t)CHUNK), (off_t)position);
        if (n == 0 && has_restarted(b, d, v.restart))
            continue;
        if (n <= 0)
            return error_sys(err, n < 0 ? errno : EIO, "reading blob sha256:%.12s", d->blob.hex);
        r = fd_write_all(fd, chunk, (size_t)n);
        if (r < 0)
            return r == -EPIPE ? 0 : error_sys(err, -r, "handing on a layer");
        position += (uint64_t)n;
    }
    return 0;
}
