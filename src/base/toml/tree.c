#include "base/toml/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct toml_value *toml_get_n(const struct toml_value *table, const char *key, size_t len) {
    if (table->type != TOML_TABLE)
        return NULL;
    for (struct toml_value *v = table->first; v != NULL; v = v->next)
        if (v->key_len == len && memcmp(v->key, key, len) == 0)
            return v;
    return NULL;
}

struct toml_value *toml_get(const struct toml_value *table, const char *key) {
    return toml_get_n(table, key, strlen(key));
}

const char *toml_type_name(enum toml_type type) {
    static const char *const names[] = {
        [TOML_STRING] = "string",         [TOML_INTEGER] = "integer",
        [TOML_FLOAT] = "float",           [TOML_BOOL] = "boolean",
        [TOML_DATETIME] = "date-time",    [TOML_LOCAL_DATETIME] = "local date-time",
        [TOML_LOCAL_DATE] = "local date", [TOML_LOCAL_TIME] = "local time",
        [TOML_ARRAY] = "array",           [TOML_TABLE] = "table",
    };
    return names[type];
}

void toml_free(struct toml_value *root) {
    while (root != NULL) {
        struct toml_value *next = root->allocated;
        free(root->text);
        free(root);
        root = next;
    }
}

void toml_freep(struct toml_value **root) {
    toml_free(*root);
}

static int check_limits(struct toml_reader *r, const struct toml_value *parent,
                        struct toml_place at) {
    if (++r->values > TOML_VALUES_MAX)
        return toml_fail(r, at, "use fewer keys and elements", "more than %d values",
                         TOML_VALUES_MAX);
    if (parent != NULL && parent->depth >= TOML_DEPTH_MAX)
        return toml_fail(r, at, "nest tables and arrays less deeply", "nested more than %d deep",
                         TOML_DEPTH_MAX);
    return 0;
}

static void link_value(struct toml_reader *r, struct toml_value *parent, struct toml_value *v) {
    if (parent == NULL) {
        r->root = v;
        return;
    }
    v->depth = parent->depth + 1;
    v->allocated = r->root->allocated;
    r->root->allocated = v;
    if (parent->last == NULL)
        parent->first = v;
    else
        parent->last->next = v;
    parent->last = v;
    parent->count++;
}

int toml_add(struct toml_reader *r, struct toml_value *parent, const struct toml_key *key,
             enum toml_type type, struct toml_value **ret) {
    struct toml_place at = key != NULL ? key->place : r->place;
    int result = check_limits(r, parent, at);
    if (result < 0)
        return result;
    size_t key_len = key != NULL ? key->text.len : 0;
    struct toml_value *v = calloc(1, sizeof *v + key_len + 1);
    if (v == NULL)
        return toml_fail_memory(r);
    char *name = (char *)(v + 1);
    if (key_len > 0)
        memcpy(name, key->text.data, key_len);
    v->type = type;
    v->line = at.line;
    v->column = at.column;
    v->key = name;
    v->key_len = key_len;
    v->key_line = at.line;
    v->key_column = at.column;
    link_value(r, parent, v);
    *ret = v;
    return 0;
}

static struct toml_value *find(const struct toml_value *table, const struct toml_key *key) {
    return toml_get_n(table, buf_text(&key->text), key->text.len);
}

static int fail_taken(struct toml_reader *r, const struct toml_key *key,
                      const struct toml_value *old, const char *cause) {
    char shown[80];
    return toml_fail(r, key->place, "define each key and each table once", "%s '%s' (line %u)",
                     cause, str_escape(shown, sizeof shown, buf_text(&key->text)), old->line);
}

static int add_table(struct toml_reader *r, struct toml_value **table, const struct toml_key *key,
                     enum toml_origin origin) {
    int result = toml_add(r, *table, key, TOML_TABLE, table);
    if (result == 0)
        (*table)->origin = origin;
    return result;
}

int toml_enter_dotted(struct toml_reader *r, struct toml_value **table,
                      const struct toml_key *key) {
    struct toml_value *old = find(*table, key);
    if (old == NULL)
        return add_table(r, table, key, TOML_BY_DOTS);
    if (old->type != TOML_TABLE)
        return fail_taken(r, key, old, "a dotted key cannot go through the value");
    if (old->origin != TOML_BY_DOTS && old->origin != TOML_BY_SUBTABLE)
        return fail_taken(r, key, old, "a dotted key cannot add to the table");
    old->origin = TOML_BY_DOTS;
    *table = old;
    return 0;
}

int toml_enter_header(struct toml_reader *r, struct toml_value **table,
                      const struct toml_key *key) {
    struct toml_value *old = find(*table, key);
    if (old == NULL)
        return add_table(r, table, key, TOML_BY_SUBTABLE);
    if (old->type != TOML_TABLE && old->origin != TOML_BY_ELEMENTS)
        return fail_taken(r, key, old, "a header cannot go through the value");
    if (old->origin == TOML_BY_VALUE)
        return fail_taken(r, key, old, "a header cannot add to the inline table");
    *table = old->type == TOML_TABLE ? old : old->last;
    return 0;
}

int toml_define_table(struct toml_reader *r, struct toml_value **table,
                      const struct toml_key *key) {
    struct toml_value *old = find(*table, key);
    if (old == NULL)
        return add_table(r, table, key, TOML_BY_HEADER);
    if (old->type != TOML_TABLE || old->origin != TOML_BY_SUBTABLE)
        return fail_taken(r, key, old, "a header cannot define again");
    old->origin = TOML_BY_HEADER;
    old->line = old->key_line = key->place.line;
    old->column = old->key_column = key->place.column;
    *table = old;
    return 0;
}

int toml_append_table(struct toml_reader *r, struct toml_value **table,
                      const struct toml_key *key) {
    struct toml_value *array = find(*table, key);
    if (array == NULL) {
        int result = toml_add(r, *table, key, TOML_ARRAY, &array);
        if (result < 0)
            return result;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): set unless it failed */
        array->origin = TOML_BY_ELEMENTS;
    }
    if (array->type != TOML_ARRAY || array->origin != TOML_BY_ELEMENTS)
        return fail_taken(r, key, array, "[[…]] cannot add to");
    int result = toml_add(r, array, NULL, TOML_TABLE, table);
    if (result < 0)
        return result;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): set unless it failed */
    (*table)->origin = TOML_BY_HEADER;
    (*table)->line = key->place.line;
    (*table)->column = key->place.column;
    return 0;
}

int toml_add_keyed(struct toml_reader *r, struct toml_value *table, const struct toml_key *key,
                   struct toml_value **ret) {
    const struct toml_value *old = find(table, key);
    if (old != NULL)
        return fail_taken(r, key, old, "there is already a key");
    return toml_add(r, table, key, TOML_BOOL, ret);
}
