#include "engine/docker/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/str.h"

enum {
    API_NEWEST = 41, /* 1.41, Docker 20.10: what we know */
    API_OLDEST = 40, /* 1.40, Docker 19.03: container limits as we use them */
    EXIT_MAX = 255,
};

static int copy_text(char *out, size_t size, const char *text) {
    (void)str_escape(out, size, text);
    return 0;
}

/* An optional string, cut to fit and made printable. */
static int get_text(const struct json *at, const char *key, char *out, size_t size,
                    struct cay_error *err) {
    const char *text = "";
    int r = json_get_string(at, key, JSON_OPTIONAL, &text, err);
    return r < 0 ? r : copy_text(out, size, text);
}

/* A count; absent is 0. Docker writes none that is negative. */
static int get_count(const struct json *at, const char *key, uint64_t *ret, struct cay_error *err) {
    int64_t n = 0;
    int r = json_get_integer(at, key, JSON_OPTIONAL, 0, INT64_MAX, &n, err);
    *ret = (uint64_t)n;
    return r;
}

/* ---- version and abilities ---- */

int docker_parse_version(const char *text, size_t len, struct docker_version *ret,
                         struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_version){0};
    int r = json_parse("Docker's version", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    const char *api = NULL;
    r = json_get_string(&root, "ApiVersion", JSON_REQUIRED, &api, err);
    if (r < 0)
        return r;
    if (str_copy(ret->api, sizeof ret->api, api) < 0)
        return error_set(err, CAY_UNSUPPORTED, "Docker's API version is none");
    return get_text(&root, "MinAPIVersion", ret->min, sizeof ret->min, err);
}

/* The number behind "1."; -1 if it is none. */
static int minor_of(const char *api) {
    uint64_t n;
    if (!str_starts(api, "1.") || str_to_u64(api + 2, 10000, &n) < 0)
        return -1;
    return (int)n;
}

bool docker_api_is_known(const char *api) {
    int minor = minor_of(api);
    return minor >= API_OLDEST && minor <= API_NEWEST;
}

int docker_choose_api(const struct docker_version *v, char out[static DOCKER_API_SIZE],
                      struct cay_error *err) {
    int newest = minor_of(v->api), oldest = minor_of(v->min);
    char shown[64];
    if (newest < API_OLDEST) {
        error_set(err, CAY_UNSUPPORTED,
                  "this Docker speaks version '%s' of its API, which is too old",
                  str_escape(shown, sizeof shown, v->api));
        return error_remedy(err, "install Docker 19.03 or later, or podman 3 or later");
    }
    /* Later versions keep what we use; one that has dropped ours is spoken to in its own oldest. */
    int use = MIN(newest, (int)API_NEWEST);
    return str_format(out, DOCKER_API_SIZE, "1.%d", MAX(use, oldest));
}

/* "DriverStatus" is a list of pairs. */
static void find_backing(const struct json *root, char out[static DOCKER_TEXT_SIZE]) {
    struct json status, pair, word;
    const char *text;
    if (!json_child(root, "DriverStatus", &status))
        return;
    for (size_t i = 0; i < json_count(&status) && json_item(&status, i, &pair); i++)
        if (json_count(&pair) == 2 && json_item(&pair, 0, &word) &&
            json_as_string(&word, &text, NULL) == 0 && str_equal(text, "Backing Filesystem") &&
            json_item(&pair, 1, &word) && json_as_string(&word, &text, NULL) == 0)
            (void)copy_text(out, DOCKER_TEXT_SIZE, text);
}

/* "SecurityOptions" is a list of texts like "name=seccomp,profile=default". */
static void read_security(const struct json *root, struct docker_info *ret) {
    struct json all, one;
    const char *text;
    if (!json_child(root, "SecurityOptions", &all))
        return;
    for (size_t i = 0; i < json_count(&all) && json_item(&all, i, &one); i++) {
        if (json_as_string(&one, &text, NULL) < 0)
            continue;
        ret->has_seccomp |= str_starts(text, "name=seccomp");
        ret->maps_ids |= str_starts(text, "name=userns") || str_starts(text, "name=rootless");
    }
}

