/* What Daytona's clients ask besides sandboxes: who they are, where they are, and volumes. There is
 * one region and one user: this daemon's. */
#include <cay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/daytona/daytona.h"
#include "api/shape/daytona_shape.h"
#include "api/shape/shape.h"
#include "base/auto.h"
#include "base/error.h"
#include "manager/engines.h"
#include "manager/manager.h"
#include "manager/record/volume.h"

enum { URL_SIZE = CALL_ORIGIN_SIZE + 32, MINUTES_MAX = 10 * 366 * 24 * 60 };

static const int64_t epoch_ms = INT64_C(1767225600000); /* of what has always been there */

/* ---- the daemon ---- */

static void put_url(struct jsonw *w, const char *key, const char *origin, const char *rest) {
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "%s%s", origin, rest);
    jsonw_put_string(w, key, url);
}

/* Without single sign-on there is no issuer; clients with a key do not look at it. */
static void put_oidc(struct jsonw *w) {
    jsonw_key(w, "oidc");
    jsonw_begin_object(w);
    jsonw_put_string(w, "issuer", "");
    jsonw_put_string(w, "clientId", "");
    jsonw_put_string(w, "audience", "");
    jsonw_end_object(w);
}

static int config(struct call *c, struct cay_error *err) {
    (void)err;
    char origin[CALL_ORIGIN_SIZE];
    (void)call_origin(c, origin);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "version", cay_version());
    put_oidc(&w);
    jsonw_put_bool(&w, "linkedAccountsEnabled", false);
    jsonw_key(&w, "announcements");
    jsonw_begin_object(&w);
    jsonw_end_object(&w);
    put_url(&w, "proxyTemplateUrl", origin, "/preview/{{sandboxId}}/{{PORT}}");
    put_url(&w, "proxyToolboxUrl", origin, "/toolbox");
    jsonw_put_string(&w, "defaultSnapshot", "");
    put_url(&w, "dashboardUrl", origin, "/");
    jsonw_put_integer(&w, "maxAutoArchiveInterval", MINUTES_MAX);
    jsonw_put_bool(&w, "maintananceMode", false);
    jsonw_put_string(&w, "environment", "production");
    jsonw_end_object(&w);
    return 0;
}

static int health(struct call *c, struct cay_error *err) {
    (void)err;
    (void)buf_puts(&c->answer.body, "{\"status\":\"ok\"}\n");
    return 0;
}

/* That it answers is not enough. */
static int ready(struct call *c, struct cay_error *err) {
    int r = manager_health(c->manager, err);
    return r < 0 ? r : health(c, err);
}

/* ---- who and where ---- */

static void put_region(struct jsonw *w) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", DAYTONA_REGION);
    jsonw_put_string(w, "name", DAYTONA_REGION);
    jsonw_put_string(w, "organizationId", NULL);
    jsonw_put_string(w, "regionType", "shared");
    daytona_put_time(w, "createdAt", epoch_ms);
    daytona_put_time(w, "updatedAt", epoch_ms);
    jsonw_end_object(w);
}

static int regions(struct call *c, struct cay_error *err) {
    (void)err;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_array(&w);
    put_region(&w);
    jsonw_end_array(&w);
    return 0;
}

static int refuse_unknown(const char *what, const char *who, struct cay_error *err) {
    error_set(err, CAY_NOT_FOUND, "there is no %s '%.60s'", what, who);
    return error_remedy(err, "this daemon is the only one");
}

static int region(struct call *c, struct cay_error *err) {
    if (!str_equal(c->who, DAYTONA_REGION))
        return refuse_unknown("region", c->who, err);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_region(&w);
    return 0;
}

/* What an organisation may be limited by is the business of keys here: 0 is no limit. */
static void put_organization_limits(struct jsonw *w) {
    static const char *const zeros[] = {
        "suspensionCleanupGracePeriodHours",
        "maxCpuPerSandbox",
        "maxMemoryPerSandbox",
        "maxDiskPerSandbox",
        "secretQuota",
        "maxSecretsPerSandbox",
        "snapshotDeactivationTimeoutMinutes",
    };
    static const char *const nulls[] = {
        "authenticatedRateLimit",
        "sandboxCreateRateLimit",
        "sandboxLifecycleRateLimit",
        "otelConfig",
        "authenticatedRateLimitTtlSeconds",
        "sandboxCreateRateLimitTtlSeconds",
        "sandboxLifecycleRateLimitTtlSeconds",
    };
    for (size_t i = 0; i < ARRAY_LEN(zeros); i++)
        jsonw_put_integer(w, zeros[i], 0);
    for (size_t i = 0; i < ARRAY_LEN(nulls); i++)
        jsonw_put_string(w, nulls[i], NULL);
}

/* What belongs to no organisation is in this one, as far as clients can tell. */
static const struct key personal = {.name = "cay"};

