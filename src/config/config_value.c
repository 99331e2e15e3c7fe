#include "config/config_value.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/toml/toml.h"

static void *field_of(struct config *config, const struct config_key *key) {
    return (char *)config + key->offset;
}

/* ---- texts into fields ---- */

static int fail_value(const char *what, const char *text, const char *cause, const char *remedy,
                      struct cay_error *err) {
    char shown[80];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' %s", what, str_escape(shown, sizeof shown, text),
              cause);
    return error_remedy(err, "%s", remedy);
}

static int check_range(const struct config_key *key, const char *what, const char *text, double v,
                       struct cay_error *err) {
    if (v >= key->min && v <= key->max)
        return 0;
    char remedy[128];
    double unit = key->kind == CONFIG_DURATION ? 1000 : 1;
    (void)snprintf(remedy, sizeof remedy, "use a value from %.15g to %.15g%s", key->min / unit,
                   key->max / unit, key->kind == CONFIG_DURATION ? " seconds" : "");
    return fail_value(what, text, "is out of range", remedy, err);
}

static int parse_bool(const char *what, const char *text, bool *ret, struct cay_error *err) {
    bool yes = str_equal(text, "true") || str_equal(text, "1");
    if (!yes && !str_equal(text, "false") && !str_equal(text, "0"))
        return fail_value(what, text, "is not a boolean", "use true or false", err);
    *ret = yes;
    return 0;
}

static int parse_integer(const struct config_key *key, const char *what, const char *text,
                         int64_t *ret, struct cay_error *err) {
    int64_t v;
    if (str_to_i64(text, INT64_MIN, INT64_MAX, &v) < 0)
        return fail_value(what, text, "is not a whole number", "use digits only", err);
    int r = check_range(key, what, text, (double)v, err);
    if (r == 0)
        *ret = v;
    return r;
}

static int parse_number(const struct config_key *key, const char *what, const char *text,
                        double *ret, struct cay_error *err) {
    double v;
    if (str_to_double(text, &v) < 0)
        return fail_value(what, text, "is not a number", "use digits, such as 1.5", err);
    int r = check_range(key, what, text, v, err);
    if (r == 0)
        *ret = v;
    return r;
}

static int parse_size(const struct config_key *key, const char *what, const char *text,
                      uint64_t *ret, struct cay_error *err) {
    uint64_t v;
    int r = str_to_size(what, text, &v, err);
    if (r == 0)
        r = check_range(key, what, text, (double)v, err);
    if (r == 0)
        *ret = v;
    return r;
}

static int parse_duration(const struct config_key *key, const char *what, const char *text,
                          int64_t *ret, struct cay_error *err) {
    int64_t v;
    int r = str_to_duration(what, text, &v, err);
    if (r == 0)
        r = check_range(key, what, text, (double)v, err);
    if (r == 0)
        *ret = v;
    return r;
}

/* "a, b" into a new list; the old one goes only when the new one is complete. */
static int parse_list(const char *what, const char *text, struct strv *ret, struct cay_error *err) {
    _cleanup_(strv_free) struct strv list = {0};
    while (*text != '\0') {
        text += strspn(text, " ");
        size_t len = strcspn(text, ","), used = len;
        while (used > 0 && text[used - 1] == ' ')
            used--;
        if (used == 0)
            return fail_value(what, text, "has an empty element", "separate them by one comma",
                              err);
        if (strv_pushf(&list, "%.*s", (int)used, text) < 0)
            return error_sys(err, ENOMEM, "%s", what);
        text += len + (text[len] == ',');
    }
    strv_free(ret);
    *ret = list;
    list = (struct strv){0};
    return 0;
}

/* "k=v, l=w": a list whose elements all have both sides. */
static int parse_map(const char *what, const char *text, struct strv *ret, struct cay_error *err) {
    _cleanup_(strv_free) struct strv map = {0};
    int r = parse_list(what, text, &map, err);
    for (size_t i = 0; r == 0 && i < map.len; i++) {
        size_t key = strcspn(map.v[i], "=");
        if (key == 0 || map.v[i][key] == '\0' || map.v[i][key + 1] == '\0')
            r = fail_value(what, map.v[i], "is not KEY=VALUE", "write KEY=VALUE,KEY=VALUE", err);
    }
    if (r < 0)
        return r;
    strv_free(ret);
    *ret = map;
    map = (struct strv){0};
    return 0;
}

static int parse_string(const struct config_key *key, const char *what, const char *text,
                        const char **ret, struct cay_error *err) {
    int r = key->check != NULL ? key->check(what, text, err) : 0;
    if (r == 0)
        *ret = text;
    return r;
}

