#include "api/openapi.h"

#include <cay.h>
#include <string.h>

#include "api/openapi_shapes.h"
#include "base/auto.h"
#include "base/json/jsonw.h"
#include "base/str.h"

enum { PATH_MAX_LEN = 256 };

static const char rest_name[] = "path"; /* of what a '*' at the end matches */

struct cursor {
    const struct route_table *const *tables;
    size_t count, table, row;
};

static const struct route *next(struct cursor *c) {
    while (c->table < c->count && c->row == c->tables[c->table]->count) {
        c->table++;
        c->row = 0;
    }
    return c->table < c->count ? &c->tables[c->table]->rows[c->row++] : NULL;
}

static bool is_first(const struct route *route, struct cursor all) {
    const struct route *earlier;
    while ((earlier = next(&all)) != NULL && earlier != route)
        if (openapi_is_same(earlier->pattern, route->pattern))
            return false;
    return true;
}

static void put_parameter(struct jsonw *w, const char *name, size_t len) {
    jsonw_begin_object(w);
    jsonw_key(w, "name");
    jsonw_bytes(w, name, len);
    jsonw_put_string(w, "in", "path");
    jsonw_put_bool(w, "required", true);
    jsonw_key(w, "schema");
    jsonw_begin_object(w);
    jsonw_put_string(w, "type", "string");
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static void put_parameters(struct jsonw *w, const char *pattern) {
    jsonw_key(w, "parameters");
    jsonw_begin_array(w);
    for (const char *p = strchr(pattern, '{'); p != NULL; p = strchr(p, '{')) {
        p++;
        put_parameter(w, p, strcspn(p, "}"));
    }
    if (str_ends(pattern, "/*"))
        put_parameter(w, rest_name, strlen(rest_name));
    jsonw_end_array(w);
}

static void put_method(struct jsonw *w, const char *method, const char *pattern) {
    static const char *const names[][2] = {
        {"GET", "get"}, {"POST", "post"}, {"PUT", "put"}, {"PATCH", "patch"}, {"DELETE", "delete"},
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!str_equal(method, names[i][0]) && !str_equal(method, "*"))
            continue;
        jsonw_key(w, names[i][1]);
        jsonw_begin_object(w);
        openapi_put_call(w, openapi_find(names[i][0], pattern));
        jsonw_end_object(w);
    }
}

static void put_path(struct jsonw *w, const struct route *first, struct cursor all) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_MAX_LEN);
    const struct route *route;
    size_t len = strlen(first->pattern) - (str_ends(first->pattern, "/*") ? 1 : 0);
    (void)buf_append(&path, first->pattern, len);
    if (len < strlen(first->pattern))
        (void)buf_printf(&path, "{%s}", rest_name);
    jsonw_key(w, buf_text(&path));
    jsonw_begin_object(w);
    put_parameters(w, first->pattern);
    while ((route = next(&all)) != NULL)
        if (openapi_is_same(route->pattern, first->pattern))
            put_method(w, route->method, route->pattern);
    jsonw_end_object(w);
}

static void put_head(struct jsonw *w) {
    jsonw_put_string(w, "openapi", "3.0.0");
    jsonw_key(w, "info");
    jsonw_begin_object(w);
    jsonw_put_string(w, "title", "cay");
    jsonw_put_string(w, "version", cay_version());
    jsonw_end_object(w);
}

void openapi_write(struct buf *out, const struct route_table *const *tables, size_t count) {
    const struct cursor all = {tables, count, 0, 0};
    struct cursor at = all;
    const struct route *route;
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    put_head(&w);
    jsonw_key(&w, "paths");
    jsonw_begin_object(&w);
    while ((route = next(&at)) != NULL)
        if (is_first(route, all))
            put_path(&w, route, all);
    jsonw_end_object(&w);
    jsonw_key(&w, "components");
    jsonw_begin_object(&w);
    jsonw_key(&w, "schemas");
    openapi_put_shapes(&w);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    (void)buf_putc(out, '\n');
    out->failed |= w.failed;
}
