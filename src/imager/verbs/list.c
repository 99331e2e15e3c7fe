/* ls, inspect */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "imager/verbs/verbs.h"

enum { ANSWER_MAX = 64 * 1024 * 1024, SHORT_ID = 12 };

/* ---- ls ---- */

struct listing {
    struct image_name *names;
    size_t name_count;
    char (*ids)[HEX_SIZE];
    struct image_record **records; /* by id; NULL: removed meanwhile */
    size_t id_count;
};

static void listing_free(struct listing *l) {
    for (size_t i = 0; l->records != NULL && i < l->id_count; i++)
        record_free(l->records[i]);
    free(l->records);
    free(l->ids);
    free(l->names);
}

static int read_records(const struct image_store *store, struct listing *l, struct cay_error *err) {
    l->records = calloc(l->id_count + 1, sizeof(struct image_record *));
    if (l->records == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    for (size_t i = 0; i < l->id_count; i++) {
        int r = image_store_read_record(store, l->ids[i], &l->records[i], err);
        if (r < 0 && r != -CAY_NOT_FOUND)
            return r;
    }
    return 0;
}

static int read_listing(const struct image_store *store, struct listing *l, struct cay_error *err) {
    int r = image_store_names(store, &l->names, &l->name_count, err);
    if (r == 0)
        r = image_store_ids(store, &l->ids, &l->id_count, err);
    return r < 0 ? r : read_records(store, l, err);
}

static const struct image_record *record_of(const struct listing *l, const char *id) {
    for (size_t i = 0; i < l->id_count; i++)
        if (str_equal(l->ids[i], id))
            return l->records[i];
    return NULL;
}

static bool has_name(const struct listing *l, const char *id) {
    for (size_t i = 0; i < l->name_count; i++)
        if (str_equal(l->names[i].id, id))
            return true;
    return false;
}

/* One line of the table. */
struct row {
    char name[REFERENCE_TEXT_SIZE];
    char tag[REFERENCE_TAG_SIZE + 8];
    const char *owner;
};

/* "team/tool" and "1.0", or "@sha256:0123456789ab" where the name is by digest. */
static struct row split_name(const struct reference *ref) {
    struct row row = {.tag = "<none>", .owner = ""};
    (void)reference_familiar(ref, row.name);
    row.name[strcspn(row.name, "@")] = '\0';
    char *slash = strrchr(row.name, '/');
    char *colon = strchr(slash != NULL ? slash : row.name, ':');
    if (colon != NULL)
        *colon = '\0';
    if (ref->tag[0] != '\0')
        (void)snprintf(row.tag, sizeof row.tag, "%s", ref->tag);
    else if (ref->digest[0] != '\0')
        (void)snprintf(row.tag, sizeof row.tag, "@sha256:%.*s", SHORT_ID, ref->digest);
    return row;
}

struct widths {
    int name, tag;
    bool has_owners; /* there is a column for them */
};

static struct widths measure(const struct listing *l) {
    struct widths w = {(int)strlen("<none>"), (int)strlen("<none>"), false};
    for (size_t i = 0; i < l->name_count; i++) {
        struct row row = split_name(&l->names[i].ref);
        w.name = MAX(w.name, (int)strlen(row.name));
        w.tag = MAX(w.tag, (int)strlen(row.tag));
        w.has_owners |= l->names[i].owner[0] != '\0';
    }
    return w;
}

/* "2026-11-15 08:30" of "2026-11-15T08:30:12.5Z"; whoever made the image wrote it. */
static const char *put_created(const struct image_record *record, char out[static 32]) {
    (void)str_escape(out, 17, record->created);
    char *t = strchr(out, 'T');
    if (t != NULL)
        *t = ' ';
    return out;
}

static void put_row(struct buf *b, struct widths w, const struct row *row,
                    const struct image_record *record) {
    char created[32], size[32];
    (void)buf_printf(b, "%-*s  %-*s  %-*.*s  %-16s  %s", w.name, row->name, w.tag, row->tag,
                     SHORT_ID, SHORT_ID, record->id, put_created(record, created),
                     str_bytes(record_size(record), size));
    if (w.has_owners)
        (void)buf_printf(b, "  %s", row->owner[0] != '\0' ? row->owner : "-");
    (void)buf_putc(b, '\n');
}

static void put_table(struct buf *b, const struct listing *l) {
    struct widths w = measure(l);
    (void)buf_printf(b, "%-*s  %-*s  %-*s  %-16s  %s%s\n", w.name, "NAME", w.tag, "TAG", SHORT_ID,
                     "ID", "CREATED", "SIZE", w.has_owners ? "  OWNER" : "");
    for (size_t i = 0; i < l->name_count; i++) {
        const struct image_record *record = record_of(l, l->names[i].id);
        struct row row = split_name(&l->names[i].ref);
        row.owner = l->names[i].owner;
        if (record != NULL)
            put_row(b, w, &row, record);
    }
    static const struct row none = {"<none>", "<none>", ""};
    for (size_t i = 0; i < l->id_count; i++)
        if (l->records[i] != NULL && !has_name(l, l->ids[i]))
            put_row(b, w, &none, l->records[i]);
}

/* Whether its name is enough to find the image: those of keys are not. */
static bool is_found(const struct image_name *name, const char *owner) {
    return name->owner[0] == '\0' || str_equal(name->owner, IMAGE_ADMIN) ||
           str_equal(name->owner, owner);
}

static bool has_found_name(const struct listing *l, const char *id, const char *owner) {
    for (size_t i = 0; i < l->name_count; i++)
        if (str_equal(l->names[i].id, id) && is_found(&l->names[i], owner))
            return true;
    return false;
}

static void put_names_only(struct buf *b, const struct listing *l, const char *owner) {
    char text[REFERENCE_TEXT_SIZE];
    for (size_t i = 0; i < l->name_count; i++)
        if (record_of(l, l->names[i].id) != NULL && is_found(&l->names[i], owner))
            (void)buf_printf(b, "%s\n", reference_familiar(&l->names[i].ref, text));
    for (size_t i = 0; i < l->id_count; i++)
        if (l->records[i] != NULL && !has_found_name(l, l->ids[i], owner))
            (void)buf_printf(b, "sha256:%s\n", l->ids[i]);
}

static void put_names(struct jsonw *w, const struct image_name *names, size_t count,
                      const char *id) {
    char text[REFERENCE_TEXT_SIZE];
    jsonw_key(w, "names");
    jsonw_begin_array(w);
    for (size_t i = 0; i < count; i++)
        if (str_equal(names[i].id, id))
            jsonw_string(w, reference_format(&names[i].ref, text));
    jsonw_end_array(w);
}

/* Who has a name of it; "" is everybody. */
static void put_owners(struct jsonw *w, const struct image_name *names, size_t count,
                       const char *id) {
    bool is_public = false;
    jsonw_key(w, "owners");
    jsonw_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        if (!str_equal(names[i].id, id))
            continue;
        is_public |= names[i].owner[0] == '\0';
        if (names[i].owner[0] != '\0')
            jsonw_string(w, names[i].owner);
    }
    jsonw_end_array(w);
    jsonw_put_bool(w, "public", is_public);
}

