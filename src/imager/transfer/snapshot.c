#include "imager/transfer/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "image/store.h"
#include "imager/layer/digest.h"
#include "imager/layer/layer.h"
#include "imager/layer/layer_tar.h"
#include "imager/layer/manifest.h"
#include "imager/pull/background_sync.h"
#include "imager/transfer/write_image.h"
#include "imager/unpack/unpack.h"

/* ---- copying the files ---- */

/* Writes the folder as a tar; a process of its own, since unpacking reads it meanwhile. */
static _noreturn_ void write_tar(int fs, int out, int report) {
    static const struct layer_tar_options upper = {.upper = true};
    struct layer_tar_result result;
    struct cay_error err = {.code = CAY_OK};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)layer_tar_write(fs, &upper, tar_sink_fd, &out, &result, &err);
    _exit(fd_write_all(report, &err, sizeof err) == 0 ? 0 : 1);
}

/* What went wrong first counts: a writer without a reader only says that unpacking failed. */
static int conclude(int report, pid_t pid, int r, struct cay_error *err) {
    struct cay_error of_writer;
    if (fd_read_all(report, &of_writer, sizeof of_writer) != 1)
        (void)error_set(&of_writer, CAY_INTERNAL, "the process that reads the files was killed");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (of_writer.code == CAY_OK || of_writer.sys == EPIPE)
        return r;
    *err = of_writer;
    return -(int)err->code;
}

static int copy_files(int fs, int root, struct unpack_result *ret, struct cay_error *err) {
    int data[2], report[2];
    if (pipe2(data, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    if (pipe2(report, O_CLOEXEC) < 0) {
        (void)close(data[0]);
        (void)close(data[1]);
        return error_errno(err, "making a pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(data[0]);
        write_tar(fs, data[1], report[1]);
    }
    int r = pid < 0 ? error_errno(err, "starting a process to read the files") : 0;
    (void)close(data[1]);
    (void)close(report[1]);
    if (r == 0)
        r = unpack_layer(data[0], root, NULL, NULL, NULL, ret, err);
    (void)close(data[0]);
    if (pid > 0)
        r = conclude(report[0], pid, r, err);
    (void)close(report[0]);
    return r;
}

/* ---- the layer ---- */

/* Its digest is that of the files as the store keeps them, so that it can be made again. */
static int seal(const struct image_store *store, struct layer *work, const char *below,
                struct record_layer *layer, struct cay_error *err) {
    static const struct layer_tar_options as_it_is;
    struct layer_tar_result tar;
    int r = layer_settle(store, work, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int files = openat(work->work.dir, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files < 0)
        return error_errno(err, "opening the new layer");
    r = layer_tar_write(files, &as_it_is, NULL, NULL, &tar, err);
    if (r < 0)
        return r;
    memcpy(layer->diff_id, tar.diff_id, HEX_SIZE);
    layer->size = tar.bytes;
    layer->entries = tar.entries;
    digest_chain(below, layer->diff_id, layer->chain);
    return image_store_commit_layer(store, &work->work, layer->chain, err);
}

static int add_layer(const struct image_store *store, int fs, struct image_record *record,
                     struct cay_error *err) {
    size_t below = record->layer_count;
    struct layer work = LAYER_NONE;
    struct unpack_result result;
    int r = layer_begin(store, record->layers, below, &work, err);
    if (r == 0)
        r = copy_files(fs, work.root, &result, err);
    struct record_layer *layer = r == 0 ? record_add_layer(record) : NULL;
    if (r == 0 && layer == NULL) {
        error_set(err, CAY_LIMIT_REACHED, "an image has at most %d layers", RECORD_LAYERS_MAX);
        r = error_remedy(err, "export the image and import it again, which makes one layer");
    }
    if (r == 0)
        r = seal(store, &work, below > 0 ? layer[-1].chain : "", layer, err);
    layer_abandon(store, &work);
    return r;
}

/* ---- the image ---- */

static int name_it(const struct image_store *store, struct image_record *record,
                   struct cay_error *err) {
    char now[32];
    (void)snprintf(record->created, sizeof record->created, "%s",
                   clock_iso8601(clock_wall_ms(), now));
    record->manifest[0] = '\0';
    return image_keep(store, record, NULL, err);
}

int image_snapshot(const struct image_store *store, int fs, const char *base,
                   char id[static HEX_SIZE], struct cay_error *err) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    int r = image_store_read_record(store, base, &record, err);
    if (r == 0)
        r = add_layer(store, fs, record, err);
    if (r == 0)
        r = name_it(store, record, err);
    if (r < 0)
        return r;
    memcpy(id, record->id, HEX_SIZE);
    settle_later(store);
    return 0;
}
