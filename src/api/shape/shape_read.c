/* What the bodies of requests say. */
#include <string.h>

#include "api/shape/shape.h"
#include "api/shape/shape_value.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "manager/record/volume.h"

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

static int read_engine(const struct json *at, enum engine_kind *ret, struct cay_error *err) {
    const char *name = "";
    int r = json_get_string(at, "engine", JSON_OPTIONAL, &name, err);
    if (r < 0)
        return r;
    *ret = engine_kind_from_name(name);
    if (*ret != ENGINE_KINDS)
        return 0;
    *ret = ENGINE_UNSAID;
    error_set(err, CAY_INVALID_ARGUMENT, "engine: there is no '%.40s'", name);
    return error_remedy(err, "use " ENGINE_CHOICES);
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

enum { KEY_COUNT_MAX = 100 * 1000 * 1000 };

/* ---- bodies ---- */

static int read_limits(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    int r = value_size(at, "memory", &ret->memory_bytes, err);
    if (r == 0)
        r = value_size(at, "disk", &ret->disk_bytes, err);
    if (r == 0)
        r = value_cpus(at, "cpus", &ret->cpu_quota_us, err);
    return r < 0 ? r : value_pids(at, &ret->pids, err);
}

static int read_texts(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    int r = value_text(at, "name", ret->name, sizeof ret->name, err);
    if (r == 0 && ret->name[0] != '\0')
        r = id_check_name("name", ret->name, err);
    if (r == 0)
        r = value_text(at, "image", ret->image_name, sizeof ret->image_name, err);
    if (r == 0)
        r = value_text(at, "user", ret->user, sizeof ret->user, err);
    if (r == 0)
        r = value_text(at, "network", ret->network, sizeof ret->network, err);
    return r < 0 ? r : value_text(at, "workDir", ret->work_dir, sizeof ret->work_dir, err);
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
        "network",
        "engine",
    };
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = read_texts(&root, ret, err);
    if (r == 0)
        r = read_limits(&root, ret, err);
    if (r == 0)
        r = value_pairs(&root, "env", VALUE_PAIRS_MAX, &ret->env, err);
    if (r == 0)
        r = value_pairs(&root, "labels", SPEC_LABELS_MAX, &ret->labels, err);
    if (r == 0)
        r = value_volumes(&root, &ret->volumes, err);
    if (r == 0)
        r = value_intervals(&root, ret, err);
    if (r == 0)
        r = read_on_failure(&root, &ret->on_failure, err);
    if (r == 0)
        r = read_engine(&root, &ret->engine, err);
    return r < 0 ? r : read_walls(&root, ret, err);
}

int shape_read_labels(const struct buf *body, struct strv *ret, struct cay_error *err) {
    static const char *const keys[] = {"labels"};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root, labels;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = json_get_object(&root, "labels", JSON_REQUIRED, &labels, err);
    return r < 0 ? r : value_pairs(&root, "labels", SPEC_LABELS_MAX, ret, err);
}

int shape_read_rename(const struct buf *body, char name[static NAME_MAX_LEN + 1],
                      struct cay_error *err) {
    static const char *const keys[] = {"name"};
    const char *text = NULL;
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = json_get_string(&root, "name", JSON_REQUIRED, &text, err);
    if (r == 0)
        r = id_check_name("name", text, err);
    return r < 0 ? r : str_copy(name, NAME_MAX_LEN + 1, text);
}

/* ---- volumes ---- */

static int parse_known(const struct buf *body, const char *const *keys, size_t count,
                       struct json_document **doc, struct json *root, struct cay_error *err) {
    int r = value_parse(body, doc, root, err);
    return r < 0 ? r : value_check_keys(root, keys, count, err);
}

int shape_read_volume(const struct buf *body, struct volume_request *ret, struct cay_error *err) {
    static const char *const keys[] = {"name", "size"};
    const char *text = NULL;
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = parse_known(body, keys, ARRAY_LEN(keys), &doc, &root, err);
    if (r == 0)
        r = json_get_string(&root, "name", JSON_REQUIRED, &text, err);
    if (r == 0)
        r = id_check_name("name", text, err);
    if (r == 0)
        r = value_size(&root, "size", &ret->size_bytes, err);
    return r < 0 ? r : str_copy(ret->name, sizeof ret->name, text);
}

int shape_read_size(const struct buf *body, uint64_t *ret, struct cay_error *err) {
    static const char *const keys[] = {"size"};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = parse_known(body, keys, ARRAY_LEN(keys), &doc, &root, err);
    if (r == 0)
        r = value_size(&root, "size", ret, err);
    if (r < 0 || *ret != 0)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "size is missing");
    return error_remedy(err, "give the new size, such as \"2g\"");
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

static int read_key_cpus(const struct json *at, const char *name, uint64_t *ret,
                         struct cay_error *err) {
    struct json value;
    double cpus = 0;
    int r = json_get_number(at, name, JSON_OPTIONAL, &cpus, err);
    if (r < 0 || !json_child(at, name, &value))
        return r;
    if (!(cpus >= 0.01 && cpus <= 1e6))
        return json_refuse(&value, err, "expected 0.01 to 1000000 processors");
    *ret = (uint64_t)(cpus * 100000);
    return 0;
}

