#include "config/config.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "config/config_limited.h"

static int check_not_empty(const char *what, const char *text, struct cay_error *err) {
    if (text[0] != '\0')
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: must not be empty", what);
    return error_remedy(err, "give it a value, or remove the key for the default");
}

static int check_path(const char *what, const char *text, struct cay_error *err) {
    char normal[PATH_MAX];
    return path_normalize(what, text, normal, sizeof normal, err);
}

static int check_engine(const char *what, const char *text, struct cay_error *err) {
    static const char *const engines[] = {ENGINE_LIST(ENGINE_NAME)};
    for (size_t i = 0; i < ARRAY_LEN(engines); i++)
        if (str_equal(text, engines[i]))
            return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: no engine is called '%s'", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use " ENGINE_CHOICES);
}

static int check_tier(const char *what, const char *text, struct cay_error *err) {
    static const char *const tiers[] = {"auto", "full", "rootless", "basic"};
    for (size_t i = 0; i < ARRAY_LEN(tiers); i++)
        if (str_equal(text, tiers[i]))
            return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is no tier", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use auto, full, rootless or basic");
}

static int check_listen(const char *what, const char *text, struct cay_error *err) {
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (text[0] == '\0' ||
        (colon != NULL && colon != text && str_to_u64(colon + 1, UINT16_MAX, &port) == 0))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is not ADDRESS:PORT", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use an address and a port, such as 127.0.0.1:3986 or [::1]:3986");
}

static int check_public_url(const char *what, const char *text, struct cay_error *err) {
    bool is_url = str_starts(text, "http://") || str_starts(text, "https://");
    size_t len = strlen(text);
    if (len == 0 || (is_url && len < 256 && text[len - 1] != '/' && strpbrk(text, " ?#") == NULL))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is no URL without a slash at its end", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "write it as in https://cay.example.org");
}

static int check_host(const char *what, const char *text, struct cay_error *err) {
    if (text[0] == '\0' || str_equal(text, "daytona") || str_starts(text, "unix:///") ||
        str_starts(text, "http://") || str_starts(text, "https://"))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is no address of a daemon", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "write unix://PATH, http://HOST:PORT or https://HOST");
}

static int check_pull(const char *what, const char *text, struct cay_error *err) {
    if (str_equal(text, "missing") || str_equal(text, "always") || str_equal(text, "never"))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is no pull policy", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use missing, always or never");
}

static int check_on_failure(const char *what, const char *text, struct cay_error *err) {
    if (str_equal(text, "keep") || str_equal(text, "recreate") || str_equal(text, "remove"))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is no policy", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use keep, recreate or remove");
}

static int check_log_level(const char *what, const char *text, struct cay_error *err) {
    enum log_level ignored;
    if (log_level_from_name(text, &ignored))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is no level of the log", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use error, warn, info or debug");
}

static int check_log_format(const char *what, const char *text, struct cay_error *err) {
    if (str_equal(text, "text") || str_equal(text, "json"))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is not a format of the log", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use text or json");
}

static int check_network_max(const char *what, const char *text, struct cay_error *err) {
    if (str_equal(text, "none") || str_equal(text, "public") || str_equal(text, "private"))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is none of them", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use none, public or private");
}

static int check_profile(const char *what, const char *text, struct cay_error *err) {
    if (str_equal(text, "strict") || str_equal(text, "build"))
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is not a profile", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use strict or build");
}

/* A short name, or nothing. */
static int check_engine_key(const char *what, const char *text, struct cay_error *err) {
    size_t len = strlen(text);
    bool is_name = len <= 64 && (len == 0 || isalnum((unsigned char)text[0]));
    for (size_t i = 0; i < len; i++)
        is_name = is_name && (isalnum((unsigned char)text[i]) || strchr("._-", text[i]) != NULL);
    if (is_name)
        return 0;
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is not a runtime's name", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use a name of letters, digits, '.', '_' and '-', such as runsc");
}

static int check_reserve(const char *what, const char *text, struct cay_error *err) {
    struct config_reserve ignored;
    return config_parse_reserve(what, text, &ignored, err);
}

/* A limited file may choose among images, but not show the host's own /usr. */
static bool image_is_narrower(const char *now, const char *wanted) {
    (void)now;
    return !str_equal(wanted, "host");
}

#define FIELD(name)     .offset = offsetof(struct config, name)
#define RANGE(from, to) .min = (from), .max = (to)