static void put_organization(struct jsonw *w, const struct key *k) {
    bool is_personal = !k->is_organization;
    int64_t created_ms = is_personal ? epoch_ms : k->created_ms;
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", is_personal ? DAYTONA_ORGANIZATION : k->id);
    jsonw_put_string(w, "name", k->name);
    jsonw_put_string(w, "createdBy", DAYTONA_USER);
    jsonw_put_bool(w, "personal", is_personal);
    daytona_put_time(w, "createdAt", created_ms);
    daytona_put_time(w, "updatedAt", created_ms);
    jsonw_put_bool(w, "suspended", false);
    daytona_put_time(w, "suspendedAt", epoch_ms); /* strict clients want a time even so */
    jsonw_put_string(w, "suspensionReason", "");
    daytona_put_time(w, "suspendedUntil", epoch_ms);
    put_organization_limits(w);
    jsonw_put_bool(w, "sandboxLimitedNetworkEgress", true);
    jsonw_put_bool(w, "previewWarningEnabled", false);
    jsonw_put_bool(w, "ssoEnabled", false);
    jsonw_put_string(w, "defaultRegionId", DAYTONA_REGION);
    jsonw_key(w, "experimentalConfig");
    jsonw_begin_object(w);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

/* The organisation with this id, or the one of what belongs to none. */
static struct key organization_of(const struct call *c, const char *id) {
    struct key k;
    return id[0] != '\0' && manager_key_by_id(c->manager, id, &k) && k.is_organization ? k
                                                                                       : personal;
}

/* A key sees its own; whoever sees all, all of them. */
static int organizations(struct call *c, struct cay_error *err) {
    _cleanup_(freep) struct key *all = NULL;
    size_t count = 0;
    const struct key own = organization_of(c, c->caller.organization);
    int r = key_sees_all(&c->caller) ? manager_organization_list(c->manager, &all, &count, err) : 0;
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_array(&w);
    put_organization(&w, &own);
    for (size_t i = 0; i < count; i++)
        put_organization(&w, &all[i]);
    jsonw_end_array(&w);
    return 0;
}

static int organization(struct call *c, struct cay_error *err) {
    const struct key own = organization_of(c, c->caller.organization);
    const struct key other = key_sees_all(&c->caller) ? organization_of(c, c->who) : personal;
    bool is_own = str_equal(c->who, own.is_organization ? own.id : DAYTONA_ORGANIZATION);
    if (!is_own && !other.is_organization)
        return refuse_unknown("organisation", c->who, err);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_organization(&w, is_own ? &own : &other);
    return 0;
}

static int sandbox_organization(struct call *c, struct cay_error *err) {
    struct sandbox_record r = {0};
    int e = manager_get(c->manager, c->who, &r, err);
    if (e < 0)
        return e;
    const struct key k = organization_of(c, r.owner);
    sandbox_record_free(&r);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_organization(&w, &k);
    return 0;
}

static int no_rows(struct call *c, struct cay_error *err) {
    (void)err;
    (void)buf_puts(&c->answer.body, "[]\n");
    return 0;
}

static int me(struct call *c, struct cay_error *err) {
    (void)err;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "id", DAYTONA_USER);
    jsonw_put_string(&w, "name", c->caller.name);
    jsonw_put_string(&w, "email", "");
    jsonw_put_bool(&w, "emailVerified", false);
    jsonw_key(&w, "publicKeys");
    jsonw_begin_array(&w);
    jsonw_end_array(&w);
    daytona_put_time(&w, "createdAt", epoch_ms);
    jsonw_end_object(&w);
    return 0;
}

/* ---- volumes ---- */

static int volume_list(struct call *c, struct cay_error *err) {
    _cleanup_(freep) struct volume *all = NULL;
    size_t count = 0;
    int r = manager_volume_list(c->manager, &c->caller, &all, &count, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        daytona_write_volume(&w, &all[i]);
    jsonw_end_array(&w);
    return 0;
}

static void answer_volume(struct call *c, const struct volume *v) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    daytona_write_volume(&w, v);
}

static int volume_create(struct call *c, struct cay_error *err) {
    struct volume_request request = {0};
    struct volume v = {0};
    int r = shape_read_rename(&c->body, request.name, err);
    if (r == 0)
        r = manager_volume_create(c->manager, &c->caller, &request, &v, err);
    v.passing = false;
    if (r == 0)
        answer_volume(c, &v);
    return r;
}

static int volume_get(struct call *c, struct cay_error *err) {
    struct volume v;
    int r = manager_volume_get(c->manager, &c->caller, c->who, &v, err);
    if (r == 0)
        answer_volume(c, &v);
    return r;
}

static int volume_remove(struct call *c, struct cay_error *err) {
    return manager_volume_remove(c->manager, &c->caller, c->who, err);
}

