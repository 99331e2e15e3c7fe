/* What `docker save` writes: manifest.json names a configuration and layers, which are files of the
 * archive: tars, compressed or not, or symlinks to such. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"
#include "imager/layer/manifest.h"
#include "imager/transfer/load.h"

enum { IMAGES_MAX = 1000, NAMES_MAX = 1000 };

/* The digest that a file's name promises: HEX.json, HEX.tar, blobs/sha256/HEX; "" for others. */
static void promised(const char *path, char hex[static HEX_SIZE]) {
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    size_t len = strcspn(name, ".");
    hex[0] = '\0';
    if (len != HEX_SIZE - 1)
        return;
    memcpy(hex, name, len);
    hex[len] = '\0';
    if (!hex_is_valid(hex))
        hex[0] = '\0';
}

static int load_layer(struct loader *l, const char *path, struct image_record *record, size_t index,
                      struct cay_error *err) {
    _cleanup_(extent_close) struct extent from = EXTENT_NONE;
    int r = bundle_find(&l->bundle, path, &from, err);
    if (r < 0)
        return r;
    /* A name with a digest is the blob's in an OCI layout, and the layer's in skopeo's archives,
     * which are not compressed: there both are the same. */
    if (str_starts(path, "blobs/"))
        promised(path, record->layers[index].blob);
    return ingest_layer(&l->ingest, &from, record, index, err);
}

static int load_layers(struct loader *l, const struct json *entry, struct image_record *record,
                       struct cay_error *err) {
    struct json list, at;
    int r = json_get_array(entry, "Layers", JSON_REQUIRED, &list, err);
    if (r < 0)
        return r;
    if (json_count(&list) != record->layer_count)
        return json_refuse(&list, err, "%zu layers where the configuration has %zu",
                           json_count(&list), record->layer_count);
    for (size_t i = 0; r == 0 && json_item(&list, i, &at); i++) {
        const char *path;
        r = json_as_string(&at, &path, err);
        if (r == 0)
            r = load_layer(l, path, record, i, err);
    }
    return r;
}

static int read_names(const struct json *entry, struct strv *names, struct cay_error *err) {
    struct json list, at;
    int r = json_get_array(entry, "RepoTags", JSON_OPTIONAL, &list, err);
    if (r < 0 || list.value == NULL)
        return r;
    if (json_count(&list) > NAMES_MAX)
        return json_refuse(&list, err, "more than %d names", NAMES_MAX);
    for (size_t i = 0; r == 0 && json_item(&list, i, &at); i++) {
        const char *text;
        r = json_as_string(&at, &text, err);
        if (r == 0)
            r = load_add_name(names, text, err);
    }
    return r;
}

static int load_image(struct loader *l, const struct json *entry, struct cay_error *err) {
    _cleanup_(strv_free) struct strv names = {0};
    _cleanup_(record_freep) struct image_record *record = NULL;
    char hex[HEX_SIZE];
    const char *config = "";
    int r = json_as_object(entry, err);
    if (r == 0)
        r = json_get_string(entry, "Config", JSON_REQUIRED, &config, err);
    if (r == 0)
        r = read_names(entry, &names, err);
    if (r < 0)
        return r;
    promised(config, hex);
    r = load_config(l, config, hex, &record, err);
    if (r < 0)
        return r;
    if (!load_is_there(l, record->id)) {
        r = load_layers(l, entry, record, err);
        if (r == 0)
            r = image_store_write_record(l->store, record, err);
    }
    return r < 0 ? r : load_finish(l, record->id, &names, err);
}

int load_docker(struct loader *l, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json at;
    int r = bundle_read(&l->bundle, "manifest.json", &text, err);
    if (r == 0)
        r = json_parse("manifest.json", buf_text(&text), text.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "manifest.json");
    r = json_as_array(&root, err);
    if (r == 0 && json_count(&root) > IMAGES_MAX)
        r = json_refuse(&root, err, "more than %d images", IMAGES_MAX);
    for (size_t i = 0; r == 0 && json_item(&root, i, &at); i++)
        r = load_image(l, &at, err);
    return r;
}
