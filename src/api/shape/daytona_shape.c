#include "api/shape/daytona_shape.h"

#include <cay.h>
#include <string.h>

#include "api/build/builds.h"
#include "api/fields_json.h"
#include "api/shape/shape.h"
#include "base/buf.h"
#include "base/clock.h"
#include "manager/record/volume.h"

enum { URL_MAX = 1024, KEY_MAX = 1024 * 1024 };

static const uint64_t gib = UINT64_C(1024) * 1024 * 1024;

int64_t daytona_gib(uint64_t bytes) {
    return (int64_t)(bytes / gib + (bytes % gib != 0));
}

int64_t daytona_cpus(const struct sandbox_record *r) {
    return ((int64_t)shape_cpu_quota(r) + CPU_QUOTA_US - 1) / CPU_QUOTA_US;
}

void daytona_put_time(struct jsonw *w, const char *key, int64_t wall_ms) {
    char text[32];
    jsonw_put_string(w, key, clock_iso8601(wall_ms, text));
}

void daytona_put_pairs(struct jsonw *w, const char *key, const struct strv *pairs) {
    _cleanup_(buf_free) struct buf name = BUF_INIT(KEY_MAX);
    jsonw_key(w, key);
    jsonw_begin_object(w);
    for (size_t i = 0; i < pairs->len; i++) {
        const char *equals = strchr(pairs->v[i], '=');
        if (equals == NULL)
            continue;
        buf_clear(&name);
        (void)buf_append(&name, pairs->v[i], (size_t)(equals - pairs->v[i]));
        w->failed |= name.failed;
        jsonw_put_string(w, buf_text(&name), equals + 1);
    }
    jsonw_end_object(w);
}

/* What it is on its way to, or shall stay. */
static const char *desired(enum sandbox_state state) {
    switch (state) {
    case SANDBOX_STOPPING:
    case SANDBOX_STOPPED:
    case SANDBOX_ERROR:
        return "stopped";
    case SANDBOX_ARCHIVING:
    case SANDBOX_ARCHIVED:
        return "archived";
    case SANDBOX_PAUSED:
        return "paused";
    case SANDBOX_DESTROYING:
        return "destroyed";
    default:
        return "started";
    }
}

/* One whose image is not there yet is being built, or could not be. */
const char *daytona_state(const struct sandbox_record *r) {
    if (r->image[0] == '\0' && builds_is_name(r->image_name)) {
        if (r->state == SANDBOX_CREATING)
            return "building_snapshot";
        if (r->state == SANDBOX_ERROR)
            return "build_failed";
    }
    return sandbox_state_name(r->state);
}

/* ---- what is derived from several members ---- */

static void put_if(struct jsonw *w, const char *key, bool is_there, const char *text) {
    if (is_there && text[0] != '\0')
        jsonw_put_string(w, key, text);
}

static bool rests(const struct sandbox_record *r) {
    return r->state == SANDBOX_STOPPING || r->state == SANDBOX_STOPPED;
}

/* Our one list as Daytona's two: ranges, and the rest. */
static void put_entries(struct jsonw *w, const char *key, const char *network, bool are_ranges) {
    _cleanup_(buf_free) struct buf list = BUF_INIT(NETWORK_TEXT_SIZE);
    if (!str_starts(network, "allow="))
        return;
    for (const char *at = strchr(network, '=') + 1; *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (network_is_range(at, len) == are_ranges) {
            if (list.len > 0)
                (void)buf_putc(&list, ',');
            (void)buf_append(&list, at, len);
        }
        at += len + (at[len] == ',');
    }
    if (list.len > 0)
        jsonw_put_string(w, key, buf_text(&list));
}

static void put_organization(struct jsonw *w, const char *key, const struct sandbox_record *r,
                             const struct daytona_view *view) {
    (void)view;
    jsonw_put_string(w, key, r->made_by[0] != '\0' ? r->owner : DAYTONA_ORGANIZATION);
}

