/* What a sandbox needs to know of an image: the small part of its manifest and configuration that
 * outlives the pull, as a TOML text, so that the program that starts sandboxes reads no JSON. Its
 * values come from whoever made the image: hostile, though well-formed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "image/reference.h"

struct cay_error;

enum {
    RECORD_LAYERS_MAX = 127, /* as Docker's overlay2 */
    RECORD_TEXT_MAX = 512 * 1024,
    RECORD_WORDS_MAX = 8000, /* elements of all lists together */
    RECORD_WORD_SIZE = 256,
};

/* One layer, lowest first in a record. */
struct record_layer {
    char chain[HEX_SIZE];   /* where it is unpacked; depends on all layers below it */
    char diff_id[HEX_SIZE]; /* of the uncompressed tar; "" if it was never computed (a snapshot) */
    char blob[HEX_SIZE];    /* the compressed tar as it was pulled or loaded; "" if none is kept */
    char media_type[RECORD_WORD_SIZE]; /* of the blob */
    uint64_t blob_size;
    uint64_t size;    /* bytes of the unpacked files */
    uint64_t entries; /* how many there are */
};

struct image_record {
    char id[HEX_SIZE];       /* digest of the configuration */
    char manifest[HEX_SIZE]; /* digest of the manifest, a blob too; "" if there was none */
    char created[64];        /* RFC 3339, "" if not told */
    char os[32], architecture[32], variant[32];
    struct strv env, entrypoint, cmd, volumes, ports, labels; /* labels as "K=V" */
    char user[RECORD_WORD_SIZE];
    char working_dir[4096];
    char stop_signal[32];
    struct record_layer *layers;
    size_t layer_count;
};

/* Appends the record as TOML. 0, or -EILSEQ if a value is no UTF-8 (such an image is refused: no
 * JSON could have said so, and the text must be valid TOML), -E2BIG beyond the maxima above,
 * -EINVAL for a digest that is none, -ERANGE for a size beyond int64, -ENOMEM. */
int record_write(const struct image_record *record, struct buf *out);

/* Reads such a text; whatever record_write would not have written is refused, but for keys that it
 * does not know: a newer cay may have added them. */
int record_read(const char *name, const char *text, size_t len, struct image_record **ret,
                struct cay_error *err);

/* Releases it; NULL is fine. */
void record_free(struct image_record *record);
void record_freep(struct image_record **record);

/* An empty one, to be filled; NULL without memory. record_add_layer returns the new layer, which
 * moves with the next one; NULL beyond RECORD_LAYERS_MAX too. */
struct image_record *record_new(void);
struct record_layer *record_add_layer(struct image_record *record);

/* Sums over the layers. */
uint64_t record_size(const struct image_record *record);
