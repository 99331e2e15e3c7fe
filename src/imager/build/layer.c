#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "imager/build/state.h"
#include "imager/layer/layer_tar.h"

/* layer_tar_write, which comes first, takes no deeper tree. */
enum { DEPTH_MAX = 512 };

const char *build_parent(const struct build_stage *s) {
    const struct image_record *record = s->record;
    return record->layer_count > 0 ? record->layers[record->layer_count - 1].chain : "";
}

/* ---- times ---- */

static int clamp_entry(int dir, const char *name, const struct stat *st, int64_t epoch) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = epoch}};
    if (st->st_mtim.tv_sec < epoch || (st->st_mtim.tv_sec == epoch && st->st_mtim.tv_nsec == 0))
        return 0;
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* What is newer than the layer's time gets that time, so that the files and their tar agree. */
static int clamp_times(int dir, int64_t epoch, unsigned depth) {
    if (depth > DEPTH_MAX)
        return -ELOOP;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    _cleanup_(closedirp) DIR *d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    const char *name;
    int r;
    while ((r = path_next(d, &name)) > 0) {
        struct stat st;
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (S_ISDIR(st.st_mode)) {
            _cleanup_(closep) int child =
                openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            r = child < 0 ? -errno : clamp_times(child, epoch, depth + 1);
            if (r < 0)
                return r;
        }
        r = clamp_entry(fd, name, &st, epoch);
        if (r < 0)
            return r;
    }
    return r;
}

/* ---- sealing ---- */

static int64_t layer_epoch(const struct build *b, const struct build_stage *s) {
    int64_t given = b->options->source_date_epoch;
    return MAX(given >= 0 ? given : s->epoch, (int64_t)1); /* 0 would leave times as they are */
}

static int add_layer(struct build_stage *s, const struct instruction *in,
                     const struct record_layer *layer, struct cay_error *err) {
    struct record_layer *to = record_add_layer(s->record);
    if (to == NULL && s->record->layer_count >= RECORD_LAYERS_MAX) {
        (void)build_refuse(in, err, "the image has more than %d layers", RECORD_LAYERS_MAX);
        return error_remedy(err, "join several RUN or COPY instructions into one");
    }
    if (to == NULL || strv_push(&s->history, in->text) < 0)
        return build_no_memory(err);
    *to = *layer;
    return 0;
}

int build_seal(struct build *b, struct build_stage *s, const struct instruction *in,
               struct layer_work *work, const char *key, struct cay_error *err) {
    struct layer_tar_options options = {.mtime_max = layer_epoch(b, s)};
    struct layer_tar_result tar;
    struct record_layer layer = {0};
    _cleanup_(closep) int fs = openat(work->dir, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fs < 0)
        return error_errno(err, "opening the new layer");
    int r = layer_tar_write(fs, &options, NULL, NULL, &tar, err);
    if (r < 0)
        return error_prefix(err, "Dockerfile:%u: reading the new layer", in->line);
    r = clamp_times(fs, options.mtime_max, 0);
    if (r < 0)
        return error_sys(err, -r, "setting the times of the new layer");
    memcpy(layer.diff_id, tar.diff_id, HEX_SIZE);
    layer.size = tar.bytes;
    layer.entries = tar.entries;
    digest_chain(build_parent(s), layer.diff_id, layer.chain);
    if (!hex_is_valid(layer.chain))
        return build_no_memory(err);
    r = image_store_commit_layer(b->store, work, layer.chain, err);
    if (r == 0)
        r = add_layer(s, in, &layer, err);
    if (r == 0)
        build_cache_put(b->store, key, &layer);
    return r;
}

bool build_reuse(struct build *b, struct build_stage *s, const struct instruction *in,
                 const char *key) {
    struct record_layer layer;
    if (b->options->no_cache || !build_cache_get(b->store, key, &layer))
        return false;
    if (add_layer(s, in, &layer, NULL) < 0)
        return false;
    build_log(b, " ---> cached");
    return true;
}
