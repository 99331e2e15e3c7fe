/* What each operation takes and answers. One that is not here is listed without. */
#include <string.h>

#include "api/openapi_shapes.h"
#include "base/auto.h"
#include "base/str.h"

#define BOX     "/api/sandbox/{who}"
#define OWN     "/api/cay/sandbox/{who}"
#define TOOL    "/toolbox/{who}"
#define CONTEXT "/s3/{bucket}/{organization}/{hash}/{file}"

static const struct openapi_call calls[] = {
    /* ---- Daytona's control plane ---- */
    {"GET", "/api/sandbox", NULL, "200 SandboxList"},
    {"POST", "/api/sandbox", "CreateSandbox", "200 Sandbox"},
    {"GET", "/api/sandbox/paginated", NULL, "200 SandboxPage"},
    {"GET", BOX, NULL, "200 Sandbox"},
    {"DELETE", BOX, NULL, "200 Sandbox"},
    {"POST", BOX "/start", NULL, "200 Sandbox"},
    {"POST", BOX "/stop", NULL, "200 Sandbox"},
    {"POST", BOX "/pause", NULL, "200 Sandbox"},
    {"POST", BOX "/archive", NULL, "200 Sandbox"},
    {"POST", BOX "/recover", NULL, "200 Sandbox"},
    {"POST", BOX "/resize", "ResizeSandbox", "200 Sandbox"},
    {"PUT", BOX "/labels", "Labels", "200 Labels"},
    {"POST", BOX "/autostop/{minutes}", NULL, "200 Sandbox"},
    {"POST", BOX "/autoarchive/{minutes}", NULL, "200 Sandbox"},
    {"POST", BOX "/autodelete/{minutes}", NULL, "200 Sandbox"},
    {"POST", BOX "/ttl/{minutes}", NULL, "200 Sandbox"},
    {"POST", BOX "/public/{flag}", NULL, "200 Sandbox"},
    {"POST", BOX "/last-activity", NULL, "201"},
    {"POST", BOX "/network-settings", "NetworkSettings", "200 Sandbox"},
    {"GET", BOX "/toolbox-proxy-url", NULL, "200 Url"},
    {"GET", BOX "/forks", NULL, "200 [Sandbox]"},
    {"GET", BOX "/ancestors", NULL, "200 [Sandbox]"},
    {"GET", BOX "/build-logs-url", NULL, "200 Url"},
    {"GET", BOX "/build-logs", NULL, "200 text"},
    {"GET", BOX "/organization", NULL, "200 Organization"},
    {"GET", BOX "/ports/{port}/preview-url", NULL, "200 PreviewUrl"},
    {"GET", BOX "/ports/{port}/signed-preview-url", NULL, "200 SignedPreviewUrl"},
    {"POST", BOX "/ports/{port}/signed-preview-url/{token}/expire", NULL, "200"},
    {"GET", BOX "/signing-key", NULL, "200 s"},
    {"POST", BOX "/signing-key/rotate", NULL, "200 s"},
    {"POST", BOX "/snapshot", "Name", "200 Sandbox"},
    {"GET", "/api/snapshots", NULL, "200 SnapshotPage"},
    {"POST", "/api/snapshots", "CreateSnapshot", "200 Snapshot"},
    {"GET", "/api/snapshots/{name}", NULL, "200 Snapshot"},
    {"DELETE", "/api/snapshots/{name}", NULL, "200"},
    {"POST", "/api/snapshots/{name}/activate", NULL, "200 Snapshot"},
    {"GET", "/api/snapshots/{name}/build-logs-url", NULL, "200 Url"},
    {"GET", "/api/snapshots/{name}/build-logs", NULL, "200 text"},
    {"GET", "/api/object-storage/push-access", NULL, "200 PushAccess"},
    {"GET", "/s3/{bucket}", NULL, "200 bytes"},
    {"GET", CONTEXT, NULL, "200 bytes"},
    {"PUT", CONTEXT, "bytes", "200"},
    {"POST", CONTEXT, "bytes", "200 bytes"},
    {"DELETE", CONTEXT, NULL, "204"},
    {"GET", "/api/volumes", NULL, "200 [Volume]"},
    {"POST", "/api/volumes", "Name", "200 Volume"},
    {"GET", "/api/volumes/by-name/{name}", NULL, "200 Volume"},
    {"GET", "/api/volumes/{volume}", NULL, "200 Volume"},
    {"DELETE", "/api/volumes/{volume}", NULL, "200"},
    {"GET", "/api/config", NULL, "200 Config"},
    {"GET", "/api/regions", NULL, "200 [Region]"},
    {"GET", "/api/shared-regions", NULL, "200 [Region]"},
    {"GET", "/api/regions/{region}", NULL, "200 Region"},
    {"GET", "/api/organizations", NULL, "200 [Organization]"},
    {"GET", "/api/organizations/{organization}", NULL, "200 Organization"},
    {"GET", "/api/users/me", NULL, "200 User"},
    {"GET", "/api/api-keys", NULL, "200 [ApiKey]"},
    {"POST", "/api/api-keys", "CreateApiKey", "201 ApiKey"},
    {"GET", "/api/api-keys/current", NULL, "200 ApiKey"},
    {"GET", "/api/api-keys/{name}", NULL, "200 ApiKey"},
    /* ---- the toolbox ---- */
    {"POST", TOOL "/process/execute", "Execute", "200 Executed"},
    {"POST", TOOL "/process/code-run", "CodeRun", "200 CodeDone"},
    {"GET", TOOL "/process/session", NULL, "200 [Session]"},
    {"POST", TOOL "/process/session", "SessionId", "201"},
    {"GET", TOOL "/process/session/entrypoint", NULL, "200 Session"},
    {"GET", TOOL "/process/session/{session}", NULL, "200 Session"},
    {"DELETE", TOOL "/process/session/{session}", NULL, "204"},
    {"POST", TOOL "/process/session/{session}/exec", "SessionExec",
     "200 SessionDone, 202 SessionDone"},
    {"GET", TOOL "/process/session/{session}/command/{command}", NULL, "200 Command"},
    {"POST", TOOL "/process/session/{session}/command/{command}/input", "Input", "204"},
    {"GET", TOOL "/process/pty", NULL, "200 PtyList"},
    {"POST", TOOL "/process/pty", "CreatePty", "201 SessionId"},
    {"GET", TOOL "/process/pty/{pty}", NULL, "200 Pty"},
    {"DELETE", TOOL "/process/pty/{pty}", NULL, "200 o"},
    {"POST", TOOL "/process/pty/{pty}/resize", "PtySize", "200 Pty"},
    {"GET", TOOL "/files", NULL, "200 [File]"},
    {"DELETE", TOOL "/files", NULL, "204"},
    {"GET", TOOL "/files/info", NULL, "200 File"},
    {"POST", TOOL "/files/folder", NULL, "201"},
    {"POST", TOOL "/files/move", NULL, "200"},
    {"POST", TOOL "/files/permissions", NULL, "200"},
    {"GET", TOOL "/files/find", NULL, "200 [Match]"},
    {"GET", TOOL "/files/search", NULL, "200 Files"},
    {"POST", TOOL "/files/replace", "Replace", "200 [Replaced]"},
    {"POST", TOOL "/files/bulk-upload", "form", "200"},
    {"POST", TOOL "/files/upload", "form", "200"},
    {"POST", TOOL "/files/upload-v2", "bytes", "200 o"},
    {"GET", TOOL "/files/download", NULL, "200 bytes, 206 bytes"},
    {"POST", TOOL "/files/bulk-download", "Paths", "200 form"},
    {"POST", TOOL "/git/clone", "GitClone", "200"},
    {"POST", TOOL "/git/init", "GitInit", "201"},
    {"GET", TOOL "/git/status", NULL, "200 GitStatus"},
    {"GET", TOOL "/git/history", NULL, "200 [GitEntry]"},
    {"POST", TOOL "/git/add", "GitFiles", "200"},
    {"POST", TOOL "/git/commit", "GitCommit", "200 GitHash"},
    {"GET", TOOL "/git/branches", NULL, "200 GitBranches"},
    {"POST", TOOL "/git/branches", "GitBranch", "201"},
    {"DELETE", TOOL "/git/branches", "GitBranch", "204"},
    {"POST", TOOL "/git/checkout", "GitCheckout", "200"},
    {"POST", TOOL "/git/push", "GitTransfer", "200"},
    {"POST", TOOL "/git/pull", "GitTransfer", "200"},
    {"GET", TOOL "/git/remotes", NULL, "200 GitRemotes"},
    {"POST", TOOL "/git/remotes", "GitRemote", "201"},
    {"POST", TOOL "/git/reset", "GitReset", "200"},
    {"POST", TOOL "/git/restore", "GitRestore", "200"},
    {"GET", TOOL "/git/config", NULL, "200 GitValue"},
    {"POST", TOOL "/git/config", "GitConfig", "200"},
    {"POST", TOOL "/git/config/user", "GitUser", "200"},
    {"POST", TOOL "/git/credentials", "GitCredentials", "200"},
    {"GET", TOOL "/port", NULL, "200 Ports"},
    {"GET", TOOL "/port/{port}/in-use", NULL, "200 PortInUse"},
    {"GET", TOOL "/user-home-dir", NULL, "200 Dir"},
    {"GET", TOOL "/work-dir", NULL, "200 Dir"},
    {"GET", TOOL "/project-dir", NULL, "200 Dir"},
    {"GET", TOOL "/version", NULL, "200 Version"},
    {"GET", TOOL "/system/metrics", NULL, "200 Metrics"},
    {"POST", TOOL "/env", "ChangeEnv", "200 o"},
    /* ---- our own ---- */
    {"GET", "/api/cay/sandbox", NULL, "200 [CaySandbox]"},
    {"POST", "/api/cay/sandbox", "CayCreate", "200 CaySandbox"},
    {"GET", OWN, NULL, "200 CaySandbox"},
    {"DELETE", OWN, NULL, "204"},
    {"POST", OWN "/start", NULL, "200 CaySandbox"},
    {"POST", OWN "/stop", NULL, "200 CaySandbox"},
    {"POST", OWN "/pause", NULL, "200 CaySandbox"},
    {"POST", OWN "/resume", NULL, "200 CaySandbox"},
    {"POST", OWN "/archive", NULL, "200 CaySandbox"},
    {"POST", OWN "/recover", NULL, "200 CaySandbox"},
    {"PUT", OWN "/labels", "Labels", "200 CaySandbox"},
    {"POST", OWN "/resize", "o", "200 CaySandbox"},
    {"POST", OWN "/update", "o", "200 CaySandbox"},
    {"POST", OWN "/rename", "Name", "200 CaySandbox"},
    {"POST", OWN "/autostop/{minutes}", NULL, "200 CaySandbox"},
    {"POST", OWN "/autoarchive/{minutes}", NULL, "200 CaySandbox"},
    {"POST", OWN "/autodelete/{minutes}", NULL, "200 CaySandbox"},
    {"GET", OWN "/stats", NULL, "200 CayStats"},
    {"GET", OWN "/events", NULL, "200 [CayEvent]"},
    {"GET", "/api/cay/status", NULL, "200 CayStatus"},
    {"GET", "/api/cay/volumes", NULL, "200 [Volume]"},
    {"POST", "/api/cay/volumes", "Name", "200 Volume"},
    {"GET", "/api/cay/volumes/by-name/{name}", NULL, "200 Volume"},
    {"GET", "/api/cay/volumes/{id}", NULL, "200 Volume"},
    {"DELETE", "/api/cay/volumes/{id}", NULL, "204"},
    {"GET", "/api/cay/api-keys", NULL, "200 [CayKey]"},
    {"POST", "/api/cay/api-keys", "CreateApiKey", "201 CayKey"},
    {"GET", "/api/cay/api-keys/current", NULL, "200 CayKey"},
    {"GET", "/api/cay/api-keys/{name}", NULL, "200 CayKey"},
    {"DELETE", "/api/cay/api-keys/{name}", NULL, "204"},
    {"GET", "/api/cay/audit", NULL, "200 [CayAudit]"},
    {"DELETE", "/api/cay/audit", NULL, "204"},
    {"GET", "/api/cay/audit/verify", NULL, "200 CayVerify"},
    {"GET", "/healthz", NULL, "200 text"},
    {"GET", "/metrics", NULL, "200 text"},
    {"GET", "/openapi.json", NULL, "200 o"},
};

const struct openapi_call *openapi_all(size_t *ret_count) {
    *ret_count = ARRAY_LEN(calls);
    return calls;
}

bool openapi_is_same(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) {
        bool is_name = *a == '{';
        a += is_name ? strcspn(a, "}") : 1;
        b += is_name ? strcspn(b, "}") : 1;
    }
    return *a == *b;
}

const struct openapi_call *openapi_find(const char *method, const char *pattern) {
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (str_equal(calls[i].method, method) && openapi_is_same(calls[i].pattern, pattern))
            return &calls[i];
    return NULL;
}
