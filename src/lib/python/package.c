#include "lib/python/package.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

static bool is_word(char c) {
    return isalnum((unsigned char)c) != 0 && (unsigned char)c < 128;
}

/* A name from here on: letters and digits, with . _ - between them. NULL if there is none. */
static const char *skip_name(const char *p) {
    if (!is_word(*p))
        return NULL;
    const char *last = p;
    for (; is_word(*p) || (*p != '\0' && strchr("._-", *p) != NULL); p++)
        if (is_word(*p))
            last = p;
    return last + 1 == p ? p : NULL;
}

/* "[a,b]", or nothing. */
static const char *skip_extras(const char *p) {
    if (*p != '[')
        return p;
    do
        p = skip_name(p + 1);
    while (p != NULL && *p == ',');
    return p != NULL && *p == ']' ? p + 1 : NULL;
}

/* One comparison with a version. */
static const char *skip_version(const char *p) {
    static const char *const operators[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">"};
    size_t i = 0;
    while (i < ARRAY_LEN(operators) && !str_starts(p, operators[i]))
        i++;
    if (i == ARRAY_LEN(operators))
        return NULL;
    p += strlen(operators[i]);
    if (!is_word(*p))
        return NULL;
    while (is_word(*p) || (*p != '\0' && strchr("._-+!*", *p) != NULL))
        p++;
    return p;
}

bool python_package_is_valid(const char *text) {
    if (strlen(text) > PYTHON_PACKAGE_LEN_MAX)
        return false;
    const char *p = skip_name(text);
    if (p != NULL)
        p = skip_extras(p);
    if (p == NULL || *p == '\0')
        return p != NULL;
    for (p = skip_version(p); p != NULL && *p == ',';)
        p = skip_version(p + 1);
    return p != NULL && *p == '\0';
}

bool python_missing_module(const char *type, const char *message,
                           char out[static PYTHON_MODULE_SIZE]) {
    static const char *const before[] = {"No module named '", "Missing optional dependency '"};
    if (type == NULL || message == NULL ||
        !(str_equal(type, "ModuleNotFoundError") || str_equal(type, "ImportError")))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        const char *at = strstr(message, before[i]);
        if (at == NULL)
            continue;
        at += strlen(before[i]);
        size_t len = strcspn(at, ".'");
        if (at[len] == '\0' || str_format(out, PYTHON_MODULE_SIZE, "%.*s",
                                          (int)MIN(len, (size_t)PYTHON_MODULE_SIZE), at) < 0)
            return false;
        const char *end = skip_name(out);
        return end != NULL && *end == '\0';
    }
    return false;
}
