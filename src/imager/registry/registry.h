/* A registry that speaks the OCI distribution protocol, by libcurl. What it says is hostile:
 * lengths, digests and redirects are checked, every transfer has a deadline for silence. One handle
 * is for one thread; clones share the token. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/reference.h"
#include "imager/layer/manifest.h"
#include "imager/registry/credentials.h"

struct cay_error;
struct registry;

struct registry_options {
    const char *ca_file; /* PEM to trust besides the system's, or NULL */
    const char *ca_pem;  /* the same as text, for who may not open the file any more; or NULL */
    bool insecure;       /* plain HTTP and unchecked certificates; always so for loopback's HTTP */
    bool is_judged;      /* it is used for a key: only public addresses, and those listed */
    const struct strv *listed; /* [images] registries, for that; NULL: none. It must stay */
    int64_t stall_ms;          /* give up when nothing moves for this long; 0: 30 s */
    unsigned attempts;         /* of each request, with growing pauses between; 0: 5 */
};

/* Nothing is sent yet. Credentials (NULL: anonymous) and options are copied. */
int registry_open(const struct reference *ref, const struct credential *credential,
                  const struct registry_options *options, struct registry **ret,
                  struct cay_error *err);
/* Another handle to the same, for another thread. */
int registry_clone(struct registry *from, struct registry **ret, struct cay_error *err);
void registry_close(struct registry *r);
void registry_closep(struct registry **r);

/* The manifest under a tag, or under "sha256:HEX". The body has at most MANIFEST_SIZE_MAX bytes and
 * the digest asked for, or told by the registry; hex is the digest of the body. */
struct registry_document {
    struct buf body;
    char media_type[RECORD_WORD_SIZE];
    char hex[HEX_SIZE];
};
int registry_get_manifest(struct registry *r, const char *tag_or_digest,
                          struct registry_document *ret, struct cay_error *err);

/* Downloads a blob from `offset` on. sink gets the bytes in order and may refuse with a negative
 * number and err filled. Exactly size bytes or an error; the digest is the caller's to check. A
 * broken connection is taken up where it broke, if the registry can (else sink->restart is called,
 * and everything comes again). */
struct blob_sink {
    int (*write)(void *user, const void *data, size_t len, struct cay_error *err);
    int (*restart)(void *user, struct cay_error *err);
    void *user;
};
int registry_get_blob(struct registry *r, const struct descriptor *blob, uint64_t offset,
                      const struct blob_sink *sink, struct cay_error *err);

/* Tries the credentials (`cay image login`): GET /v2/. */
int registry_check_login(struct registry *r, struct cay_error *err);
