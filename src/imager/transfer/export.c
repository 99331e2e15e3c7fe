#include "base/auto.h"
#include "base/error.h"
#include "imager/layer/layer.h"
#include "imager/layer/layer_tar.h"
#include "imager/transfer/transfer.h"

/* The merged view is that of a layer that would be made on top, which nothing is written to. */
int image_export(const struct image_store *store, const char *id, int output,
                 struct cay_error *err) {
    static const struct layer_tar_options options = {.merged = true};
    _cleanup_(record_freep) struct image_record *record = NULL;
    struct layer layer = LAYER_NONE;
    struct layer_tar_result result;
    int r = image_store_read_record(store, id, &record, err);
    if (r < 0)
        return r;
    r = layer_begin(store, record->layers, record->layer_count, &layer, err);
    if (r == 0)
        r = layer_tar_write(layer.root, &options, tar_sink_fd, &output, &result, err);
    layer_abandon(store, &layer);
    return r;
}
