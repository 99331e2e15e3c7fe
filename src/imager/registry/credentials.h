/* Who we are to a registry: what `cay image login` kept, then Docker's configuration with its
 * credential helpers. To be read before giving up privilege. */
#pragma once

#include <stdbool.h>

struct cay_error;

struct credential {
    char *user;
    char *secret;         /* a password, or an access token */
    char *identity_token; /* OAuth2 refresh token; then user and secret are NULL */
};
#define CREDENTIAL_NONE ((struct credential){0})

/* Fills *ret, or leaves it empty (anonymous) if nothing is known. Looks in
 * $XDG_CONFIG_HOME/cay/auth.json (~/.config), then $DOCKER_CONFIG/config.json (~/.docker). A
 * credential helper that fails is an error that names it. */
int credential_find(const char *registry, struct credential *ret, struct cay_error *err);
/* Keeps it in cay's own file, mode 0600, atomically. */
int credential_save(const char *registry, const struct credential *credential,
                    struct cay_error *err);
/* 1 if there was one, 0 if not. */
int credential_remove(const char *registry, struct cay_error *err);
/* Wipes and releases. */
void credential_clear(struct credential *c);
