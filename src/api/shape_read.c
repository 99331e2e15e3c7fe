/* What the bodies of requests say. */
#include <stdlib.h>
#include <string.h>

#include "api/shape.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

enum { PAIRS_MAX = 1024, VOLUMES_MAX = SPEC_MOUNTS_MAX };

static const double cpus_max = 4096;

/* An empty body is an empty object. */
static int parse(const struct buf *body, struct json_document **ret, struct cay_error *err) {
    return body->len == 0 ? json_parse("request body", "{}", 2, ret, err)
                          : json_parse("request body", body->data, body->len, ret, err);
}

static int check_keys(const struct json *at, const char *const *known, size_t count,
                      struct cay_error *err) {
    void *iterator = NULL;
    struct json member;
    int r = json_as_object(at, err);
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

static int read_text(const struct json *at, const char *key, char *out, size_t size,
                     struct cay_error *err) {
    const char *text = "";
    int r = json_get_string(at, key, JSON_OPTIONAL, &text, err);
    if (r < 0 || str_copy(out, size, text) == 0)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: longer than %zu bytes", key, size - 1);
    return error_remedy(err, "give a shorter one");
}

/* A number of bytes, or a text as flags have it: "512m". */
static int read_size(const struct json *at, const char *key, uint64_t *ret, struct cay_error *err) {
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

static int read_cpus(const struct json *at, const char *key, uint32_t *ret, struct cay_error *err) {
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

static int read_pids(const struct json *at, uint32_t *ret, struct cay_error *err) {
    int64_t pids = *ret;
    int r = json_get_integer(at, "pids", JSON_OPTIONAL, 1, 4194304, &pids, err);
    *ret = (uint32_t)pids;
    return r;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* An object of strings as sorted "K=V". */
static int read_pairs(const struct json *at, const char *key, size_t max, struct strv *ret,
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

/* A text as flags have it, or Daytona's {"volumeId", "mountPath"}. */
static int read_volume(const struct json *at, struct strv *ret, struct cay_error *err) {
    static const char *const keys[] = {"volumeId", "mountPath"};
    const char *text = NULL, *path = NULL;
    bool is_object = json_kind(at) == JSON_KIND_OBJECT;
    int r = is_object ? check_keys(at, keys, ARRAY_LEN(keys), err) : json_as_string(at, &text, err);
    if (r == 0 && is_object)
        r = json_get_string(at, "volumeId", JSON_REQUIRED, &text, err);
    if (r == 0 && is_object)
        r = json_get_string(at, "mountPath", JSON_REQUIRED, &path, err);
    if (r < 0)
        return r;
    r = is_object ? strv_pushf(ret, "%s:%s", text, path) : strv_push(ret, text);
    return r < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int read_volumes(const struct json *at, struct strv *ret, struct cay_error *err) {
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

static int read_intervals(const struct json *at, struct sandbox_record *ret,
                          struct cay_error *err) {
    int r = read_interval(at, "autoStopInterval", 0, -1, &ret->auto_stop_minutes, err);
    if (r == 0)
        r = read_interval(at, "autoArchiveInterval", 0, -1, &ret->auto_archive_minutes, err);
    return r < 0 ? r
                 : read_interval(at, "autoDeleteInterval", -1, INTERVAL_AT_ONCE,
                                 &ret->auto_delete_minutes, err);
}

static int read_on_failure(const struct json *at, enum on_failure *ret, struct cay_error *err) {
    const char *name = NULL;
    int r = json_get_string(at, "onFailure", JSON_OPTIONAL, &name, err);
    if (r < 0 || name == NULL)
        return r;
    *ret = on_failure_from_name(name);
    if (*ret != FAILURE_COUNT)
        return 0;
    *ret = FAILURE_DEFAULT;
    error_set(err, CAY_INVALID_ARGUMENT, "onFailure: '%.40s' is no policy", name);
    return error_remedy(err, "use keep, recreate or remove");
}

static int read_walls(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    const char *profile = "strict", *tier = NULL;
    int r = json_get_string(at, "profile", JSON_OPTIONAL, &profile, err);
    if (r == 0)
        r = json_get_string(at, "tier", JSON_OPTIONAL, &tier, err);
    if (r == 0)
        r = json_get_bool(at, "readOnly", JSON_OPTIONAL, &ret->read_only, err);
    if (r < 0)
        return r;
    if (!str_equal(profile, "strict") && !str_equal(profile, "build"))
        return error_set(err, CAY_INVALID_ARGUMENT, "profile: '%.40s' is neither strict nor build",
                         profile);
    ret->profile = str_equal(profile, "build") ? PROFILE_BUILD : PROFILE_STRICT;
    if (tier == NULL)
        return 0;
    ret->tier = tier_from_name(tier);
    return ret->tier != TIER_NONE ? 0
                                  : error_set(err, CAY_INVALID_ARGUMENT,
                                              "tier: '%.40s' is not full, rootless or basic", tier);
}

/* ---- bodies ---- */

static int read_limits(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    int r = read_size(at, "memory", &ret->memory_bytes, err);
    if (r == 0)
        r = read_size(at, "disk", &ret->disk_bytes, err);
    if (r == 0)
        r = read_cpus(at, "cpus", &ret->cpu_quota_us, err);
    return r < 0 ? r : read_pids(at, &ret->pids, err);
}

static int read_texts(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    int r = read_text(at, "name", ret->name, sizeof ret->name, err);
    if (r == 0 && ret->name[0] != '\0')
        r = id_check_name("name", ret->name, err);
    if (r == 0)
        r = read_text(at, "image", ret->image_name, sizeof ret->image_name, err);
    if (r == 0)
        r = read_text(at, "user", ret->user, sizeof ret->user, err);
    return r < 0 ? r : read_text(at, "workDir", ret->work_dir, sizeof ret->work_dir, err);
}

int shape_read_create(const struct buf *body, struct sandbox_record *ret, struct cay_error *err) {
    static const char *const keys[] = {
        "name",
        "image",
        "env",
        "labels",
        "user",
        "workDir",
        "memory",
        "cpus",
        "disk",
        "pids",
        "volumes",
        "autoStopInterval",
        "autoArchiveInterval",
        "autoDeleteInterval",
        "onFailure",
        "tier",
        "profile",
        "readOnly",
    };
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = parse(body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = read_texts(&root, ret, err);
    if (r == 0)
        r = read_limits(&root, ret, err);
    if (r == 0)
        r = read_pairs(&root, "env", PAIRS_MAX, &ret->env, err);
    if (r == 0)
        r = read_pairs(&root, "labels", SPEC_LABELS_MAX, &ret->labels, err);
    if (r == 0)
        r = read_volumes(&root, &ret->volumes, err);
    if (r == 0)
        r = read_intervals(&root, ret, err);
    if (r == 0)
        r = read_on_failure(&root, &ret->on_failure, err);
    return r < 0 ? r : read_walls(&root, ret, err);
}

int shape_read_labels(const struct buf *body, struct strv *ret, struct cay_error *err) {
    static const char *const keys[] = {"labels"};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = parse(body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), labels;
    r = check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = json_get_object(&root, "labels", JSON_REQUIRED, &labels, err);
    return r < 0 ? r : read_pairs(&root, "labels", SPEC_LABELS_MAX, ret, err);
}

int shape_read_rename(const struct buf *body, char name[static NAME_MAX_LEN + 1],
                      struct cay_error *err) {
    static const char *const keys[] = {"name"};
    const char *text = NULL;
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = parse(body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = json_get_string(&root, "name", JSON_REQUIRED, &text, err);
    if (r == 0)
        r = id_check_name("name", text, err);
    return r < 0 ? r : str_copy(name, NAME_MAX_LEN + 1, text);
}

/* ---- keys ---- */

static int read_scopes(const struct json *at, unsigned *ret, struct cay_error *err) {
    struct json list, item;
    int r = json_get_array(at, "permissions", JSON_OPTIONAL, &list, err);
    if (r < 0 || list.value == NULL)
        return r;
    for (size_t i = 0; json_item(&list, i, &item); i++) {
        const char *text;
        r = json_as_string(&item, &text, err);
        if (r < 0)
            return r;
        unsigned scope = key_scope_from_name(text);
        if (scope == 0) {
            r = json_refuse(&item, err, "'%.40s' is no scope", text);
            (void)error_remedy(err, "use sandboxes, images, read or admin");
            return r;
        }
        *ret |= scope;
    }
    return 0;
}

static int read_expiry(const struct json *at, int64_t *ret, struct cay_error *err) {
    const char *text = NULL;
    int r = json_get_string(at, "expiresAt", JSON_OPTIONAL, &text, err);
    if (r < 0 || text == NULL || clock_from_iso8601(text, ret) == 0)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "expiresAt: '%.40s' is no time", text);
    return error_remedy(err, "write it as in 2027-01-31T12:00:00Z");
}

static int read_key_limits(const struct json *at, struct key *ret, struct cay_error *err) {
    struct json value;
    double cpus = 0;
    int r =
        json_get_integer(at, "maxSandboxes", JSON_OPTIONAL, 0, 1000000, &ret->max_sandboxes, err);
    if (r == 0)
        r = read_size(at, "maxMemory", &ret->max_memory_bytes, err);
    if (r == 0)
        r = read_size(at, "maxDisk", &ret->max_disk_bytes, err);
    if (r == 0)
        r = json_get_number(at, "maxCpus", JSON_OPTIONAL, &cpus, err);
    if (r < 0 || !json_child(at, "maxCpus", &value))
        return r;
    if (!(cpus >= 0.01 && cpus <= 1e6))
        return json_refuse(&value, err, "expected 0.01 to 1000000 processors");
    ret->max_cpu_quota_us = (uint64_t)(cpus * 100000);
    return 0;
}

int shape_read_key(const struct buf *body, struct key *ret, struct cay_error *err) {
    static const char *const keys[] = {"name",      "permissions", "expiresAt", "maxSandboxes",
                                       "maxMemory", "maxDisk",     "maxCpus"};
    const char *name = "";
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = parse(body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = json_get_string(&root, "name", JSON_REQUIRED, &name, err);
    if (r == 0)
        r = id_check_name("name", name, err);
    if (r == 0 && str_copy(ret->name, sizeof ret->name, name) < 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "name: too long");
    if (r == 0)
        r = read_scopes(&root, &ret->scopes, err);
    if (r == 0)
        r = read_expiry(&root, &ret->expires_ms, err);
    return r < 0 ? r : read_key_limits(&root, ret, err);
}

/* ---- changes ---- */

/* "cpu" is Daytona's name of "cpus". */
static int read_new_limits(const struct json *at, struct manager_update *ret,
                           struct cay_error *err) {
    struct sandbox_record r = {0};
    int e = read_limits(at, &r, err);
    if (e == 0)
        e = read_cpus(at, "cpu", &r.cpu_quota_us, err);
    ret->memory_bytes = r.memory_bytes;
    ret->disk_bytes = r.disk_bytes;
    ret->cpu_quota_us = r.cpu_quota_us;
    ret->pids = r.pids;
    return e;
}

int shape_read_limits(const struct buf *body, struct manager_update *ret, struct cay_error *err) {
    static const char *const keys[] = {"memory", "cpus", "cpu", "disk", "pids"};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = parse(body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = check_keys(&root, keys, ARRAY_LEN(keys), err);
    return r < 0 ? r : read_new_limits(&root, ret, err);
}

/* A label that is null is taken away. */
static int read_label_changes(const struct json *at, struct manager_update *ret,
                              struct cay_error *err) {
    struct json pairs, pair;
    void *iterator = NULL;
    int r = json_get_object(at, "labels", JSON_OPTIONAL, &pairs, err);
    if (r < 0 || pairs.value == NULL)
        return r;
    while (r == 0 && json_next(&pairs, &iterator, &pair)) {
        const char *text;
        if (json_kind(&pair) == JSON_KIND_NULL) {
            r = strv_push(&ret->unlabel, pair.key);
        } else {
            r = json_as_string(&pair, &text, err);
            if (r < 0)
                return r;
            r = strv_pushf(&ret->labels, "%s=%s", pair.key, text);
        }
        if (r < 0)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return 0;
}

static int read_new_interval(const struct json *at, const char *key, int64_t min, int64_t *ret,
                             struct cay_error *err) {
    struct json value;
    return json_child(at, key, &value) ? json_as_integer(&value, min, INT32_MAX, ret, err) : 0;
}

int shape_read_update(const struct buf *body, struct manager_update *ret, struct cay_error *err) {
    static const char *const keys[] = {
        "memory",
        "cpus",
        "cpu",
        "disk",
        "pids",
        "labels",
        "autoStopInterval",
        "autoArchiveInterval",
        "onFailure",
        "autoDeleteInterval",
    };
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = parse(body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = read_new_limits(&root, ret, err);
    if (r == 0)
        r = read_label_changes(&root, ret, err);
    if (r == 0)
        r = read_new_interval(&root, "autoStopInterval", 0, &ret->auto_stop_minutes, err);
    if (r == 0)
        r = read_new_interval(&root, "autoArchiveInterval", 0, &ret->auto_archive_minutes, err);
    if (r == 0)
        r = read_new_interval(&root, "autoDeleteInterval", -1, &ret->auto_delete_minutes, err);
    return r < 0 ? r : read_on_failure(&root, &ret->on_failure, err);
}
