/* SHA-256 as it streams by. */
#pragma once

#include <stddef.h>

#include "image/reference.h"

struct digest; /* opaque */

struct digest *digest_new(void);
void digest_update(struct digest *d, const void *data, size_t len);
/* The hex of all so far; it must not be updated afterwards. */
void digest_finish(struct digest *d, char hex[static HEX_SIZE]);
void digest_free(struct digest *d);
void digest_freep(struct digest **d);

/* Of a text at once. */
void digest_of(const void *data, size_t len, char hex[static HEX_SIZE]);

/* ChainID of a layer over `below` ("" for the lowest), as the OCI image specification defines it.
 */
void digest_chain(const char *below, const char *diff_id, char hex[static HEX_SIZE]);
