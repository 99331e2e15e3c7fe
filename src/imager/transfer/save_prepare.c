#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/progress.h"
#include "imager/layer/digest.h"
#include "imager/layer/gzip.h"
#include "imager/layer/layer_tar.h"
#include "imager/transfer/save.h"

static const char gzip_type[] = "application/vnd.oci.image.layer.v1.tar+gzip";

/* ---- the list of blobs ---- */

/* A new one, or NULL with *ret_err 0 if it is in the list. */
static struct saved_blob *add_blob(struct saver *s, const char *hex, int *ret) {
    *ret = 0;
    for (size_t i = 0; i < s->blob_count; i++)
        if (strcmp(s->blobs[i].hex, hex) == 0)
            return NULL;
    struct saved_blob *grown = reallocarray(s->blobs, s->blob_count + 1, sizeof *grown);
    if (grown == NULL) {
        *ret = -ENOMEM;
        return NULL;
    }
    s->blobs = grown;
    struct saved_blob *blob = &grown[s->blob_count++];
    *blob = (struct saved_blob){.text = BUF_INIT(MANIFEST_SIZE_MAX), .spool = SPOOL_BLOB_NONE};
    memcpy(blob->hex, hex, HEX_SIZE);
    return blob;
}

/* Hands the text over. */
static int add_document(struct saver *s, struct buf *text, struct descriptor *ret,
                        struct cay_error *err) {
    int r;
    digest_of(buf_text(text), text->len, ret->hex);
    ret->size = text->len;
    struct saved_blob *blob = add_blob(s, ret->hex, &r);
    if (blob != NULL) {
        blob->text = *text;
        *text = BUF_INIT(MANIFEST_SIZE_MAX);
    }
    return r < 0 ? error_sys(err, -r, "saving an image") : 0;
}

/* ---- layers ---- */

static bool has_blob(const struct saver *s, const char *hex) {
    if (hex[0] == '\0')
        return false;
    _cleanup_(closep) int fd = image_store_open_blob(s->store, hex);
    return fd >= 0;
}

static int pack(const struct saver *s, int fs, struct spool_blob *blob, char diff_id[HEX_SIZE],
                char hex[static HEX_SIZE], struct cay_error *err) {
    static const struct layer_tar_options as_it_is;
    struct layer_tar_result result;
    int r = spool_blob_begin(s->store, blob, err);
    if (r < 0)
        return r;
    _cleanup_(gzip_freep) struct gzip *gzip = gzip_new(spool_blob_write, blob);
    if (gzip == NULL)
        return error_sys(err, ENOMEM, "compressing a layer");
    r = layer_tar_write(fs, &as_it_is, gzip_write, gzip, &result, err);
    if (r == 0)
        r = gzip_finish(gzip, err);
    if (r == 0)
        r = spool_blob_finish(blob, hex, err);
    memcpy(diff_id, result.diff_id, HEX_SIZE);
    return r;
}

/* Makes a tar of an unpacked layer. *changed if it is not the one that the image was made of. */
static int make_blob(struct saver *s, struct record_layer *layer, bool *changed,
                     struct cay_error *err) {
    struct spool_blob made = SPOOL_BLOB_NONE;
    char diff_id[HEX_SIZE] = "";
    int r;
    _cleanup_(closep) int lock = -1;
    _cleanup_(closep) int fs = image_store_open_layer(s->store, layer->chain, &lock);
    if (fs < 0)
        return error_sys(err, -fs, "opening layer %.12s", layer->chain);
    unsigned item = progress_item(s->progress, layer->chain, 0);
    progress_update(s->progress, item, "packing", 0);
    r = pack(s, fs, &made, diff_id, layer->blob, err);
    if (r == 0) {
        *changed = *changed || strcmp(diff_id, layer->diff_id) != 0;
        memcpy(layer->diff_id, diff_id, HEX_SIZE);
        layer->blob_size = made.size;
        memcpy(layer->media_type, gzip_type, sizeof gzip_type);
        struct saved_blob *blob = add_blob(s, layer->blob, &r);
        if (blob != NULL) {
            blob->spool = made;
            made = SPOOL_BLOB_NONE;
        }
        r = r < 0 ? error_sys(err, -r, "saving an image") : 0;
    }
    spool_blob_free(&made);
    return r;
}

