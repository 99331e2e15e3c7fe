/* load, save, import, export */
#include "imager/transfer/transfer.h"

#include <stdio.h>

#include "base/error.h"
#include "imager/verbs/verbs.h"

/* ---- load ---- */

struct loaded {
    struct loaded_image *images;
    size_t count;
};

static void loaded_free(struct loaded *l) {
    loaded_images_free(l->images, l->count);
}

static void put_loaded_json(struct buf *b, const struct loaded *l) {
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < l->count; i++) {
        jsonw_begin_object(&w);
        verbs_put_digest(&w, "id", l->images[i].id);
        jsonw_key(&w, "names");
        jsonw_begin_array(&w);
        for (size_t n = 0; n < l->images[i].names.len; n++)
            jsonw_string(&w, l->images[i].names.v[n]);
        jsonw_end_array(&w);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    (void)buf_putc(b, '\n');
}

static void put_loaded(struct buf *b, const struct loaded *l) {
    for (size_t i = 0; i < l->count; i++) {
        (void)buf_printf(b, "sha256:%s", l->images[i].id);
        for (size_t n = 0; n < l->images[i].names.len; n++)
            (void)buf_printf(b, " %s", l->images[i].names.v[n]);
        (void)buf_putc(b, '\n');
    }
}

int do_load(const void *values, int argc, char **argv) {
    (void)argc, (void)argv;
    const struct image_file_options *o = values;
    struct cay_error err;
    struct world world = WORLD_NONE;
    _cleanup_(loaded_free) struct loaded l = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)16 << 20);
    _cleanup_(closep) int input = input_open(o->file, true, &err);
    int r = input < 0 ? input : verbs_enter(&o->common, false, &world, &err);
    if (r == 0) {
        _cleanup_(progress_freep) struct progress *progress =
            verbs_progress(&o->common, o->progress);
        r = image_load(&world.store, input, progress, &l.images, &l.count, &err);
    }
    verbs_leave(&world);
    if (r < 0)
        return verb_fail(&err);
    if (o->common.output == OUTPUT_JSON)
        put_loaded_json(&b, &l);
    else
        put_loaded(&b, &l);
    return verb_print(&b);
}

/* ---- save, export ---- */

/* What a child process does in the world, so that its parent can name or remove the file. */
struct writing {
    const struct image_file_options *options;
    int (*write)(const struct writing *w, const struct image_store *store, struct cay_error *err);
    char **images;
    int count;
    struct output_file out;
};

static int write_in_world(void *user) {
    const struct writing *w = user;
    struct cay_error err;
    struct world world = WORLD_NONE;
    int r = verbs_enter(&w->options->common, false, &world, &err);
    if (r == 0)
        r = w->write(w, &world.store, &err);
    verbs_leave(&world);
    return r < 0 ? verb_fail(&err) : 0;
}

static int write_file(struct writing *w) {
    struct cay_error err;
    if (w->options->file != NULL)
        apart_prepare();
    int code = output_open(w->options->file, &w->out, &err);
    if (code == 0)
        code = w->options->file != NULL ? apart_run(write_in_world, w, &err) : write_in_world(w);
    if (code == 0)
        code = output_commit(&w->out, &err);
    output_close(&w->out);
    return code < 0 ? verb_fail(&err) : code;
}

/* Names are kept in the archive; an image that is asked for by id has none there. */
struct selection {
    struct reference *refs;
    const struct reference **names;
    char (*hex)[HEX_SIZE];
    const char **ids;
};

static void selection_free(struct selection *s) {
    free(s->refs);
    free(s->names);
    free(s->hex);
    free(s->ids);
}

static int selection_new(size_t count, struct selection *s, struct cay_error *err) {
    s->refs = calloc(count, sizeof *s->refs);
    s->names = calloc(count, sizeof(struct reference *));
    s->hex = calloc(count, sizeof *s->hex);
    s->ids = calloc(count, sizeof(char *));
    if (s->refs == NULL || s->names == NULL || s->hex == NULL || s->ids == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

static int select_image(const struct image_store *store, const char *text, struct selection *s,
                        size_t i, struct cay_error *err) {
    bool named = reference_parse(text, &s->refs[i], err) == 0 &&
                 image_store_find_reference(store, &s->refs[i], s->hex[i], err) == 0;
    s->names[i] = named ? &s->refs[i] : NULL;
    s->ids[i] = s->hex[i];
    if (named || image_store_find_backup(store, text, s->hex[i]) != 0)
        return 0;
    return verbs_find(store, text, s->hex[i], err);
}

static int save(const struct writing *w, const struct image_store *store, struct cay_error *err) {
    _cleanup_(selection_free) struct selection s = {0};
    size_t count = (size_t)w->count;
    int r = selection_new(count, &s, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = select_image(store, w->images[i], &s, i, err);
    if (r < 0)
        return r;
    _cleanup_(progress_freep) struct progress *progress =
        verbs_progress(&w->options->common, w->options->progress);
    return image_save(store, s.names, s.ids, count, w->out.fd, progress, err);
}

int do_save(const void *values, int argc, char **argv) {
    struct writing w = {values, save, argv, argc, OUTPUT_FILE_NONE};
    return write_file(&w);
}

static int export(const struct writing *w, const struct image_store *store, struct cay_error *err) {
    char id[HEX_SIZE];
    int r = verbs_find(store, w->images[0], id, err);
    return r < 0 ? r : image_export(store, id, w->out.fd, err);
}

int do_export(const void *values, int argc, char **argv) {
    struct writing w = {values, export, argv, argc, OUTPUT_FILE_NONE};
    return write_file(&w);
}

/* ---- import ---- */

int do_import(const void *values, int argc, char **argv) {
    const struct image_file_options *o = values;
    struct cay_error err;
    struct reference ref;
    struct world world = WORLD_NONE;
    char id[HEX_SIZE];
    const struct reference *name = argc > 1 ? &ref : NULL;
    int r = name != NULL ? reference_parse(argv[1], &ref, &err) : 0;
    _cleanup_(closep) int input = r < 0 ? -1 : input_open(argv[0], false, &err);
    if (r == 0)
        r = input < 0 ? input : verbs_enter(&o->common, false, &world, &err);
    if (r == 0) {
        _cleanup_(progress_freep) struct progress *progress =
            verbs_progress(&o->common, o->progress);
        r = image_import(&world.store, input, (const char *const *)o->changes.v, progress, id,
                         &err);
    }
    if (r == 0 && name != NULL)
        r = image_store_set_name(&world.store, name, id, &err);
    verbs_leave(&world);
    return r < 0 ? verb_fail(&err) : verbs_print_id(&o->common, id, name);
}
