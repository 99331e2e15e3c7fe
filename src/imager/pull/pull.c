#include "imager/pull/pull.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/progress.h"
#include "imager/layer/digest.h"
#include "imager/pull/background_sync.h"
#include "imager/pull/pull_layers.h"
#include "imager/registry/policy.h"

enum { INDEX_LEVELS_MAX = 3 };

/* What one pull has learnt. */
struct pull {
    const struct image_store *store;
    const struct reference *ref;
    const struct pull_options *options;
    struct registry *registry;
    struct manifest manifest;
    char manifest_hex[HEX_SIZE];
    struct image_record *record;
};

/* ---- what is here ---- */

/* The record, or NULL if it or one of its layers is missing. */
static struct image_record *read_whole(const struct image_store *store, const char *id) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    if (image_store_read_record(store, id, &record, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < record->layer_count; i++)
        if (!image_store_has_layer(store, record->layers[i].chain))
            return NULL;
    return TAKE_PTR(record);
}

static struct platform platform_of(const struct image_record *record) {
    struct platform p;
    memcpy(p.os, record->os, sizeof p.os);
    memcpy(p.architecture, record->architecture, sizeof p.architecture);
    memcpy(p.variant, record->variant, sizeof p.variant);
    return p;
}

static bool is_whole(const struct image_store *store, const char *id) {
    _cleanup_(record_freep) struct image_record *record = read_whole(store, id);
    return record != NULL;
}

static bool is_for(const struct image_store *store, const char *id, const struct platform *wanted) {
    _cleanup_(record_freep) struct image_record *record = read_whole(store, id);
    if (record == NULL)
        return false;
    struct platform p = platform_of(record);
    return platform_match(&p, wanted) > 0;
}

/* 1 if the name is enough to know the image; 0 if the registry has to be asked. */
static int find_here(const struct image_store *store, const struct reference *ref,
                     const struct pull_options *options, char id[static HEX_SIZE],
                     struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    if (options->policy == PULL_ALWAYS)
        return 0;
    int r = image_store_find_reference(store, ref, id, err);
    if (r < 0 && r != -CAY_NOT_FOUND)
        return r;
    if (r == 0 && options->policy == PULL_MISSING && is_for(store, id, &options->platform))
        return 1;
    if (options->policy == PULL_MISSING)
        return 0;
    if (r == 0 && is_whole(store, id))
        return 1;
    (void)error_set(err, CAY_NOT_FOUND, "image '%s' is not here and pull policy is never",
                    reference_familiar(ref, name));
    return error_remedy(err,
                        "get it with 'cay image pull %s', or from a file with 'cay image "
                        "load', or allow pulling",
                        name);
}

/* ---- documents ---- */

static int open_registry(struct pull *p, struct cay_error *err) {
    const struct pull_options *o = p->options;
    struct credential credential = CREDENTIAL_NONE;
    if (o->find_credential != NULL) {
        int r = o->find_credential(o->user, p->ref->registry, &credential, err);
        if (r < 0)
            return r;
    }
    bool known = credential.user != NULL || credential.identity_token != NULL;
    struct registry_options options = o->registry;
    options.is_judged = p->store->owner[0] != '\0';
    options.listed = o->registries;
    if (o->insecure_registries != NULL && strv_has(o->insecure_registries, p->ref->registry))
        options.insecure = true;
    int r = registry_open(p->ref, known ? &credential : NULL, &options, &p->registry, err);
    credential_clear(&credential);
    return r;
}

/* Gets and reads one document. `expected` NULL: whatever has the name. */
static int get_document(struct pull *p, const char *name, const struct descriptor *expected,
                        struct cay_error *err) {
    struct registry_document d = {0};
    int r = registry_get_manifest(p->registry, name, &d, err);
    if (r < 0)
        return r;
    if (expected != NULL && d.body.len != expected->size)
        r = error_set(err, CAY_INVALID_ARGUMENT,
                      "the index says that manifest %s has %llu bytes, but it has %zu", name,
                      (unsigned long long)expected->size, d.body.len);
    manifest_free(&p->manifest);
    if (r == 0)
        r = manifest_parse(buf_text(&d.body), d.body.len, d.media_type, &p->options->platform,
                           &p->manifest, err);
    if (r == 0 && p->manifest.kind == MANIFEST_IMAGE)
        r = image_store_put_blob(p->store, d.hex, d.body.data, d.body.len, err);
    memcpy(p->manifest_hex, d.hex, HEX_SIZE);
    buf_free(&d.body);
    return r;
}

