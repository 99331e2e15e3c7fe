#include "imager/pull/pull_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "image/progress.h"
#include "imager/layer/layer.h"
#include "imager/pull/measure.h"
#include "imager/pull/pull_blobs.h"
#include "imager/pull/thread.h"
#include "imager/unpack/unpacker.h"

enum { LABEL_LEN = 12, PIPE_SIZE = 1024 * 1024 };

#define NO_BLOB SIZE_MAX

struct job {
    const struct image_store *store;
    struct progress *progress;
    struct image_record *record;
    struct pull_blobs *blobs;
    struct unpacker unpacker;
    unsigned items[RECORD_LAYERS_MAX]; /* of the progress, for each layer */
    size_t index[RECORD_LAYERS_MAX];   /* in the blobs, for each layer; NO_BLOB: it is there */
    bool retry;                        /* what failed may go well the next time */
};

/* ---- one layer ---- */

/* What a thread needs to hand a blob to the unpacker. */
struct feeder {
    struct job *job;
    size_t blob;
    int fd;
};

/* How it ended is seen at the blob itself. */
static void *feed(void *arg) {
    struct feeder *f = arg;
    (void)pull_blobs_feed(f->job->blobs, f->blob, f->fd, NULL);
    fd_close(&f->fd);
    return NULL;
}

struct watcher {
    struct progress *progress;
    unsigned item;
};

static void report(void *user, uint64_t bytes_in) {
    const struct watcher *w = user;
    progress_update(w->progress, w->item, "unpacking", bytes_in);
}

/* Unpacks a blob into root while it arrives. */
static int unpack_blob(struct job *job, size_t i, int root, struct unpack_result *ret,
                       struct cay_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    _cleanup_(closep) int in = ends[0];
    (void)fcntl(in, F_SETPIPE_SZ, PIPE_SIZE); /* a user's share may be used up: slower then */
    struct feeder feeder = {.job = job, .blob = job->index[i], .fd = ends[1]};
    pthread_t thread;
    int r = thread_start(&thread, feed, &feeder);
    if (r < 0) {
        fd_close(&feeder.fd);
        return error_sys(err, -r, "starting a thread");
    }
    struct watcher watcher = {job->progress, job->items[i]};
    progress_update(job->progress, job->items[i], "unpacking", 0);
    r = unpacker_run(&job->unpacker, in, root, report, &watcher, ret, err);
    fd_close(&in); /* ends the feeder, if it still has something */
    (void)pthread_join(thread, NULL);
    return r;
}

/* The blob as it was unpacked is the one that was asked for, and its content the one promised. */
static int check_result(struct job *job, size_t i, const struct unpack_result *result,
                        struct cay_error *err) {
    const struct record_layer *layer = &job->record->layers[i];
    if (!str_equal(result->blob, layer->blob) || result->blob_size != layer->blob_size) {
        job->retry = true; /* the download began anew in between, with other content */
        return error_set(err, CAY_UNAVAILABLE, "blob sha256:%.64s changed while it came",
                         layer->blob);
    }
    if (str_equal(result->diff_id, layer->diff_id))
        return 0;
    (void)error_set(err, CAY_INVALID_ARGUMENT,
                    "layer %zu unpacks to sha256:%.12s..., but the image's configuration says "
                    "sha256:%.64s",
                    i + 1, result->diff_id, layer->diff_id);
    return error_remedy(err, "the image is broken; ask whoever published it");
}

static int fill_layer(struct job *job, size_t i, int root, struct cay_error *err) {
    struct unpack_result result = {0};
    struct cay_error of_blob = {0};
    struct record_layer *layer = &job->record->layers[i];
    int r = unpack_blob(job, i, root, &result, err);
    /* What came wrong does not unpack either; then the download is to blame. */
    if (pull_blobs_verify(job->blobs, job->index[i], &of_blob) < 0) {
        if (err != NULL)
            *err = of_blob;
        return -(int)of_blob.code;
    }
    if (r < 0)
        return error_prefix(err, "layer %zu (sha256:%.12s)", i + 1, layer->blob);
    layer->size = result.bytes;
    layer->entries = result.entries;
    return check_result(job, i, &result, err);
}

static int make_layer(struct job *job, size_t i, struct cay_error *err) {
    struct record_layer *layers = job->record->layers;
    struct layer layer = LAYER_NONE;
    int r = layer_begin(job->store, layers, i, &layer, err);
    if (r < 0)
        return r;
    r = fill_layer(job, i, layer.root, err);
    if (r == 0)
        r = layer_commit(job->store, &layer, layers[i].chain, err);
    if (r < 0)
        layer_abandon(job->store, &layer);
    return r;
}