enum { YEAR_MINUTES = 366 * 24 * 60 };
static const double day_ms = 86400e3, size_max = 9.2e18;

static const struct config_key keys[] = {
    {"sandbox", "use_sandbox", CONFIG_BOOL, CONFIG_TRUSTED, "true", FIELD(sandbox.use_sandbox),
     .help = "run commands in a sandbox, and not on the host itself"},
    {"sandbox", "allow_host_execution", CONFIG_BOOL, CONFIG_TRUSTED, "false",
     FIELD(sandbox.allow_host_execution),
     .help = "accept use_sandbox = false: commands have no walls and all of the caller's rights"},
    {"sandbox", "use_daemon", CONFIG_BOOL, CONFIG_HARMLESS, "true", FIELD(sandbox.use_daemon),
     .help = "let 'cay run' and 'cay python' take a sandbox that a running daemon has prepared"},
    {"sandbox", "image", CONFIG_STRING, CONFIG_NARROWS, "host", FIELD(sandbox.image),
     .check = check_not_empty, .is_narrower = image_is_narrower,
     .help = "image of new sandboxes; host is the host's own /usr, read-only"},
    {"sandbox", "work_dir", CONFIG_STRING, CONFIG_HARMLESS, "/workspace", FIELD(sandbox.work_dir),
     .check = check_path, .help = "folder inside in which commands start"},
    {"sandbox", "memory_limit", CONFIG_SIZE, CONFIG_NARROWS, "512m", FIELD(sandbox.memory),
     RANGE(1, size_max), .help = "memory of a sandbox"},
    {"sandbox", "cpu_limit", CONFIG_NUMBER, CONFIG_NARROWS, "1.0", FIELD(sandbox.cpus),
     RANGE(0.01, 4096), .help = "processors of a sandbox; 0.5 is half of one"},
    {"sandbox", "timeout", CONFIG_DURATION, CONFIG_NARROWS, "300", FIELD(sandbox.timeout_ms),
     RANGE(1, 365 * day_ms), .help = "longest run of a command"},
    {"sandbox", "network_enabled", CONFIG_BOOL, CONFIG_NARROWS, "false",
     FIELD(sandbox.network_enabled),
     .help = "let sandboxes reach every public name, as network = \"allow=*\" does"},
    {"sandbox", "network", CONFIG_STRING, CONFIG_NARROWS, "none", FIELD(sandbox.network),
     .check = check_not_empty, .is_narrower = config_network_is_narrower,
     .help = "what sandboxes reach that say nothing of it: none, allow= and a list, or bridge"},
    {"sandbox", "engine", CONFIG_STRING, CONFIG_TRUSTED, "native", FIELD(sandbox.engine),
     .check = check_engine, .help = "what runs the sandboxes: " ENGINE_CHOICES},
    {"sandbox", "tier", CONFIG_STRING, CONFIG_TRUSTED, "auto", FIELD(sandbox.tier),
     .check = check_tier,
     .help = "least isolation of new sandboxes: full, rootless, basic; auto: what is usual here"},
    {"sandbox", "pids_limit", CONFIG_INTEGER, CONFIG_NARROWS, "256", FIELD(sandbox.pids),
     RANGE(1, 4194304), .help = "processes and threads of a sandbox"},
    {"sandbox", "disk_limit", CONFIG_SIZE, CONFIG_NARROWS, "5g", FIELD(sandbox.disk),
     RANGE(1, size_max), .help = "what a sandbox may write"},

    {"manager", "max_sandboxes", CONFIG_INTEGER, CONFIG_TRUSTED, "100",
     FIELD(manager.max_sandboxes), RANGE(1, 1000000), .help = "sandboxes at the same time"},
    {"manager", "creating_max", CONFIG_INTEGER, CONFIG_TRUSTED, "0", FIELD(manager.creating_max),
     RANGE(0, 10000), .help = "sandboxes created or started at a time; 0: four per processor"},
    {"manager", "queue_size", CONFIG_INTEGER, CONFIG_TRUSTED, "512", FIELD(manager.queue_size),
     RANGE(1, 100000),
     .help = "creations and starts that wait for that; further ones are refused with 429"},
    {"manager", "network_max", CONFIG_STRING, CONFIG_TRUSTED, "public", FIELD(manager.network_max),
     .check = check_network_max,
     .help = "what a key may ask for that is not an admin's: none, public or private addresses"},
    {"manager", "engines", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(manager.engines),
     .check = check_engine, .help = "engines that such a key may choose besides [sandbox] engine"},
    {"manager", "profile_max", CONFIG_STRING, CONFIG_TRUSTED, "strict", FIELD(manager.profile_max),
     .check = check_profile, .help = "the profile that such a key may choose: strict or build"},
    {"manager", "lifetime_max", CONFIG_DURATION, CONFIG_TRUSTED, "0",
     FIELD(manager.lifetime_max_ms), RANGE(0, 3650 * day_ms),
     .help = "longest life of a sandbox of such a key; 0: without a limit"},
    {"manager", "public_previews", CONFIG_BOOL, CONFIG_TRUSTED, "true",
     FIELD(manager.public_previews),
     .help = "whether such a key may open previews to whoever knows the address"},
    {"manager", "tier_min", CONFIG_STRING, CONFIG_TRUSTED, "auto", FIELD(manager.tier_min),
     .check = check_tier,
     .help = "the least isolation that such a key may choose; auto: what sandboxes get by default"},
    {"manager", "idle_timeout", CONFIG_DURATION, CONFIG_TRUSTED, "3600",
     FIELD(manager.idle_timeout_ms), RANGE(0, 3650 * day_ms),
     .help = "stop a sandbox after this time without use; 0: never"},
    {"manager", "cleanup_interval", CONFIG_DURATION, CONFIG_TRUSTED, "300",
     FIELD(manager.cleanup_interval_ms), RANGE(1000, day_ms),
     .help = "how often idle sandboxes are looked for"},
    {"manager", "auto_stop_interval", CONFIG_INTEGER, CONFIG_TRUSTED, "15",
     FIELD(manager.auto_stop_minutes), RANGE(0, 10 * YEAR_MINUTES),
     .help = "minutes without use until a sandbox stops; 0: never"},
    {"manager", "auto_archive_interval", CONFIG_INTEGER, CONFIG_TRUSTED, "1440",
     FIELD(manager.auto_archive_minutes), RANGE(0, 10 * YEAR_MINUTES),
     .help = "minutes until a stopped sandbox is archived; 0: never"},
    {"manager", "auto_delete_interval", CONFIG_INTEGER, CONFIG_TRUSTED, "-1",
     FIELD(manager.auto_delete_minutes), RANGE(-1, 10 * YEAR_MINUTES),
     .help = "minutes until a stopped sandbox is deleted; 0: at once, -1: never"},
    {"manager", "stop_timeout", CONFIG_DURATION, CONFIG_TRUSTED, "10",
     FIELD(manager.stop_timeout_ms), RANGE(0, 3600e3),
     .help = "what commands get to end by themselves when a sandbox stops"},
    {"manager", "on_failure", CONFIG_STRING, CONFIG_TRUSTED, "keep", FIELD(manager.on_failure),
     .check = check_on_failure,
     .help = "a sandbox that ends unasked: keep it in error, recreate or remove it"},
    {"manager", "volume_folders", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(manager.volume_folders),
     .help = "folders of the host below which volumes may lie; empty: none, as a user all"},
    {"manager", "volume_root_folders", CONFIG_LIST, CONFIG_TRUSTED, "",
     FIELD(manager.volume_root_folders),
     .help = "the same, where sandboxes may write as root of the host"},
    {"manager", "volume_size", CONFIG_SIZE, CONFIG_TRUSTED, "5g", FIELD(manager.volume_size),
     RANGE(16777216, 4398046511104), .help = "size of named volumes that do not say"},
    {"manager", "pool_size", CONFIG_INTEGER, CONFIG_TRUSTED, "4", FIELD(manager.pool_size),
     RANGE(0, 10000), .help = "prepared sandboxes per image; 0: none"},
    {"manager", "pool_images", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(manager.pool_images),
     .help = "images of prepared sandboxes; empty: the image of new sandboxes"},
    {"manager", "sample_interval", CONFIG_DURATION, CONFIG_TRUSTED, "10",
     FIELD(manager.sample_interval_ms), RANGE(0, day_ms),
     .help = "how often the use of each sandbox is measured; 0: never"},
    {"manager", "warn_after", CONFIG_DURATION, CONFIG_TRUSTED, "60", FIELD(manager.warn_after_ms),
     RANGE(0, day_ms), .help = "time near a limit until a warning is logged; 0: never"},
    {"manager", "disk_reserve", CONFIG_STRING, CONFIG_TRUSTED, "auto", FIELD(manager.disk_reserve),
     .check = check_reserve,
     .help = "free disk space below which new writes are refused: a size, N% or auto; 0: never"},
    {"manager", "memory_reserve", CONFIG_STRING, CONFIG_TRUSTED, "auto",
     FIELD(manager.memory_reserve), .check = check_reserve,
     .help = "memory of the host that sandboxes cannot have: a size, N% or auto; 0: none"},
    {"manager", "pids_reserve", CONFIG_INTEGER, CONFIG_TRUSTED, "1024", FIELD(manager.pids_reserve),
     RANGE(0, 4194304), .help = "processes of the host that sandboxes cannot have"},
    {"manager", "memory_overcommit", CONFIG_NUMBER, CONFIG_TRUSTED, "4",
     FIELD(manager.memory_overcommit), RANGE(0, 10000),
     .help = "memory limits of all running sandboxes, as a multiple of what the host has; 0: any"},
    {"manager", "cpu_overcommit", CONFIG_NUMBER, CONFIG_TRUSTED, "64",
     FIELD(manager.cpu_overcommit), RANGE(0, 10000), .help = "the same of processors"},
    {"manager", "pids_overcommit", CONFIG_NUMBER, CONFIG_TRUSTED, "1",
     FIELD(manager.pids_overcommit), RANGE(0, 10000), .help = "the same of processes"},
    {"manager", "audit_rows", CONFIG_INTEGER, CONFIG_TRUSTED, "100000", FIELD(manager.audit_rows),
     RANGE(0, 1e9),
     .help = "rows of the audit in the database; older ones are sealed in files; 0: all"},
    {"manager", "audit_keep", CONFIG_DURATION, CONFIG_TRUSTED, "90d", FIELD(manager.audit_keep_ms),
     RANGE(0, 3650 * day_ms), .help = "how long sealed files of the audit are kept; 0: for ever"},
    {"manager", "audit_size", CONFIG_SIZE, CONFIG_TRUSTED, "1g", FIELD(manager.audit_size),
     RANGE(1, 1e15), .help = "bytes of all sealed files of the audit; the oldest are removed"},

    {"server", "listen", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(server.listen),
     .check = check_listen,
     .help = "address and port of the daemon on TCP; empty: the unix socket only"},
    {"server", "socket", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(server.socket),
     .help = "unix socket of the daemon; empty: in the state folder"},
    {"server", "tls_cert", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(server.tls_cert),
     .help = "certificate chain (PEM); empty: no TLS"},
    {"server", "tls_key", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(server.tls_key),
     .help = "private key of tls_cert (PEM)"},
    {"server", "allowed_hosts", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(server.allowed_hosts),
     .help = "further Host names that requests may carry"},
    {"server", "allowed_origins", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(server.allowed_origins),
     .help = "web origins whose pages may call the API"},
    {"server", "log_level", CONFIG_STRING, CONFIG_TRUSTED, "info", FIELD(server.log_level),
     .check = check_log_level, .help = "what the daemon logs: error, warn, info or debug"},
    {"server", "log_format", CONFIG_STRING, CONFIG_TRUSTED, "text", FIELD(server.log_format),
     .check = check_log_format, .help = "how the daemon logs: text (key=value) or json"},
    {"server", "metrics_public", CONFIG_BOOL, CONFIG_TRUSTED, "false", FIELD(server.metrics_public),
     .help = "serve /metrics on TCP without a key"},
    {"server", "client_timeout", CONFIG_DURATION, CONFIG_TRUSTED, "60",
     FIELD(server.client_timeout_ms), RANGE(1000, 3600e3),
     .help = "how long a client may be silent, or take for a head"},
    {"server", "public_url", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(server.public_url),
     .check = check_public_url,
     .help = "how clients reach the daemon, as in https://cay.example; empty: as they did"},

    {"images", "pull", CONFIG_STRING, CONFIG_TRUSTED, "missing", FIELD(images.pull),
     .check = check_pull,
     .help = "when a registry is asked for an image: missing, always or never"},
    {"images", "aliases", CONFIG_MAP, CONFIG_TRUSTED, "", FIELD(images.aliases),
     .help = "images to take in place of others, by name"},
    {"images", "prepull", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(images.prepull),
     .help = "images that the daemon keeps ready"},
    {"images", "build_timeout", CONFIG_DURATION, CONFIG_TRUSTED, "1800",
     FIELD(images.build_timeout_ms), RANGE(1000, day_ms),
     .help = "longest build that the daemon does for its clients"},
    {"images", "pull_timeout", CONFIG_DURATION, CONFIG_TRUSTED, "1800",
     FIELD(images.pull_timeout_ms), RANGE(1000, day_ms),
     .help = "longest pull that the daemon does for its clients"},
    {"images", "allowed", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(images.allowed),
     .help = "images that keys may use besides their own, with * for anything; empty: all"},
    {"images", "registries", CONFIG_LIST, CONFIG_TRUSTED, "", FIELD(images.registries),
     .help = "registries that keys may use; empty or \"*\": all with public addresses"},
    {"images", "insecure_registries", CONFIG_LIST, CONFIG_TRUSTED, "",
     FIELD(images.insecure_registries),
     .help = "registries with plain HTTP or certificates that nobody knows"},
    {"images", "credentials", CONFIG_MAP, CONFIG_TRUSTED, "", FIELD(images.credentials),
     .secret = true, .help = "user:password for registries, by name"},
    {"images", "ca_file", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(images.ca_file),
     .help = "further certificates to trust in registries (PEM)"},

#define ENGINE_KEY(id, kind, section, key, text)                                                   \
    {section,                                                                                      \
     key,                                                                                          \
     CONFIG_STRING,                                                                                \
     CONFIG_TRUSTED,                                                                               \
     "",                                                                                           \
     FIELD(engine[ENGINE_KEY_##id]),                                                               \
     .check = check_engine_key,                                                                    \
     .help = text},
    ENGINE_KEY_LIST(ENGINE_KEY)

        {"remote", "host", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(remote.host),
         .check = check_host,
         .help = "the daemon that verbs talk to, as --host names it; empty: this machine's"},
    {"remote", "key_file", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(remote.key_file),
     .help = "a file with the API key for it"},
    {"remote", "ca_file", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(remote.ca_file),
     .help = "further certificates to trust in remote daemons (PEM)"},

    {"daytona", "daytona_api_key", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(daytona.api_key),
     .secret = true, .help = "the API key for --host daytona"},
    {"daytona", "daytona_server_url", CONFIG_STRING, CONFIG_TRUSTED, "https://app.daytona.io/api",
     FIELD(daytona.server_url), .check = check_host, .help = "its API"},
    {"daytona", "daytona_target", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(daytona.target),
     .help = "the region of new sandboxes, such as us or eu; empty: its default"},
    {"daytona", "sandbox_image_name", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(daytona.image),
     .help = "the image of new sandboxes there; empty: its default"},
    {"daytona", "sandbox_entrypoint", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(daytona.entrypoint),
     .help = "a command that a session of new sandboxes there is started with"},
    {"daytona", "VNC_password", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(daytona.vnc_password),
     .secret = true, .help = "VNC_PASSWORD of new sandboxes there where the caller gives none"},

    {"python", "warm", CONFIG_BOOL, CONFIG_HARMLESS, "true", FIELD(python.warm),
     .help = "run programs in copies of an interpreter that has been started"},
    {"python", "preload", CONFIG_LIST, CONFIG_HARMLESS, "", FIELD(python.preload),
     .help = "modules that this interpreter has imported"},
    {"python", "index_url", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(python.index_url),
     .help = "where pip looks for packages; empty: as the image says"},
    {"python", "find_links", CONFIG_STRING, CONFIG_TRUSTED, "", FIELD(python.find_links),
     .help = "a folder of wheels that fresh sandboxes install packages from; empty: none"},
    {"python", "waiting", CONFIG_INTEGER, CONFIG_TRUSTED, "4", FIELD(python.waiting), RANGE(0, 64),
     .help = "sandboxes of the daemon in which one waits for its program; 0 for none"},
};

const struct config_key *config_keys(size_t *ret_count) {
    *ret_count = ARRAY_LEN(keys);
    return keys;
}

const char *config_variable(const struct config_key *key, char out[static 64]) {
    (void)snprintf(out, 64, "CAY_%s_%s", key->section, key->name);
    for (char *p = out; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    return out;
}
