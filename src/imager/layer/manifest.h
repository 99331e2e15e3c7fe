/* The JSON documents of an image: index, manifest, configuration. Read with bounds and without
 * trust; written canonically, so that the same content has the same digest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/record.h"

struct cay_error;

enum { MANIFEST_SIZE_MAX = 4 * 1024 * 1024, MANIFEST_LAYERS_MAX = RECORD_LAYERS_MAX };

struct platform {
    char os[32], architecture[32], variant[32];
};
/* Of this machine; or parsed from "linux/arm64/v8". */
struct platform platform_here(void);
int platform_parse(const char *text, struct platform *ret, struct cay_error *err);
/* How well an image for one platform runs on another: 0 not at all, else the more the better. What
 * an image does not tell counts as told right. */
unsigned platform_match(const struct platform *image, const struct platform *wanted);
/* "linux/arm64/v8", safe to show. */
enum { PLATFORM_TEXT_SIZE = 300 };
const char *platform_format(const struct platform *platform, char out[static PLATFORM_TEXT_SIZE]);

/* What a manifest says of a blob. */
struct descriptor {
    char hex[HEX_SIZE];
    char media_type[RECORD_WORD_SIZE];
    uint64_t size;
};

enum manifest_kind { MANIFEST_IMAGE, MANIFEST_INDEX };

/* An index is resolved to the one manifest that fits. */
struct manifest {
    enum manifest_kind kind;
    struct descriptor config;
    struct descriptor *layers; /* lowest first */
    size_t layer_count;
    struct descriptor chosen; /* of an index: the manifest for the platform; may be an index */
};

/* media_type is what came with it ("" if nothing did): the document's own field and its shape
 * decide then. Schema 1 is refused. */
int manifest_parse(const char *text, size_t len, const char *media_type,
                   const struct platform *platform, struct manifest *ret, struct cay_error *err);
void manifest_free(struct manifest *m);

/* Every manifest of an index, as `load` needs it, with names from the annotations. */
struct index_entry {
    struct descriptor manifest;
    char name[REFERENCE_TEXT_SIZE]; /* io.containerd.image.name or ref.name; "" if none */
    struct platform platform;       /* empty if not told */
};
int manifest_parse_index(const char *text, size_t len, struct index_entry **ret, size_t *ret_count,
                         struct cay_error *err);

/* Fills the record (all but chains, blobs and sizes) from a configuration, with a layer for each
 * diff_id. Any field may be absent or null. */
int config_parse(const char *text, size_t len, struct image_record *record, struct cay_error *err);

/* Canonical documents from a record whose layers are complete: the configuration (whose digest is
 * the id, filled in) and the manifest. history is one line per layer, may be NULL. */
int config_write(const struct image_record *record, const char *const *history, struct buf *out);
/* The media type as OCI calls it, where Docker has a name of its own. */
const char *manifest_oci_type(const char *media_type);
int manifest_write(const struct image_record *record, const struct descriptor *config,
                   struct buf *out);