/* The version is a text with Docker, since 20.10. */
static int read_cgroup(const struct json *root, struct docker_info *ret, struct cay_error *err) {
    char version[16] = "", driver[64] = "";
    int r = get_text(root, "CgroupVersion", version, sizeof version, err);
    if (r == 0)
        r = get_text(root, "CgroupDriver", driver, sizeof driver, err);
    if (r == 0 && driver[0] != '\0')
        (void)snprintf(ret->cgroup, sizeof ret->cgroup, "%s%s by %s",
                       version[0] != '\0' ? "v" : "version not told", version, driver);
    return r;
}

/* "Runtimes" is an object of objects. Those with long names cannot be
 * chosen. */
static void read_runtimes(const struct json *root, struct docker_info *ret) {
    struct json all, one;
    void *iterator = NULL;
    const char *name = "";
    if (json_get_string(root, "DefaultRuntime", JSON_OPTIONAL, &name, NULL) == 0)
        (void)copy_text(ret->default_runtime, sizeof ret->default_runtime, name);
    if (!json_child(root, "Runtimes", &all) || json_kind(&all) != JSON_KIND_OBJECT)
        return;
    while (ret->runtime_count < DOCKER_RUNTIMES_MAX && json_next(&all, &iterator, &one)) {
        struct docker_runtime *r = &ret->runtimes[ret->runtime_count];
        const char *path = "";
        *r = (struct docker_runtime){0};
        (void)json_get_string(&one, "path", JSON_OPTIONAL, &path, NULL);
        const char *slash = strrchr(path, '/');
        if (str_copy(r->name, sizeof r->name, one.key) == 0 &&
            str_copy(r->program, sizeof r->program, slash != NULL ? slash + 1 : path) == 0)
            ret->runtime_count++;
    }
}

int docker_parse_info(const char *text, size_t len, struct docker_info *ret,
                      struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_info){0};
    int r = json_parse("Docker's information", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_bool(&root, "MemoryLimit", JSON_OPTIONAL, &ret->can_limit_memory, err);
    if (r == 0)
        r = json_get_bool(&root, "CpuCfsQuota", JSON_OPTIONAL, &ret->can_limit_cpu, err);
    if (r == 0)
        r = json_get_bool(&root, "PidsLimit", JSON_OPTIONAL, &ret->can_limit_pids, err);
    if (r == 0)
        r = get_text(&root, "ServerVersion", ret->version, sizeof ret->version, err);
    if (r == 0)
        r = get_text(&root, "Driver", ret->driver, sizeof ret->driver, err);
    struct json own; /* a member that Docker does not have */
    ret->is_podman = json_child(&root, "BuildahVersion", &own);
    find_backing(&root, ret->backing);
    read_security(&root, ret);
    read_runtimes(&root, ret);
    ret->can_limit_disk = str_equal(ret->driver, "btrfs") ||
                          (str_equal(ret->driver, "overlay2") && str_equal(ret->backing, "xfs"));
    return r < 0 ? r : read_cgroup(&root, ret, err);
}

bool docker_is_full(const char *message) {
    return strstr(message, "no space left on device") != NULL;
}

void docker_parse_error(const char *text, size_t len, char out[static DOCKER_TEXT_SIZE]) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *message = NULL;
    if (len > 0 && json_parse("error", text, len, &doc, NULL) == 0) {
        struct json root = json_root(doc, "");
        (void)json_get_string(&root, "message", JSON_OPTIONAL, &message, NULL);
    }
    if (message != NULL) {
        (void)str_escape(out, DOCKER_TEXT_SIZE, message);
        return;
    }
    char cut[DOCKER_TEXT_SIZE];
    size_t n = strnlen(text, len);
    while (n > 0 && strchr("\r\n ", text[n - 1]) != NULL)
        n--;
    n = MIN(n, sizeof cut - 1);
    memcpy(cut, text, n);
    cut[n] = '\0';
    (void)str_escape(out, DOCKER_TEXT_SIZE, cut);
}

