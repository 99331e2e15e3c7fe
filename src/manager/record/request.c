/* What a request asks for, checked and made whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/engines.h"
#include "manager/internal.h"

enum {
    LABEL_KEY_MAX = 63,
    LABEL_VALUE_MAX = 255,
    ENV_MAX = 1024,
    ENV_BYTES_MAX = 128 * 1024,
    MINUTES_MAX = 10 * 366 * 24 * 60,
};

/* ---- labels and environment ---- */

static size_t key_length(const char *entry) {
    return strcspn(entry, "=");
}

static int refuse_label(const char *label, const char *why, struct cay_error *err) {
    char shown[120];
    error_set(err, CAY_INVALID_ARGUMENT, "label '%s' %s", str_escape(shown, sizeof shown, label),
              why);
    return error_remedy(err, "use KEY=VALUE, with a key of up to %d and a value of up to %d bytes",
                        LABEL_KEY_MAX, LABEL_VALUE_MAX);
}

static bool is_printable(const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        size_t n = str_printable_length(text, left);
        if (n == 0)
            return false;
        text += n;
        left -= n;
    }
    return true;
}

static int check_label(const char *label, struct cay_error *err) {
    size_t key = key_length(label);
    if (label[key] != '=' || key == 0)
        return refuse_label(label, "is not KEY=VALUE", err);
    if (key > LABEL_KEY_MAX || strlen(label + key + 1) > LABEL_VALUE_MAX)
        return refuse_label(label, "is too long", err);
    return is_printable(label) ? 0 : refuse_label(label, "has control characters", err);
}

