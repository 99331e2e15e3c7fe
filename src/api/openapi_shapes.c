/* The shapes of requests and answers, and how the notation becomes JSON schema. */
#include "api/openapi_shapes.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/record/fields.h"

enum { SHAPE_MAX = 8192 };

static const struct openapi_shape shapes[] = {
    /* ---- Daytona's control plane ---- */
    {"Error", "statusCode:i! message:s! code:s error:s remedy:s path:s timestamp:t source:s "
              "method:s errors:[o] result:s outputTruncated:b outputFile:s?"},
    {"Sandbox", "", .of_sandbox = FIELD_SHOW},
    {"SandboxListItem", "", .of_sandbox = FIELD_SHOW, .but_not = FIELD_SECRET},
    {"SandboxVolume", "volumeId:s! mountPath:s! subpath:s"},
    {"BuildInfo", "dockerfileContent:s! contextHashes:[s]"},
    {"CreateSandbox",
     "snapshot:s buildInfo:BuildInfo target:s gpu:i ttlMinutes:i volumes:[SandboxVolume] "
     "networkBlockAll:b networkAllowList:s domainAllowList:s",
     .of_sandbox = FIELD_CREATE},
    {"UpdateSandbox", "ttlMinutes:i networkBlockAll:b networkAllowList:s domainAllowList:s",
     .of_sandbox = FIELD_UPDATE},
    {"SandboxList", "items:[SandboxListItem]! nextCursor:s!?"},
    {"SandboxPage", "items:[Sandbox]! total:i! page:i! totalPages:i!"},
    {"ResizeSandbox", "", .of_sandbox = FIELD_LIMIT},
    {"Labels", "labels:m!"},
    {"NetworkSettings", "networkBlockAll:b networkAllowList:s domainAllowList:s"},
    {"Name", "name:s!"},
    {"Url", "url:s!"},
    {"PreviewUrl", "sandboxId:s! url:s! token:s!"},
    {"SignedPreviewUrl", "sandboxId:s! port:i! token:s! url:s!"},
    {"Snapshot",
     "id:s! organizationId:s general:b! name:s! imageName:s ref:s state:s! size:n!? "
     "entrypoint:[s]!? cpu:i! gpu:i! mem:i! disk:i! errorReason:s!? createdAt:t! updatedAt:t! "
     "lastUsedAt:t!? sourceSandboxId:s!? sandboxClass:s"},
    {"SnapshotPage", "items:[Snapshot]! total:i! page:i! totalPages:i!"},
    {"CreateSnapshot", "name:s! imageName:s buildInfo:BuildInfo regionId:s sandboxClass:s"},
    {"PushAccess",
     "accessKey:s! secret:s! sessionToken:s! storageUrl:s! organizationId:s! bucket:s! "
     "region:s!"},
    {"Volume", "id:s! name:s! organizationId:s! state:s! createdAt:t! updatedAt:t! lastUsedAt:t? "
               "errorReason:s?"},
    {"Config", "version:s! proxyToolboxUrl:s oidc:o! defaultSnapshot:s! maintananceMode:b! "
               "environment:s!"},
    {"Region", "id:s! name:s! organizationId:s? regionType:s!"},
    {"Organization", "id:s! name:s! createdBy:s! personal:b! suspended:b! defaultRegionId:s"},
    {"User", "id:s! name:s! email:s!"},
    {"ApiKey", "name:s! value:s! createdAt:t! permissions:[s]! lastUsedAt:t? expiresAt:t?"},
    {"CreateApiKey", "name:s! permissions:[s] expiresAt:t? organization:s"},
    /* ---- the toolbox ---- */
    {"Execute", "command:s! cwd:s envs:m timeout:i"},
    {"Executed", "exitCode:i! result:s! oomKilled:b outputTruncated:b outputFile:s?"},
    {"CodeRun", "code:s! language:s! argv:[s] envs:m timeout:i packages:[s] code_type:s svg:b"},
    {"PythonRun", "code:s! name:s argv:[s] envs:m cwd:s timeout:i packages:[s] code_type:s "
                  "network:s idle_output_timeout:i svg:b"},
    {"PythonDone", "exit_code:i! stdout:s! stderr:s! timed_out:b! oom_killed:b! "
                   "output_truncated:b! duration_ms:n! idle_output:b! stdout_file:s? "
                   "stderr_file:s? exception:o? files:[o]! "
                   "files_truncated:b! figures:[o]! code_type:s! problems:[s]! report:o? "
                   "interpreter:o! tier:s!"},
    {"CodeDone", "exitCode:i! result:s! oomKilled:b outputTruncated:b outputFile:s? durationMs:n! "
                 "exception:o? files:[o] filesTruncated:b code_type:s problems:[s] "
                 "report:o? artifacts:o"},
    {"SessionId", "sessionId:s!"},
    {"Session", "sessionId:s! commands:[Command]!"},
    {"Command", "id:s! command:s! exitCode:i"},
    {"SessionExec", "command:s! runAsync:b async:b suppressInputEcho:b"},
    {"SessionDone", "cmdId:s! output:s stdout:s stderr:s exitCode:i"},
    {"Input", "data:s!"},
    {"CreatePty", "id:s cwd:s envs:m cols:i rows:i lazyStart:b"},
    {"Pty", "id:s! cwd:s! envs:m! cols:i! rows:i! createdAt:t! active:b! lazyStart:b!"},
    {"PtyList", "sessions:[Pty]!"},
    {"PtySize", "cols:i! rows:i!"},
    {"CreateContext", "cwd:s language:s"},
    {"Context", "id:s! cwd:s! createdAt:t! active:b! language:s! busy:b!"},
    {"ContextList", "contexts:[Context]!"},
    {"File", "name:s! path:s size:i! mode:s! modTime:s! modifiedAt:s! isDir:b! owner:s! group:s! "
             "permissions:s!"},
    {"Match", "file:s! line:i! content:s!"},
    {"Files", "files:[s]!"},
    {"Replace", "files:[s]! pattern:s! newValue:s!"},
    {"Replaced", "file:s success:b error:s"},
    {"Paths", "paths:[s]!"},
    {"Dir", "dir:s!"},
    {"Version", "version:s!"},
    {"Metrics", "cpuCount:i cpuUsedPct:n! memTotal:i! memUsed:i! diskTotal:i! diskUsed:i! "
                "timestamp:t!"},
    {"ChangeEnv", "set:m unset:[s] unsetValuePrefix:s"},
    {"LspServer", "languageId:s! pathToProject:s!"},
    {"LspDocument", "languageId:s! pathToProject:s! uri:s!"},
    {"LspPosition", "line:i! character:i!"},
    {"LspCompletion", "languageId:s! pathToProject:s! uri:s! position:LspPosition! context:o"},
    {"LspCompletions", "isIncomplete:b! items:[o]!"},
    {"LspSymbol", "kind:i! location:o! name:s!"},
    {"Ports", "ports:[i]!"},
    {"PortInUse", "isInUse:b!"},
    {"GitClone", "url:s! path:s! branch:s commit_id:s depth:i username:s password:s "
                 "insecure_skip_tls:b"},
    {"GitInit", "path:s! bare:b initial_branch:s"},
    {"GitFiles", "path:s! files:[s]!"},
    {"GitCommit", "path:s! message:s! author:s! email:s! allow_empty:b"},
    {"GitHash", "hash:s!"},
    {"GitBranch", "path:s! name:s!"},
    {"GitBranches", "branches:[s]! current:s"},
    {"GitCheckout", "path:s! branch:s!"},
    {"GitTransfer", "path:s! remote:s branch:s username:s password:s set_upstream:b"},
    {"GitStatus", "currentBranch:s! fileStatus:[o]! ahead:i behind:i upstream:s branchPublished:b "
                  "detached:b"},
    {"GitEntry", "hash:s! author:s! email:s! timestamp:s! message:s!"},
    {"GitRemote", "path:s! name:s! url:s! fetch:b overwrite:b"},
    {"GitRemotes", "remotes:[o]!"},
    {"GitReset", "path:s! mode:s target:s files:[s]"},
    {"GitRestore", "path:s! files:[s]! source:s staged:b worktree:b"},
    {"GitValue", "value:s!?"},
    {"GitConfig", "key:s! value:s! scope:s path:s"},
    {"GitUser", "name:s! email:s! scope:s path:s"},
    {"GitCredentials", "username:s! password:s! host:s protocol:s"},
    /* ---- our own ---- */
    {"CayError", "code:s! message:s! remedy:s! statusCode:i!"},
    {"CaySandbox",
     "id:s! name:s! state:s! image:s! user:s! workDir:s! memory:i! cpus:n! disk:i! pids:i! "
     "labels:m! env:m network:s! createdAt:t! updatedAt:t! lastActivityAt:t! autoStopInterval:i! "
     "autoArchiveInterval:i! archiveSize:i! autoDeleteInterval:i! onFailure:s! engine:s! "
     "tier:s! profile:s! progress:s? stopReason:s? errorReason:s? errorRemedy:s? "
     "limitsNotKept:s?"},
    {"CayCreate",
     "name:s image:s env:m labels:m user:s workDir:s memory:s cpus:n disk:s pids:i "
     "volumes:[o] autoStopInterval:i autoArchiveInterval:i autoDeleteInterval:i onFailure:s "
     "readOnly:b profile:s tier:s network:s engine:s"},
    {"CayStats", "memoryBytes:i! memoryLimit:i! memoryPeak:i! cpuMicros:i! pids:i! oomKills:i! "
                 "oomAgeMs:i! diskBytes:i! diskLimit:i!"},
    {"CayVolume", "id:s! name:s! organizationId:s! state:s! createdAt:t! updatedAt:t! "
                  "errorReason:s? size:i!"},
    {"CreateCayVolume", "name:s! size:s"},
    {"ResizeCayVolume", "size:s!"},
    {"CayContext", "name:s! warm:b! whyCold:s!?"},
    {"CayEvent", "number:i! time:t! state:s! text:s!"},
    {"CayStatus", "version:s! sandboxes:i! started:i! operations:i! limit:i! shuttingDown:b! "
                  "poolSize:i! poolTarget:i! poolHits:i! poolMisses:i!"},
    {"CayKey", "id:s! name:s! value:s! permissions:[s]! createdAt:t! expiresAt:t? organization:s? "
               "maxSandboxes:i! maxVolumes:i! maxMemory:i! maxCpus:n! maxPids:i! maxDisk:i! "
               "maxWaiting:i! maxCommands:i! maxPythonRuns:i! maxPulls:i! maxBuilds:i! "
               "maxConnections:i! maxProxyConnections:i! maxEventViewers:i!"},
    {"CayOrganization",
     "id:s! name:s! createdAt:t! "
     "maxSandboxes:i! maxVolumes:i! maxMemory:i! maxCpus:n! maxPids:i! maxDisk:i! "
     "maxWaiting:i! maxCommands:i! maxPythonRuns:i! maxPulls:i! maxBuilds:i! "
     "maxConnections:i! maxProxyConnections:i! maxEventViewers:i!"},
    {"CreateCayOrganization",
     "name:s! "
     "maxSandboxes:i maxVolumes:i maxMemory:i maxCpus:n maxPids:i maxDisk:i "
     "maxWaiting:i maxCommands:i maxPythonRuns:i maxPulls:i maxBuilds:i "
     "maxConnections:i maxProxyConnections:i maxEventViewers:i"},
    {"CayUsage", "name:s! unit:s! used:n! limit:n!? left:n!?"},
    {"CayAudit", "number:i! time:t! who:s! action:s! object:s! result:s! detail:s!"},
    {"CayVerify", "ok:b! rows:i! first:i! last:i! badRow:i why:s?"},
};