/* ---- containers ---- */

/* True if these labels are of one of ours; its id. */
static bool read_labels(const struct json *labels, const char *home, char id[static ID_SIZE]) {
    const char *found = "", *whose = "";
    if (json_get_string(labels, DOCKER_LABEL_ID, JSON_OPTIONAL, &found, NULL) < 0 ||
        json_get_string(labels, DOCKER_LABEL_HOME, JSON_OPTIONAL, &whose, NULL) < 0)
        return false;
    if (!id_is_valid(found) || !str_equal(whose, home))
        return false;
    memcpy(id, found, ID_SIZE);
    return true;
}

static bool is_by_stream(const struct json *labels) {
    const char *way = "";
    return json_get_string(labels, DOCKER_LABEL_WAY, JSON_OPTIONAL, &way, NULL) == 0 &&
           str_equal(way, DOCKER_WAY_STREAM);
}

static enum engine_state state_of(const char *word) {
    if (str_equal(word, "paused"))
        return ENGINE_PAUSED;
    return str_equal(word, "running") || str_equal(word, "restarting") ? ENGINE_RUNNING
                                                                       : ENGINE_STOPPED;
}

static int read_container(const struct json *at, const char *home, struct engine_sandbox *ret,
                          bool *ret_ours, struct cay_error *err) {
    struct json labels;
    const char *state = "";
    int r = json_as_object(at, err);
    if (r == 0)
        r = json_get_string(at, "State", JSON_OPTIONAL, &state, err);
    if (r < 0)
        return r;
    *ret_ours = json_child(at, "Labels", &labels) && read_labels(&labels, home, ret->id);
    ret->by_stream = *ret_ours && is_by_stream(&labels);
    ret->state = state_of(state);
    return 0;
}

int docker_parse_list(const char *text, size_t len, const char *home, struct engine_sandbox **ret,
                      size_t *ret_count, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = json_parse("Docker's list of containers", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), item;
    r = json_as_array(&root, err);
    if (r < 0)
        return r;
    size_t total = json_count(&root), count = 0;
    _cleanup_(freep) struct engine_sandbox *v = calloc(total + 1, sizeof *v);
    if (v == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    for (size_t i = 0; i < total && json_item(&root, i, &item); i++) {
        bool ours = false;
        r = read_container(&item, home, &v[count], &ours, err);
        if (r < 0)
            return r;
        count += ours;
    }
    *ret = TAKE_PTR(v);
    *ret_count = count;
    return 0;
}

static int read_limits(const struct json *root, struct docker_container *ret,
                       struct cay_error *err) {
    struct json host, storage;
    const char *size = "";
    int64_t pids = 0; /* podman says -1 or 0 for none */
    int r = json_get_object(root, "HostConfig", JSON_OPTIONAL, &host, err);
    if (r < 0 || host.value == NULL)
        return r;
    r = get_count(&host, "Memory", &ret->memory_bytes, err);
    if (r == 0)
        r = get_count(&host, "CpuQuota", &ret->cpu_quota_us, err);
    if (r == 0)
        r = json_get_integer(&host, "PidsLimit", JSON_OPTIONAL, INT64_MIN, INT64_MAX, &pids, err);
    ret->pids = pids > 0 ? (uint64_t)pids : 0;
    if (r < 0 || !json_child(&host, "StorageOpt", &storage))
        return r;
    r = json_get_string(&storage, "size", JSON_OPTIONAL, &size, err);
    if (r == 0 && str_to_u64(size, INT64_MAX, &ret->disk_bytes) < 0)
        ret->disk_bytes = 0; /* somebody else's way to write it */
    return r;
}

static void read_owner(const struct json *root, const char *home, struct docker_container *ret) {
    struct json about, labels;
    if (!json_child(root, "Config", &about) || !json_child(&about, "Labels", &labels))
        return;
    (void)read_labels(&labels, home, ret->owner);
    ret->by_stream = is_by_stream(&labels);
}

int docker_parse_inspect(const char *text, size_t len, const char *home,
                         struct docker_container *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_container){0};
    int r = json_parse("Docker's container", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), state;
    const char *word = "";
    int64_t code = 0;
    r = json_get_object(&root, "State", JSON_REQUIRED, &state, err);
    if (r == 0)
        r = json_get_string(&state, "Status", JSON_REQUIRED, &word, err);
    if (r == 0)
        r = json_get_bool(&state, "OOMKilled", JSON_OPTIONAL, &ret->oom_killed, err);
    if (r == 0)
        r = json_get_integer(&state, "ExitCode", JSON_OPTIONAL, INT32_MIN, INT32_MAX, &code, err);
    if (r == 0)
        r = get_text(&state, "Error", ret->error, sizeof ret->error, err);
    ret->state = state_of(word);
    ret->exit_code = (int)(code & EXIT_MAX);
    read_owner(&root, home, ret);
    if (r == 0)
        r = read_limits(&root, ret, err);
    return r < 0 ? r : get_count(&root, "SizeRw", &ret->size_rw, err);
}

