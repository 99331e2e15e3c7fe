#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/toml.h"
#include "config/config_value.h"

/* Sections whose keys their own modules read from the tree. */
static const char *const foreign_sections[] = {"llm", "mcp", "browser", "search"};

void config_free(struct config *config) {
    if (config == NULL)
        return;
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        config_value_release(config, &keys[i]);
        if (config->values != NULL)
            free(config->values[i].text);
    }
    free(config->values);
    free(config->file);
    toml_free(config->tree);
    free(config);
}

void config_freep(struct config **config) {
    config_free(*config);
}

const struct toml_value *config_section(const struct config *config, const char *name) {
    return config->tree != NULL ? toml_get(config->tree, name) : NULL;
}

const char *config_origin(const struct config *config, size_t row, char *out, size_t size) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    const struct config_value *value = &config->values[row];
    char variable[64];
    if (value->source == CONFIG_FROM_FILE)
        (void)snprintf(out, size, "%s:%u", config->file, value->line);
    else if (value->source == CONFIG_FROM_ENVIRONMENT)
        (void)snprintf(out, size, "%s", config_variable(key, variable));
    else
        (void)snprintf(out, size, "default");
    return out;
}

/* ---- finding the file ---- */

static const char *variable_of(const char *const *env, const char *name) {
    size_t len = strlen(name);
    for (; *env != NULL; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

/* As variable_of, with an empty one like a missing one. */
static const char *path_variable(const char *const *env, const char *name) {
    const char *value = variable_of(env, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The user's own file; "" if the environment names no home. Relative folders do not count there
 * (XDG Base Directory Specification). */
static int user_file(const char *const *env, char out[static PATH_MAX]) {
    const char *base = path_variable(env, "XDG_CONFIG_HOME");
    const char *home = path_variable(env, "HOME");
    out[0] = '\0';
    if (base != NULL && base[0] == '/')
        return str_format(out, PATH_MAX, "%s/cay/config.toml", base);
    if (home != NULL && home[0] == '/')
        return str_format(out, PATH_MAX, "%s/.config/cay/config.toml", home);
    return 0;
}

/* A file in a folder that we may not even look into is as good as none; one that is there but
 * closed to us is an error, since its owner meant it to count. */
static bool is_absent(const char *path, int error) {
    struct stat st;
    return error == ENOENT || error == ENOTDIR ||
           (error == EACCES && stat(path, &st) < 0 && errno == EACCES);
}

/* A file that somebody asked for: an fd or a negative code. */
static int open_named(const char *path, const char *how, struct cay_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0)
        return fd;
    (void)error_errno(err, "opening the configuration '%s' (%s)", path, how);
    return error_remedy(err, "name a file that exists and that you may read");
}

struct found {
    int fd; /* -1: there is no file */
    char path[PATH_MAX];
};

static int open_first(const char *const *candidates, size_t count, struct found *found,
                      struct cay_error *err) {
    for (size_t i = 0; i < count; i++) {
        if (candidates[i][0] == '\0')
            continue;
        int fd = open(candidates[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 && is_absent(candidates[i], errno))
            continue;
        if (fd < 0) {
            (void)error_errno(err, "opening the configuration '%s'", candidates[i]);
            return error_remedy(err, "make it readable, or name another file with --config");
        }
        found->fd = fd;
        (void)snprintf(found->path, sizeof found->path, "%s", candidates[i]);
        return 0;
    }
    return 0;
}

static int find_file(const char *path, const char *const *env, struct found *found,
                     struct cay_error *err) {
    const char *named = path != NULL ? path : path_variable(env, "CAY_CONFIG");
    char user[PATH_MAX];
    found->fd = -1;
    if (named != NULL) {
        if (str_copy(found->path, sizeof found->path, named) < 0)
            return error_sys(err, ENAMETOOLONG, "opening the configuration '%.64s…'", named);
        found->fd = open_named(named, path != NULL ? "--config" : "$CAY_CONFIG", err);
        return MIN(found->fd, 0);
    }
    if (user_file(env, user) < 0)
        return error_sys(err, ENAMETOOLONG, "looking for the user's configuration");
    const char *const candidates[] = {"config/config.toml", user, "/etc/cay/config.toml"};
    return open_first(candidates, ARRAY_LEN(candidates), found, err);
}

static int read_file(struct config *config, const char *path, const char *const *env,
                     struct cay_error *err) {
    struct found found;
    _cleanup_(buf_free) struct buf text = BUF_INIT(TOML_SIZE_MAX);
    int r = find_file(path, env, &found, err);
    if (r < 0 || found.fd < 0)
        return r;
    _cleanup_(closep) int fd = found.fd;
    config->file = strdup(found.path);
    if (config->file == NULL)
        return error_sys(err, ENOMEM, "reading %s", found.path);
    r = fd_read_to_end(fd, &text);
    if (r == -ENOBUFS)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: larger than %d bytes", found.path,
                         TOML_SIZE_MAX);
    if (r < 0)
        return error_sys(err, -r, "reading %s", found.path);
    return toml_parse(config->file, buf_text(&text), text.len, &config->tree, err);
}

/* ---- values ---- */

int config_set(struct config *config, size_t row, const char *what, const char *text,
               struct config_value value, struct cay_error *err) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    _cleanup_(freep) char *copy = strdup(text);
    if (copy == NULL)
        return error_sys(err, ENOMEM, "%s", what);
    int r = config_value_parse(config, key, what, copy, err);
    if (r < 0)
        return r;
    free(config->values[row].text);
    value.text = TAKE_PTR(copy);
    config->values[row] = value;
    return 0;
}

int config_set_defaults(struct config *config, struct cay_error *err) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    config->values = calloc(count, sizeof *config->values);
    if (config->values == NULL)
        return error_sys(err, ENOMEM, "reading the configuration");
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = config_set(config, i, keys[i].name, keys[i].fallback,
                       (struct config_value){.source = CONFIG_FROM_DEFAULT}, err);
    return r;
}

static int apply_environment(struct config *config, const char *const *env, struct cay_error *err) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        const char *text = variable_of(env, config_variable(&keys[i], name));
        if (text == NULL)
            continue;
        int r = config_set(config, i, name, text,
                           (struct config_value){.source = CONFIG_FROM_ENVIRONMENT}, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the file's tables ---- */

enum { NAMES_MAX = 64 };

static void add_name(const char **names, size_t *count, const char *name) {
    if (*count < NAMES_MAX && (*count == 0 || !str_equal(names[*count - 1], name)))
        names[(*count)++] = name;
}

static int fail_unknown(const struct config *config, const struct toml_value *v, const char *kind,
                        const char *const *names, size_t count, struct cay_error *err) {
    char shown[64];
    const char *nearest = str_nearest(v->key, names, count);
    error_set(err, CAY_INVALID_ARGUMENT, "%s:%u:%u: unknown %s '%s'%s%s%s", config->file,
              v->key_line, v->key_column, kind, str_escape(shown, sizeof shown, v->key),
              nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
              nearest != NULL ? "'?" : "");
    if (nearest != NULL)
        return error_remedy(err, "write %s, or remove the line", nearest);
    return error_remedy(err, "remove it; 'cay config' lists what there is");
}

static int fail_key(const struct config *config, const char *section, const struct toml_value *v,
                    struct cay_error *err) {
    const char *names[NAMES_MAX];
    size_t count, found = 0;
    const struct config_key *keys = config_keys(&count);
    char kind[64];
    for (size_t i = 0; i < count; i++)
        if (str_equal(keys[i].section, section))
            add_name(names, &found, keys[i].name);
    (void)snprintf(kind, sizeof kind, "key in [%s]:", section);
    return fail_unknown(config, v, kind, names, found, err);
}

/* A key that stands above all headers is most likely one whose header was forgotten. */
static int fail_section(const struct config *config, const struct toml_value *v,
                        struct cay_error *err) {
    const char *names[NAMES_MAX];
    size_t count, found = 0;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        add_name(names, &found, keys[i].section);
        if (v->type == TOML_TABLE || !str_equal(keys[i].name, v->key))
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "%s:%u:%u: '%s' stands outside of its section",
                  config->file, v->key_line, v->key_column, keys[i].name);
        return error_remedy(err, "put it below the line [%s]", keys[i].section);
    }
    for (size_t i = 0; i < ARRAY_LEN(foreign_sections); i++)
        add_name(names, &found, foreign_sections[i]);
    return fail_unknown(config, v, "section", names, found, err);
}