/* ---- types ---- */

static const struct {
    char letter;
    const char *type, *format;
} letters[] = {
    {'s', "string", NULL},        {'b', "boolean", NULL}, {'i', "integer", NULL},
    {'n', "number", NULL},        {'o', "object", NULL},  {'m', "object", NULL},
    {'t', "string", "date-time"},
};

static void put_letter(struct jsonw *w, char letter) {
    for (size_t i = 0; i < ARRAY_LEN(letters); i++) {
        if (letters[i].letter != letter)
            continue;
        jsonw_put_string(w, "type", letters[i].type);
        if (letters[i].format != NULL)
            jsonw_put_string(w, "format", letters[i].format);
    }
    if (letter != 'm')
        return;
    jsonw_key(w, "additionalProperties");
    jsonw_begin_object(w);
    jsonw_put_string(w, "type", "string");
    jsonw_end_object(w);
}

/* A letter or a name. */
static void put_inner(struct jsonw *w, const char *type, size_t len) {
    char ref[80];
    if (len == 1) {
        put_letter(w, type[0]);
        return;
    }
    (void)snprintf(ref, sizeof ref, "#/components/schemas/%.*s", (int)len, type);
    jsonw_put_string(w, "$ref", ref);
}

static void put_type(struct jsonw *w, const char *type, size_t len, bool may_be_null) {
    bool is_array = type[0] == '[';
    jsonw_begin_object(w);
    if (is_array) {
        jsonw_put_string(w, "type", "array");
        jsonw_key(w, "items");
        jsonw_begin_object(w);
        put_inner(w, type + 1, len - 2);
        jsonw_end_object(w);
    } else {
        put_inner(w, type, len);
    }
    if (may_be_null)
        jsonw_put_bool(w, "nullable", true);
    jsonw_end_object(w);
}