/* ---- statistics ---- */

/* podman tells counters that went below zero as 2^64 and less: nothing can be made of these. */
static int get_measure(const struct json *at, const char *key, uint64_t *ret,
                       struct cay_error *err) {
    double n = 0;
    int r = json_get_number(at, key, JSON_OPTIONAL, &n, err);
    *ret = n > 0 && n < (double)INT64_MAX ? (uint64_t)n : 0;
    return r;
}

static int read_memory(const struct json *root, struct engine_stats *ret, struct cay_error *err) {
    struct json memory;
    int r = json_get_object(root, "memory_stats", JSON_OPTIONAL, &memory, err);
    if (r < 0 || memory.value == NULL)
        return r;
    r = get_measure(&memory, "usage", &ret->memory_bytes, err);
    if (r == 0)
        r = get_measure(&memory, "limit", &ret->memory_limit, err);
    if (r == 0)
        r = get_measure(&memory, "max_usage", &ret->memory_peak, err);
    ret->memory_peak = MAX(ret->memory_peak, ret->memory_bytes); /* cgroup v2 does not say it */
    return r;
}

static int read_cpu(const struct json *root, struct engine_stats *ret, struct cay_error *err) {
    struct json cpu, usage;
    uint64_t ns = 0;
    int r = json_get_object(root, "cpu_stats", JSON_OPTIONAL, &cpu, err);
    if (r < 0 || cpu.value == NULL)
        return r;
    r = json_get_object(&cpu, "cpu_usage", JSON_OPTIONAL, &usage, err);
    if (r == 0 && usage.value != NULL)
        r = get_measure(&usage, "total_usage", &ns, err);
    ret->cpu_us = ns / 1000;
    return r;
}

int docker_parse_stats(const char *text, size_t len, struct engine_stats *ret,
                       struct cay_error *err) {
    static const struct json_rules rules = {.text_max = JSON_TEXT_MAX,
                                            .values_max = JSON_VALUES_MAX,
                                            .depth_max = JSON_DEPTH_MAX,
                                            .integers = JSON_INTEGERS_ANY};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct engine_stats){0};
    int r = json_parse_by(&rules, "Docker's statistics", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), pids;
    r = read_memory(&root, ret, err);
    if (r == 0)
        r = read_cpu(&root, ret, err);
    if (r == 0)
        r = json_get_object(&root, "pids_stats", JSON_OPTIONAL, &pids, err);
    return r == 0 && pids.value != NULL ? get_measure(&pids, "current", &ret->pids, err) : r;
}

/* ---- lines ---- */