static int apply_value(struct config *config, size_t row, const struct toml_value *v,
                       struct cay_error *err) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    _cleanup_(buf_free) struct buf text = BUF_INIT(TOML_SIZE_MAX);
    char what[256];
    (void)snprintf(what, sizeof what, "%.180s:%u:%u: %s.%s", config->file, v->line, v->column,
                   key->section, key->name);
    int r = config_value_text(key, what, v, &text, err);
    if (r < 0)
        return r;
    return config_set(
        config, row, what, buf_text(&text),
        (struct config_value){.source = CONFIG_FROM_FILE, .line = v->line, .column = v->column},
        err);
}

static bool names_key(const struct toml_value *v, const char *name) {
    return v->key_len == strlen(name) && memcmp(v->key, name, v->key_len) == 0;
}

static int apply_section(struct config *config, const struct toml_value *section,
                         struct cay_error *err) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (const struct toml_value *v = section->first; v != NULL; v = v->next) {
        size_t row = 0;
        while (row < count &&
               !(names_key(section, keys[row].section) && names_key(v, keys[row].name)))
            row++;
        int r =
            row < count ? apply_value(config, row, v, err) : fail_key(config, section->key, v, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_foreign(const struct toml_value *section) {
    for (size_t i = 0; i < ARRAY_LEN(foreign_sections); i++)
        if (names_key(section, foreign_sections[i]))
            return true;
    return false;
}

static bool is_known(const struct toml_value *section) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (names_key(section, keys[i].section))
            return true;
    return false;
}

static int check_section(const struct config *config, const struct toml_value *v,
                         struct cay_error *err) {
    if (!is_known(v) && !is_foreign(v))
        return fail_section(config, v, err);
    if (v->type == TOML_TABLE)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s:%u:%u: '%s' is a section, not a key or an array",
              config->file, v->key_line, v->key_column, v->key);
    return error_remedy(err, "write [%s] on a line of its own, once", v->key);
}