/* From the name, through indexes, to the manifest of the one image for the platform. */
static int resolve(struct pull *p, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    if (p->ref->digest[0] != '\0')
        (void)snprintf(name, sizeof name, "sha256:%s", p->ref->digest);
    else
        (void)snprintf(name, sizeof name, "%s", p->ref->tag);
    int r = get_document(p, name, NULL, err);
    for (int level = 0; r == 0 && p->manifest.kind == MANIFEST_INDEX; level++) {
        struct descriptor chosen = p->manifest.chosen;
        if (level == INDEX_LEVELS_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "more than %d indexes in each other",
                             INDEX_LEVELS_MAX);
        (void)snprintf(name, sizeof name, "sha256:%s", chosen.hex);
        r = get_document(p, name, &chosen, err);
    }
    return r;
}

static int append(void *user, const void *data, size_t len, struct cay_error *err) {
    int r = buf_append(user, data, len);
    return r < 0 ? error_sys(err, -r, "reading the image's configuration") : 0;
}

static int begin_anew(void *user, struct cay_error *err) {
    (void)err;
    buf_clear(user);
    return 0;
}

/* The configuration, from the store if it is there. */
static int get_config(struct pull *p, struct buf *out, struct cay_error *err) {
    const struct descriptor *config = &p->manifest.config;
    char hex[HEX_SIZE];
    if (config->size > MANIFEST_SIZE_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT,
                         "the image's configuration has more than %d bytes", MANIFEST_SIZE_MAX);
    _cleanup_(closep) int fd = image_store_knows(p->store, config->hex)
                                   ? image_store_open_blob(p->store, config->hex)
                                   : -1;
    struct blob_sink sink = {.write = append, .restart = begin_anew, .user = out};
    int r = fd >= 0 ? fd_read_to_end(fd, out) : 0;
    if (r < 0)
        return error_sys(err, -r, "reading blob sha256:%.12s", config->hex);
    if (fd < 0 && (r = registry_get_blob(p->registry, config, 0, &sink, err)) < 0)
        return r;
    digest_of(buf_text(out), out->len, hex);
    if (str_equal(hex, config->hex) && out->len == config->size)
        return fd >= 0 ? 0 : image_store_put_blob(p->store, hex, out->data, out->len, err);
    (void)error_set(err, CAY_UNAVAILABLE,
                    "the configuration sha256:%.64s came with other content (sha256:%.12s...)",
                    config->hex, hex);
    return error_remedy(err, "the registry is damaged, or lies: ask who runs it");
}

/* ---- the record ---- */

static int check_platform(const struct pull *p, struct cay_error *err) {
    char image[PLATFORM_TEXT_SIZE], wanted[PLATFORM_TEXT_SIZE];
    struct platform told = platform_of(p->record);
    if (platform_match(&told, &p->options->platform) > 0)
        return 0;
    (void)error_set(err, CAY_UNSUPPORTED, "the image is made for %s, not for %s",
                    platform_format(&told, image), platform_format(&p->options->platform, wanted));
    return error_remedy(err, "choose another image or tag, or name its platform with --platform");
}

/* What the manifest says of the layers. */
static void add_blobs(struct pull *p) {
    const char *below = "";
    for (size_t i = 0; i < p->record->layer_count; i++) {
        struct record_layer *layer = &p->record->layers[i];
        const struct descriptor *blob = &p->manifest.layers[i];
        digest_chain(below, layer->diff_id, layer->chain);
        memcpy(layer->blob, blob->hex, HEX_SIZE);
        memcpy(layer->media_type, blob->media_type, sizeof layer->media_type);
        layer->blob_size = blob->size;
        below = layer->chain;
    }
}

static int make_record(struct pull *p, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    int r = get_config(p, &text, err);
    if (r < 0)
        return r;
    p->record = record_new();
    if (p->record == NULL)
        return error_sys(err, ENOMEM, "reading the image's configuration");
    r = config_parse(buf_text(&text), text.len, p->record, err);
    if (r < 0)
        return r;
    if (p->record->layer_count != p->manifest.layer_count || p->record->layer_count == 0) {
        (void)error_set(err, CAY_INVALID_ARGUMENT,
                        "the manifest has %zu layers, the configuration %zu",
                        p->manifest.layer_count, p->record->layer_count);
        return error_remedy(err, "the image is broken or empty; ask whoever published it");
    }
    memcpy(p->record->manifest, p->manifest_hex, HEX_SIZE);
    add_blobs(p);
    return check_platform(p, err);
}

/* ---- all of it ---- */