/* *made if the blob is another one than the image's manifest names. */
static int prepare_layer(struct saver *s, struct record_layer *layer, bool *made, bool *changed,
                         struct cay_error *err) {
    int r;
    if (!has_blob(s, layer->blob)) {
        const struct record_layer *known =
            layer->diff_id[0] != '\0' ? ingest_find(&s->ingest, layer->diff_id) : NULL;
        *made = true;
        if (known == NULL)
            return make_blob(s, layer, changed, err);
        memcpy(layer->blob, known->blob, HEX_SIZE);
        memcpy(layer->media_type, known->media_type, sizeof layer->media_type);
        layer->blob_size = known->blob_size;
    }
    (void)add_blob(s, layer->blob, &r);
    return r < 0 ? error_sys(err, -r, "saving an image") : 0;
}

/* ---- documents ---- */

static int read_blob(const struct saver *s, const char *hex, struct buf *out,
                     struct cay_error *err) {
    _cleanup_(closep) int fd = image_store_open_blob(s->store, hex);
    int r = fd < 0 ? fd : fd_read_to_end(fd, out);
    return r < 0 ? error_sys(err, -r, "reading blob %.12s", hex) : 0;
}

static int prepare_config(struct saver *s, struct saved_image *image, bool changed,
                          struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    int r;
    if (changed || !has_blob(s, image->record->id))
        r = config_write(image->record, NULL, &text) < 0
                ? error_set(err, CAY_LIMIT_REACHED, "the image's configuration is too large")
                : 0;
    else
        r = read_blob(s, image->record->id, &text, err);
    return r < 0 ? r : add_document(s, &text, &image->config, err);
}

static void name_types(struct image_record *record) {
    for (size_t i = 0; i < record->layer_count; i++) {
        char *type = record->layers[i].media_type;
        const char *oci = manifest_oci_type(type);
        if (oci != type)
            (void)snprintf(type, sizeof record->layers[i].media_type, "%s", oci);
    }
}

/* True if the text is an OCI manifest; Docker's are written anew. */
static bool is_oci(const struct buf *text) {
    const struct platform here = platform_here();
    struct manifest m;
    if (manifest_parse(buf_text(text), text->len, "", &here, &m, NULL) < 0)
        return false;
    bool oci = m.kind == MANIFEST_IMAGE && str_starts(m.config.media_type, "application/vnd.oci.");
    for (size_t i = 0; oci && i < m.layer_count; i++)
        oci = str_starts(m.layers[i].media_type, "application/vnd.oci.");
    manifest_free(&m);
    return oci;
}

static int prepare_manifest(struct saver *s, struct saved_image *image, bool made,
                            struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    bool as_it_was = !made && has_blob(s, image->record->manifest) &&
                     read_blob(s, image->record->manifest, &text, NULL) == 0 && is_oci(&text);
    if (!as_it_was) {
        buf_clear(&text);
        name_types(image->record);
        if (manifest_write(image->record, &image->config, &text) < 0)
            return error_set(err, CAY_LIMIT_REACHED, "the image's manifest is too large");
    }
    return add_document(s, &text, &image->manifest, err);
}

int save_prepare(struct saver *s, struct saved_image *image, struct cay_error *err) {
    bool made = false, changed = false;
    int r = 0;
    for (size_t i = 0; r == 0 && i < image->record->layer_count; i++)
        r = prepare_layer(s, &image->record->layers[i], &made, &changed, err);
    if (r == 0)
        r = prepare_config(s, image, changed, err);
    return r < 0 ? r : prepare_manifest(s, image, made || changed, err);
}