static int refuse_controls(const char *what, const char *text, struct cay_error *err) {
    for (const char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return fail_value(what, text, "contains a control character", "remove it", err);
    return 0;
}

int config_value_parse(struct config *config, const struct config_key *key, const char *what,
                       const char *text, struct cay_error *err) {
    void *field = field_of(config, key);
    int r = refuse_controls(what, text, err);
    if (r < 0)
        return r;
    switch (key->kind) {
    case CONFIG_STRING:
        return parse_string(key, what, text, field, err);
    case CONFIG_BOOL:
        return parse_bool(what, text, field, err);
    case CONFIG_INTEGER:
        return parse_integer(key, what, text, field, err);
    case CONFIG_NUMBER:
        return parse_number(key, what, text, field, err);
    case CONFIG_SIZE:
        return parse_size(key, what, text, field, err);
    case CONFIG_DURATION:
        return parse_duration(key, what, text, field, err);
    case CONFIG_LIST:
        r = parse_list(what, text, field, err);
        for (size_t i = 0; r == 0 && key->check != NULL && i < ((struct strv *)field)->len; i++)
            r = key->check(what, ((struct strv *)field)->v[i], err);
        return r;
    case CONFIG_MAP:
        return parse_map(what, text, field, err);
    }
    return error_set(err, CAY_INTERNAL, "%s: no such kind of value", what);
}

void config_value_release(struct config *config, const struct config_key *key) {
    if (key->kind == CONFIG_LIST || key->kind == CONFIG_MAP)
        strv_free(field_of(config, key));
}

/* ---- values of the file into texts ---- */

/* Which types a kind is written as, and how an error describes them. */
static const struct {
    unsigned types; /* bits of enum toml_type */
    const char *wanted;
} forms[] = {
    [CONFIG_STRING] = {1U << TOML_STRING, "a string"},
    [CONFIG_BOOL] = {1U << TOML_BOOL, "true or false"},
    [CONFIG_INTEGER] = {1U << TOML_INTEGER, "a whole number"},
    [CONFIG_NUMBER] = {1U << TOML_INTEGER | 1U << TOML_FLOAT, "a number"},
    [CONFIG_SIZE] = {1U << TOML_STRING | 1U << TOML_INTEGER, "a size such as \"512m\""},
    [CONFIG_DURATION] = {1U << TOML_STRING | 1U << TOML_INTEGER | 1U << TOML_FLOAT,
                         "a duration such as 300 or \"5m\""},
    [CONFIG_LIST] = {1U << TOML_ARRAY, "an array of strings"},
    [CONFIG_MAP] = {1U << TOML_TABLE, "a table of strings"},
};

static int fail_type(const struct config_key *key, const char *what, const struct toml_value *v,
                     struct cay_error *err) {
    error_set(
        err, CAY_INVALID_ARGUMENT, "%s: expected %s, found %s %s", what, forms[key->kind].wanted,
        v->type == TOML_INTEGER || v->type == TOML_ARRAY ? "an" : "a", toml_type_name(v->type));
    return error_remedy(err, "write %s = %s", key->name, forms[key->kind].wanted);
}

static int put_string(const char *what, const struct toml_value *v, struct buf *out,
                      struct cay_error *err) {
    if (memchr(v->text, '\0', v->text_len) != NULL)
        return fail_value(what, v->text, "contains a NUL character", "remove it", err);
    (void)buf_append(out, v->text, v->text_len); /* failures are sticky */
    return 0;
}

static int put_list(const struct config_key *key, const char *what, const struct toml_value *list,
                    struct buf *out, struct cay_error *err) {
    for (const struct toml_value *v = list->first; v != NULL; v = v->next) {
        if (v->type != TOML_STRING)
            return fail_type(key, what, v, err);
        if (v->text_len == 0 || memchr(v->text, ',', v->text_len) != NULL)
            return fail_value(what, v->text, "is empty or contains a comma",
                              "write each element as a string of its own", err);
        if (v != list->first)
            (void)buf_putc(out, ',');
        int r = put_string(what, v, out, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool has_any(const char *text, size_t len, const char *of) {
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || strchr(of, text[i]) != NULL)
            return true;
    return len == 0;
}

static int put_map(const struct config_key *key, const char *what, const struct toml_value *table,
                   struct buf *out, struct cay_error *err) {
    for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (v->type != TOML_STRING)
            return fail_type(key, what, v, err);
        if (has_any(v->key, v->key_len, ",=") || has_any(v->text, v->text_len, ","))
            return fail_value(what, v->key, "or its value is empty or contains a comma or '='",
                              "write \"KEY\" = \"VALUE\"", err);
        (void)buf_printf(out, "%s%s=%s", v != table->first ? "," : "", v->key, v->text);
    }
    return 0;
}

int config_value_text(const struct config_key *key, const char *what, const struct toml_value *v,
                      struct buf *out, struct cay_error *err) {
    int r = 0;
    if ((forms[key->kind].types & 1U << v->type) == 0)
        return fail_type(key, what, v, err);
    if (v->type == TOML_STRING)
        r = put_string(what, v, out, err);
    else if (v->type == TOML_ARRAY)
        r = put_list(key, what, v, out, err);
    else if (v->type == TOML_TABLE)
        r = put_map(key, what, v, out, err);
    else if (v->type == TOML_BOOL)
        (void)buf_puts(out, v->boolean ? "true" : "false");
    else if (v->type == TOML_INTEGER)
        (void)buf_printf(out, "%" PRId64, v->integer);
    else
        (void)buf_puts(out, v->text + (v->text[0] == '+'));
    if (r == 0 && out->failed)
        return error_sys(err, ENOMEM, "%s", what);
    return r;
}