/* ---- keys ---- */

/* Our scopes as Daytona's permissions. */
static void put_permissions(struct jsonw *w, unsigned scopes) {
    static const struct {
        unsigned scopes;
        const char *name;
    } rows[] = {
        {SCOPE_SANDBOXES | SCOPE_ADMIN, "write:sandboxes"},
        {SCOPE_SANDBOXES | SCOPE_ADMIN, "delete:sandboxes"},
        {SCOPE_SANDBOXES | SCOPE_READ | SCOPE_ADMIN, "read:volumes"},
        {SCOPE_SANDBOXES | SCOPE_ADMIN, "write:volumes"},
        {SCOPE_SANDBOXES | SCOPE_ADMIN, "delete:volumes"},
        {SCOPE_IMAGES | SCOPE_ADMIN, "write:snapshots"},
        {SCOPE_IMAGES | SCOPE_ADMIN, "delete:snapshots"},
        {SCOPE_ADMIN, "read:audit_logs"},
        {SCOPE_ADMIN, "manage:api_keys"},
    };
    jsonw_key(w, "permissions");
    jsonw_begin_array(w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if ((rows[i].scopes & scopes) != 0)
            jsonw_string(w, rows[i].name);
    jsonw_end_array(w);
}

static void put_key(struct jsonw *w, const struct key *k, const char *value) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "name", k->name);
    jsonw_put_string(w, "value", value);
    daytona_put_time(w, "createdAt", k->created_ms > 0 ? k->created_ms : epoch_ms);
    put_permissions(w, k->scopes);
    jsonw_put_string(w, "lastUsedAt", NULL);
    if (k->expires_ms > 0)
        daytona_put_time(w, "expiresAt", k->expires_ms);
    else
        jsonw_put_string(w, "expiresAt", NULL);
    jsonw_put_string(w, "userId", DAYTONA_USER);
    jsonw_end_object(w);
}

static const char hidden[] = "cay_********";

static int key_list(struct call *c, struct cay_error *err) {
    _cleanup_(freep) struct key *keys = NULL;
    size_t count = 0;
    int r = manager_key_list(c->manager, &keys, &count, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        put_key(&w, &keys[i], hidden);
    jsonw_end_array(&w);
    return 0;
}

static int key_create(struct call *c, struct cay_error *err) {
    struct key k = {0};
    char text[KEY_TEXT_SIZE] = "", organization[NAME_MAX_LEN + 1];
    int r = key_make(c, &k, organization, text, err);
    if (r == 0) {
        struct jsonw w = JSONW_INIT(&c->answer.body);
        put_key(&w, &k, text);
        c->answer.status = 201;
        (void)snprintf(c->detail, sizeof c->detail, "id %s", k.id);
    }
    memcpy(c->object, k.name, sizeof k.name);
    explicit_bzero(text, sizeof text);
    return r;
}

static int key_get(struct call *c, struct cay_error *err) {
    struct key k = {0};
    int r = manager_key_get(c->manager, c->who, &k, err);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    if (r == 0)
        put_key(&w, &k, hidden);
    return r;
}

static int key_current(struct call *c, struct cay_error *err) {
    (void)err;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_key(&w, &c->caller, hidden);
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/config", config, NEED_NOTHING},
    {"GET", "/api/health", health, NEED_NOTHING},
    {"GET", "/api/health/ready", ready, NEED_NOTHING},
    {"GET", "/api/regions", regions, NEED_NOTHING},
    {"GET", "/api/shared-regions", regions, NEED_NOTHING},
    {"GET", "/api/regions/{region}", region, NEED_NOTHING},
    {"GET", "/api/organizations", organizations, NEED_NOTHING},
    {"GET", "/api/organizations/invitations", no_rows, NEED_NOTHING},
    {"GET", "/api/organizations/{organization}", organization, NEED_NOTHING},
    {"GET", "/api/sandbox/{who}/organization", sandbox_organization},
    {"GET", "/api/users/me", me, NEED_NOTHING},
    {"GET", "/api/volumes", volume_list},
    {"POST", "/api/volumes", volume_create, .needs_space = true},
    {"GET", "/api/volumes/{volume}", volume_get},
    {"DELETE", "/api/volumes/{volume}", volume_remove},
    {"GET", "/api/volumes/by-name/{name}", volume_get},
    {"GET", "/api/api-keys", key_list, NEED_ADMIN},
    {"POST", "/api/api-keys", key_create, NEED_ADMIN},
    {"GET", "/api/api-keys/current", key_current, NEED_NOTHING},
    {"GET", "/api/api-keys/{name}", key_get, NEED_ADMIN},
    {"DELETE", "/api/api-keys/{name}", key_remove_handle, NEED_ADMIN},
};
const struct route_table daytona_misc_routes = {routes, ARRAY_LEN(routes)};
