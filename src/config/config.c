#include "config/config.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/toml/toml.h"
#include "config/config_file.h"
#include "config/config_limited.h"
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
    for (size_t i = 0; i < CONFIG_SOURCES; i++) {
        free(config->files[i].path);
        toml_free(config->files[i].tree);
    }
    free(config->values);
    free(config->refusals);
    free(config);
}

void config_freep(struct config **config) {
    config_free(*config);
}

const struct toml_value *config_section(const struct config *config, const char *name) {
    for (size_t i = CONFIG_SOURCES; i-- > 0;) {
        const struct config_file *file = &config->files[i];
        const struct toml_value *section =
            file->tree != NULL && file->limited == NULL ? toml_get(file->tree, name) : NULL;
        if (section != NULL)
            return section;
    }
    return NULL;
}

const char *config_origin(const struct config *config, size_t row, char *out, size_t size) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    const struct config_value *value = &config->values[row];
    char variable[64];
    if (config->files[value->source].path != NULL)
        (void)snprintf(out, size, "%s:%u", config->files[value->source].path, value->line);
    else if (value->source == CONFIG_FROM_ENVIRONMENT)
        (void)snprintf(out, size, "%s", config_variable(key, variable));
    else
        (void)snprintf(out, size, "default");
    return out;
}

const char *config_source_name(enum config_source source) {
    static const char *const names[CONFIG_SOURCES] = {
        [CONFIG_FROM_DEFAULT] = "default", [CONFIG_FROM_SYSTEM] = "system",
        [CONFIG_FROM_USER] = "user",       [CONFIG_FROM_FOLDER] = "folder",
        [CONFIG_FROM_NAMED] = "named",     [CONFIG_FROM_ENVIRONMENT] = "environment",
    };
    return names[source];
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

/* ---- the file's tables ---- */

enum { NAMES_MAX = 64 };

static void add_name(const char **names, size_t *count, const char *name) {
    if (*count < NAMES_MAX && (*count == 0 || !str_equal(names[*count - 1], name)))
        names[(*count)++] = name;
}

static int fail_unknown(const char *file, const struct toml_value *v, const char *kind,
                        const char *const *names, size_t count, struct cay_error *err) {
    char shown[64];
    const char *nearest = str_nearest(v->key, names, count);
    error_set(err, CAY_INVALID_ARGUMENT, "%s:%u:%u: unknown %s '%s'%s%s%s", file, v->key_line,
              v->key_column, kind, str_escape(shown, sizeof shown, v->key),
              nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
              nearest != NULL ? "'?" : "");
    if (nearest != NULL)
        return error_remedy(err, "write %s, or remove the line", nearest);
    return error_remedy(err, "remove it; 'cay config' lists what there is");
}

static int fail_key(const char *file, const char *section, const struct toml_value *v,
                    struct cay_error *err) {
    const char *names[NAMES_MAX];
    size_t count, found = 0;
    const struct config_key *keys = config_keys(&count);
    char kind[64];
    for (size_t i = 0; i < count; i++)
        if (str_equal(keys[i].section, section))
            add_name(names, &found, keys[i].name);
    (void)snprintf(kind, sizeof kind, "key in [%s]:", section);
    return fail_unknown(file, v, kind, names, found, err);
}

/* A key that stands above all headers is most likely one whose header was forgotten. */
static int fail_section(const char *file, const struct toml_value *v, struct cay_error *err) {
    const char *names[NAMES_MAX];
    size_t count, found = 0;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        add_name(names, &found, keys[i].section);
        if (v->type == TOML_TABLE || !str_equal(keys[i].name, v->key))
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "%s:%u:%u: '%s' stands outside of its section", file,
                  v->key_line, v->key_column, keys[i].name);
        return error_remedy(err, "put it below the line [%s]", keys[i].section);
    }
    for (size_t i = 0; i < ARRAY_LEN(foreign_sections); i++)
        add_name(names, &found, foreign_sections[i]);
    return fail_unknown(file, v, "section", names, found, err);
}

static int apply_value(struct config *config, enum config_source source, size_t row,
                       const struct toml_value *v, struct cay_error *err) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    const struct config_file *file = &config->files[source];
    _cleanup_(buf_free) struct buf text = BUF_INIT(TOML_SIZE_MAX);
    char what[256];
    (void)snprintf(what, sizeof what, "%.180s:%u:%u: %s.%s", file->path, v->line, v->column,
                   key->section, key->name);
    int r = config_value_text(key, what, v, &text, err);
    if (r < 0)
        return r;
    struct config_value value = {.source = source, .line = v->line};
    return file->limited != NULL
               ? config_set_limited(config, row, what, buf_text(&text), value, err)
               : config_set(config, row, what, buf_text(&text), value, err);
}

static bool names_key(const struct toml_value *v, const char *name) {
    return v->key_len == strlen(name) && memcmp(v->key, name, v->key_len) == 0;
}