/* A layer that is there, by an earlier pull or another one at the same time. */
static int take_layer(const struct image_store *store, struct record_layer *layer,
                      struct cay_error *err) {
    _cleanup_(closep) int fs = image_store_open_layer(store, layer->chain, NULL);
    int r = fs < 0 ? fs : measure_tree(fs, &layer->size, &layer->entries);
    return r < 0 ? error_sys(err, -r, "looking at layer %.12s", layer->chain) : 0;
}

/* Whether the layer is here, as far as the owner may know: of what another owner fetched nobody
 * must learn by not having to wait for it. */
static bool is_here(const struct image_store *store, const struct record_layer *layer) {
    return image_store_knows(store, layer->chain) && image_store_has_layer(store, layer->chain);
}

static int bring_layer(struct job *job, size_t i, struct cay_error *err) {
    struct record_layer *layer = &job->record->layers[i];
    int r =
        is_here(job->store, layer) ? take_layer(job->store, layer, err) : make_layer(job, i, err);
    if (r == 0)
        progress_update(job->progress, job->items[i], "done", layer->blob_size);
    return r;
}

/* ---- all of them ---- */

/* The place of a blob in the list, which it is added to; one blob can be several layers. */
static size_t want_blob(struct pull_blob *list, size_t *count, const struct record_layer *layer,
                        unsigned item) {
    for (size_t i = 0; i < *count; i++)
        if (str_equal(list[i].blob.hex, layer->blob))
            return i;
    struct descriptor *d = &list[*count].blob;
    d->size = layer->blob_size;
    memcpy(d->hex, layer->blob, HEX_SIZE);
    memcpy(d->media_type, layer->media_type, sizeof d->media_type);
    list[*count].item = item;
    return (*count)++;
}

/* The blob of a layer that is there may never have been here: it came by another way. */
static void forget_missing_blob(const struct image_store *store, struct record_layer *layer) {
    _cleanup_(closep) int fd = image_store_open_blob(store, layer->blob);
    if (fd >= 0)
        return;
    layer->blob[0] = layer->media_type[0] = '\0';
    layer->blob_size = 0;
}

/* Fills job->index and the list of blobs to get. */
static int plan(struct job *job, struct pull_blob *list, size_t *count, struct cay_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < job->record->layer_count; i++) {
        struct record_layer *layer = &job->record->layers[i];
        job->index[i] = NO_BLOB;
        if (!is_here(job->store, layer)) {
            job->index[i] = want_blob(list, count, layer, job->items[i]);
            continue;
        }
        r = take_layer(job->store, layer, err);
        progress_update(job->progress, job->items[i], "exists", layer->blob_size);
    }
    return r;
}

static int attempt(struct job *job, struct registry *registry, struct cay_error *err) {
    size_t count = 0;
    job->retry = false;
    _cleanup_(freep) struct pull_blob *list = calloc(RECORD_LAYERS_MAX, sizeof *list);
    if (list == NULL)
        return error_sys(err, ENOMEM, "pulling an image");
    int r = plan(job, list, &count, err);
    if (r < 0 || count == 0)
        return r;
    r = pull_blobs_start(job->store, registry, job->progress, list, count, &job->blobs, err);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < job->record->layer_count; i++)
        if (job->index[i] != NO_BLOB)
            r = bring_layer(job, i, err);
    if (r == 0)
        r = pull_blobs_finish(job->blobs, err);
    job->retry = job->retry || pull_blobs_spoiled(job->blobs);
    pull_blobs_stop(TAKE_PTR(job->blobs));
    return r;
}

int pull_layers(const struct image_store *store, struct registry *registry,
                struct progress *progress, struct image_record *record, struct cay_error *err) {
    struct job job = {
        .store = store, .progress = progress, .record = record, .unpacker = UNPACKER_NONE};
    for (size_t i = 0; i < record->layer_count; i++) {
        char label[LABEL_LEN + 1];
        (void)snprintf(label, sizeof label, "%.*s", LABEL_LEN, record->layers[i].blob);
        job.items[i] = progress_item(progress, label, record->layers[i].blob_size);
    }
    int r = unpacker_start(&job.unpacker, err);
    if (r == 0)
        r = attempt(&job, registry, err);
    if (r < 0 && job.retry)
        r = attempt(&job, registry, err);
    unpacker_stop(&job.unpacker);
    for (size_t i = 0; r == 0 && i < record->layer_count; i++)
        forget_missing_blob(store, &record->layers[i]);
    return r;
}
