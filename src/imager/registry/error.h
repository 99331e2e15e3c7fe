/* What a registry's refusal means, in our words and in its own. */
#pragma once

#include <stdbool.h>

#include "imager/registry/http.h"

struct cay_error;

enum { REGISTRY_SAID_SIZE = 200 };

/* The registry's (or the token server's) own message, escaped and cut; "" if it said nothing that
 * can be read. */
const char *registry_said(const struct http_response *response,
                          char out[static REGISTRY_SAID_SIZE]);

/* Fills err from a status other than 2xx. `registry` is the name that the user would log in to;
 * known: credentials were sent. */
int registry_refusal(const struct http_response *response, const char *registry, bool known,
                     struct cay_error *err);