static void put_state(struct jsonw *w, const char *key, const struct sandbox_record *r,
                      const struct daytona_view *view) {
    jsonw_put_string(w, key, view->state != NULL ? view->state : daytona_state(r));
}

static void put_desired(struct jsonw *w, const char *key, const struct sandbox_record *r,
                        const struct daytona_view *view) {
    bool is_gone = str_equal(view->state, "destroyed");
    jsonw_put_string(w, key, is_gone ? view->state : desired(r->state));
}

static void put_progress(struct jsonw *w, const char *key, const struct sandbox_record *r,
                         const struct daytona_view *view) {
    (void)view;
    put_if(w, key, r->state == SANDBOX_CREATING, r->reason);
}

static void put_stop_reason(struct jsonw *w, const char *key, const struct sandbox_record *r,
                            const struct daytona_view *view) {
    (void)view;
    put_if(w, key, rests(r), r->reason);
}

static void put_error_reason(struct jsonw *w, const char *key, const struct sandbox_record *r,
                             const struct daytona_view *view) {
    (void)view;
    put_if(w, key, !rests(r) && r->state != SANDBOX_CREATING, r->reason);
}

static void put_recoverable(struct jsonw *w, const char *key, const struct sandbox_record *r,
                            const struct daytona_view *view) {
    (void)view;
    jsonw_put_bool(w, key, r->state == SANDBOX_ERROR);
}

static void put_snapshot(struct jsonw *w, const char *key, const struct sandbox_record *r,
                         const struct daytona_view *view) {
    (void)view;
    put_if(w, key, !builds_is_name(r->image_name), r->image_name);
}

static void put_archive(struct jsonw *w, const char *key, const struct sandbox_record *r,
                        const struct daytona_view *view) {
    (void)view;
    if (r->state == SANDBOX_ARCHIVED && r->archive_bytes > 0)
        jsonw_put_integer(w, key, r->archive_bytes);
}

static void put_none(struct jsonw *w, const char *key, const struct sandbox_record *r,
                     const struct daytona_view *view) {
    (void)r;
    (void)view;
    jsonw_put_integer(w, key, 0);
}

static void put_unkept(struct jsonw *w, const char *key, const struct sandbox_record *r,
                       const struct daytona_view *view) {
    (void)view;
    put_if(w, key, true, shape_describe_unkept(r));
}

static void put_closed(struct jsonw *w, const char *key, const struct sandbox_record *r,
                       const struct daytona_view *view) {
    (void)view;
    jsonw_put_bool(w, key, !str_starts(r->network, "allow=") && !network_is_bridge(r->network));
}

static void put_ranges(struct jsonw *w, const char *key, const struct sandbox_record *r,
                       const struct daytona_view *view) {
    (void)view;
    put_entries(w, key, r->network, true);
}

static void put_domains(struct jsonw *w, const char *key, const struct sandbox_record *r,
                        const struct daytona_view *view) {
    (void)view;
    put_entries(w, key, r->network, false);
}

static void put_backup(struct jsonw *w, const char *key, const struct sandbox_record *r,
                       const struct daytona_view *view) {
    (void)view;
    bool is_archived = r->state == SANDBOX_ARCHIVED; /* which is a copy too */
    jsonw_put_string(w, key, backup_state_name(is_archived ? BACKUP_COMPLETED : r->backup));
}

static void put_target(struct jsonw *w, const char *key, const struct sandbox_record *r,
                       const struct daytona_view *view) {
    (void)r;
    (void)view;
    jsonw_put_string(w, key, DAYTONA_REGION);
}

static void put_class(struct jsonw *w, const char *key, const struct sandbox_record *r,
                      const struct daytona_view *view) {
    (void)r;
    (void)view;
    jsonw_put_string(w, key, "container");
}

static void put_version(struct jsonw *w, const char *key, const struct sandbox_record *r,
                        const struct daytona_view *view) {
    (void)r;
    (void)view;
    jsonw_put_string(w, key, cay_version());
}

