#include "image/alias.h"

#include <string.h>

#include "base/error.h"

static int fail_alias(const char *entry, struct cay_error *err) {
    char shown[160];
    (void)error_prefix(err, "alias '%s' in the configuration (images.aliases)",
                       str_escape(shown, sizeof shown, entry));
    return error_remedy(err, "write \"python:3.12-slim\" = \"cay/python\"");
}

static bool means_same(const struct reference *a, const struct reference *b) {
    return str_equal(a->registry, b->registry) && str_equal(a->repository, b->repository) &&
           str_equal(a->tag, b->tag) && str_equal(a->digest, b->digest);
}

/* 1 if the entry is for this name. */
static int try_alias(const char *entry, const struct reference *wanted,
                     char out[static REFERENCE_TEXT_SIZE], struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    struct reference from, to;
    size_t len = strcspn(entry, "=");
    if (entry[len] == '\0' || len >= sizeof name) {
        error_set(err, CAY_INVALID_ARGUMENT, "not NAME=NAME");
        return fail_alias(entry, err);
    }
    memcpy(name, entry, len);
    name[len] = '\0';
    if (reference_parse(name, &from, err) < 0 || reference_parse(entry + len + 1, &to, err) < 0)
        return fail_alias(entry, err);
    if (!means_same(&from, wanted))
        return 0;
    return str_copy(out, REFERENCE_TEXT_SIZE, entry + len + 1) < 0 ? fail_alias(entry, err) : 1;
}

int image_alias(const struct strv *aliases, const char *text, char out[static REFERENCE_TEXT_SIZE],
                struct cay_error *err) {
    struct reference wanted;
    if (reference_is_id(text) || reference_parse(text, &wanted, NULL) < 0)
        return 0; /* whoever uses it says what is wrong with it */
    int r = 0;
    for (size_t i = 0; r == 0 && i < aliases->len; i++)
        r = try_alias(aliases->v[i], &wanted, out, err);
    return r;
}
