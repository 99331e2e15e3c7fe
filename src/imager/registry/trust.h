/* Which certificates to trust for a registry. */
#pragma once

#include "base/buf.h"

struct cay_error;

/* The system's and the private ones together as PEM: of the file and the text (each may be NULL),
 * and where Docker and Podman look (certs.d/REGISTRY/ca.crt). Left empty if there is no private
 * one: then the system's are the library's own business. */
int registry_trust(const char *registry, const char *ca_file, const char *ca_pem, struct buf *ret,
                   struct cay_error *err);
