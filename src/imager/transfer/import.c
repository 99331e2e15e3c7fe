#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "imager/layer/manifest.h"
#include "imager/pull/background_sync.h"
#include "imager/transfer/change.h"
#include "imager/transfer/import_layer.h"
#include "imager/transfer/transfer.h"
#include "imager/transfer/write_image.h"

/* A record with what Docker gives an imported image, and the changes. */
static int make_record(const char *const *changes, struct image_record **ret,
                       struct cay_error *err) {
    const struct platform here = platform_here();
    _cleanup_(record_freep) struct image_record *record = record_new();
    char now[32];
    if (record == NULL || record_add_layer(record) == NULL)
        return error_sys(err, ENOMEM, "importing an image");
    memcpy(record->os, here.os, sizeof record->os);
    memcpy(record->architecture, here.architecture, sizeof record->architecture);
    memcpy(record->variant, here.variant, sizeof record->variant);
    (void)snprintf(record->created, sizeof record->created, "%s",
                   clock_iso8601(clock_wall_ms(), now));
    int r = 0;
    for (size_t i = 0; r == 0 && changes != NULL && changes[i] != NULL; i++)
        r = build_change(record, changes[i], err);
    if (r < 0)
        return error_prefix(err, "--change");
    *ret = TAKE_PTR(record);
    return 0;
}

static int import_layer(const struct image_store *store, int input, struct progress *progress,
                        struct image_record *record, struct cay_error *err) {
    struct ingest in = {.store = store, .progress = progress};
    struct stat st;
    _cleanup_(closep) int fd = bundle_plain(store, input, true, err);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return error_errno(err, "looking at the input");
    const struct extent from = {.fd = fd, .size = (uint64_t)st.st_size};
    int r = ingest_layer(&in, &from, record, 0, err);
    ingest_end(&in);
    if (r == -CAY_INVALID_ARGUMENT)
        return error_remedy(err, "name a tar of a root file system; an image archive is for "
                                 "`cay image load`");
    return r;
}

int image_import(const struct image_store *store, int input, const char *const *changes,
                 struct progress *progress, char id[static HEX_SIZE], struct cay_error *err) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    int r = make_record(changes, &record, err);
    if (r == 0)
        r = import_layer(store, input, progress, record, err);
    if (r == 0)
        r = image_keep(store, record, NULL, err);
    if (r < 0)
        return r;
    memcpy(id, record->id, HEX_SIZE);
    settle_later(store);
    return 0;
}
