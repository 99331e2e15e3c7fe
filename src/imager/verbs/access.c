/* Registries as the configuration and the options want them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "config/config.h"
#include "image/alias.h"
#include "imager/pull/pull.h"
#include "imager/registry/credentials.h"
#include "imager/runner.h"
#include "imager/verbs/verbs.h"

enum { CA_MAX = 4 * 1024 * 1024 };

/* ---- certificates ---- */

static int read_ca(const char *path, char **ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(CA_MAX);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int r = fd < 0 ? -errno : fd_read_to_end(fd, &text);
    if (r < 0) {
        (void)error_sys(err, -r, "reading the certificates in '%s'", path);
        return error_remedy(err, "name a PEM file that you may read, of at most 4 MB");
    }
    if (strstr(buf_text(&text), "-----BEGIN ") == NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%s' holds no certificate", path);
        return error_remedy(err, "name a PEM file: it has lines '-----BEGIN CERTIFICATE-----'");
    }
    *ret = buf_take(&text);
    return 0;
}

/* ---- access ---- */

int access_open(const struct image_registry_options *options, struct access *ret,
                struct cay_error *err) {
    int r = config_load_trusted(options->common.config, (const char *const *)environ, &ret->config,
                                err);
    if (r < 0)
        return r;
    ret->insecure = options->insecure;
    const char *ca = options->ca_file != NULL ? options->ca_file : ret->config->images.ca_file;
    return ca[0] != '\0' ? read_ca(ca, &ret->ca_pem, err) : 0;
}

void access_close(struct access *access) {
    config_free(TAKE_PTR(access->config));
    free(TAKE_PTR(access->ca_pem));
}

void access_to(const struct access *access, const char *registry, struct registry_options *ret) {
    *ret = (struct registry_options){
        .ca_pem = access->ca_pem,
        .insecure =
            access->insecure || strv_has(&access->config->images.insecure_registries, registry),
    };
}

/* "REGISTRY=USER:PASSWORD" of this registry, or NULL. */
static const char *configured(const struct access *access, const char *registry) {
    const struct strv *all = &access->config->images.credentials;
    size_t len = strlen(registry);
    for (size_t i = 0; i < all->len; i++)
        if (strncmp(all->v[i], registry, len) == 0 && all->v[i][len] == '=')
            return all->v[i] + len + 1;
    return NULL;
}

static int split_credential(const char *text, const char *registry, struct credential *ret,
                            struct cay_error *err) {
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon == text) {
        error_set(err, CAY_INVALID_ARGUMENT, "[images] credentials: that of '%.100s' has no ':'",
                  registry);
        return error_remedy(err, "write \"USER:PASSWORD\"");
    }
    ret->user = strndup(text, (size_t)(colon - text));
    ret->secret = strdup(colon + 1);
    if (ret->user != NULL && ret->secret != NULL)
        return 0;
    credential_clear(ret);
    return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
}

int access_find_credential(const struct access *access, const char *registry,
                           struct credential *ret, struct cay_error *err) {
    const char *text = configured(access, registry);
    return text != NULL ? split_credential(text, registry, ret, err)
                        : credential_find(registry, ret, err);
}

/* The same from within the world: its parent reads the caller's files. */
static int find_credential(void *user, const char *registry, struct credential *ret,
                           struct cay_error *err) {
    const struct access *access = user;
    const char *text = configured(access, registry);
    if (text != NULL)
        return split_credential(text, registry, ret, err);
    return runner_find_credential(access->runner, registry, ret, err);
}

int access_pull_options(struct access *access, const struct image_registry_options *options,
                        struct world *world, struct progress *progress, struct pull_options *ret,
                        struct cay_error *err) {
    access->runner = world->runner;
    *ret = (struct pull_options){
        .platform = platform_here(),
        .find_credential = find_credential,
        .user = access,
        .registry = {.ca_pem = access->ca_pem, .insecure = access->insecure},
        .aliases = &access->config->images.aliases,
        .registries = &access->config->images.registries,
        .insecure_registries = &access->config->images.insecure_registries,
        .progress = progress,
    };
    return options->platform != NULL ? platform_parse(options->platform, &ret->platform, err) : 0;
}

int access_policy(const struct access *access) {
    for (int i = 0; image_policy_names[i] != NULL; i++)
        if (str_equal(image_policy_names[i], access->config->images.pull))
            return i;
    return PULL_MISSING;
}

int access_resolve(const struct access *access, const char *text,
                   char out[static REFERENCE_TEXT_SIZE], struct cay_error *err) {
    int r = image_alias(&access->config->images.aliases, text, out, err);
    if (r < 0)
        return r;
    if (r > 0)
        verb_note("%s is an alias of %s here", text, out);
    else if (str_copy(out, REFERENCE_TEXT_SIZE, text) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name '%.64s…' is too long", text);
    return r;
}