/* ---- shapes ---- */

struct member {
    const char *name, *type;
    size_t name_len, type_len;
    bool is_required, may_be_null;
};

/* The next of a shape's fields; false at the end. */
static bool next_member(const char **at, struct member *ret) {
    const char *p = *at + strspn(*at, " ");
    size_t len = strcspn(p, " "), name = strcspn(p, ":");
    if (len == 0)
        return false;
    *ret = (struct member){.name = p, .name_len = name, .type = p + name + 1};
    ret->type_len = strcspn(ret->type, "!? ");
    const char *marks = ret->type + ret->type_len;
    ret->is_required = marks[0] == '!';
    ret->may_be_null = marks[0] == '?' || (marks[0] == '!' && marks[1] == '?');
    *at = p + len;
    return true;
}

static void put_required(struct jsonw *w, const char *members) {
    struct member f;
    bool any = false;
    while (next_member(&members, &f)) {
        if (!f.is_required)
            continue;
        if (!any) {
            jsonw_key(w, "required");
            jsonw_begin_array(w);
        }
        any = true;
        jsonw_bytes(w, f.name, f.name_len);
    }
    if (any)
        jsonw_end_array(w);
}

static const char *type_of(const struct field *f) {
    switch (f->kind) {
    case FIELD_DERIVED:
        return f->type;
    case FIELD_FLAG:
        return "b";
    case FIELD_NUMBER:
        return f->unit == UNIT_TIME ? "t" : f->unit == UNIT_CPUS ? "n" : "i";
    case FIELD_WORDS:
        return "[s]";
    case FIELD_PAIRS:
        return "m";
    default:
        return "s";
    }
}

