#include "imager/transfer/load.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/layer/manifest.h"
#include "imager/pull/background_sync.h"

int load_config(struct loader *l, const char *path, const char *hex, struct image_record **ret,
                struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    _cleanup_(record_freep) struct image_record *record = record_new();
    if (record == NULL)
        return error_sys(err, ENOMEM, "loading an image");
    int r = bundle_read(&l->bundle, path, &text, err);
    if (r < 0)
        return r;
    digest_of(buf_text(&text), text.len, record->id);
    if (hex[0] != '\0' && strcmp(hex, record->id) != 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "the configuration sha256:%s has digest sha256:%s",
                  hex, record->id);
        return error_remedy(err, "the archive is damaged or false; get it again");
    }
    r = config_parse(buf_text(&text), text.len, record, err);
    if (r == 0)
        r = image_store_put_blob(l->store, record->id, buf_text(&text), text.len, err);
    if (r == 0)
        *ret = TAKE_PTR(record);
    return r;
}

bool load_is_there(const struct loader *l, const char *id) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    if (image_store_read_record(l->store, id, &record, NULL) < 0)
        return false;
    for (size_t i = 0; i < record->layer_count; i++)
        if (!image_store_has_layer(l->store, record->layers[i].chain))
            return false;
    return true;
}

static bool has_name(const struct strv *names, const char *text) {
    for (size_t i = 0; i < names->len; i++)
        if (strcmp(names->v[i], text) == 0)
            return true;
    return false;
}

int load_add_name(struct strv *names, const char *text, struct cay_error *err) {
    struct reference ref;
    char canonical[REFERENCE_TEXT_SIZE];
    int r = reference_parse(text, &ref, err);
    if (r < 0)
        return error_prefix(err, "a name in the archive");
    if (has_name(names, reference_format(&ref, canonical)))
        return 0;
    return strv_push(names, canonical) < 0 ? error_sys(err, ENOMEM, "loading an image") : 0;
}

/* The entry of this image, new or from before. */
static struct loaded_image *note(struct loader *l, const char *id) {
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->images[i].id, id) == 0)
            return &l->images[i];
    struct loaded_image *grown = reallocarray(l->images, l->count + 1, sizeof *grown);
    if (grown == NULL)
        return NULL;
    l->images = grown;
    grown[l->count] = (struct loaded_image){0};
    memcpy(grown[l->count].id, id, HEX_SIZE);
    return &grown[l->count++];
}

int load_finish(struct loader *l, const char *id, const struct strv *names, struct cay_error *err) {
    struct loaded_image *image = note(l, id);
    if (image == NULL)
        return error_sys(err, ENOMEM, "loading an image");
    int r = 0;
    for (size_t i = 0; r == 0 && i < names->len; i++) {
        struct reference ref;
        r = reference_parse(names->v[i], &ref, err);
        if (r == 0)
            r = image_store_set_name(l->store, &ref, id, err);
        if (r == 0)
            r = load_add_name(&image->names, names->v[i], err);
    }
    return r;
}

static int refuse(struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT,
              "this is not an image archive: it has neither index.json nor manifest.json");
    return error_remedy(err, "for a root file system use `cay image import`");
}

static int load_all(struct loader *l, struct cay_error *err) {
    if (bundle_has(&l->bundle, "oci-layout") && bundle_has(&l->bundle, "index.json"))
        return load_oci(l, err);
    return bundle_has(&l->bundle, "manifest.json") ? load_docker(l, err) : refuse(err);
}

int image_load(const struct image_store *store, int input, struct progress *progress,
               struct loaded_image **ret, size_t *ret_count, struct cay_error *err) {
    struct loader l = {.store = store, .bundle = BUNDLE_NONE};
    int r = bundle_open(store, input, &l.bundle, err);
    if (r == 0)
        r = ingest_begin(store, progress, &l.ingest, err);
    if (r == 0)
        r = load_all(&l, err);
    ingest_end(&l.ingest);
    settle_later(store);
    bundle_close(&l.bundle);
    if (r < 0) {
        loaded_images_free(l.images, l.count);
        return r;
    }
    *ret = l.images;
    *ret_count = l.count;
    return 0;
}

void loaded_images_free(struct loaded_image *images, size_t count) {
    for (size_t i = 0; i < count; i++)
        strv_free(&images[i].names);
    free(images);
}
