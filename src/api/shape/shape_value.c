#include "api/shape/shape_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

enum { VOLUMES_MAX = SPEC_MOUNTS_MAX };

static const double cpus_max = 4096;

int value_parse(const struct buf *body, struct json_document **ret_document, struct json *ret,
                struct cay_error *err) {
    int r = body->len == 0 ? json_parse("request body", "{}", 2, ret_document, err)
                           : json_parse("request body", body->data, body->len, ret_document, err);
    if (r < 0)
        return r;
    *ret = json_root(*ret_document, "");
    return json_as_object(ret, err);
}

int value_check_keys(const struct json *at, const char *const *known, size_t count,
                     struct cay_error *err) {
    void *iterator = NULL;
    struct json member;
    int r = 0;
    while (r == 0 && json_next(at, &iterator, &member)) {
        size_t i = 0;
        while (i < count && !str_equal(known[i], member.key))
            i++;
        if (i < count)
            continue;
        const char *nearest = str_nearest(member.key, known, count);
        r = error_set(err, CAY_INVALID_ARGUMENT, "request body: '%.60s' is no key of this request",
                      member.key);
        if (nearest != NULL)
            (void)error_remedy(err, "did you mean '%s'?", nearest);
        else
            (void)error_remedy(err, "remove it; docs/api.md lists the keys");
    }
    return r;
}

/* ---- values ---- */

int value_text(const struct json *at, const char *key, char *out, size_t size,
               struct cay_error *err) {
    const char *text = "";
    int r = json_get_string(at, key, JSON_OPTIONAL, &text, err);
    if (r < 0 || str_copy(out, size, text) == 0)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: longer than %zu bytes", key, size - 1);
    return error_remedy(err, "give a shorter one");
}

/* A number of bytes, or a text as flags have it: "512m". */
int value_size(const struct json *at, const char *key, uint64_t *ret, struct cay_error *err) {
    struct json value;
    const char *text;
    int64_t bytes;
    if (!json_child(at, key, &value))
        return 0;
    if (json_kind(&value) == JSON_KIND_STRING) {
        int r = json_as_string(&value, &text, err);
        return r < 0 ? r : str_to_size(key, text, ret, err);
    }
    int r = json_as_integer(&value, 1, INT64_MAX, &bytes, err);
    if (r == 0)
        *ret = (uint64_t)bytes;
    return r;
}

int value_cpus(const struct json *at, const char *key, uint32_t *ret, struct cay_error *err) {
    struct json value;
    double cpus;
    if (!json_child(at, key, &value))
        return 0;
    int r = json_as_number(&value, &cpus, err);
    if (r < 0)
        return r;
    if (!(cpus >= 0.01 && cpus <= cpus_max))
        return json_refuse(&value, err, "expected 0.01 to %.0f processors", cpus_max);
    *ret = (uint32_t)(cpus * 100000);
    return 0;
}

int value_pids(const struct json *at, uint32_t *ret, struct cay_error *err) {
    int64_t pids = *ret;
    int r = json_get_integer(at, "pids", JSON_OPTIONAL, 1, 4194304, &pids, err);
    *ret = (uint32_t)pids;
    return r;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* An object of strings as sorted "K=V". */
int value_pairs(const struct json *at, const char *key, size_t max, struct strv *ret,
                struct cay_error *err) {
    struct json pairs, pair;
    void *iterator = NULL;
    int r = json_get_object(at, key, JSON_OPTIONAL, &pairs, err);
    if (r < 0 || pairs.value == NULL)
        return r;
    if (json_count(&pairs) > max)
        return json_refuse(&pairs, err, "more than %zu entries", max);
    while (json_next(&pairs, &iterator, &pair)) {
        const char *text;
        r = json_as_string(&pair, &text, err);
        if (r < 0)
            return r;
        if (pair.key[0] == '\0' || strchr(pair.key, '=') != NULL)
            return json_refuse(&pair, err, "a name must not be empty or have a '='");
        if (strv_pushf(ret, "%s=%s", pair.key, text) < 0)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    if (ret->len > 1)
        qsort(ret->v, ret->len, sizeof ret->v[0], compare);
    return 0;
}

/* Which ends where a colon or its first part ends. */
static int check_subpath(const char *below, struct cay_error *err) {
    if (below[0] != '/' && strchr(below, ':') == NULL)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "subpath: '%.100s' is no path in a volume", below);
    return error_remedy(err, "write it without a slash at the beginning, and without colons");
}

/* A text as flags have it, or Daytona's {"volumeId", "mountPath", "subpath"}. */
static int read_volume(const struct json *at, struct strv *ret, struct cay_error *err) {
    static const char *const keys[] = {"volumeId", "mountPath", "subpath"};
    const char *text = NULL, *path = NULL, *below = "";
    bool is_object = json_kind(at) == JSON_KIND_OBJECT;
    int r = is_object ? value_check_keys(at, keys, ARRAY_LEN(keys), err)
                      : json_as_string(at, &text, err);
    if (r == 0 && is_object)
        r = json_get_string(at, "volumeId", JSON_REQUIRED, &text, err);
    if (r == 0 && is_object)
        r = json_get_string(at, "mountPath", JSON_REQUIRED, &path, err);
    if (r == 0 && is_object)
        r = json_get_string(at, "subpath", JSON_OPTIONAL, &below, err);
    if (r == 0)
        r = check_subpath(below, err);
    if (r < 0)
        return r;
    r = is_object ? strv_pushf(ret, "%s%s%s:%s", text, below[0] != '\0' ? "/" : "", below, path)
                  : strv_push(ret, text);
    return r < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

int value_volumes(const struct json *at, struct strv *ret, struct cay_error *err) {
    struct json list, item;
    int r = json_get_array(at, "volumes", JSON_OPTIONAL, &list, err);
    if (r < 0 || list.value == NULL)
        return r;
    if (json_count(&list) > VOLUMES_MAX)
        return json_refuse(&list, err, "more than %d volumes", VOLUMES_MAX);
    for (size_t i = 0; r == 0 && json_item(&list, i, &item); i++)
        r = read_volume(&item, ret, err);
    return r;
}

/* A zero in a record means the default, so what zero means in a request is written otherwise. */
static int read_interval(const struct json *at, const char *key, int64_t min, int64_t zero,
                         int64_t *ret, struct cay_error *err) {
    enum { DECADE_MINUTES = 10 * 366 * 24 * 60 };
    struct json value;
    int r = json_get_integer(at, key, JSON_OPTIONAL, min, DECADE_MINUTES, ret, err);
    if (r == 0 && *ret == 0 && json_child(at, key, &value))
        *ret = zero;
    return r;
}

int value_intervals(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    int r = read_interval(at, "autoStopInterval", 0, -1, &ret->auto_stop_minutes, err);
    if (r == 0)
        r = read_interval(at, "autoArchiveInterval", 0, -1, &ret->auto_archive_minutes, err);
    return r < 0 ? r
                 : read_interval(at, "autoDeleteInterval", -1, INTERVAL_AT_ONCE,
                                 &ret->auto_delete_minutes, err);
}
