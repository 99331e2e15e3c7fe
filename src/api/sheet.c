#include "api/sheet.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static void write_names(struct sheet *s, const struct sheet_kind *kind) {
    s->naming = true;
    kind->write(s, kind->empty);
    tsv_end_line(&s->tsv);
    s->naming = false;
}

static void write_row(struct sheet *s, const struct sheet_kind *kind, const void *row) {
    if (!s->is_tsv)
        jsonw_begin_object(&s->json);
    kind->write(s, row);
    if (s->is_tsv)
        tsv_end_line(&s->tsv);
    else
        jsonw_end_object(&s->json);
}

void sheet_write_one(struct buf *out, bool is_tsv, const struct sheet_kind *kind, const void *row) {
    struct sheet s = {.is_tsv = is_tsv, .json = JSONW_INIT(out), .tsv = TSV_INIT(out)};
    if (is_tsv)
        write_names(&s, kind);
    write_row(&s, kind, row);
    if (!is_tsv)
        (void)buf_putc(out, '\n');
}

void sheet_write_all(struct buf *out, bool is_tsv, const struct sheet_kind *kind, const void *rows,
                     size_t count) {
    struct sheet s = {.is_tsv = is_tsv, .json = JSONW_INIT(out), .tsv = TSV_INIT(out)};
    if (is_tsv)
        write_names(&s, kind);
    else
        jsonw_begin_array(&s.json);
    for (size_t i = 0; i < count; i++)
        write_row(&s, kind, (const char *)rows + i * kind->size);
    if (is_tsv)
        return;
    jsonw_end_array(&s.json);
    (void)buf_putc(out, '\n');
}

/* True if that was all: the name of a column. */
static bool named(struct sheet *s, const char *name) {
    if (s->naming)
        tsv_field(&s->tsv, name);
    return s->naming;
}

void sheet_string(struct sheet *s, const char *name, const char *text) {
    if (named(s, name))
        return;
    if (s->is_tsv)
        tsv_field(&s->tsv, text);
    else
        jsonw_put_string(&s->json, name, text);
}

void sheet_optional(struct sheet *s, const char *name, const char *text) {
    if (s->is_tsv || text[0] != '\0')
        sheet_string(s, name, text);
    else
        jsonw_put_string(&s->json, name, NULL);
}

void sheet_integer(struct sheet *s, const char *name, int64_t value) {
    if (named(s, name))
        return;
    if (s->is_tsv)
        tsv_number(&s->tsv, value);
    else
        jsonw_put_integer(&s->json, name, value);
}

void sheet_unsigned(struct sheet *s, const char *name, uint64_t value) {
    if (named(s, name))
        return;
    if (s->is_tsv)
        tsv_unsigned(&s->tsv, value);
    else
        jsonw_put_unsigned(&s->json, name, value);
}

void sheet_number(struct sheet *s, const char *name, double value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%.6g", value);
    if (s->is_tsv)
        sheet_string(s, name, text);
    else
        jsonw_put_number(&s->json, name, value);
}

void sheet_bool(struct sheet *s, const char *name, bool value) {
    if (s->is_tsv)
        sheet_string(s, name, value ? "true" : "false");
    else
        jsonw_put_bool(&s->json, name, value);
}

void sheet_time(struct sheet *s, const char *name, int64_t wall_ms) {
    char text[32];
    sheet_string(s, name, clock_iso8601(wall_ms, text));
}

void sheet_optional_time(struct sheet *s, const char *name, int64_t wall_ms) {
    char text[32];
    sheet_optional(s, name, wall_ms == 0 ? "" : clock_iso8601(wall_ms, text));
}

void sheet_words(struct sheet *s, const char *name, const struct strv *words) {
    if (named(s, name))
        return;
    if (s->is_tsv) {
        tsv_list(&s->tsv, (const char *const *)words->v, words->len);
        return;
    }
    jsonw_key(&s->json, name);
    jsonw_begin_array(&s->json);
    for (size_t i = 0; i < words->len; i++)
        jsonw_string(&s->json, words->v[i]);
    jsonw_end_array(&s->json);
}

/* The text has a '=', as whoever made the pair saw to it. */
static void write_pair(struct jsonw *w, const char *pair) {
    const char *equals = strchr(pair, '=');
    size_t len = equals == NULL ? strlen(pair) : (size_t)(equals - pair);
    char *key = strndup(pair, len);
    w->failed |= key == NULL;
    if (key != NULL)
        jsonw_put_string(w, key, equals == NULL ? "" : equals + 1);
    free(key);
}

void sheet_pairs(struct sheet *s, const char *name, const struct strv *pairs) {
    if (named(s, name))
        return;
    if (s->is_tsv) {
        tsv_list(&s->tsv, (const char *const *)pairs->v, pairs->len);
        return;
    }
    jsonw_key(&s->json, name);
    jsonw_begin_object(&s->json);
    for (size_t i = 0; i < pairs->len; i++)
        write_pair(&s->json, pairs->v[i]);
    jsonw_end_object(&s->json);
}
