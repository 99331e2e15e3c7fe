#include "image/record.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/toml/toml.h"

enum { FORMAT = 1 }; /* a cay that knows only this refuses what a later one would misread */

/* What a record always has, and what its lists and layers may add, fits the TOML reader's bound. */
_Static_assert(RECORD_WORDS_MAX + RECORD_LAYERS_MAX * 8 + 64 <= (int)TOML_VALUES_MAX, "values fit");
_Static_assert((int)RECORD_TEXT_MAX <= (int)TOML_SIZE_MAX, "the text fits");

/* ---- the fields, for reading and writing alike ---- */

enum field_kind { FIELD_TEXT, FIELD_HEX, FIELD_HEX_OR_NONE, FIELD_LIST, FIELD_NUMBER };

struct field {
    const char *key;
    enum field_kind kind;
    size_t offset, size;
};

#define TEXT(type, name)                                                                           \
    { #name, FIELD_TEXT, offsetof(struct type, name), sizeof(((struct type *)0)->name) }
#define HEX(type, name)                                                                            \
    { #name, FIELD_HEX, offsetof(struct type, name), HEX_SIZE }
#define HEX_OR_NONE(type, name)                                                                    \
    { #name, FIELD_HEX_OR_NONE, offsetof(struct type, name), HEX_SIZE }
#define LIST(name)                                                                                 \
    { #name, FIELD_LIST, offsetof(struct image_record, name), sizeof(struct strv) }
#define NUMBER(name)                                                                               \
    { #name, FIELD_NUMBER, offsetof(struct record_layer, name), sizeof(uint64_t) }

static const struct field record_fields[] = {
    HEX(image_record, id),
    HEX_OR_NONE(image_record, manifest),
    TEXT(image_record, created),
    TEXT(image_record, os),
    TEXT(image_record, architecture),
    TEXT(image_record, variant),
    LIST(env),
    LIST(entrypoint),
    LIST(cmd),
    LIST(volumes),
    LIST(ports),
    LIST(labels),
    TEXT(image_record, user),
    TEXT(image_record, working_dir),
    TEXT(image_record, stop_signal),
};

static const struct field layer_fields[] = {
    HEX(record_layer, chain),
    HEX_OR_NONE(record_layer, diff_id),
    HEX_OR_NONE(record_layer, blob),
    TEXT(record_layer, media_type),
    NUMBER(blob_size),
    NUMBER(size),
    NUMBER(entries),
};

/* ---- life ---- */

struct image_record *record_new(void) {
    return calloc(1, sizeof(struct image_record));
}

void record_free(struct image_record *record) {
    if (record == NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(record_fields); i++)
        if (record_fields[i].kind == FIELD_LIST)
            strv_free((struct strv *)(void *)((char *)record + record_fields[i].offset));
    free(record->layers);
    free(record);
}

void record_freep(struct image_record **record) {
    record_free(*record);
}

struct record_layer *record_add_layer(struct image_record *record) {
    if (record->layer_count >= RECORD_LAYERS_MAX)
        return NULL;
    struct record_layer *layers =
        realloc(record->layers, (record->layer_count + 1) * sizeof *layers);
    if (layers == NULL)
        return NULL;
    record->layers = layers;
    struct record_layer *layer = &layers[record->layer_count++];
    *layer = (struct record_layer){0};
    return layer;
}

uint64_t record_size(const struct image_record *record) {
    uint64_t sum = 0;
    for (size_t i = 0; i < record->layer_count; i++)
        if (__builtin_add_overflow(sum, record->layers[i].size, &sum))
            return UINT64_MAX;
    return sum;
}

/* ---- writing ---- */

static int write_string(const char *text, struct buf *out) {
    if (!str_is_utf8(text, strlen(text)))
        return -EILSEQ;
    (void)buf_putc(out, '"');
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            (void)buf_putc(out, '\\');
        if (c < 0x20 || c == 0x7f)
            (void)buf_printf(out, "\\u%04x", c);
        else
            (void)buf_putc(out, *p);
    }
    return buf_putc(out, '"');
}

static int write_list(const struct strv *list, struct buf *out) {
    (void)buf_putc(out, '[');
    for (size_t i = 0; i < list->len; i++) {
        (void)buf_puts(out, i > 0 ? ",\n    " : "\n    ");
        int r = write_string(list->v[i], out);
        if (r < 0)
            return r;
    }
    return buf_puts(out, list->len > 0 ? "\n]" : "]");
}

static int write_number(uint64_t number, struct buf *out) {
    return number > INT64_MAX ? -ERANGE : buf_printf(out, "%" PRIu64, number);
}

static int write_value(const struct field *field, const void *value, struct buf *out) {
    switch (field->kind) {
    case FIELD_LIST:
        return write_list(value, out);
    case FIELD_NUMBER:
        return write_number(*(const uint64_t *)value, out);
    case FIELD_HEX:
    case FIELD_HEX_OR_NONE: {
        bool none = *(const char *)value == '\0' && field->kind == FIELD_HEX_OR_NONE;
        return none || hex_is_valid(value) ? write_string(value, out) : -EINVAL;
    }
    case FIELD_TEXT:
        break;
    }
    return write_string(value, out);
}

static int write_fields(const struct field *fields, size_t count, const void *from,
                        struct buf *out) {
    for (size_t i = 0; i < count; i++) {
        (void)buf_printf(out, "%s = ", fields[i].key);
        int r = write_value(&fields[i], (const char *)from + fields[i].offset, out);
        if (r == 0)
            r = buf_putc(out, '\n');
        if (r < 0)
            return r;
    }
    return 0;
}

/* The elements of all lists. */
static size_t count_words(const struct image_record *record) {
    return record->env.len + record->entrypoint.len + record->cmd.len + record->volumes.len +
           record->ports.len + record->labels.len;
}

int record_write(const struct image_record *record, struct buf *out) {
    size_t start = out->len;
    if (record->layer_count > RECORD_LAYERS_MAX || count_words(record) > RECORD_WORDS_MAX)
        return -E2BIG;
    (void)buf_printf(out, "format = %d\n", FORMAT);
    int r = write_fields(record_fields, ARRAY_LEN(record_fields), record, out);
    for (size_t i = 0; r == 0 && i < record->layer_count; i++) {
        (void)buf_puts(out, "\n[[layer]]\n");
        r = write_fields(layer_fields, ARRAY_LEN(layer_fields), &record->layers[i], out);
    }
    if (r < 0)
        return r == -ENOBUFS ? -E2BIG : r;
    return out->len - start > RECORD_TEXT_MAX ? -E2BIG : 0;
}

/* ---- reading ---- */

struct reader {
    const char *name;
    struct cay_error *err;
};

static int damaged(const struct reader *r, const struct toml_value *at, const char *key,
                   const char *why) {
    int result = error_set(r->err, CAY_INVALID_ARGUMENT, "image record %s:%u: %s %s", r->name,
                           at->line, key, why);
    (void)error_remedy(r->err, "remove the image with 'cay image rm', and pull or build it again");
    return result;
}

/* A string without NUL, which a C string can hold. */
static int check_string(const struct reader *r, const struct toml_value *v, const char *key) {
    if (v->type != TOML_STRING)
        return damaged(r, v, key, "is not a string");
    return strlen(v->text) == v->text_len ? 0 : damaged(r, v, key, "holds a NUL character");
}

static int read_text(const struct reader *r, const struct toml_value *v, const struct field *field,
                     char *to) {
    int result = check_string(r, v, field->key);
    if (result < 0)
        return result;
    bool hex = field->kind != FIELD_TEXT;
    bool none = field->kind == FIELD_HEX_OR_NONE && v->text_len == 0;
    if (hex && !none && !hex_is_valid(v->text))
        return damaged(r, v, field->key, "is not a digest of 64 lower-case hex digits");
    return str_copy(to, field->size, v->text) < 0 ? damaged(r, v, field->key, "is too long") : 0;
}

static int read_list(const struct reader *r, const struct toml_value *v, const char *key,
                     struct strv *to) {
    if (v->type != TOML_ARRAY)
        return damaged(r, v, key, "is not a list");
    for (const struct toml_value *e = v->first; e != NULL; e = e->next) {
        int result = check_string(r, e, key);
        if (result < 0)
            return result;
        if (strv_push(to, e->text) < 0)
            return error_sys(r->err, ENOMEM, "reading the image record %s", r->name);
    }
    return 0;
}

static int read_value(const struct reader *r, const struct toml_value *v, const struct field *field,
                      void *to) {
    if (field->kind == FIELD_LIST)
        return read_list(r, v, field->key, to);
    if (field->kind != FIELD_NUMBER)
        return read_text(r, v, field, to);
    if (v->type != TOML_INTEGER || v->integer < 0)
        return damaged(r, v, field->key, "is not a number of zero or more");
    *(uint64_t *)to = (uint64_t)v->integer;
    return 0;
}

/* Keys that are not among the fields are a newer cay's. */
static int read_fields(const struct reader *r, const struct toml_value *table,
                       const struct field *fields, size_t count, void *to) {
    for (size_t i = 0; i < count; i++) {
        const struct toml_value *v = toml_get(table, fields[i].key);
        if (v == NULL)
            return damaged(r, table, fields[i].key, "is missing");
        int result = read_value(r, v, &fields[i], (char *)to + fields[i].offset);
        if (result < 0)
            return result;
    }
    return 0;
}

static int read_layers(const struct reader *r, const struct toml_value *list,
                       struct image_record *record) {
    if (list->type != TOML_ARRAY || list->count > RECORD_LAYERS_MAX)
        return damaged(r, list, "layer", "is not a list of at most 127 layers");
    for (const struct toml_value *e = list->first; e != NULL; e = e->next) {
        if (e->type != TOML_TABLE)
            return damaged(r, e, "layer", "is not a table");
        struct record_layer *layer = record_add_layer(record);
        if (layer == NULL)
            return error_sys(r->err, ENOMEM, "reading the image record %s", r->name);
        int result = read_fields(r, e, layer_fields, ARRAY_LEN(layer_fields), layer);
        if (result < 0)
            return result;
    }
    return 0;
}

static int read_root(const struct reader *r, const struct toml_value *root,
                     struct image_record *record) {
    const struct toml_value *format = toml_get(root, "format");
    if (format == NULL || format->type != TOML_INTEGER || format->integer != FORMAT)
        return damaged(r, root, "format", "is not one that this version of cay knows");
    int result = read_fields(r, root, record_fields, ARRAY_LEN(record_fields), record);
    const struct toml_value *layers = toml_get(root, "layer");
    if (result == 0 && layers != NULL)
        result = read_layers(r, layers, record);
    if (result == 0 && count_words(record) > RECORD_WORDS_MAX)
        result = damaged(r, root, "env", "and the other lists have too many elements");
    return result;
}

int record_read(const char *name, const char *text, size_t len, struct image_record **ret,
                struct cay_error *err) {
    struct reader reader = {.name = name, .err = err};
    _cleanup_(toml_freep) struct toml_value *root = NULL;
    if (len > RECORD_TEXT_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "image record %s is larger than %d bytes", name,
                         RECORD_TEXT_MAX);
    int r = toml_parse(name, text, len, &root, err);
    if (r < 0) {
        (void)error_prefix(err, "image record");
        return r;
    }
    _cleanup_(record_freep) struct image_record *record = record_new();
    if (record == NULL)
        return error_sys(err, ENOMEM, "reading the image record %s", name);
    r = read_root(&reader, root, record);
    if (r == 0)
        *ret = TAKE_PTR(record);
    return r;
}