static int apply_section(struct config *config, enum config_source source,
                         const struct toml_value *section, struct cay_error *err) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (const struct toml_value *v = section->first; v != NULL; v = v->next) {
        size_t row = 0;
        while (row < count &&
               !(names_key(section, keys[row].section) && names_key(v, keys[row].name)))
            row++;
        int r = row < count ? apply_value(config, source, row, v, err)
                            : fail_key(config->files[source].path, section->key, v, err);
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

static int check_section(const char *file, const struct toml_value *v, struct cay_error *err) {
    if (!is_known(v) && !is_foreign(v))
        return fail_section(file, v, err);
    if (v->type == TOML_TABLE)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s:%u:%u: '%s' is a section, not a key or an array", file,
              v->key_line, v->key_column, v->key);
    return error_remedy(err, "write [%s] on a line of its own, once", v->key);
}

/* Its reader gets it by config_section(), which passes over limited files. */
static int note_foreign(struct config *config, enum config_source source,
                        const struct toml_value *section, struct cay_error *err) {
    if (config->files[source].limited == NULL || section->first == NULL)
        return 0;
    return config_refuse(config, section->key, source, section->key_line, false, err);
}

/* ---- the network, which two keys choose ---- */

static size_t row_at(size_t offset) {
    size_t count, row = 0;
    const struct config_key *keys = config_keys(&count);
    while (keys[row].offset != offset)
        row++;
    return row;
}

static int fail_contradiction(const char *where, bool enabled, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT,
              "%s: sandbox.network_enabled is %s, but sandbox.network %s", where,
              enabled ? "true" : "false", enabled ? "is none" : "opens a network");
    return error_remedy(err, "keep one of the two");
}

static int check_network(const struct config_file *file, struct cay_error *err) {
    const struct toml_value *section = toml_get(file->tree, "sandbox");
    const struct toml_value *enabled = section ? toml_get(section, "network_enabled") : NULL;
    const struct toml_value *network = section ? toml_get(section, "network") : NULL;
    if (enabled == NULL || network == NULL || enabled->boolean != str_equal(network->text, "none"))
        return 0;
    char where[256];
    (void)snprintf(where, sizeof where, "%.200s:%u", file->path, network->line);
    return fail_contradiction(where, enabled->boolean, err);
}

/* Makes both keys say the same after a layer has set one of them. */
static int join_network(struct config *config, enum config_source source, struct cay_error *err) {
    size_t network = row_at(offsetof(struct config, sandbox.network));
    size_t enabled = row_at(offsetof(struct config, sandbox.network_enabled));
    struct config_value value = config->values[network];
    bool is_none = str_equal(config->sandbox.network, "none");
    if (is_none != config->sandbox.network_enabled)
        return 0;
    if (value.source == source)
        return config_set(config, enabled, "network", is_none ? "false" : "true", value, err);
    value = config->values[enabled];
    return config_set(config, network, "network_enabled", is_none ? "allow=*" : "none", value, err);
}

/* ---- layers ---- */

static int apply_file(struct config *config, enum config_source source, struct cay_error *err) {
    const struct config_file *file = &config->files[source];
    if (file->tree == NULL)
        return 0;
    for (const struct toml_value *v = file->tree->first; v != NULL; v = v->next) {
        if (check_section(file->path, v, err) < 0)
            return -CAY_INVALID_ARGUMENT;
        int r = is_foreign(v) ? note_foreign(config, source, v, err)
                              : apply_section(config, source, v, err);
        if (r < 0)
            return r;
    }
    int r = check_network(file, err);
    return r < 0 ? r : join_network(config, source, err);
}

static int apply_environment(struct config *config, const char *const *env, struct cay_error *err) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        const char *text = config_getenv(env, config_variable(&keys[i], name));
        if (text == NULL)
            continue;
        int r = config_set(config, i, name, text,
                           (struct config_value){.source = CONFIG_FROM_ENVIRONMENT}, err);
        if (r < 0)
            return r;
    }
    if (config_getenv(env, "CAY_SANDBOX_NETWORK") != NULL &&
        config_getenv(env, "CAY_SANDBOX_NETWORK_ENABLED") != NULL &&
        config->sandbox.network_enabled == str_equal(config->sandbox.network, "none"))
        return fail_contradiction("environment", config->sandbox.network_enabled, err);
    return join_network(config, CONFIG_FROM_ENVIRONMENT, err);
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

static int load(const char *path, const char *const *env, bool with_folder, struct config **ret,
                struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return error_sys(err, ENOMEM, "reading the configuration");
    int r = config_set_defaults(config, err);
    if (r == 0)
        r = config_read_files(config, path, env, with_folder, err);
    for (size_t i = 0; r == 0 && i < CONFIG_SOURCES; i++)
        r = apply_file(config, (enum config_source)i, err);
    if (r == 0)
        r = apply_environment(config, env, err);
    if (r == 0)
        r = check_together(config, err);
    if (r < 0)
        return r;
    config_report_refusals(config);
    *ret = TAKE_PTR(config);
    return 0;
}

int config_load(const char *path, const char *const *env, struct config **ret,
                struct cay_error *err) {
    return load(path, env, true, ret, err);
}

int config_load_trusted(const char *path, const char *const *env, struct config **ret,
                        struct cay_error *err) {
    return load(path, env, false, ret, err);
}

const char *config_network(const struct config *config) {
    return config->sandbox.network;
}
