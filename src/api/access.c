#include "api/access.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "manager/record/key.h"

enum { KEY_MAX = 256 };

const char *access_bearer(const char *authorization) {
    static const char scheme[] = "Bearer ";
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return NULL;
    const char *given = authorization + sizeof scheme - 1;
    size_t len = strnlen(given, KEY_MAX);
    return len > 0 && len < KEY_MAX ? given : NULL;
}

static enum key_scope scope_of(enum access_need need) {
    switch (need) {
    case NEED_ADMIN:
        return SCOPE_ADMIN;
    case NEED_IMAGES:
        return SCOPE_IMAGES;
    default:
        return SCOPE_SANDBOXES;
    }
}

static const char *name_of(enum access_need need) {
    return need == NEED_ADMIN ? "admin" : need == NEED_IMAGES ? "images" : "sandboxes";
}

int access_check(const struct key *caller, enum access_need need, bool is_look,
                 struct cay_error *err) {
    unsigned enough = SCOPE_ADMIN | scope_of(need);
    if (is_look && (need == NEED_SANDBOXES || need == NEED_IMAGES))
        enough |= SCOPE_READ;
    if (need == NEED_NOTHING || need == NEED_NO_KEY || (caller->scopes & enough) != 0)
        return 0;
    error_set(err, CAY_FORBIDDEN, "this needs the scope '%s', which the key '%s' does not have",
              name_of(need), caller->name);
    return error_remedy(err, "use a key with it, made by: cay key create NAME --scope %s",
                        name_of(need));
}

int access_check_volumes(const struct key *caller, const struct strv *volumes,
                         struct cay_error *err) {
    for (size_t i = 0; i < volumes->len && !key_sees_all(caller); i++) {
        if (isalnum((unsigned char)volumes->v[i][0]))
            continue;
        error_set(err, CAY_FORBIDDEN,
                  "folders of the host need the scope 'admin', which the key '%s' does not have",
                  caller->name);
        return error_remedy(err, "use a named volume, or copy files with: cay cp");
    }
    return 0;
}

bool access_is_same_origin(const char *origin, const char *host) {
    const char *name = strstr(origin, "://");
    return name != NULL && host != NULL && strcasecmp(name + 3, host) == 0;
}

/* Without ":PORT"; in "[::1]:80" only what follows the bracket is one. */
static size_t name_length(const char *host) {
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    return bracket != NULL ? (size_t)(bracket + 1 - host) : strcspn(host, ":");
}

bool access_host_is_allowed(const char *host, const struct strv *more) {
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    if (host == NULL)
        return false;
    size_t len = name_length(host);
    if (host[len] != '\0' &&
        (host[len] != ':' || strspn(host + len + 1, "0123456789") != strlen(host + len + 1)))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == len && strncasecmp(own[i], host, len) == 0)
            return true;
    for (size_t i = 0; more != NULL && i < more->len; i++)
        if (strlen(more->v[i]) == len && strncasecmp(more->v[i], host, len) == 0)
            return true;
    return false;
}