static int read_key_limit(const struct json *at, const struct budget_row *row, uint64_t *ret,
                          struct cay_error *err) {
    int64_t count = 0;
    if (row->unit == BUDGET_BYTES)
        return value_size(at, row->limit_name, ret, err);
    if (row->unit == BUDGET_QUOTA)
        return read_key_cpus(at, row->limit_name, ret, err);
    int r = json_get_integer(at, row->limit_name, JSON_OPTIONAL, 0, KEY_COUNT_MAX, &count, err);
    *ret = (uint64_t)count;
    return r;
}

static int read_key_limits(const struct json *at, struct key *ret, struct cay_error *err) {
    int r = 0;
    for (enum budget_item i = 0; r == 0 && i < BUDGET_ITEMS; i++) {
        uint64_t limit = 0;
        if (budget_is_part(i))
            continue;
        r = read_key_limit(at, &budget_table[i], &limit, err);
        budget_set_limit(ret, i, limit);
    }
    return r;
}

/* The name of an organisation; "" if none is named. */
static int read_organization(const struct json *at, char ret[static NAME_MAX_LEN + 1],
                             struct cay_error *err) {
    const char *name = "";
    int r = json_get_string(at, "organization", JSON_OPTIONAL, &name, err);
    ret[0] = '\0';
    if (r < 0 || name == NULL || name[0] == '\0')
        return r;
    r = id_check_name("organization", name, err);
    return r < 0 || str_copy(ret, NAME_MAX_LEN + 1, name) == 0
               ? r
               : error_set(err, CAY_INVALID_ARGUMENT, "organization: too long");
}

int shape_read_key(const struct buf *body, struct key *ret,
                   char organization[static NAME_MAX_LEN + 1], struct cay_error *err) {
    const char *keys[4 + BUDGET_ITEMS] = {"name", "permissions", "expiresAt", "organization"};
    size_t known = 4;
    for (enum budget_item i = 0; i < BUDGET_ITEMS; i++)
        if (!budget_is_part(i))
            keys[known++] = budget_table[i].limit_name;
    const char *name = "";
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, keys, known, err);
    if (r == 0)
        r = json_get_string(&root, "name", JSON_REQUIRED, &name, err);
    if (r == 0)
        r = id_check_name("name", name, err);
    if (r == 0 && str_copy(ret->name, sizeof ret->name, name) < 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "name: too long");
    if (r == 0)
        r = read_scopes(&root, &ret->scopes, err);
    if (r == 0)
        r = read_organization(&root, organization, err);
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
        e = value_cpus(at, "cpu", &r.cpu_quota_us, err);
    if (r.memory_bytes != 0)
        UPDATE_SET(ret, memory_bytes, r.memory_bytes);
    if (r.disk_bytes != 0)
        UPDATE_SET(ret, disk_bytes, r.disk_bytes);
    if (r.cpu_quota_us != 0)
        UPDATE_SET(ret, cpu_quota_us, r.cpu_quota_us);
    if (r.pids != 0)
        UPDATE_SET(ret, pids, r.pids);
    return e;
}

int shape_read_limits(const struct buf *body, struct manager_update *ret, struct cay_error *err) {
    static const char *const keys[] = {"memory", "cpus", "cpu", "disk", "pids"};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, keys, ARRAY_LEN(keys), err);
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
            r = strv_pushf(&ret->to.labels, "%s=%s", pair.key, text);
        }
        if (r < 0)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return 0;
}

static int read_new_interval(const struct json *at, const char *key, int64_t min, int64_t *ret,
                             bool *ret_set, struct cay_error *err) {
    struct json value;
    *ret_set = json_child(at, key, &value);
    return *ret_set ? json_as_integer(&value, min, INT32_MAX, ret, err) : 0;
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
        "network",
    };
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, keys, ARRAY_LEN(keys), err);
    if (r == 0)
        r = read_new_limits(&root, ret, err);
    if (r == 0)
        r = value_text(&root, "network", ret->to.network, sizeof ret->to.network, err);
    FIELD_IN(&ret->set, network) = ret->to.network[0] != '\0';
    if (r == 0)
        r = read_label_changes(&root, ret, err);
    if (r == 0)
        r = read_new_interval(&root, "autoStopInterval", 0, &ret->to.auto_stop_minutes,
                              &FIELD_IN(&ret->set, auto_stop_minutes), err);
    if (r == 0)
        r = read_new_interval(&root, "autoArchiveInterval", 0, &ret->to.auto_archive_minutes,
                              &FIELD_IN(&ret->set, auto_archive_minutes), err);
    if (r == 0)
        r = read_new_interval(&root, "autoDeleteInterval", -1, &ret->to.auto_delete_minutes,
                              &FIELD_IN(&ret->set, auto_delete_minutes), err);
    if (r == 0)
        r = read_on_failure(&root, &ret->to.on_failure, err);
    FIELD_IN(&ret->set, on_failure) = ret->to.on_failure != FAILURE_DEFAULT;
    return r;
}
