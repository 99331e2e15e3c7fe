/* Any bytes through the TOML reader: it either fails with a place, or gives a tree that holds what
 * its header promises. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/str.h"
#include "base/toml/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_value(const struct toml_value *v, const struct toml_value *parent) {
    size_t count = 0;
    require(v->line > 0 && v->column > 0 && v->depth <= TOML_DEPTH_MAX);
    require(toml_type_name(v->type) != NULL);
    if (v->text != NULL)
        require(v->text[v->text_len] == '\0' && str_is_utf8(v->text, v->text_len));
    if (parent != NULL && parent->type == TOML_TABLE)
        require(toml_get_n(parent, v->key, v->key_len) == v);
    for (const struct toml_value *c = v->first; c != NULL; c = c->next, count++)
        check_value(c, v); /* as deep as TOML_DEPTH_MAX */
    require(count == v->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct toml_value *root = NULL;
    struct cay_error err = {0};
    if (toml_parse("fuzz", (const char *)data, size, &root, &err) == 0) {
        check_value(root, NULL);
        toml_free(root);
        return 0;
    }
    unsigned line = 0, column = 0;
    require(root == NULL && err.code == CAY_INVALID_ARGUMENT);
    require(sscanf(err.message, "fuzz:%u:%u: ", &line, &column) == 2 && line > 0 && column > 0);
    return 0;
}
