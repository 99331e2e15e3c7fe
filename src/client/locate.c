/* Where the daemon is: in the state folder, elsewhere, or a remote with a name. */
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "client/daemon.h"
#include "config/config.h"

static const char daytona_name[] = "daytona";

/* ---- the key ---- */

static int check_key(const char *key, struct cay_error *err) {
    for (const char *p = key; *p != '\0'; p++)
        if (!isgraph((unsigned char)*p)) {
            error_set(err, CAY_INVALID_ARGUMENT, "the API key has a character that no key has");
            return error_remedy(err, "correct it where it was given: --key, --key-file, "
                                     "CAY_API_KEY or the configuration");
        }
    return 0;
}

static int take_key(const char *key, const char *where, struct daemon *d, struct cay_error *err) {
    if (str_copy(d->key, sizeof d->key, key) == 0)
        return check_key(d->key, err);
    error_set(err, CAY_INVALID_ARGUMENT, "%s is longer than any key", where);
    return error_remedy(err, "correct it");
}

static int read_key_file(const char *path, struct daemon *d, struct cay_error *err) {
    char shown[128];
    ssize_t n = fd_read_file_at(AT_FDCWD, path, d->key, sizeof d->key);
    if (n > 0)
        return check_key(d->key, err);
    str_escape(shown, sizeof shown, path);
    if (n == 0)
        error_set(err, CAY_INVALID_ARGUMENT, "the file '%s' holds no key", shown);
    else
        (void)error_sys(err, (int)-n, "reading the key in '%s'", shown);
    return error_remedy(err, "name a file with a key and nothing else");
}

/* What the daemon of the own state folder left for us; none if there is nothing. It is for this
 * machine only. */
static int read_own_key(const char *given_state_dir, struct daemon *d, struct cay_error *err) {
    char state_dir[PATH_MAX], path[PATH_MAX];
    if (!host_is_loopback(d->address.host))
        return 0;
    int r = state_dir_make(given_state_dir, state_dir, sizeof state_dir, err);
    if (r < 0)
        return r;
    if (path_join(path, sizeof path, state_dir, "admin.key") < 0 ||
        fd_read_file_at(AT_FDCWD, path, d->key, sizeof d->key) < 0)
        d->key[0] = '\0'; /* the daemon says it if it needs one */
    return check_key(d->key, err);
}

/* What the user says about a remote; NULL and "" where nothing. */
struct place {
    const char *url, *key, *key_variable, *key_file, *ca_file, *target;
    bool needs_key;
};

static int find_key(const struct daemon_choice *choice, const struct place *place, struct daemon *d,
                    struct cay_error *err) {
    const char *variable = getenv(place->key_variable);
    if (choice->key != NULL)
        return take_key(choice->key, "--key", d, err);
    if (choice->key_file != NULL)
        return read_key_file(choice->key_file, d, err);
    if (variable != NULL)
        return take_key(variable, place->key_variable, d, err);
    if (place->key[0] != '\0')
        return take_key(place->key, "the key in the configuration", d, err);
    if (place->key_file[0] != '\0')
        return read_key_file(place->key_file, d, err);
    return read_own_key(choice->state_dir, d, err);
}

/* ---- elsewhere ---- */

/* The helper is for what a plain connection cannot do. */
static int reach(const struct place *place, struct daemon *d, struct cay_error *err) {
    struct remote_order order = {0};
    const struct http_address *a = &d->address;
    bool six = strchr(a->host, ':') != NULL;
    int r = str_format(order.url, sizeof order.url, "http%s://%s%s%s:%s%s", a->tls ? "s" : "",
                       six ? "[" : "", a->host, six ? "]" : "", a->port, a->prefix);
    if (r == 0)
        r = str_copy(order.key, sizeof order.key, d->key);
    if (r == 0)
        r = str_copy(order.ca_file, sizeof order.ca_file, place->ca_file);
    if (r == 0)
        r = str_copy(order.target, sizeof order.target, place->target);
    return r < 0 ? error_sys(err, -r, "preparing to reach %s", a->host)
                 : remote_open(&order, &d->remote, err);
}

