/* Which registries may be used for a key, and what it is told of those that could not be. Whoever
 * runs the daemon may use all; a key must not explore networks that only this machine reaches by
 * naming images there. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/str.h"
#include "image/reference.h"

struct cay_error;

/* `list` is [images] registries: "HOST[:PORT]" as in the names of images, or "*". */

/* Whether the list names it, not only by "*": its address is not judged then, and its errors are
 * told. */
bool registry_is_listed(const struct strv *list, const char *registry);
/* Whether a key may use it at all: the list is empty, has "*", or names it. */
bool registry_is_admitted(const struct strv *list, const char *registry);

/* True for addresses of the public internet (base/ranges.h). */
bool registry_address_is_public(const struct sockaddr *address);

/* Replaces the reason why an image could not be fetched by one text, which does not tell a host
 * that does not exist from one that does not answer, is no registry, or may not be used. The reason
 * is kept for registry_hidden_reason(). */
int registry_hide_reason(const struct reference *ref, struct cay_error *err);
/* What was hidden last, for the daemon's log; "" if nothing was. */
const char *registry_hidden_reason(void);
