#include "imager/transfer/write_image.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "image/store.h"
#include "imager/layer/digest.h"
#include "imager/layer/manifest.h"

int image_keep(const struct image_store *store, struct image_record *record,
               const char *const *history, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    int r = config_write(record, history, &text);
    if (r < 0)
        return error_sys(err, -r, "writing the image's configuration");
    digest_of(text.data, text.len, record->id);
    if (!hex_is_valid(record->id))
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r = image_store_put_blob(store, record->id, text.data, text.len, err);
    return r < 0 ? r : image_store_write_record(store, record, err);
}
