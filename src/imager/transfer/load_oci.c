/* OCI layouts: index.json names manifests or further indexes, which are blobs. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/layer/manifest.h"
#include "imager/transfer/load.h"

enum { NESTING_MAX = 4, PATH_SIZE = HEX_SIZE + 16 };

static void blob_path(const char *hex, char out[static PATH_SIZE]) {
    (void)snprintf(out, PATH_SIZE, "blobs/sha256/%.64s", hex);
}

/* A document that a descriptor names, with the size and digest that it says. */
static int read_document(const struct loader *l, const struct descriptor *d, struct buf *out,
                         struct cay_error *err) {
    char path[PATH_SIZE], hex[HEX_SIZE];
    blob_path(d->hex, path);
    int r = bundle_read(&l->bundle, path, out, err);
    if (r < 0)
        return r;
    digest_of(buf_text(out), out->len, hex);
    if (out->len == d->size && strcmp(hex, d->hex) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the archive's '%s' is not what its index promises", path);
    return error_remedy(err, "the archive is damaged or false; get it again");
}

/* ---- one image ---- */

static int load_layer(struct loader *l, const struct descriptor *d, struct image_record *record,
                      size_t index, struct cay_error *err) {
    _cleanup_(extent_close) struct extent from = EXTENT_NONE;
    struct record_layer *layer = &record->layers[index];
    char path[PATH_SIZE];
    blob_path(d->hex, path);
    int r = bundle_find(&l->bundle, path, &from, err);
    if (r < 0)
        return r;
    if (from.size != d->size)
        return error_set(err, CAY_INVALID_ARGUMENT, "the archive's '%s' has %llu bytes, not %llu",
                         path, (unsigned long long)from.size, (unsigned long long)d->size);
    memcpy(layer->blob, d->hex, HEX_SIZE);
    memcpy(layer->media_type, d->media_type, sizeof layer->media_type);
    return ingest_layer(&l->ingest, &from, record, index, err);
}

/* The manifest is kept if it describes the blobs as we have them. */
static int keep_manifest(const struct loader *l, const struct manifest *m, const struct buf *text,
                         const char *hex, struct image_record *record, struct cay_error *err) {
    for (size_t i = 0; i < m->layer_count; i++)
        if (strcmp(m->layers[i].hex, record->layers[i].blob) != 0)
            return 0;
    memcpy(record->manifest, hex, HEX_SIZE);
    return image_store_put_blob(l->store, hex, buf_text(text), text->len, err);
}

static int load_image(struct loader *l, const struct manifest *m, const struct buf *text,
                      const char *hex, char id[static HEX_SIZE], struct cay_error *err) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    char path[PATH_SIZE];
    blob_path(m->config.hex, path);
    int r = load_config(l, path, m->config.hex, &record, err);
    if (r < 0)
        return r;
    memcpy(id, record->id, HEX_SIZE);
    if (m->layer_count != record->layer_count)
        return error_set(err, CAY_INVALID_ARGUMENT,
                         "the manifest has %zu layers where the configuration has %zu",
                         m->layer_count, record->layer_count);
    if (load_is_there(l, id))
        return 0;
    for (size_t i = 0; r == 0 && i < m->layer_count; i++)
        r = load_layer(l, &m->layers[i], record, i, err);
    if (r == 0)
        r = keep_manifest(l, m, text, hex, record, err);
    return r < 0 ? r : image_store_write_record(l->store, record, err);
}

/* ---- the way to it ---- */

/* The first of an index that has nothing for this machine: it can still be saved or inspected. */
static int first_of(const struct buf *text, struct descriptor *ret, struct cay_error *err) {
    _cleanup_(freep) struct index_entry *entries = NULL;
    size_t count = 0;
    int r = manifest_parse_index(buf_text(text), text->len, &entries, &count, err);
    if (r < 0)
        return r;
    if (count == 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "an index of the archive is empty");
    *ret = entries[0].manifest;
    return 0;
}

static int load_manifest(struct loader *l, const struct descriptor *d, char id[static HEX_SIZE],
                         struct cay_error *err) {
    const struct platform here = platform_here();
    struct descriptor at = *d;
    for (int depth = 0; depth < NESTING_MAX; depth++) {
        _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
        _cleanup_(manifest_free) struct manifest m = {0};
        int r = read_document(l, &at, &text, err);
        if (r < 0)
            return r;
        r = manifest_parse(buf_text(&text), text.len, at.media_type, &here, &m, err);
        if (r == 0 && m.kind == MANIFEST_IMAGE)
            return load_image(l, &m, &text, at.hex, id, err);
        if (r == 0)
            at = m.chosen;
        else if (r != -CAY_UNSUPPORTED || (r = first_of(&text, &at, err)) < 0)
            return r;
    }
    return error_set(err, CAY_INVALID_ARGUMENT, "the archive's indexes are nested too deep");
}

/* ---- index.json ---- */

/* True if entry i is one of several platforms of the same image, and not the one to take: that is
 * the one that fits best here, and the first of equals. */
static bool is_passed_over(const struct index_entry *entries, size_t count, size_t i) {
    const struct platform here = platform_here();
    unsigned fit = platform_match(&entries[i].platform, &here);
    if (entries[i].platform.architecture[0] == '\0')
        return false;
    for (size_t k = 0; k < count; k++) {
        if (k == i || entries[k].platform.architecture[0] == '\0' ||
            strcmp(entries[k].name, entries[i].name) != 0)
            continue;
        unsigned other = platform_match(&entries[k].platform, &here);
        bool alike = entries[i].name[0] == '\0' && other > 0 && fit > 0;
        if (!alike && (other > fit || (other == fit && k < i)))
            return true;
    }
    return false;
}

/* A mere tag ("latest") names nothing. */
static bool is_name(const char *text) {
    return strpbrk(text, "/:") != NULL;
}

static int load_entry(struct loader *l, const struct index_entry *entry, struct cay_error *err) {
    _cleanup_(strv_free) struct strv names = {0};
    char id[HEX_SIZE];
    int r = is_name(entry->name) ? load_add_name(&names, entry->name, err) : 0;
    if (r == 0)
        r = load_manifest(l, &entry->manifest, id, err);
    return r < 0 ? r : load_finish(l, id, &names, err);
}

int load_oci(struct loader *l, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    _cleanup_(freep) struct index_entry *entries = NULL;
    size_t count = 0;
    int r = bundle_read(&l->bundle, "index.json", &text, err);
    if (r == 0)
        r = manifest_parse_index(buf_text(&text), text.len, &entries, &count, err);
    if (r == 0 && count == 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "the archive holds no image");
    for (size_t i = 0; r == 0 && i < count; i++)
        if (!is_passed_over(entries, count, i))
            r = load_entry(l, &entries[i], err);
    return r;
}