static const char *or_null(const char *text) {
    return text[0] != '\0' ? text : NULL;
}

static void put_json(struct buf *b, const struct listing *l) {
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < l->id_count; i++) {
        const struct image_record *record = l->records[i];
        if (record == NULL)
            continue;
        jsonw_begin_object(&w);
        verbs_put_digest(&w, "id", record->id);
        put_names(&w, l->names, l->name_count, record->id);
        put_owners(&w, l->names, l->name_count, record->id);
        jsonw_put_string(&w, "created", or_null(record->created));
        jsonw_put_unsigned(&w, "size", record_size(record));
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    (void)buf_putc(b, '\n');
}

int do_ls(const void *values, int argc, char **argv) {
    (void)argc, (void)argv;
    const struct verb_common *common = values;
    struct cay_error err;
    struct world world = WORLD_NONE;
    _cleanup_(listing_free) struct listing l = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT(ANSWER_MAX);
    int r = verbs_enter(common, false, &world, &err);
    if (r == 0)
        r = read_listing(&world.store, &l, &err);
    verbs_leave(&world);
    if (r < 0)
        return verb_fail(&err);
    if (common->output == OUTPUT_JSON)
        put_json(&b, &l);
    else if (common->quiet)
        put_names_only(&b, &l, common->owner != NULL ? common->owner : "");
    else
        put_table(&b, &l);
    return verb_print(&b);
}

