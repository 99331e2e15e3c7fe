#include <errno.h>
#include <string.h>

#include "base/json/jsonw.h"
#include "base/str.h"
#include "imager/layer/manifest.h"
#include "imager/layer/manifest_keys.h"

static const char manifest_type[] = "application/vnd.oci.image.manifest.v1+json";
static const char config_type[] = "application/vnd.oci.image.config.v1+json";

static void put_digest(struct jsonw *w, const char *hex) {
    char text[sizeof "sha256:" + HEX_SIZE];
    (void)snprintf(text, sizeof text, "sha256:%.64s", hex);
    jsonw_string(w, text);
}

static void put_text(struct jsonw *w, const char *key, const char *text) {
    if (text[0] != '\0')
        jsonw_put_string(w, key, text);
}

/* ---- configuration; keys are written in the order of their bytes ---- */

static void put_list(struct jsonw *w, const char *key, const struct strv *list) {
    if (list->len == 0)
        return;
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < list->len; i++)
        jsonw_string(w, list->v[i]);
    jsonw_end_array(w);
}

static int copy_list(const struct strv *from, struct strv *to) {
    for (size_t i = 0; i < from->len; i++)
        if (strv_push(to, from->v[i]) < 0)
            return -ENOMEM;
    return 0;
}

static int put_set(struct jsonw *w, const char *key, const struct strv *list) {
    _cleanup_(strv_free) struct strv sorted = {0};
    if (copy_list(list, &sorted) < 0 || manifest_sort_set(&sorted) < 0)
        return -ENOMEM;
    if (sorted.len == 0)
        return 0;
    jsonw_key(w, key);
    jsonw_begin_object(w);
    for (size_t i = 0; i < sorted.len; i++) {
        jsonw_key(w, sorted.v[i]);
        jsonw_begin_object(w);
        jsonw_end_object(w);
    }
    jsonw_end_object(w);
    return 0;
}

static int put_labels(struct jsonw *w, const struct strv *list) {
    _cleanup_(strv_free) struct strv sorted = {0};
    if (copy_list(list, &sorted) < 0 || manifest_sort_labels(&sorted) < 0)
        return -ENOMEM;
    if (sorted.len == 0)
        return 0;
    jsonw_key(w, "Labels");
    jsonw_begin_object(w);
    for (size_t i = 0; i < sorted.len; i++) {
        char *equals = strchr(sorted.v[i], '=');
        if (equals != NULL)
            *equals = '\0';
        jsonw_put_string(w, sorted.v[i], equals != NULL ? equals + 1 : "");
    }
    jsonw_end_object(w);
    return 0;
}

static int put_config(struct jsonw *w, const struct image_record *record) {
    jsonw_key(w, "config");
    jsonw_begin_object(w);
    put_list(w, "Cmd", &record->cmd);
    put_list(w, "Entrypoint", &record->entrypoint);
    put_list(w, "Env", &record->env);
    int r = put_set(w, "ExposedPorts", &record->ports);
    if (r == 0)
        r = put_labels(w, &record->labels);
    put_text(w, "StopSignal", record->stop_signal);
    put_text(w, "User", record->user);
    if (r == 0)
        r = put_set(w, "Volumes", &record->volumes);
    put_text(w, "WorkingDir", record->working_dir);
    jsonw_end_object(w);
    return r;
}

static void put_history(struct jsonw *w, const struct image_record *record,
                        const char *const *history) {
    jsonw_key(w, "history");
    jsonw_begin_array(w);
    for (size_t i = 0; i < record->layer_count; i++) {
        jsonw_begin_object(w);
        put_text(w, "created", record->created);
        jsonw_put_string(w, "created_by", history[i]);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_rootfs(struct jsonw *w, const struct image_record *record) {
    jsonw_key(w, "rootfs");
    jsonw_begin_object(w);
    jsonw_key(w, "diff_ids");
    jsonw_begin_array(w);
    for (size_t i = 0; i < record->layer_count; i++)
        put_digest(w, record->layers[i].diff_id);
    jsonw_end_array(w);
    jsonw_put_string(w, "type", "layers");
    jsonw_end_object(w);
}

int config_write(const struct image_record *record, const char *const *history, struct buf *out) {
    for (size_t i = 0; i < record->layer_count; i++)
        if (!hex_is_valid(record->layers[i].diff_id))
            return -EINVAL;
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    /* OCI requires these two */
    jsonw_put_string(&w, "architecture", record->architecture);
    int r = put_config(&w, record);
    if (r < 0)
        return r;
    put_text(&w, "created", record->created);
    if (history != NULL)
        put_history(&w, record, history);
    jsonw_put_string(&w, "os", record->os);
    put_rootfs(&w, record);
    put_text(&w, "variant", record->variant);
    jsonw_end_object(&w);
    return jsonw_finish(&w);
}

/* ---- manifest ---- */

const char *manifest_oci_type(const char *media_type) {
    static const char *const pairs[][2] = {
        {"application/vnd.docker.container.image.v1+json", config_type},
        {"application/octet-stream", config_type},
        {"application/vnd.docker.image.rootfs.diff.tar", "application/vnd.oci.image.layer.v1.tar"},
        {"application/vnd.docker.image.rootfs.diff.tar.gzip",
         "application/vnd.oci.image.layer.v1.tar+gzip"},
        {"application/vnd.docker.image.rootfs.diff.tar.zstd",
         "application/vnd.oci.image.layer.v1.tar+zstd"},
        {"application/vnd.docker.image.rootfs.foreign.diff.tar",
         "application/vnd.oci.image.layer.v1.tar"},
        {"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
         "application/vnd.oci.image.layer.v1.tar+gzip"},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        if (str_equal(media_type, pairs[i][0]))
            return pairs[i][1];
    return media_type;
}

static void put_descriptor(struct jsonw *w, const char *hex, const char *media_type,
                           uint64_t size) {
    jsonw_begin_object(w);
    jsonw_key(w, "digest");
    put_digest(w, hex);
    jsonw_put_string(w, "mediaType", manifest_oci_type(media_type));
    jsonw_put_unsigned(w, "size", size);
    jsonw_end_object(w);
}

int manifest_write(const struct image_record *record, const struct descriptor *config,
                   struct buf *out) {
    for (size_t i = 0; i < record->layer_count; i++)
        if (!hex_is_valid(record->layers[i].blob) || record->layers[i].media_type[0] == '\0')
            return -EINVAL;
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_key(&w, "config");
    put_descriptor(&w, config->hex,
                   config->media_type[0] != '\0' ? config->media_type : config_type, config->size);
    jsonw_key(&w, "layers");
    jsonw_begin_array(&w);
    for (size_t i = 0; i < record->layer_count; i++)
        put_descriptor(&w, record->layers[i].blob, record->layers[i].media_type,
                       record->layers[i].blob_size);
    jsonw_end_array(&w);
    jsonw_put_string(&w, "mediaType", manifest_type);
    jsonw_put_integer(&w, "schemaVersion", 2);
    jsonw_end_object(&w);
    return jsonw_finish(&w);
}
