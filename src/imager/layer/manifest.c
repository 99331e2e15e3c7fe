#include "imager/layer/manifest.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"

enum { INDEX_ENTRIES_MAX = 4096 };
#define BLOB_SIZE_MAX (INT64_C(1) << 40)

/* What a media type says of a document. */
enum document_kind { KIND_UNKNOWN, KIND_IMAGE, KIND_INDEX, KIND_SCHEMA_1 };

static const struct {
    const char *media_type;
    enum document_kind kind;
} documents[] = {
    {"application/vnd.oci.image.index.v1+json", KIND_INDEX},
    {"application/vnd.docker.distribution.manifest.list.v2+json", KIND_INDEX},
    {"application/vnd.oci.image.manifest.v1+json", KIND_IMAGE},
    {"application/vnd.docker.distribution.manifest.v2+json", KIND_IMAGE},
    {"application/vnd.docker.distribution.manifest.v1+json", KIND_SCHEMA_1},
    {"application/vnd.docker.distribution.manifest.v1+prettyjws", KIND_SCHEMA_1},
};

static const char *const config_types[] = {
    "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json",
    "application/octet-stream", /* Docker before 1.10.2 */
};

static const char *const layer_types[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

static bool is_listed(const char *text, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (str_equal(text, list[i]))
            return true;
    return false;
}

/* ---- pieces ---- */

/* A short text into a fixed array, which keeps its content if the member is absent. */
static int get_word(const struct json *at, const char *key, char *out, size_t size,
                    struct cay_error *err) {
    const char *text = NULL;
    int r = json_get_string(at, key, JSON_OPTIONAL, &text, err);
    if (r < 0 || text == NULL)
        return r;
    struct json child;
    if (str_copy(out, size, text) < 0 && json_child(at, key, &child))
        return json_refuse(&child, err, "is longer than %zu bytes", size - 1);
    return 0;
}

static int get_digest(const struct json *at, const char *key, char hex[static HEX_SIZE],
                      struct cay_error *err) {
    const char *text = NULL;
    int r = json_get_string(at, key, JSON_REQUIRED, &text, err);
    if (r < 0)
        return r;
    if (digest_parse(text, hex))
        return 0;
    char shown[100];
    (void)json_refuse(at, err, "'%s' is not a sha256 digest",
                      str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use an image whose digests are all sha256");
}

static int get_descriptor(const struct json *at, enum json_need type, struct descriptor *ret,
                          struct cay_error *err) {
    *ret = (struct descriptor){0};
    int64_t size = 0;
    const char *media_type = NULL;
    int r = json_as_object(at, err);
    if (r < 0 || (r = get_digest(at, "digest", ret->hex, err)) < 0 ||
        (r = json_get_integer(at, "size", JSON_REQUIRED, 0, BLOB_SIZE_MAX, &size, err)) < 0 ||
        (r = json_get_string(at, "mediaType", type, &media_type, err)) < 0)
        return r;
    ret->size = (uint64_t)size;
    return get_word(at, "mediaType", ret->media_type, sizeof ret->media_type, err);
}

/* ---- image manifests ---- */

static int get_config(const struct json *root, struct descriptor *ret, struct cay_error *err) {
    struct json at;
    int r = json_get_object(root, "config", JSON_REQUIRED, &at, err);
    if (r < 0 || (r = get_descriptor(&at, JSON_REQUIRED, ret, err)) < 0)
        return r;
    if (is_listed(ret->media_type, config_types, ARRAY_LEN(config_types)))
        return 0;
    char shown[100];
    (void)json_refuse(&at, err, "this is no container image, its configuration is '%s'",
                      str_escape(shown, sizeof shown, ret->media_type));
    return error_remedy(err, "name a container image; charts, signatures and the like cannot run");
}

static int get_layer(const struct json *at, struct descriptor *ret, struct cay_error *err) {
    int r = get_descriptor(at, JSON_REQUIRED, ret, err);
    if (r < 0)
        return r;
    char shown[100];
    if (!is_listed(ret->media_type, layer_types, ARRAY_LEN(layer_types))) {
        (void)json_refuse(at, err, "a layer of unknown type '%s'",
                          str_escape(shown, sizeof shown, ret->media_type));
        return error_remedy(err, "use an image whose layers are tar, gzip or zstd");
    }
    struct json urls;
    if ((r = json_get_array(at, "urls", JSON_OPTIONAL, &urls, err)) < 0)
        return r;
    if (urls.value == NULL || json_count(&urls) == 0)
        return 0;
    (void)json_refuse(at, err, "a foreign layer, which the registry does not hold");
    return error_remedy(err, "use an image whose layers are all in its registry");
}

static int get_layers(const struct json *root, struct manifest *m, struct cay_error *err) {
    struct json list, at;
    int r = json_get_array(root, "layers", JSON_REQUIRED, &list, err);
    if (r < 0)
        return r;
    size_t count = json_count(&list);
    if (count > MANIFEST_LAYERS_MAX)
        return json_refuse(&list, err, "%zu layers, at most %d are possible", count,
                           MANIFEST_LAYERS_MAX);
    m->layers = calloc(count + 1, sizeof *m->layers);
    if (m->layers == NULL)
        return error_sys(err, ENOMEM, "reading a manifest");
    for (size_t i = 0; json_item(&list, i, &at); i++)
        if ((r = get_layer(&at, &m->layers[i], err)) < 0)
            return r;
    m->layer_count = count;
    return 0;
}

static int parse_image(const struct json *root, struct manifest *m, struct cay_error *err) {
    m->kind = MANIFEST_IMAGE;
    int r = get_config(root, &m->config, err);
    return r < 0 ? r : get_layers(root, m, err);
}

/* ---- indexes ---- */

static int get_platform(const struct json *entry, struct platform *p, struct cay_error *err) {
    struct json at;
    int r = json_get_object(entry, "platform", JSON_OPTIONAL, &at, err);
    if (r < 0 || at.value == NULL)
        return r;
    if ((r = get_word(&at, "os", p->os, sizeof p->os, err)) < 0 ||
        (r = get_word(&at, "architecture", p->architecture, sizeof p->architecture, err)) < 0)
        return r;
    return get_word(&at, "variant", p->variant, sizeof p->variant, err);
}

static int get_name(const struct json *entry, char name[static REFERENCE_TEXT_SIZE],
                    struct cay_error *err) {
    struct json at;
    int r = json_get_object(entry, "annotations", JSON_OPTIONAL, &at, err);
    if (r < 0 || at.value == NULL)
        return r;
    /* the whole name, where there is one, goes before what may be a mere tag */
    r = get_word(&at, "org.opencontainers.image.ref.name", name, REFERENCE_TEXT_SIZE, err);
    return r < 0 ? r : get_word(&at, "io.containerd.image.name", name, REFERENCE_TEXT_SIZE, err);
}

static int get_entry(const struct json *at, struct index_entry *ret, struct cay_error *err) {
    *ret = (struct index_entry){0};
    int r = get_descriptor(at, JSON_OPTIONAL, &ret->manifest, err);
    if (r < 0 || (r = get_platform(at, &ret->platform, err)) < 0)
        return r;
    return get_name(at, ret->name, err);
}

/* What describes another entry (provenance, bills of material), and cannot run. */
static bool is_attestation(const struct index_entry *entry) {
    return str_equal(entry->platform.os, "unknown") &&
           str_equal(entry->platform.architecture, "unknown");
}

static int get_entries(const struct json *root, struct index_entry **ret, size_t *ret_count,
                       struct cay_error *err) {
    struct json list, at;
    int r = json_get_array(root, "manifests", JSON_REQUIRED, &list, err);
    if (r < 0)
        return r;
    size_t count = json_count(&list), n = 0;
    if (count > INDEX_ENTRIES_MAX)
        return json_refuse(&list, err, "%zu entries, at most %d are read", count,
                           INDEX_ENTRIES_MAX);
    _cleanup_(freep) struct index_entry *entries = calloc(count + 1, sizeof *entries);
    if (entries == NULL)
        return error_sys(err, ENOMEM, "reading an index");
    for (size_t i = 0; json_item(&list, i, &at); i++) {
        if ((r = get_entry(&at, &entries[n], err)) < 0)
            return r;
        n += !is_attestation(&entries[n]);
    }
    *ret = TAKE_PTR(entries);
    *ret_count = n;
    return 0;
}

static bool tells_platform(const struct index_entry *entry) {
    return entry->platform.architecture[0] != '\0';
}

static int refuse_platform(const struct index_entry *entries, size_t count,
                           const struct platform *wanted, struct cay_error *err) {
    char text[PLATFORM_TEXT_SIZE];
    _cleanup_(buf_free) struct buf list = BUF_INIT(200); /* what does not fit is left out */
    for (size_t i = 0; i < count; i++)
        if (tells_platform(&entries[i]))
            (void)buf_printf(&list, "%s%s", list.len > 0 ? ", " : "",
                             platform_format(&entries[i].platform, text));
    (void)error_set(err, CAY_UNSUPPORTED, "the image is not made for %s, but for %s",
                    platform_format(wanted, text), list.len > 0 ? buf_text(&list) : "nothing told");
    return error_remedy(err, "choose another image or tag, or name its platform with --platform");
}

/* The best fit, the first of equals; a single one that tells no platform is taken as it is. */
static int choose(const struct index_entry *entries, size_t count, const struct platform *wanted,
                  struct descriptor *ret, struct cay_error *err) {
    const struct index_entry *best = NULL;
    unsigned score = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned s = tells_platform(&entries[i]) ? platform_match(&entries[i].platform, wanted) : 0;
        if (s > score) {
            best = &entries[i];
            score = s;
        }
    }
    if (best == NULL && count == 1 && !tells_platform(&entries[0]))
        best = &entries[0];
    if (best == NULL)
        return refuse_platform(entries, count, wanted, err);
    *ret = best->manifest;
    return 0;
}

static int parse_index(const struct json *root, const struct platform *platform, struct manifest *m,
                       struct cay_error *err) {
    m->kind = MANIFEST_INDEX;
    _cleanup_(freep) struct index_entry *entries = NULL;
    size_t count = 0;
    int r = get_entries(root, &entries, &count, err);
    return r < 0 ? r : choose(entries, count, platform, &m->chosen, err);
}

/* ---- documents ---- */

static int refuse_schema_1(struct cay_error *err) {
    (void)error_set(err, CAY_UNSUPPORTED,
                    "manifest: Docker's schema 1, which cannot be verified, is not supported");
    return error_remedy(err, "push the image again with a Docker of this decade, or copy it with "
                             "skopeo copy --format oci");
}

/* Parameters ("; charset=utf-8") are no part of it. */
static enum document_kind kind_of_type(const char *media_type) {
    size_t len = strcspn(media_type, "; \t");
    for (size_t i = 0; i < ARRAY_LEN(documents); i++)
        if (strlen(documents[i].media_type) == len &&
            strncasecmp(documents[i].media_type, media_type, len) == 0)
            return documents[i].kind;
    return KIND_UNKNOWN;
}

static bool has(const struct json *root, const char *key) {
    struct json at;
    return json_child(root, key, &at);
}

/* The kind that all of type, field and shape allow. A document that two readers could take for
 * different things is refused, since its digest would mean both (CVE-2021-41190). */
static int decide(const struct json *root, const char *media_type, enum document_kind *ret,
                  struct cay_error *err) {
    const char *field = "";
    int r = json_get_string(root, "mediaType", JSON_OPTIONAL, &field, err);
    if (r < 0)
        return r;
    bool index = has(root, "manifests"), image = has(root, "layers") || has(root, "config");
    enum document_kind told = kind_of_type(media_type), own = kind_of_type(field);
    if (told == KIND_SCHEMA_1 || own == KIND_SCHEMA_1 || has(root, "fsLayers"))
        return refuse_schema_1(err);
    if ((index && image) || (told != KIND_UNKNOWN && own != KIND_UNKNOWN && told != own))
        return json_refuse(root, err, "it says to be an index and an image at once");
    if (told == KIND_UNKNOWN)
        told = own;
    if (told == KIND_UNKNOWN && (index || image))
        told = index ? KIND_INDEX : KIND_IMAGE;
    if (told == KIND_UNKNOWN) {
        (void)json_refuse(root, err, "neither an image's manifest nor an index");
        return error_remedy(err, "check the name; what it names is no container image");
    }
    *ret = told;
    return 0;
}

static int check_schema(const struct json *root, struct cay_error *err) {
    int64_t version = 2;
    int r = json_get_integer(root, "schemaVersion", JSON_OPTIONAL, 0, 1000, &version, err);
    if (r < 0)
        return r;
    if (version == 1)
        return refuse_schema_1(err);
    return version == 2 ? 0 : json_refuse(root, err, "schemaVersion must be 2");
}

static int open_document(const char *what, const char *text, size_t len, struct json_document **ret,
                         struct cay_error *err) {
    if (len > MANIFEST_SIZE_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: more than %d bytes", what,
                         MANIFEST_SIZE_MAX);
    int r = json_parse(what, text, len, ret, err);
    if (r < 0)
        return error_remedy(err, "the image is broken; ask whoever published it");
    struct json root = json_root(*ret, what);
    return json_as_object(&root, err);
}

int manifest_parse(const char *text, size_t len, const char *media_type,
                   const struct platform *platform, struct manifest *ret, struct cay_error *err) {
    *ret = (struct manifest){0};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = open_document("manifest", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "manifest");
    enum document_kind kind = KIND_UNKNOWN;
    if ((r = check_schema(&root, err)) < 0 || (r = decide(&root, media_type, &kind, err)) < 0)
        return r;
    r = kind == KIND_INDEX ? parse_index(&root, platform, ret, err) : parse_image(&root, ret, err);
    if (r < 0)
        manifest_free(ret);
    return r;
}

void manifest_free(struct manifest *m) {
    free(m->layers);
    *m = (struct manifest){0};
}

int manifest_parse_index(const char *text, size_t len, struct index_entry **ret, size_t *ret_count,
                         struct cay_error *err) {
    *ret = NULL;
    *ret_count = 0;
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = open_document("index", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "index");
    if ((r = check_schema(&root, err)) < 0)
        return r;
    return get_entries(&root, ret, ret_count, err);
}