static int load_failed(const char *why, struct cay_error *err) {
    char shown[DOCKER_TEXT_SIZE];
    bool is_full = docker_is_full(why);
    error_set(err, is_full ? CAY_RESOURCE_EXHAUSTED : CAY_INTERNAL,
              "Docker could not load the image: %s", str_escape(shown, sizeof shown, why));
    return error_remedy(err, is_full ? DOCKER_MAKE_ROOM : "the log of dockerd may say more");
}

static int read_load_line(const char *line, size_t len, char out[static DOCKER_TEXT_SIZE],
                          struct cay_error *err) {
    static const char *const forms[] = {"Loaded image ID: ", "Loaded image: "};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *text = "", *failure = NULL;
    int r = json_parse("Docker's progress", line, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_string(&root, "error", JSON_OPTIONAL, &failure, err);
    if (r == 0 && failure != NULL)
        return load_failed(failure, err);
    if (r == 0)
        r = json_get_string(&root, "stream", JSON_OPTIONAL, &text, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(forms); i++) {
        if (!str_starts(text, forms[i]))
            continue;
        const char *name = text + strlen(forms[i]);
        size_t n = strcspn(name, "\r\n \t");
        if (n > 0 && n < DOCKER_TEXT_SIZE) {
            memcpy(out, name, n);
            out[n] = '\0';
        }
    }
    return r;
}

int docker_parse_loaded(const char *text, size_t len, char out[static DOCKER_TEXT_SIZE],
                        struct cay_error *err) {
    out[0] = '\0';
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : len - at;
        bool blank = n == 0 || (n == 1 && text[at] == '\r');
        int r = blank ? 0 : read_load_line(text + at, n, out, err);
        if (r < 0)
            return r;
        at += n + 1;
    }
    return out[0] != '\0' ? 0 : error_set(err, CAY_INTERNAL, "Docker did not say what it loaded");
}

int docker_parse_progress(const char *line, size_t len, struct docker_progress *ret,
                          struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_progress){0};
    int r = json_parse("Docker's progress", line, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), detail;
    r = get_text(&root, "id", ret->id, sizeof ret->id, err);
    if (r == 0)
        r = get_text(&root, "status", ret->status, sizeof ret->status, err);
    if (r == 0)
        r = get_text(&root, "error", ret->error, sizeof ret->error, err);
    if (r < 0 || !json_child(&root, "progressDetail", &detail))
        return r;
    r = get_count(&detail, "current", &ret->done, err);
    return r < 0 ? r : get_count(&detail, "total", &ret->total, err);
}

int docker_parse_event(const char *line, size_t len, const char *home, struct docker_event *ret,
                       struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_event){.exit_code = -1};
    int r = json_parse("Docker's event", line, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), actor, about;
    const char *code = "";
    uint64_t number;
    r = get_text(&root, "Action", ret->action, sizeof ret->action, err);
    if (r == 0)
        r = json_get_integer(&root, "time", JSON_OPTIONAL, 0, INT64_MAX, &ret->time, err);
    if (r == 0)
        r = json_get_object(&root, "Actor", JSON_REQUIRED, &actor, err);
    if (r == 0)
        r = json_get_object(&actor, "Attributes", JSON_REQUIRED, &about, err);
    if (r == 0)
        r = json_get_string(&about, "exitCode", JSON_OPTIONAL, &code, err);
    if (r < 0)
        return r;
    if (str_to_u64(code, EXIT_MAX, &number) == 0)
        ret->exit_code = (int)number;
    return read_labels(&about, home, ret->id)
               ? 0
               : error_set(err, CAY_NOT_FOUND, "an event of another's container");
}