/* ---- inspect ---- */

static void put_strings(struct jsonw *w, const char *key, const struct strv *list) {
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < list->len; i++)
        jsonw_string(w, list->v[i]);
    jsonw_end_array(w);
}

static void put_labels(struct jsonw *w, const struct strv *labels) {
    jsonw_key(w, "labels");
    jsonw_begin_object(w);
    for (size_t i = 0; i < labels->len; i++) {
        char *equals = strchr(labels->v[i], '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        jsonw_put_string(w, labels->v[i], equals + 1);
        *equals = '=';
    }
    jsonw_end_object(w);
}

static void put_config(struct jsonw *w, const struct image_record *record) {
    jsonw_key(w, "config");
    jsonw_begin_object(w);
    put_strings(w, "env", &record->env);
    put_strings(w, "entrypoint", &record->entrypoint);
    put_strings(w, "cmd", &record->cmd);
    jsonw_put_string(w, "user", record->user);
    jsonw_put_string(w, "working_dir", record->working_dir);
    jsonw_put_string(w, "stop_signal", record->stop_signal);
    put_strings(w, "volumes", &record->volumes);
    put_strings(w, "ports", &record->ports);
    put_labels(w, &record->labels);
    jsonw_end_object(w);
}

static void put_layers(struct jsonw *w, const struct image_record *record) {
    jsonw_key(w, "layers");
    jsonw_begin_array(w);
    for (size_t i = 0; i < record->layer_count; i++) {
        const struct record_layer *layer = &record->layers[i];
        jsonw_begin_object(w);
        verbs_put_digest(w, "diff_id", layer->diff_id);
        verbs_put_digest(w, "chain_id", layer->chain);
        verbs_put_digest(w, "blob", layer->blob);
        jsonw_put_string(w, "media_type", or_null(layer->media_type));
        jsonw_put_unsigned(w, "blob_size", layer->blob_size);
        jsonw_put_unsigned(w, "size", layer->size);
        jsonw_put_unsigned(w, "entries", layer->entries);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_image(struct buf *b, const struct image_record *record,
                      const struct image_name *names, size_t count) {
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_object(&w);
    verbs_put_digest(&w, "id", record->id);
    put_names(&w, names, count, record->id);
    put_owners(&w, names, count, record->id);
    verbs_put_digest(&w, "manifest", record->manifest);
    jsonw_put_string(&w, "created", or_null(record->created));
    jsonw_put_string(&w, "os", record->os);
    jsonw_put_string(&w, "architecture", record->architecture);
    jsonw_put_string(&w, "variant", or_null(record->variant));
    jsonw_put_unsigned(&w, "size", record_size(record));
    put_config(&w, record);
    put_layers(&w, record);
    jsonw_end_object(&w);
    (void)buf_putc(b, '\n');
}

static int inspect(const struct image_store *store, const char *text, struct buf *b,
                   struct cay_error *err) {
    char id[HEX_SIZE];
    _cleanup_(record_freep) struct image_record *record = NULL;
    _cleanup_(freep) struct image_name *names = NULL;
    size_t count = 0;
    int r = verbs_find(store, text, id, err);
    if (r == 0)
        r = image_store_read_record(store, id, &record, err);
    if (r == 0)
        r = image_store_names(store, &names, &count, err);
    if (r == 0)
        put_image(b, record, names, count);
    return r;
}

int do_inspect(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct world world = WORLD_NONE;
    _cleanup_(buf_free) struct buf b = BUF_INIT(ANSWER_MAX);
    int r = verbs_enter(values, false, &world, &err);
    if (r == 0)
        r = inspect(&world.store, argv[0], &b, &err);
    verbs_leave(&world);
    return r < 0 ? verb_fail(&err) : verb_print(&b);
}