static int compare_words(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int request_labels(const struct strv *labels, struct strv *ret, struct cay_error *err) {
    int r = 0;
    *ret = (struct strv){0};
    if (labels->len > SPEC_LABELS_MAX) {
        error_set(err, CAY_INVALID_ARGUMENT, "%zu labels are too many", labels->len);
        return error_remedy(err, "use at most %d", SPEC_LABELS_MAX);
    }
    for (size_t i = 0; r == 0 && i < labels->len; i++) {
        r = check_label(labels->v[i], err);
        if (r == 0 && strv_push(ret, labels->v[i]) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    if (r == 0 && ret->len > 1)
        qsort(ret->v, ret->len, sizeof *ret->v, compare_words);
    for (size_t i = 1; r == 0 && i < ret->len; i++)
        if (strncmp(ret->v[i - 1], ret->v[i], key_length(ret->v[i]) + 1) == 0)
            r = refuse_label(ret->v[i], "has the key of another one", err);
    if (r < 0)
        strv_free(ret);
    return r;
}

int request_env(const struct strv *env, struct cay_error *err) {
    size_t bytes = 0;
    for (size_t i = 0; i < env->len; i++) {
        size_t key = key_length(env->v[i]);
        bytes += strlen(env->v[i]) + 1;
        if (key > 0 && env->v[i][key] == '=')
            continue;
        char shown[80];
        error_set(err, CAY_INVALID_ARGUMENT, "environment entry '%s' is not KEY=VALUE",
                  str_escape(shown, sizeof shown, env->v[i]));
        return error_remedy(err, "write --env KEY=VALUE");
    }
    if (env->len <= ENV_MAX && bytes <= ENV_BYTES_MAX)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the environment is too large");
    return error_remedy(err, "use at most %d entries of %d bytes in all", ENV_MAX, ENV_BYTES_MAX);
}

/* ---- the rest ---- */

/* A name that looks like an id would hide the sandbox that has it. */
int request_name(const char *name, struct cay_error *err) {
    int r = id_check_name("name", name, err);
    if (r < 0 || !id_is_valid(name))
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "the name '%s' has the form of an id", name);
    return error_remedy(err, "choose another name");
}

static int check_interval(const char *what, int64_t minutes, struct cay_error *err) {
    if (minutes <= MINUTES_MAX)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: %lld minutes are too many", what, (long long)minutes);
    return error_remedy(err, "use at most %d, or a negative number for never", MINUTES_MAX);
}

int request_intervals(const struct sandbox_record *r, struct cay_error *err) {
    int e = check_interval("auto-stop", r->auto_stop_minutes, err);
    if (e == 0)
        e = check_interval("auto-archive", r->auto_archive_minutes, err);
    return e < 0 ? e : check_interval("auto-delete", r->auto_delete_minutes, err);
}

static int64_t interval(int64_t wish, int64_t otherwise, int64_t never) {
    int64_t minutes = wish == 0 ? otherwise : wish == INTERVAL_AT_ONCE ? 0 : wish;
    return MAX(minutes, never);
}

static int take_intervals(const struct sandbox_record *d, struct sandbox_record *r,
                          struct cay_error *err) {
    r->auto_stop_minutes = interval(r->auto_stop_minutes, d->auto_stop_minutes, 0);
    r->auto_archive_minutes = interval(r->auto_archive_minutes, d->auto_archive_minutes, 0);
    r->auto_delete_minutes = interval(r->auto_delete_minutes, d->auto_delete_minutes, -1);
    return request_intervals(r, err);
}

/* False with the reason. With ENGINE_LIMITS_AT_START no default counts. */
static bool has_disk_limits(const struct manager *m, enum engine_kind kind, struct cay_error *why) {
    if (!engine_can(kind, ENGINE_LIMITS_AT_START)) {
        *why = m->no_disk_limits;
        return why->code == CAY_OK;
    }
    *why = (struct cay_error){0};
    return false;
}

static void take_text(char *text, const char *otherwise, size_t size) {
    if (text[0] == '\0')
        (void)snprintf(text, size, "%s", otherwise);
}

static void take_defaults(const struct manager *m, const struct sandbox_record *d,
                          struct sandbox_record *r) {
    struct cay_error why;
    if (r->engine == ENGINE_UNSAID)
        r->engine = m->kind;
    if (r->disk_bytes == 0 && has_disk_limits(m, r->engine, &why))
        r->disk_bytes = d->disk_bytes;
    if (!r->pooled) /* whoever takes it says what it reaches */
        take_text(r->network, d->network, sizeof r->network);
    take_text(r->network, "none", sizeof r->network);
    fields_take_defaults(d, r);
    take_text(r->image_name, "host", sizeof r->image_name);
    if (r->tier == TIER_NONE)
        r->tier = m->best_tier[r->engine];
}

static int take_words(struct manager *m, const struct sandbox_record *request,
                      const struct sandbox_record *d, struct sandbox_record *r,
                      struct cay_error *err) {
    const struct strv *env = request->env.len > 0 ? &request->env : &d->env;
    const struct strv *volumes = request->volumes.len > 0 ? &request->volumes : &d->volumes;
    const struct strv *labels = request->labels.len > 0 ? &request->labels : &d->labels;
    int e = request_env(env, err);
    for (size_t i = 0; e == 0 && i < env->len; i++)
        if (strv_push(&r->env, env->v[i]) < 0)
            e = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    for (size_t i = 0; e == 0 && i < volumes->len; i++)
        if (volumes->v[i][0] != '/')
            e = volumes_resolve(m, r->owner, volumes->v[i], &r->volumes, err);
        else if (strv_push(&r->volumes, volumes->v[i]) < 0)
            e = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return e == 0 ? request_labels(labels, &r->labels, err) : e;
}

static int name_it(struct sandbox_record *r, struct cay_error *err) {
    int e = id_new(r->id, err);
    if (e == 0 && r->name[0] != '\0')
        return request_name(r->name, err);
    memcpy(r->name, r->id, sizeof r->id);
    return e;
}

static int check_work_dir(struct sandbox_record *r, struct cay_error *err) {
    char normal[SANDBOX_PATH_SIZE];
    if (r->work_dir[0] == '\0')
        return 0;
    int e = path_normalize("work folder", r->work_dir, normal, sizeof normal, err);
    if (e == 0)
        memcpy(r->work_dir, normal, sizeof normal);
    return e;
}

static int check_disk(const struct manager *m, const struct sandbox_record *r,
                      struct cay_error *err) {
    struct cay_error why;
    bool is_said_later = engine_can(r->engine, ENGINE_LIMITS_AT_START);
    if (r->disk_bytes == 0 || is_said_later || has_disk_limits(m, r->engine, &why))
        return r->disk_bytes == 0 ? 0 : spec_check_kept_disk(r->disk_bytes, err);
    if (err != NULL)
        *err = why;
    return error_prefix(err, "a disk limit cannot be enforced here");
}

/* Named volumes are made by one engine, and are of ids that the other does not have. */
static int check_engine(const struct manager *m, const struct sandbox_record *r,
                        struct cay_error *err) {
    const char *name = engine_kind_name(r->engine);
    if (r->engine != m->kind && m->engines[r->engine] == NULL) {
        error_set(err, CAY_UNSUPPORTED, "there is no engine %s here", name);
        return error_remedy(err, "use the engine %s", engine_kind_name(m->kind));
    }
    for (size_t i = 0; r->engine != m->kind && i < r->volumes.len; i++)
        if (r->volumes.v[i][0] != '/') {
            error_set(err, CAY_UNSUPPORTED, "named volumes are of the engine %s here",
                      engine_kind_name(m->kind));
            return error_remedy(err, "use that engine, or show a folder of the host");
        }
    return 0;
}

static int complete(struct manager *m, const struct sandbox_record *request,
                    const struct sandbox_record *defaults, int64_t now_ms,
                    struct sandbox_record *ret, struct cay_error *err) {
    struct sandbox_record r = *request;
    struct sandbox_spec spec = {0};
    sandbox_record_disown(&r);
    r.reason[0] = r.remedy[0] = r.image[0] = '\0';
    r.archive_bytes = r.backup_ms = r.backup_bytes = 0;
    r.backup = BACKUP_NONE;
    r.state = SANDBOX_CREATING;
    r.created_ms = r.updated_ms = r.active_ms = now_ms;
    take_defaults(m, defaults, &r);
    int e = name_it(&r, err);
    if (e == 0)
        e = take_intervals(defaults, &r, err);
    if (e == 0)
        e = check_work_dir(&r, err);
    if (e == 0)
        e = network_check(m, &r, err);
    if (e == 0)
        e = policy_check(m, &r, err);
    if (e == 0 && !r.pooled)
        e = policy_limit(m, &r, err);
    if (e == 0)
        e = check_disk(m, &r, err);
    if (e == 0)
        e = take_words(m, request, defaults, &r, err);
    if (e == 0)
        e = check_engine(m, &r, err);
    if (e == 0) /* limits and volumes: refused now, not after a long pull */
        e = request_spec(m, &r, &spec, err);
    spec_free_mounts(&spec);
    if (e < 0)
        sandbox_record_free(&r);
    else
        *ret = r;
    return e;
}

int request_complete(struct manager *m, const struct sandbox_record *request,
                     struct sandbox_record *ret, struct cay_error *err) {
    struct sandbox_record defaults = {0};
    (void)pthread_mutex_lock(&m->lock); /* they may change */
    int r = sandbox_record_copy(&m->defaults, &defaults);
    int64_t now_ms = table_next_created(m);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r = complete(m, request, &defaults, now_ms, ret, err);
    sandbox_record_free(&defaults);
    return r;
}

/* disk_bytes comes last: the check that it fits into the memory is for throw-away sandboxes, whose
 * files are there. */
int request_spec(const struct manager *m, const struct sandbox_record *r, struct sandbox_spec *ret,
                 struct cay_error *err) {
    *ret = (struct sandbox_spec){
        .memory_bytes = r->memory_bytes,
        .cpu_quota_us = r->cpu_quota_us,
        .pids = r->pids,
        .tier = r->tier,
        .profile = r->profile,
        .read_only = r->read_only,
        .has_list = network_has_list(r),
        .has_bridge = network_is_bridge(r->network),
    };
    _Static_assert(sizeof ret->owner == sizeof r->owner, "an owner fits");
    memcpy(ret->owner, r->owner, sizeof ret->owner);
    memcpy(ret->id, r->id, sizeof ret->id);
    memcpy(ret->hostname, r->id, sizeof r->id);
    _Static_assert(sizeof ret->run_user == sizeof r->user, "a user fits");
    memcpy(ret->run_user, r->user, sizeof ret->run_user);
    int e = 0;
    for (size_t i = 0; e == 0 && i < r->volumes.len; i++)
        e = r->volumes.v[i][0] == '/' ? spec_add_mount(ret, r->volumes.v[i], err)
                                      : spec_add_volume(ret, r->volumes.v[i], err);
    if (e == 0)
        e = spec_finish(ret, &m->host, err);
    ret->disk_bytes = r->disk_bytes;
    return e;
}
