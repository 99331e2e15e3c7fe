/* Who may: pure checks of what a request carries, and of what its caller may do. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct cay_error;
struct key;

/* The key that a header ("Bearer KEY") carries, in the header; NULL if it carries none. */
const char *access_bearer(const char *authorization);

/* What a request needs its caller to have. */
enum access_need {
    NEED_SANDBOXES, /* the scope sandboxes; for a look (GET), read is enough */
    NEED_USE,       /* the scope sandboxes, although it is a GET */
    NEED_IMAGES,    /* the scope images; for a look, read is enough */
    NEED_ADMIN,
    NEED_NOTHING, /* a key, whatever it may do */
    NEED_NO_KEY,  /* nothing at all: http_caller.c lets it pass */
};

/* -CAY_FORBIDDEN with the scope that is missing. */
int access_check(const struct key *caller, enum access_need need, bool is_look,
                 struct cay_error *err);

/* Folders of the host ("/srv:/data") belong to nobody's key: -CAY_FORBIDDEN unless the caller may
 * do everything. Named volumes are looked up among his own by whoever mounts them. */
int access_check_volumes(const struct key *caller, const struct strv *volumes,
                         struct cay_error *err);

/* True if a Host header names this machine's own loopback or an entry of more (NULL: none),
 * whatever the port: a page of another site that made its name point here has another one. */
bool access_host_is_allowed(const char *host, const struct strv *more);

/* True if an Origin ("https://cay.example:3986") is that of the pages of a Host. */
bool access_is_same_origin(const char *origin, const char *host);
