/* Any bytes as an image's configuration: what is accepted is written canonically, so that reading
 * and writing it again gives the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "imager/layer/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static struct image_record *read_config(const char *text, size_t len) {
    struct image_record *record = record_new();
    struct cay_error err = {0};
    require(record != NULL);
    if (config_parse(text, len, record, &err) == 0)
        return record;
    require(err.code != CAY_OK && err.remedy[0] != '\0');
    for (const char *c = err.message; *c != '\0'; c++)
        require((unsigned char)*c >= 0x20 && *c != 0x7f);
    record_free(record);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(record_freep) struct image_record *first = read_config((const char *)data, size);
    if (first == NULL)
        return 0;
    require(first->layer_count <= RECORD_LAYERS_MAX);
    for (size_t i = 0; i < first->layer_count; i++)
        require(hex_is_valid(first->layers[i].diff_id));
    _cleanup_(buf_free) struct buf a = BUF_INIT((size_t)64 << 20), b = BUF_INIT((size_t)64 << 20);
    require(config_write(first, NULL, &a) == 0);
    _cleanup_(record_freep) struct image_record *second = read_config(a.data, a.len);
    require(second != NULL && config_write(second, NULL, &b) == 0);
    require(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    return 0;
}
