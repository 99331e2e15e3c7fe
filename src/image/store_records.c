#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "image/store.h"
#include "image/store_files.h"

static int not_found(const char *id, struct cay_error *err) {
    return error_set(err, CAY_NOT_FOUND, "image %.12s is not in the store", id);
}

int image_store_read_record(const struct image_store *store, const char *id,
                            struct image_record **ret, struct cay_error *err) {
    if (!hex_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "that is no id of an image");
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    _cleanup_(closep) int folder = store_folder(store, "records");
    int r = folder < 0 ? folder : store_read_file(folder, id, &text);
    if (r == -ENOENT)
        return not_found(id, err);
    if (r < 0)
        return store_fail(err, -r, "reading the record of image", id);
    _cleanup_(record_freep) struct image_record *record = NULL;
    r = record_read(id, buf_text(&text), text.len, &record, err);
    if (r < 0)
        return r;
    if (strcmp(record->id, id) != 0)
        return store_fail(err, EBADMSG, "another image is in the record of", id);
    *ret = TAKE_PTR(record);
    return 0;
}

static int check_layers(const struct image_store *store, const struct image_record *record,
                        struct cay_error *err) {
    for (size_t i = 0; i < record->layer_count; i++) {
        const char *chain = record->layers[i].chain;
        if (!image_store_has_layer(store, chain))
            return error_set(err, CAY_CONFLICT, "image %.12s: its layer %.12s is not in the store",
                             record->id, chain);
    }
    return 0;
}

static int to_text(const struct image_record *record, struct buf *text, struct cay_error *err) {
    int r = record_write(record, text);
    if (r == -EILSEQ) {
        r = error_set(err, CAY_INVALID_ARGUMENT,
                      "image %.12s: its configuration has a text that is not UTF-8", record->id);
        (void)error_remedy(err, "make the image with variables and labels in UTF-8");
        return r;
    }
    if (r == -E2BIG) {
        r = error_set(err, CAY_INVALID_ARGUMENT, "image %.12s: its configuration is too large",
                      record->id);
        (void)error_remedy(err, "use at most %d layers, %d variables and labels, and %d KiB",
                           RECORD_LAYERS_MAX, RECORD_WORDS_MAX, RECORD_TEXT_MAX / 1024);
        return r;
    }
    return r < 0 ? error_sys(err, -r, "writing the record of image %.12s", record->id) : 0;
}

int image_store_write_record(const struct image_store *store, const struct image_record *record,
                             struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    int r = check_layers(store, record, err);
    if (r == 0)
        r = to_text(record, &text, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int folder = store_folder(store, "records");
    r = folder < 0 ? folder : store_write_file(folder, record->id, text.data, text.len);
    if (r < 0)
        return store_fail(err, -r, "writing the record of image", record->id);
    return image_store_own(store, record->id, err);
}

static int remove_names(const struct image_store *store, const char *id, struct cay_error *err) {
    _cleanup_(freep) struct image_name *names = NULL;
    struct image_store all = image_store_as(store, "");
    size_t count;
    int r = image_store_names(&all, &names, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (strcmp(names[i].id, id) != 0)
            continue;
        struct image_store its = image_store_as(store, names[i].owner);
        r = image_store_remove_name(&its, &names[i].ref, err);
        if (r == -CAY_NOT_FOUND) /* somebody else did */
            r = 0;
    }
    return r;
}

int image_store_remove_record(const struct image_store *store, const char *id,
                              struct cay_error *err) {
    if (!hex_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "that is no id of an image");
    int r = remove_names(store, id, err);
    if (r < 0)
        return r;
    r = store_disown_all(store, id);
    if (r < 0)
        return store_fail(err, -r, "removing the owners of image", id);
    _cleanup_(closep) int folder = store_folder(store, "records");
    if (folder < 0)
        return store_fail(err, -folder, "opening the folder", "records");
    if (unlinkat(folder, id, 0) < 0)
        return errno == ENOENT ? not_found(id, err)
                               : store_fail(err, errno, "removing the record of image", id);
    return fsync(folder) < 0 ? store_fail(err, errno, "removing the record of image", id) : 0;
}