static void put_toolbox(struct jsonw *w, const char *key, const struct sandbox_record *r,
                        const struct daytona_view *view) {
    (void)r;
    _cleanup_(buf_free) struct buf url = BUF_INIT(URL_MAX);
    (void)buf_printf(&url, "%s/toolbox", view->origin);
    jsonw_put_string(w, key, buf_text(&url));
}

/* Folders of the host are no volumes that a client could name. */
static void put_volumes(struct jsonw *w, const char *key, const struct sandbox_record *r,
                        const struct daytona_view *view) {
    (void)view;
    const struct strv *volumes = &r->volumes;
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < volumes->len; i++) {
        const char *text = volumes->v[i], *colon = strchr(text, ':');
        if (text[0] == '/' || colon == NULL)
            continue;
        size_t len = str_ends(colon + 1, ":ro") ? strlen(colon + 1) - 3 : strlen(colon + 1);
        size_t id = strcspn(text, ":/");
        jsonw_begin_object(w);
        jsonw_key(w, "volumeId");
        jsonw_bytes(w, text, id);
        if (text[id] == '/') {
            jsonw_key(w, "subpath");
            jsonw_bytes(w, text + id + 1, (size_t)(colon - text) - id - 1);
        }
        jsonw_key(w, "mountPath");
        jsonw_bytes(w, colon + 1, len);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void (*const derived[DERIVED_COUNT])(struct jsonw *w, const char *key,
                                            const struct sandbox_record *r,
                                            const struct daytona_view *view) = {
    [DERIVED_ORGANIZATION] = put_organization,
    [DERIVED_STATE] = put_state,
    [DERIVED_DESIRED_STATE] = put_desired,
    [DERIVED_PROGRESS] = put_progress,
    [DERIVED_STOP_REASON] = put_stop_reason,
    [DERIVED_ERROR_REASON] = put_error_reason,
    [DERIVED_RECOVERABLE] = put_recoverable,
    [DERIVED_SNAPSHOT] = put_snapshot,
    [DERIVED_ARCHIVE] = put_archive,
    [DERIVED_GPU] = put_none,
    [DERIVED_UNKEPT] = put_unkept,
    [DERIVED_VOLUMES] = put_volumes,
    [DERIVED_NETWORK_CLOSED] = put_closed,
    [DERIVED_RANGES] = put_ranges,
    [DERIVED_DOMAINS] = put_domains,
    [DERIVED_AUTO_PAUSE] = put_none,
    [DERIVED_BACKUP] = put_backup,
    [DERIVED_TARGET] = put_target,
    [DERIVED_CLASS] = put_class,
    [DERIVED_VERSION] = put_version,
    [DERIVED_TOOLBOX] = put_toolbox,
};

void daytona_write_sandbox(struct jsonw *w, const struct sandbox_record *r,
                           const struct daytona_view *view) {
    jsonw_begin_object(w);
    for (size_t i = 0; i < sandbox_field_count; i++) {
        const struct field *f = &sandbox_fields[i];
        if ((f->flags & FIELD_SHOW) == 0 || (view->is_item && (f->flags & FIELD_SECRET) != 0))
            continue;
        if (f->kind == FIELD_DERIVED)
            derived[f->derived](w, f->json, r, view);
        else
            fields_json_put(w, f, r);
    }
    jsonw_end_object(w);
}

void daytona_write_volume(struct jsonw *w, const struct volume *v) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", v->id);
    jsonw_put_string(w, "name", v->name);
    jsonw_put_string(w, "organizationId", v->made_by[0] != '\0' ? v->owner : DAYTONA_ORGANIZATION);
    jsonw_put_string(w, "state", v->passing ? "creating" : "ready");
    daytona_put_time(w, "createdAt", v->created_ms);
    daytona_put_time(w, "updatedAt", v->created_ms);
    jsonw_put_string(w, "lastUsedAt", NULL);
    jsonw_put_string(w, "errorReason", NULL);
    jsonw_end_object(w);
}
