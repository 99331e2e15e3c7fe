/* Docker's configuration file, as far as it is about credentials; cay's own file has the same form.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "imager/registry/credentials.h"

struct cay_error;

enum { DOCKER_CONFIG_MAX = 1024 * 1024, HELPER_NAME_SIZE = 128 };

/* What it says of a registry: a credential, or who to ask for it, or nothing. */
struct docker_entry {
    struct credential credential;
    char helper[HELPER_NAME_SIZE]; /* docker-credential-HELPER, to be asked first; "" for none */
};

/* name says in errors whose text it is; no part of the text ever goes there. */
int docker_config_find(const char *name, const char *text, size_t len, const char *registry,
                       struct docker_entry *ret, struct cay_error *err);

/* Writes the configuration again with what it has of this registry replaced by the credential, or
 * (NULL) removed. Everything else stays; text may be empty. 1 if it had something of it. */
int docker_config_replace(const char *name, const char *text, size_t len, const char *registry,
                          const struct credential *credential, struct buf *out,
                          struct cay_error *err);

/* How Docker's files and helpers call a registry. */
const char *docker_config_key(const char *registry);

/* Whether a key of such a file means the registry: "docker.io", "https://index.docker.io/v1/". */
bool docker_config_key_is(const char *key, const char *registry);
