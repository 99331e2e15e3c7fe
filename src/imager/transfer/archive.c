#include "imager/transfer/archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "imager/layer/layer_tar.h"
#include "imager/unpack/unpack.h"

enum { OUTPUT_SIZE = 256 * 1024, LEVEL = 3 };

/* ---- writing ---- */

struct packer {
    ZSTD_CCtx *zstd;
    int out;
    char *output;
    uint64_t bytes; /* of the tar so far */
    archive_progress progress;
    void *user;
};

static void packer_free(struct packer *p) {
    (void)ZSTD_freeCCtx(p->zstd);
    free(p->output);
}

static int begin_packing(struct packer *p, struct cay_error *err) {
    p->zstd = ZSTD_createCCtx();
    p->output = malloc(OUTPUT_SIZE);
    if (p->zstd == NULL || p->output == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1)))
        return error_sys(err, ENOMEM, "compressing the archive");
    return 0;
}

/* All of data goes in; at the end all of it comes out too. */
static int pack(struct packer *p, const void *data, size_t len, ZSTD_EndDirective end,
                struct cay_error *err) {
    ZSTD_inBuffer in = {data, len, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {p->output, OUTPUT_SIZE, 0};
        left = ZSTD_compressStream2(p->zstd, &out, &in, end);
        if (ZSTD_isError(left))
            return error_set(err, CAY_INTERNAL, "compressing the archive: %s",
                             ZSTD_getErrorName(left));
        int r = fd_write_all(p->out, p->output, out.pos);
        if (r < 0)
            return error_sys(err, -r, "writing the archive");
    } while (in.pos < in.size || (end == ZSTD_e_end && left > 0));
    return 0;
}

static int take_tar(void *user, const void *data, size_t len, struct cay_error *err) {
    struct packer *p = user;
    p->bytes += len;
    if (p->progress != NULL)
        p->progress(p->user, p->bytes);
    return pack(p, data, len, ZSTD_e_continue, err);
}

static int write_note(const struct archive_note *note, int out, struct cay_error *err) {
    char bytes[ARCHIVE_NOTE_SIZE];
    int r = archive_note_format(note, bytes, err);
    if (r < 0)
        return r;
    r = fd_write_all(out, bytes, sizeof bytes);
    return r < 0 ? error_sys(err, -r, "writing the archive") : 0;
}

int archive_write(int disk, const struct keep_record *record, int out, archive_progress progress,
                  void *user, struct cay_error *err) {
    static const char *const tops[] = {"fs", "local", NULL};
    const struct layer_tar_options options = {.tops = tops};
    struct archive_note note = {.record = *record};
    struct layer_tar_result result;
    _cleanup_(packer_free) struct packer p = {.out = out, .progress = progress, .user = user};
    int r = begin_packing(&p, err);
    if (r == 0)
        r = layer_tar_write(disk, &options, take_tar, &p, &result, err);
    if (r == 0)
        r = pack(&p, NULL, 0, ZSTD_e_end, err);
    if (r < 0)
        return r;
    note.record.pid = 0;
    memcpy(note.digest, result.diff_id, HEX_SIZE);
    return write_note(&note, out, err);
}

/* ---- restoring ---- */

/* What is wrong with the tar is not the matter of an image here. */
static int report(struct cay_error *err) {
    bool damaged = err->code == CAY_INVALID_ARGUMENT;
    if (damaged)
        err->code = CAY_INTERNAL; /* nobody who starts the sandbox has sent it */
    (void)error_prefix(err, damaged ? "the archive is damaged" : "unpacking the archive");
    return error_remedy(err, damaged ? "put it back from a backup; it stays as it is"
                                     : "the archive stays: make room, and start the sandbox again");
}

int archive_restore(int archive, const struct archive_note *note, int disk,
                    archive_progress progress, void *user, struct cay_error *err) {
    struct unpack_result result;
    int r = unpack_archive(archive, disk, progress, user, &result, err);
    if (r < 0)
        return report(err);
    if (strcmp(result.diff_id, note->digest) == 0)
        return 0;
    error_set(err, CAY_INTERNAL,
              "the archive is damaged: its files are not those that "
              "were written");
    return error_remedy(err, "put it back from a backup; it stays as it is");
}
