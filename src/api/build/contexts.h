/* Build contexts: the files of clients that COPY and ADD of a Dockerfile take, as the tars that
 * SDKs upload before they ask for a build. Each has the name that the client computed of what is
 * in it, and belongs to the key it came with; another key has others of that name. They are a
 * cache: what nobody has used for some days goes. Functions may be called from any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/build/s3_sign.h"
#include "manager/record/record.h"

struct cay_error;
struct contexts; /* opaque; lives as long as the process */

enum {
    CONTEXT_HASH_SIZE = 33, /* 32 hex digits */
    CONTEXT_ID_SIZE = ID_SIZE,
    CONTEXT_PARTS_MAX = 1024,
    CONTEXTS_PER_BUILD = 128,
};

/* Those of a folder, which is made if it is missing. What a dead process left half is removed. */
int contexts_open(const char *folder, struct contexts **ret, struct cay_error *err);
void contexts_free(struct contexts *c); /* for tests */

/* True for 32 hex digits. */
bool context_is_hash(const char *text);

/* ---- credentials (contexts_grant.c) ---- */

/* What lets whoever knows it act as the owner for an hour, with contexts and nothing else. Nothing
 * is kept of it: a daemon that starts anew accepts none of before. */
struct context_grant {
    char access[S3_ACCESS_SIZE], secret[HASH_TEXT_SIZE], token[HASH_TEXT_SIZE];
    char owner[OWNER_SIZE]; /* "": who has no key of his own */
    int64_t expires_ms;
};
void contexts_grant(const struct contexts *c, const char *owner, int64_t now_ms,
                    struct context_grant *ret);
/* The grant with this access key; false if it has expired, or none has it. */
bool contexts_granted(const struct contexts *c, const char *access, int64_t now_ms,
                      struct context_grant *ret);

/* ---- what is there ---- */

/* One of the owner's, to be read, and from now on used: a descriptor, or -CAY_NOT_FOUND. */
int contexts_find(struct contexts *c, const char *owner, const char *hash, uint64_t *ret_bytes,
                  struct cay_error *err);
/* A socket that has these descriptors in it, as cay-image takes them; they stay the caller's. */
int contexts_pack(const int *fds, size_t count, struct cay_error *err);
/* Calls fn with how much each owner has. */
void contexts_each(const struct contexts *c,
                   void (*fn)(void *user, const char *owner, uint64_t bytes), void *user);
/* Removes what is too old, of every owner. */
void contexts_sweep(struct contexts *c);

/* ---- uploads (contexts_upload.c) ---- */

struct context_upload; /* opaque */

/* Begins the context, or with an id (not NULL) one part of one. bytes: what will come, 0 if that is
 * not known. -CAY_LIMIT_REACHED if it, or all of the owner's, would be too large. */
int context_upload_begin(struct contexts *c, const char *owner, const char *hash, const char *id,
                         unsigned part, uint64_t bytes, struct context_upload **ret,
                         struct cay_error *err);
int context_upload_write(struct context_upload *u, const char *data, size_t len,
                         struct cay_error *err);
/* It is there from now on, as a whole, if its digest is `sha256` (in hex; NULL: any). digest gets
 * what it is. */
int context_upload_end(struct context_upload *u, const char *sha256,
                       char digest[static HASH_HEX_SIZE], struct cay_error *err);
/* Also after its end. */
void context_upload_free(struct context_upload *u);

/* One that comes in parts: its id. */
int context_parts_begin(struct contexts *c, const char *owner, const char *hash,
                        char id[static CONTEXT_ID_SIZE], struct cay_error *err);
/* Makes the context of these parts, in this order. */
int context_parts_end(struct contexts *c, const char *owner, const char *hash, const char *id,
                      const unsigned *numbers, size_t count, struct cay_error *err);
/* Gives it up. None is fine. */
int context_parts_drop(struct contexts *c, const char *owner, const char *hash, const char *id,
                       struct cay_error *err);
