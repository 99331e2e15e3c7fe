/* Any bytes as a manifest or an index: what is accepted keeps the promises of the header, and an
 * image's manifest that is written again reads the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "imager/layer/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_error(const struct cay_error *err) {
    require(err->code != CAY_OK);
    for (const char *c = err->message; *c != '\0'; c++)
        require((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void check_descriptor(const struct descriptor *d) {
    require(hex_is_valid(d->hex) && d->size <= UINT64_C(1) << 40);
}

static void check_written(const struct manifest *m, const struct platform *platform) {
    struct image_record *record = record_new();
    require(record != NULL);
    for (size_t i = 0; i < m->layer_count; i++) {
        struct record_layer *layer = record_add_layer(record);
        require(layer != NULL);
        memcpy(layer->blob, m->layers[i].hex, HEX_SIZE);
        memcpy(layer->media_type, m->layers[i].media_type, sizeof layer->media_type);
        layer->blob_size = m->layers[i].size;
    }
    _cleanup_(buf_free) struct buf out = BUF_INIT(MANIFEST_SIZE_MAX);
    require(manifest_write(record, &m->config, &out) == 0);
    struct manifest again;
    struct cay_error err = {0};
    require(manifest_parse(out.data, out.len, "", platform, &again, &err) == 0);
    require(again.layer_count == m->layer_count && str_equal(again.config.hex, m->config.hex));
    manifest_free(&again);
    record_free(record);
}

static void check_manifest(const char *text, size_t len, const char *type) {
    struct platform platform = {"linux", "arm64", "v8"};
    struct manifest m;
    struct cay_error err = {0};
    if (manifest_parse(text, len, type, &platform, &m, &err) < 0) {
        check_error(&err);
        return;
    }
    require(m.layer_count <= MANIFEST_LAYERS_MAX);
    for (size_t i = 0; i < m.layer_count; i++)
        check_descriptor(&m.layers[i]);
    check_descriptor(m.kind == MANIFEST_IMAGE ? &m.config : &m.chosen);
    if (m.kind == MANIFEST_IMAGE)
        check_written(&m, &platform);
    manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    check_manifest(text, size, "");
    check_manifest(text, size, "application/vnd.oci.image.index.v1+json");
    check_manifest(text, size, "application/vnd.docker.distribution.manifest.v2+json");
    struct index_entry *entries = NULL;
    size_t count = 0;
    struct cay_error err = {0};
    if (manifest_parse_index(text, size, &entries, &count, &err) < 0)
        check_error(&err);
    for (size_t i = 0; i < count; i++)
        check_descriptor(&entries[i].manifest);
    free(entries);
    return 0;
}
