#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/layer/manifest.h"
#include "imager/layer/manifest_keys.h"

static int no_memory(struct cay_error *err) {
    return error_sys(err, ENOMEM, "reading an image's configuration");
}

static int get_text(const struct json *at, const char *key, char *out, size_t size,
                    struct cay_error *err) {
    const char *text = "";
    int r = json_get_string(at, key, JSON_OPTIONAL, &text, err);
    if (r < 0)
        return r;
    struct json child = *at;
    if (str_copy(out, size, text) < 0 && json_child(at, key, &child))
        return json_refuse(&child, err, "is longer than %zu bytes", size - 1);
    return 0;
}

/* The strings of an array, without nulls; one string in its place is taken for an array of it, as
 * Docker does. */
static int get_list(const struct json *config, const char *key, struct strv *out,
                    struct cay_error *err) {
    struct json at, item;
    const char *text;
    if (!json_child(config, key, &at))
        return 0;
    if (json_kind(&at) == JSON_KIND_STRING && json_as_string(&at, &text, err) == 0)
        return strv_push(out, text) < 0 ? no_memory(err) : 0;
    int r = json_as_array(&at, err);
    for (size_t i = 0; r == 0 && json_item(&at, i, &item); i++) {
        if (json_kind(&item) == JSON_KIND_NULL)
            continue;
        r = json_as_string(&item, &text, err);
        if (r == 0 && strv_push(out, text) < 0)
            r = no_memory(err);
    }
    return r;
}

/* The keys of an object, sorted; Docker's form of a set. */
static int get_set(const struct json *config, const char *key, struct strv *out,
                   struct cay_error *err) {
    struct json at, member;
    if (!json_child(config, key, &at))
        return 0;
    int r = json_as_object(&at, err);
    for (void *i = NULL; r == 0 && json_next(&at, &i, &member);)
        if (strv_push(out, member.key) < 0)
            r = no_memory(err);
    return r == 0 && manifest_sort_set(out) < 0 ? no_memory(err) : r;
}

/* A key with '=' in it could not be told from another key and value: it is left out. */
static int get_labels(const struct json *config, struct strv *out, struct cay_error *err) {
    struct json at, member;
    if (!json_child(config, "Labels", &at))
        return 0;
    int r = json_as_object(&at, err);
    for (void *i = NULL; r == 0 && json_next(&at, &i, &member);) {
        const char *value = "";
        if (member.key[0] == '\0' || strchr(member.key, '=') != NULL)
            continue;
        if (json_kind(&member) != JSON_KIND_NULL)
            r = json_as_string(&member, &value, err);
        if (r == 0 && strv_pushf(out, "%s=%s", member.key, value) < 0)
            r = no_memory(err);
    }
    return r == 0 && manifest_sort_labels(out) < 0 ? no_memory(err) : r;
}

/* What names no variable, or sets none, is left out. */
static int get_env(const struct json *config, struct strv *out, struct cay_error *err) {
    struct strv all = {0};
    int r = get_list(config, "Env", &all, err);
    for (size_t i = 0; r == 0 && i < all.len; i++) {
        const char *equals = strchr(all.v[i], '=');
        if (equals != NULL && equals != all.v[i] && strv_push(out, all.v[i]) < 0)
            r = no_memory(err);
    }
    strv_free(&all);
    return r;
}

static int get_config(const struct json *root, struct image_record *record, struct cay_error *err) {
    struct json c;
    int r = json_get_object(root, "config", JSON_OPTIONAL, &c, err);
    if (r < 0 || c.value == NULL)
        return r;
    if ((r = get_text(&c, "User", record->user, sizeof record->user, err)) < 0 ||
        (r = get_text(&c, "WorkingDir", record->working_dir, sizeof record->working_dir, err)) <
            0 ||
        (r = get_text(&c, "StopSignal", record->stop_signal, sizeof record->stop_signal, err)) <
            0 ||
        (r = get_env(&c, &record->env, err)) < 0 ||
        (r = get_list(&c, "Entrypoint", &record->entrypoint, err)) < 0 ||
        (r = get_list(&c, "Cmd", &record->cmd, err)) < 0 ||
        (r = get_set(&c, "Volumes", &record->volumes, err)) < 0 ||
        (r = get_set(&c, "ExposedPorts", &record->ports, err)) < 0)
        return r;
    return get_labels(&c, &record->labels, err);
}

static int add_layer(const struct json *item, struct image_record *record, struct cay_error *err) {
    const char *text = NULL;
    int r = json_as_string(item, &text, err);
    if (r < 0)
        return r;
    struct record_layer *layer = record_add_layer(record);
    if (layer == NULL)
        return no_memory(err);
    if (digest_parse(text, layer->diff_id))
        return 0;
    char shown[100];
    return json_refuse(item, err, "'%s' is not a sha256 digest",
                       str_escape(shown, sizeof shown, text));
}

static int get_rootfs(const struct json *root, struct image_record *record, struct cay_error *err) {
    struct json rootfs, ids, item;
    int r = json_get_object(root, "rootfs", JSON_OPTIONAL, &rootfs, err);
    if (r < 0 || rootfs.value == NULL)
        return r;
    const char *type = "layers";
    if ((r = json_get_string(&rootfs, "type", JSON_OPTIONAL, &type, err)) < 0 ||
        (r = json_get_array(&rootfs, "diff_ids", JSON_OPTIONAL, &ids, err)) < 0)
        return r;
    if (!str_equal(type, "layers"))
        return json_refuse(&rootfs, err, "its type must be \"layers\"");
    if (ids.value == NULL)
        return 0;
    if (json_count(&ids) > RECORD_LAYERS_MAX)
        return json_refuse(&ids, err, "%zu layers, at most %d are possible", json_count(&ids),
                           RECORD_LAYERS_MAX);
    for (size_t i = 0; r == 0 && json_item(&ids, i, &item); i++)
        r = add_layer(&item, record, err);
    return r;
}

static int get_all(const struct json *root, struct image_record *record, struct cay_error *err) {
    int r = json_as_object(root, err);
    if (r < 0 ||
        (r = get_text(root, "created", record->created, sizeof record->created, err)) < 0 ||
        (r = get_text(root, "os", record->os, sizeof record->os, err)) < 0 ||
        (r = get_text(root, "architecture", record->architecture, sizeof record->architecture,
                      err)) < 0 ||
        (r = get_text(root, "variant", record->variant, sizeof record->variant, err)) < 0 ||
        (r = get_config(root, record, err)) < 0)
        return r;
    return get_rootfs(root, record, err);
}

int config_parse(const char *text, size_t len, struct image_record *record, struct cay_error *err) {
    static const char what[] = "image configuration";
    if (len > MANIFEST_SIZE_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: more than %d bytes", what,
                         MANIFEST_SIZE_MAX);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = json_parse(what, text, len, &doc, err);
    if (r == 0) {
        struct json root = json_root(doc, what);
        r = get_all(&root, record, err);
    }
    if (r < 0)
        return error_remedy(err, "the image is broken; ask whoever published it");
    digest_of(text, len, record->id);
    return 0;
}
