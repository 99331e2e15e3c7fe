#include "remote/far_read.h"

#include <errno.h>

const char *far_string(const struct json *at, const char *key, const char *fallback) {
    const char *text = fallback;
    return json_get_string(at, key, JSON_OPTIONAL, &text, NULL) < 0 ? fallback : text;
}

double far_number(const struct json *at, const char *key, double fallback) {
    double n = fallback;
    return json_get_number(at, key, JSON_OPTIONAL, &n, NULL) < 0 ? fallback : n;
}

int64_t far_integer(const struct json *at, const char *key, int64_t fallback) {
    int64_t n = fallback;
    int r = json_get_integer(at, key, JSON_OPTIONAL, INT64_MIN, INT64_MAX, &n, NULL);
    return r < 0 ? fallback : n;
}

bool far_bool(const struct json *at, const char *key) {
    bool yes = false;
    return json_get_bool(at, key, JSON_OPTIONAL, &yes, NULL) == 0 && yes;
}

int far_pairs(const struct json *at, const char *key, struct strv *ret) {
    struct json object = {0}, one;
    void *iterator = NULL;
    if (json_get_object(at, key, JSON_OPTIONAL, &object, NULL) < 0 || object.value == NULL)
        return 0;
    while (json_next(&object, &iterator, &one)) {
        const char *text = "";
        if (json_as_string(&one, &text, NULL) == 0 && strv_pushf(ret, "%s=%s", one.key, text) < 0)
            return -ENOMEM;
    }
    return 0;
}