static int apply_file(struct config *config, struct cay_error *err) {
    if (config->tree == NULL)
        return 0;
    for (const struct toml_value *v = config->tree->first; v != NULL; v = v->next) {
        if (check_section(config, v, err) < 0)
            return -CAY_INVALID_ARGUMENT;
        int r = is_foreign(v) ? 0 : apply_section(config, v, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the whole ---- */

static int check_together(const struct config *config, struct cay_error *err) {
    bool cert = config->server.tls_cert[0] != '\0', key = config->server.tls_key[0] != '\0';
    if (!config->sandbox.use_sandbox && !config->sandbox.allow_host_execution) {
        error_set(err, CAY_INVALID_ARGUMENT,
                  "sandbox.use_sandbox is false: commands would run on this host, with all rights "
                  "of who runs cay over its files, network and processes");
        return error_remedy(err, "set it to true; or, only where every command is trusted, "
                                 "sandbox.allow_host_execution to true as well");
    }
    if (cert == key)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "server.%s is set, but server.%s is not",
              cert ? "tls_cert" : "tls_key", cert ? "tls_key" : "tls_cert");
    return error_remedy(err, "set both for TLS, or none");
}

int config_load(const char *path, const char *const *env, struct config **ret,
                struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return error_sys(err, ENOMEM, "reading the configuration");
    int r = config_set_defaults(config, err);
    if (r == 0)
        r = read_file(config, path, env, err);
    if (r == 0)
        r = apply_file(config, err);
    if (r == 0)
        r = apply_environment(config, env, err);
    if (r == 0)
        r = check_together(config, err);
    if (r == 0)
        *ret = TAKE_PTR(config);
    return r;
}

const char *config_network(const struct config *config) {
    bool says_nothing = str_equal(config->sandbox.network, "none");
    return says_nothing && config->sandbox.network_enabled ? "allow=*" : config->sandbox.network;
}