/* Before anything is fetched; unpacked it is more, and is looked at again afterwards. */
static int check_room(const struct pull *p, struct cay_error *err) {
    uint64_t bytes = 0;
    char need[32], has[32];
    for (size_t i = 0; i < p->record->layer_count; i++)
        if (!image_store_knows(p->store, p->record->layers[i].blob))
            bytes += MIN(p->record->layers[i].blob_size, UINT64_MAX - bytes);
    if (p->store->room == 0 || bytes <= p->store->room)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "it takes %s, and of the key's disk %s are left",
              str_bytes(bytes, need), str_bytes(p->store->room, has));
    return error_remedy(err, "remove an image, sandbox or volume first, or ask for a key with a "
                             "higher --disk");
}

static int bring_image(struct pull *p, struct cay_error *err) {
    int r = make_record(p, err);
    if (r == 0)
        r = check_room(p, err);
    if (r < 0 || (r = pull_layers(p->store, p->registry, p->options->progress, p->record, err)) < 0)
        return r;
    return image_store_write_record(p->store, p->record, err);
}

/* Only now can the image be seen. What was asked for by digest does not get the tag besides: the
 * tag may mean something else by now. */
static int give_name(const struct pull *p, struct cay_error *err) {
    struct reference name = *p->ref;
    if (name.digest[0] != '\0')
        name.tag[0] = '\0';
    return image_store_set_name(p->store, &name, p->manifest.config.hex, err);
}

static int check_registry(const struct pull *p, struct cay_error *err) {
    if (p->store->owner[0] == '\0' ||
        registry_is_admitted(p->options->registries, p->ref->registry))
        return 0;
    error_set(err, CAY_FORBIDDEN, "keys may not use the registry %s", p->ref->registry);
    return error_remedy(err, "add it to [images] registries");
}

static int check_allowed(const struct pull *p, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    if (image_store_allows(p->store, p->ref))
        return 0;
    error_set(err, CAY_FORBIDDEN, "keys may not use the image '%s'",
              reference_familiar(p->ref, name));
    return error_remedy(err, "add it to [images] allowed");
}

static int pull(struct pull *p, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    progress_note(p->options->progress, "%s: resolving", reference_familiar(p->ref, name));
    int r = check_registry(p, err);
    if (r == 0)
        r = check_allowed(p, err);
    if (r == 0)
        r = open_registry(p, err);
    if (r < 0 || (r = resolve(p, err)) < 0)
        return r;
    bool here = image_store_knows(p->store, p->manifest.config.hex) &&
                is_for(p->store, p->manifest.config.hex, &p->options->platform);
    if (!here && (r = bring_image(p, err)) < 0)
        return r;
    if ((r = image_store_own(p->store, p->manifest.config.hex, err)) < 0 ||
        (r = give_name(p, err)) < 0)
        return r;
    if (!here)
        settle_later(p->store);
    return 0;
}

/* Every error names the image, its registry and something to do. Most of the registry's do so
 * already. */
static void complete_error(const struct reference *ref, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    if (!str_starts(err->message, "image '"))
        (void)error_prefix(err, "image '%s' from registry %s", reference_familiar(ref, name),
                           ref->registry);
    if (err->remedy[0] == '\0' && err->code == CAY_INVALID_ARGUMENT)
        (void)error_remedy(err, "the image is broken; ask whoever published it");
    else if (err->remedy[0] == '\0')
        (void)error_remedy(err, "try again; what came so far is kept");
}

/* A key is told nothing of registries that nobody chose for it. What this machine lacks is no
 * secret. */
static bool must_hide(const struct pull *p, const struct cay_error *err) {
    return p->store->owner[0] != '\0' && err->code != CAY_RESOURCE_EXHAUSTED &&
           err->code != CAY_LIMIT_REACHED &&
           !registry_is_listed(p->options->registries, p->ref->registry);
}

int image_pull(const struct image_store *store, const struct reference *ref,
               const struct pull_options *options, char id[static HEX_SIZE],
               struct cay_error *err) {
    struct cay_error own = {0};
    struct image_store known = image_store_as(store, store->owner);
    struct pull p = {.store = &known, .ref = ref, .options = options};
    int r = find_here(store, ref, options, id, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (err == NULL)
        err = &own;
    r = image_store_learn(&known, err);
    if (r == 0)
        r = pull(&p, err);
    if (r < 0)
        complete_error(ref, err);
    if (r < 0 && must_hide(&p, err))
        r = registry_hide_reason(ref, err);
    else if (r == 0)
        memcpy(id, p.manifest.config.hex, HEX_SIZE);
    registry_close(p.registry);
    manifest_free(&p.manifest);
    record_free(p.record);
    image_store_forget(&known);
    return r;
}
