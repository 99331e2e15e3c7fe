#include <string.h>

#include "api/fields_json.h"
#include "api/shape/shape_value.h"
#include "base/clock.h"
#include "base/error.h"

enum { GIB_MAX = 1024 * 1024 };

/* A number of bytes, or a text as flags have it: "512m". */
static int read_bytes(const struct field *f, const struct json *value, int64_t *ret,
                      struct cay_error *err) {
    const char *text;
    uint64_t bytes;
    if (json_kind(value) != JSON_KIND_STRING)
        return json_as_integer(value, f->min, f->max, ret, err);
    int r = json_as_string(value, &text, err);
    if (r == 0)
        r = str_to_size(f->json, text, &bytes, err);
    if (r < 0)
        return r;
    *ret = (int64_t)bytes;
    return bytes <= INT64_MAX && *ret >= f->min
               ? 0
               : json_refuse(value, err, "must be at least %lld bytes", (long long)f->min);
}

static int read_cpus(const struct field *f, const struct json *value, int64_t *ret,
                     struct cay_error *err) {
    double min = (double)f->min / CPU_QUOTA_US, max = (double)f->max / CPU_QUOTA_US, cpus;
    int r = json_as_number(value, &cpus, err);
    if (r < 0)
        return r;
    if (!(cpus >= min && cpus <= max))
        return json_refuse(value, err, "must be between %g and %g processors", min, max);
    *ret = (int64_t)(cpus * CPU_QUOTA_US);
    return 0;
}

static int read_time(const struct json *value, int64_t *ret, struct cay_error *err) {
    const char *text;
    int r = json_as_string(value, &text, err);
    if (r < 0)
        return r;
    return clock_from_iso8601(text, ret) == 0
               ? 0
               : json_refuse(value, err, "expected a time such as 2030-01-31T12:00:00Z");
}

/* In Daytona's unit: whole GiB or processors. */
static int read_whole(const struct field *f, const struct json *value, int64_t *ret,
                      struct cay_error *err) {
    bool is_bytes = f->unit == UNIT_BYTES;
    int r = json_as_integer(value, 1, is_bytes ? GIB_MAX : f->max / CPU_QUOTA_US, ret, err);
    *ret *= is_bytes ? INT64_C(1) << 30 : CPU_QUOTA_US;
    return r;
}

static int read_number(const struct field *f, const struct json *value, bool is_daytona,
                       int64_t *ret, struct cay_error *err) {
    if (is_daytona)
        return read_whole(f, value, ret, err);
    switch (f->unit) {
    case UNIT_BYTES:
        return read_bytes(f, value, ret, err);
    case UNIT_CPUS:
        return read_cpus(f, value, ret, err);
    case UNIT_TIME:
        return read_time(value, ret, err);
    default:
        return json_as_integer(value, f->min, f->max, ret, err);
    }
}

static int read_choice(const struct field *f, const struct json *value, struct sandbox_record *ret,
                       struct cay_error *err) {
    const char *name;
    int r = json_as_string(value, &name, err);
    if (r < 0 || name[0] == '\0')
        return r;
    _cleanup_(buf_free) struct buf known = BUF_INIT(200);
    for (unsigned v = f->names->first; v < f->names->end; v++) {
        if (str_equal(f->names->name(v), name))
            return field_set_number(f, ret, v);
        (void)buf_printf(&known, "%s%s", known.len == 0 ? "" : ", ", f->names->name(v));
    }
    (void)json_refuse(value, err, "unknown value '%.40s'", name);
    return error_remedy(err, "use one of: %s", buf_text(&known));
}

static int read_text(const struct field *f, const struct json *value, struct sandbox_record *ret,
                     struct cay_error *err) {
    const char *text;
    int r = json_as_string(value, &text, err);
    if (r < 0 || str_copy(field_in(f, ret), f->size, text) == 0)
        return r;
    return json_refuse(value, err, "longer than %zu bytes", f->size - 1);
}

static int read_words(const struct field *f, const struct json *value, struct strv *ret,
                      struct cay_error *err) {
    struct json item;
    const char *text;
    int r = json_as_array(value, err);
    if (r == 0 && json_count(value) > (size_t)f->max)
        r = json_refuse(value, err, "must have at most %lld entries", (long long)f->max);
    for (size_t i = 0; r == 0 && json_item(value, i, &item); i++) {
        r = json_as_string(&item, &text, err);
        if (r == 0 && strv_push(ret, text) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

static int read_value(const struct field *f, const struct json *at, const struct json *value,
                      bool is_daytona, enum field_flags flag, struct sandbox_record *ret,
                      struct cay_error *err) {
    bool is_true;
    int64_t number = 0;
    int r;
    switch (f->kind) {
    case FIELD_TEXT:
        return read_text(f, value, ret, err);
    case FIELD_CHOICE:
        return read_choice(f, value, ret, err);
    case FIELD_WORDS:
        return read_words(f, value, field_in(f, ret), err);
    case FIELD_PAIRS:
        return value_pairs(at, f->json, (size_t)f->max, field_in(f, ret), err);
    case FIELD_FLAG:
        r = json_as_bool(value, &is_true, err);
        return r < 0 ? r : field_set_number(f, ret, is_true);
    default:
        r = read_number(f, value, is_daytona, &number, err);
        if (number == 0 && flag == FIELD_CREATE)
            number = f->zero;
        return r < 0 ? r : field_set_number(f, ret, number);
    }
}

int fields_json_read(const struct json *at, enum field_flags flag, struct sandbox_record *ret,
                     struct field_set *ret_set, struct cay_error *err) {
    for (size_t i = 0; i < sandbox_field_count; i++) {
        const struct field *f = &sandbox_fields[i];
        struct json own, other;
        if ((f->flags & flag) == 0 || (flag == FIELD_UPDATE && field_is_list(f)))
            continue;
        bool has_own = json_child(at, f->json, &own);
        bool has_other = f->daytona != NULL && json_child(at, f->daytona, &other);
        if (!has_own && !has_other)
            continue;
        if (has_own && has_other) {
            error_set(err, CAY_INVALID_ARGUMENT, "%s and %s exclude each other", f->json,
                      f->daytona);
            return error_remedy(err, "send one of them");
        }
        int r = read_value(f, at, has_own ? &own : &other, has_other, flag, ret, err);
        if (r < 0)
            return r;
        if (ret_set != NULL)
            ret_set->has[i] =
                !(f->kind == FIELD_TEXT || f->kind == FIELD_CHOICE) || !field_is_zero(f, ret);
    }
    return 0;
}

size_t fields_json_names(enum field_flags flag, const char **names, size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < sandbox_field_count && count + 2 <= max; i++) {
        if ((sandbox_fields[i].flags & flag) == 0)
            continue;
        names[count++] = sandbox_fields[i].json;
        if (sandbox_fields[i].daytona != NULL)
            names[count++] = sandbox_fields[i].daytona;
    }
    return count;
}
