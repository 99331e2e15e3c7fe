/* Certificate and private key of the TCP listener. The supervisor reads them, with its rights; the
 * front gets the texts. */
#pragma once

#include "config/config.h"

struct cay_error;

struct tls {
    char *cert, *key; /* PEM; NULL: no TLS */
};

/* Reads the files that [server] tls_cert and tls_key name; nothing if there are none. Refused: what
 * is missing, empty or too large, and a key that everybody may read. */
int tls_read(const struct config *c, struct tls *ret, struct cay_error *err);
/* The key is overwritten. */
void tls_free(struct tls *t);

/* Through a file of the memory, for a front that runs: its descriptor, or a negative code. */
int tls_pack(const struct tls *t, struct cay_error *err);
int tls_unpack(int fd, struct tls *ret, struct cay_error *err);
