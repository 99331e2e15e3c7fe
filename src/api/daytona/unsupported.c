/* What Daytona's protocol has and we have not. A client that asks for it is told so, and what there
 * is instead: a 404 would let it believe that the address is wrong. */
#include "api/call.h"
#include "api/daytona/daytona.h"
#include "base/error.h"

struct absence {
    const char *part; /* the first one of the path behind /api or the sandbox */
    const char *what, *remedy;
};

static const struct absence absences[] = {
    {"ssh-access", "SSH access", "open a terminal: cay shell NAME, or the SDK's pty"},
    {"deactivate", "snapshots that are there and do not work", "delete it"},
    {"fork", "forks", "make a snapshot with cay snapshot create, and a sandbox from it"},
    {"parent", "forks", "make a snapshot with cay snapshot create, and a sandbox from it"},
    {"secrets", "secrets", "pass them in env"},
    {"secret", "secrets", "pass them in env"},
    {"autopause", "automatic pauses", "use autostop"},
    {"telemetry", "telemetry", "look at GET /metrics, or cay stats"},
    {"organizations", "organisations", "give each user a key: cay key create"},
    {"users", "user accounts", "give each user a key: cay key create"},
    {"runners", "runners", "each daemon runs its own sandboxes"},
    {"for-runner", "runners", "each daemon runs its own sandboxes"},
    {"state", "runners", "each daemon runs its own sandboxes"},
    {"region-quota", "quotas of regions", "limit keys: cay key create --max-sandboxes …"},
    {"jobs", "runners", "each daemon runs its own sandboxes"},
    {"regions", "regions that can be changed", "run a daemon there"},
    {"warm-pools", "warm pools by this interface", "set pool_size and pool_images in [manager]"},
    {"docker-registry", "registries by this interface", "use: cay image login"},
    {"admin", "this administration", "use: cay, on the daemon's machine"},
    {"webhooks", "webhooks", "listen to the event socket"},
    {"audit", "the audit by this interface", "use: cay audit"},
    {"preview", "this look at previews", "ask for a preview URL of the sandbox"},
    {"api-keys", "keys of other users", "use the key's name alone"},
    {"init", "anything to set up inside", "leave it out: a sandbox is ready when it has started"},
    {"computeruse", "a desktop", "use an image with one, and reach it by a preview"},
};

static const struct absence *find(const char *part) {
    for (size_t i = 0; i < ARRAY_LEN(absences); i++)
        if (str_equal(absences[i].part, part))
            return &absences[i];
    return NULL;
}

/* Below a sandbox the last words say more than the first. */
static const struct absence *find_in(const struct target *t) {
    const struct absence *found = NULL;
    for (size_t i = t->segments; i > 1 && found == NULL; i--)
        found = find(t->segment[i - 1]);
    return found;
}

static int absent(struct call *c, struct cay_error *err) {
    const struct absence *a = find_in(&c->target);
    c->is_noted = true; /* nothing was done */
    error_set(err, CAY_UNSUPPORTED, "cay does not have %s", a != NULL ? a->what : "this");
    return error_remedy(err, "%s", a != NULL ? a->remedy : "docs/daytona.md lists what there is");
}

static const struct route routes[] = {
    {"*", "/api/sandbox/ssh-access/validate", absent, NEED_NOTHING},
    {"*", "/api/sandbox/for-runner", absent, NEED_NOTHING},
    {"*", "/api/sandbox/{who}/ssh-access", absent},
    {"*", "/api/sandbox/{who}/fork", absent},
    {"*", "/api/sandbox/{who}/parent", absent},
    {"*", "/api/sandbox/{who}/state", absent},
    {"*", "/api/sandbox/{who}/secrets", absent},
    {"*", "/api/sandbox/{who}/autopause/{minutes}", absent},
    {"*", "/api/sandbox/{who}/region-quota", absent},
    {"*", "/api/sandbox/{who}/telemetry/*", absent},
    {"*", "/api/api-keys/{user}/{name}", absent, NEED_NOTHING},
    {"*", "/api/organizations/*", absent, NEED_NOTHING},
    {"*", "/api/users/*", absent, NEED_NOTHING},
    {"*", "/api/regions/*", absent, NEED_NOTHING},
    {"*", "/api/snapshots/{name}/deactivate", absent, NEED_NOTHING},
    {"*", "/api/runners/*", absent, NEED_NOTHING},
    {"*", "/api/jobs/*", absent, NEED_NOTHING},
    {"*", "/api/warm-pools/*", absent, NEED_NOTHING},
    {"*", "/api/docker-registry/*", absent, NEED_NOTHING},
    {"*", "/api/secret/*", absent, NEED_NOTHING},
    {"*", "/api/admin/*", absent, NEED_NOTHING},
    {"*", "/api/webhooks/*", absent, NEED_NOTHING},
    {"*", "/api/audit/*", absent, NEED_NOTHING},
    {"*", "/api/preview/*", absent, NEED_NOTHING},
    {"*", "/toolbox/{who}/init", absent},
    {"*", "/toolbox/{who}/computeruse/*", absent},
};
const struct route_table daytona_absent_routes = {routes, ARRAY_LEN(routes)};
