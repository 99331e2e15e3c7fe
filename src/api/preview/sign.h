/* URLs of files that need no key: whoever knows a sandbox's signing key makes them for one method,
 * one path and a time, as Daytona's SDKs do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/http/target.h"
#include "manager/record/hash.h"

struct cay_error;
struct key;
struct manager;

/* The kind of the secret that signs URLs of a sandbox, of files and of previews. */
#define SIGN_KIND "files"

enum { SIGN_SIZE = 3 + HASH_TEXT_SIZE }; /* "v1_" and 32 bytes in base64url */

/* What a signed URL says; points into its target. */
struct sign_claim {
    const char *id;     /* of the sandbox */
    const char *method; /* "GET" or "POST" */
    const char *path;   /* of the file */
    const char *expires;
    int64_t expires_s; /* since 1970; 0: never */
    const char *signature;
};

/* False if the request is none with a signature: another path or method, or a part is missing or
 * malformed. HEAD is taken for GET. */
bool sign_read(const char *method, const struct target *target, struct sign_claim *ret);

/* The signature that a claim must have: of "v1:files:METHOD:PATH:EXPIRES". */
void sign_make(const struct sign_claim *claim, const char *key, char out[static SIGN_SIZE]);

/* True if it has it, and has not expired. */
bool sign_is_valid(const struct sign_claim *claim, const char *key, int64_t now_s);

/* Lets a signed request act for the owner of its sandbox: true, and *ret is that. What the request
 * does is bound by its method and path, which the signature is about. */
bool sign_admit(struct manager *m, const char *method, const struct target *target,
                struct key *ret);
