#include "api/daytona_shape.h"

#include <cay.h>
#include <string.h>

#include "api/builds.h"
#include "api/shape.h"
#include "base/buf.h"
#include "base/clock.h"
#include "manager/volume.h"

enum { CPU_QUOTA_US = 100000, URL_MAX = 1024, KEY_MAX = 1024 * 1024 };

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

static void put_state(struct jsonw *w, const struct sandbox_record *r,
                      const struct daytona_view *view) {
    bool has_failed = r->state == SANDBOX_ERROR;
    bool is_gone = str_equal(view->state, "destroyed");
    jsonw_put_string(w, "state", view->state != NULL ? view->state : daytona_state(r));
    jsonw_put_string(w, "desiredState", is_gone ? view->state : desired(r->state));
    if (has_failed)
        jsonw_put_string(w, "errorReason", r->reason);
    jsonw_put_bool(w, "recoverable", has_failed);
    bool is_archived = r->state == SANDBOX_ARCHIVED; /* which is a copy too */
    jsonw_put_string(w, "backupState",
                     backup_state_name(is_archived ? BACKUP_COMPLETED : r->backup));
    if (r->backup_ms > 0)
        daytona_put_time(w, "backupCreatedAt", r->backup_ms);
}

static void put_resources(struct jsonw *w, const struct sandbox_record *r) {
    jsonw_put_integer(w, "cpu", daytona_cpus(r));
    jsonw_put_integer(w, "gpu", 0);
    jsonw_put_integer(w, "memory", daytona_gib(shape_memory(r)));
    jsonw_put_integer(w, "disk", daytona_gib(r->disk_bytes));
}

static void put_times(struct jsonw *w, const struct sandbox_record *r) {
    jsonw_put_integer(w, "autoStopInterval", MAX(r->auto_stop_minutes, 0));
    jsonw_put_integer(w, "autoPauseInterval", 0);
    jsonw_put_integer(w, "autoArchiveInterval", MAX(r->auto_archive_minutes, 0));
    jsonw_put_integer(w, "autoDeleteInterval", MAX(r->auto_delete_minutes, -1));
    if (r->destroy_ms > 0)
        daytona_put_time(w, "autoDestroyAt", r->destroy_ms);
    daytona_put_time(w, "createdAt", r->created_ms);
    daytona_put_time(w, "updatedAt", r->updated_ms);
    daytona_put_time(w, "lastActivityAt", r->active_ms);
}

/* Folders of the host are no volumes that a client could name. */
static void put_volumes(struct jsonw *w, const struct strv *volumes) {
    jsonw_key(w, "volumes");
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

static void put_toolbox(struct jsonw *w, const char *origin) {
    _cleanup_(buf_free) struct buf url = BUF_INIT(URL_MAX);
    (void)buf_printf(&url, "%s/toolbox", origin);
    jsonw_put_string(w, "toolboxProxyUrl", buf_text(&url));
}

/* Our one list as Daytona's two: ranges, and the rest. */
static void put_network(struct jsonw *w, const char *network) {
    bool is_open = str_starts(network, "allow=");
    _cleanup_(buf_free) struct buf ranges = BUF_INIT(NETWORK_TEXT_SIZE);
    _cleanup_(buf_free) struct buf domains = BUF_INIT(NETWORK_TEXT_SIZE);
    jsonw_put_bool(w, "networkBlockAll", !is_open && !network_is_bridge(network));
    if (!is_open)
        return;
    for (const char *at = strchr(network, '=') + 1; *at != '\0';) {
        size_t len = strcspn(at, ",");
        struct buf *to = network_is_range(at, len) ? &ranges : &domains;
        if (to->len > 0)
            (void)buf_putc(to, ',');
        (void)buf_append(to, at, len);
        at += len + (at[len] == ',');
    }
    if (ranges.len > 0)
        jsonw_put_string(w, "networkAllowList", buf_text(&ranges));
    if (domains.len > 0)
        jsonw_put_string(w, "domainAllowList", buf_text(&domains));
}

void daytona_write_sandbox(struct jsonw *w, const struct sandbox_record *r,
                           const struct daytona_view *view) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", r->id);
    jsonw_put_string(w, "organizationId", r->made_by[0] != '\0' ? r->owner : DAYTONA_ORGANIZATION);
    jsonw_put_string(w, "name", r->name);
    if (!builds_is_name(r->image_name))
        jsonw_put_string(w, "snapshot", r->image_name);
    jsonw_put_string(w, "user", r->user[0] != '\0' ? r->user : "root");
    if (!view->is_item) {
        daytona_put_pairs(w, "env", &r->env);
        put_volumes(w, &r->volumes);
    }
    daytona_put_pairs(w, "labels", &r->labels);
    jsonw_put_bool(w, "public", r->is_public);
    put_network(w, r->network);
    jsonw_put_string(w, "target", DAYTONA_REGION);
    jsonw_put_string(w, "sandboxClass", "container");
    jsonw_put_string(w, "daemonVersion", cay_version());
    put_resources(w, r);
    put_state(w, r, view);
    put_times(w, r);
    put_toolbox(w, view->origin);
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
