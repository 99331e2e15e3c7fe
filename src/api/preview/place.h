/* Which port of which sandbox a request is for, by its path or by its host; pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

enum {
    PREVIEW_MAC_LEN = 24,
    /* A signed token: the sandbox's id, when it expires (seconds, 8 hex digits), and a MAC. Of
     * lower-case hex digits, so that it can be part of a host's name. */
    PREVIEW_SIGNED_LEN = ID_LEN + 8 + PREVIEW_MAC_LEN,
    PREVIEW_SIGNED_SIZE = PREVIEW_SIGNED_LEN + 1,
};

/* The names by which clients show that they may. */
#define PREVIEW_HEADER "X-Daytona-Preview-Token"
#define PREVIEW_QUERY  "DAYTONA_SANDBOX_AUTH_KEY"
#define PREVIEW_COOKIE "daytona-sandbox-auth-"
/* With "true": a sandbox that does not run is started first. */
#define PREVIEW_START "X-Cay-Start"

struct preview_place {
    bool is_one;    /* the request is for a preview */
    bool is_signed; /* by a token in place of the sandbox's name */
    bool by_host;
    char who[64]; /* id or name; the id that the token names if it is signed */
    char token[PREVIEW_SIGNED_SIZE];
    uint16_t port;
    const char *rest; /* in the URI: path and query as the application gets them; "" if the path
                       * ends behind the port, without a slash */
    const char *host; /* in Host, if by_host: what follows the first dot */
};

/* Fills it from what a request says: "Host: 8080-ID.localhost", or "/preview/ID/8080/…". */
void preview_read_place(const char *host, const char *uri, struct preview_place *ret);

/* The cookie of this name in a Cookie header, in the header; NULL if there is none. */
const char *preview_cookie(const char *cookies, const char *name, size_t *ret_len);
/* The value of PREVIEW_QUERY in path and query; NULL if there is none. */
const char *preview_query(const char *rest, size_t *ret_len);