int docker_parse_image_id(const char *text, size_t len, char out[static HEX_SIZE],
                          struct cay_error *err) {
    static const char prefix[] = "sha256:";
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = json_parse("Docker's image", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    const char *id = "";
    r = json_get_string(&root, "Id", JSON_REQUIRED, &id, err);
    if (r < 0)
        return r;
    if (str_starts(id, prefix))
        id += sizeof prefix - 1;
    if (!hex_is_valid(id) || str_copy(out, HEX_SIZE, id) < 0)
        return error_set(err, CAY_INTERNAL, "Docker gave an image an id that is none");
    return 0;
}

static bool has_text(const struct json *at, const char *key, const char *text) {
    const char *found = "";
    return at->value != NULL && json_get_string(at, key, JSON_OPTIONAL, &found, NULL) == 0 &&
           str_equal(found, text);
}

static int find_gateway(const struct json *root, struct docker_network *ret,
                        struct cay_error *err) {
    struct json ipam, configs, one;
    if (!json_child(root, "IPAM", &ipam) || !json_child(&ipam, "Config", &configs) ||
        !json_item(&configs, 0, &one))
        return 0;
    return get_text(&one, "Gateway", ret->gateway, sizeof ret->gateway, err);
}

int docker_parse_network(const char *text, size_t len, struct docker_network *ret,
                         struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_network){0};
    int r = json_parse("Docker's network", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), labels = {0}, options = {0};
    const char *id = "";
    r = json_get_string(&root, "Id", JSON_REQUIRED, &id, err);
    if (r == 0)
        r = json_get_object(&root, "Labels", JSON_OPTIONAL, &labels, err);
    if (r == 0)
        r = json_get_object(&root, "Options", JSON_OPTIONAL, &options, err);
    if (r < 0)
        return r;
    if (!hex_is_valid(id) || str_copy(ret->id, sizeof ret->id, id) < 0)
        return error_set(err, CAY_INTERNAL, "Docker gave a network an id that is none");
    ret->is_ours = has_text(&root, "Driver", "bridge") &&
                   has_text(&labels, DOCKER_LABEL_NETWORK, DOCKER_NETWORK_KIND) &&
                   has_text(&options, DOCKER_OPTION_ICC, "false");
    return find_gateway(&root, ret, err);
}

int docker_parse_exec(const char *text, size_t len, char out[static DOCKER_EXEC_SIZE],
                      struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = json_parse("Docker's exec", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    const char *id = "";
    r = json_get_string(&root, "Id", JSON_REQUIRED, &id, err);
    if (r < 0)
        return r;
    size_t n = strspn(id, "0123456789abcdefABCDEF");
    if (n == 0 || id[n] != '\0' || str_copy(out, DOCKER_EXEC_SIZE, id) < 0)
        return error_set(err, CAY_INTERNAL, "Docker gave an exec an id that is none");
    return 0;
}

/* ---- files of the docker command ---- */

int docker_parse_context(const char *text, size_t len, struct docker_context *ret,
                         struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_context){0};
    int r = json_parse("a context of the docker command", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), ends, docker;
    const char *name = "", *host = "";
    r = json_get_string(&root, "Name", JSON_REQUIRED, &name, err);
    if (r == 0)
        r = json_get_object(&root, "Endpoints", JSON_REQUIRED, &ends, err);
    if (r == 0)
        r = json_get_object(&ends, "docker", JSON_REQUIRED, &docker, err);
    if (r == 0)
        r = json_get_string(&docker, "Host", JSON_OPTIONAL, &host, err);
    if (r == 0)
        r = json_get_bool(&docker, "SkipTLSVerify", JSON_OPTIONAL, &ret->skip_verify, err);
    if (r == 0 && (str_copy(ret->name, sizeof ret->name, name) < 0 ||
                   str_copy(ret->host, sizeof ret->host, host) < 0))
        r = error_set(err, CAY_INVALID_ARGUMENT, "a context of the docker command is too long");
    return r;
}

int docker_parse_current(const char *text, size_t len, char out[static DOCKER_TEXT_SIZE],
                         struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *name = "";
    int r = json_parse("config.json of the docker command", text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_string(&root, "currentContext", JSON_OPTIONAL, &name, err);
    if (r == 0 && str_copy(out, DOCKER_TEXT_SIZE, name) < 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "the name of the current context is too long");
    return r;
}