/* The attributes of a sandbox that belong to a shape, in the same notation. */
static void put_attributes(struct buf *b, const struct openapi_shape *s) {
    for (size_t i = 0; s->of_sandbox != 0 && i < sandbox_field_count; i++) {
        const struct field *f = &sandbox_fields[i];
        if ((f->flags & s->of_sandbox) == 0 || (f->flags & s->but_not) != 0)
            continue;
        bool is_answer = s->of_sandbox == FIELD_SHOW;
        const char *mark = is_answer && (f->flags & FIELD_SPARSE) == 0 ? "!" : "";
        (void)buf_printf(b, " %s:%s%s", f->json, type_of(f), mark);
        if (f->daytona != NULL)
            (void)buf_printf(b, " %s:i%s", f->daytona, mark);
    }
}

static void put_shape(struct jsonw *w, const struct openapi_shape *s) {
    _cleanup_(buf_free) struct buf all = BUF_INIT(SHAPE_MAX);
    (void)buf_puts(&all, s->fields);
    put_attributes(&all, s);
    w->failed |= all.failed;
    const char *rest = buf_text(&all);
    struct member f;
    jsonw_key(w, s->name);
    jsonw_begin_object(w);
    jsonw_put_string(w, "type", "object");
    put_required(w, rest);
    jsonw_key(w, "properties");
    jsonw_begin_object(w);
    while (next_member(&rest, &f)) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)f.name_len, f.name);
        jsonw_key(w, name);
        put_type(w, f.type, f.type_len, f.may_be_null);
    }
    jsonw_end_object(w);
    jsonw_end_object(w);
}

void openapi_put_shapes(struct jsonw *w) {
    jsonw_begin_object(w);
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        put_shape(w, &shapes[i]);
    jsonw_end_object(w);
}

/* ---- operations ---- */

static void put_content(struct jsonw *w, const char *type) {
    static const struct {
        const char *word, *media;
    } rows[] = {{"text", "text/plain"},
                {"bytes", "application/octet-stream"},
                {"form", "multipart/form-data"}};
    const char *media = "application/json";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_equal(type, rows[i].word))
            media = rows[i].media;
    jsonw_key(w, "content");
    jsonw_begin_object(w);
    jsonw_key(w, media);
    jsonw_begin_object(w);
    if (str_equal(media, "application/json")) {
        jsonw_key(w, "schema");
        put_type(w, type, strlen(type), false);
    }
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static void put_answer(struct jsonw *w, const char *status, const char *about, const char *type) {
    jsonw_key(w, status);
    jsonw_begin_object(w);
    jsonw_put_string(w, "description", about);
    if (type[0] != '\0')
        put_content(w, type);
    jsonw_end_object(w);
}

/* "200 Sandbox", "204", and several of them behind commas. */
static void put_answers(struct jsonw *w, const char *text) {
    while (*text != '\0') {
        char status[4], type[64];
        size_t len = strcspn(text, ",");
        (void)snprintf(status, sizeof status, "%.3s", text);
        (void)snprintf(type, sizeof type, "%.*s", len > 4 ? (int)len - 4 : 0, text + 4);
        put_answer(w, status, "done", len > 4 ? type : "");
        text += len;
        text += strspn(text, ", ");
    }
}

void openapi_put_call(struct jsonw *w, const struct openapi_call *call) {
    if (call != NULL && call->body != NULL) {
        jsonw_key(w, "requestBody");
        jsonw_begin_object(w);
        put_content(w, call->body);
        jsonw_end_object(w);
    }
    jsonw_key(w, "responses");
    jsonw_begin_object(w);
    if (call != NULL)
        put_answers(w, call->answer);
    bool is_own = call != NULL && str_starts(call->pattern, "/api/cay/");
    put_answer(w, "default", "see docs/api.md and docs/daytona.md",
               call == NULL ? ""
               : is_own     ? "CayError"
                            : "Error");
    jsonw_end_object(w);
}