static int open_place(const struct daemon_choice *choice, const struct place *place,
                      struct daemon *ret, struct cay_error *err) {
    int r = http_address_parse(place->url, &ret->address, err);
    if (r < 0 || !ret->address.tcp)
        return r;
    r = find_key(choice, place, ret, err);
    if (r == 0 && place->needs_key && ret->key[0] == '\0') {
        error_set(err, CAY_UNAUTHORIZED, "the remote 'daytona' has no key");
        return error_remedy(err,
                            "set DAYTONA_API_KEY, or daytona_api_key in the section [daytona]");
    }
    bool plain = !ret->address.tls && !ret->address.is_api && ret->address.prefix[0] == '\0';
    return r < 0 || plain ? r : reach(place, ret, err);
}

/* The section [daytona], and the variables that Daytona's own programs read. */
static int open_daytona(const struct daemon_choice *choice, const struct config *config,
                        struct daemon *ret, struct cay_error *err) {
    const char *url = getenv("DAYTONA_API_URL"), *target = getenv("DAYTONA_TARGET");
    const struct place place = {
        .url = url != NULL && url[0] != '\0' ? url : config->daytona.server_url,
        .key = config->daytona.api_key,
        .key_variable = "DAYTONA_API_KEY",
        .key_file = "",
        .ca_file = config->remote.ca_file,
        .target = target != NULL ? target : config->daytona.target,
        .needs_key = true,
    };
    return open_place(choice, &place, ret, err);
}

static int open_named(const struct daemon_choice *choice, const char *host,
                      const struct config *config, struct daemon *ret, struct cay_error *err) {
    if (str_equal(host, daytona_name))
        return open_daytona(choice, config, ret, err);
    const struct place place = {
        .url = host,
        .key = "",
        .key_variable = "CAY_API_KEY",
        .key_file = config->remote.key_file,
        .ca_file = config->remote.ca_file,
        .target = "",
    };
    return open_place(choice, &place, ret, err);
}

/* ---- here ---- */

static int find_socket(const struct config *config, const char *state_dir, struct http_address *ret,
                       struct cay_error *err) {
    int r;
    *ret = (struct http_address){.tcp = false};
    if (config->server.socket[0] != '\0')
        r = str_copy(ret->path, sizeof ret->path, config->server.socket);
    else
        r = path_join(ret->path, sizeof ret->path, state_dir, "daemon/cay.sock");
    if (r == 0 && ret->path[0] == '/')
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "[server] socket must be an absolute path that is short");
    return error_remedy(err, "correct it in the configuration");
}

static int open_local(const struct daemon_choice *choice, const struct config *config,
                      struct daemon *ret, struct cay_error *err) {
    int r = state_dir_make(choice->state_dir, ret->state_dir, sizeof ret->state_dir, err);
    if (r == 0)
        r = find_socket(config, ret->state_dir, &ret->address, err);
    if (r < 0)
        return r;
    ret->start = !choice->no_start;
    ret->config = choice->config;
    _cleanup_(closep) int fd = daemon_dial(ret, err);
    return MIN(fd, 0);
}

int daemon_open(const struct daemon_choice *choice, struct daemon *ret, struct cay_error *err) {
    *ret = (struct daemon){0};
    const char *host = choice->host != NULL ? choice->host : getenv("CAY_HOST");
    if (host != NULL && str_starts(host, "unix://"))
        return http_address_parse(host, &ret->address, err);
    _cleanup_(config_freep) struct config *config = NULL;
    int r = config_load(choice->config, (const char *const *)environ, &config, err);
    if (r < 0)
        return r;
    if (host == NULL || host[0] == '\0')
        host = config->remote.host;
    return host[0] == '\0' ? open_local(choice, config, ret, err)
                           : open_named(choice, host, config, ret, err);
}

void daemon_close(struct daemon *d) {
    remote_close(&d->remote);
}
