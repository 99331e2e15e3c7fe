/* AWS's Signature Version 4, as far as uploads of build contexts need it: what the header of a
 * request claims, and whether it is true. Pure: what a request is comes from the caller. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "manager/record/hash.h"

struct cay_error;
struct target;

enum { S3_ACCESS_SIZE = 48, S3_REGION_SIZE = 48, S3_HEADERS_SIZE = 1024 };

/* What "AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…" says. */
struct s3_claim {
    char access[S3_ACCESS_SIZE];
    char date[9]; /* 20261115 */
    char region[S3_REGION_SIZE];
    char headers[S3_HEADERS_SIZE]; /* "host;x-amz-date", lower case and sorted */
    char signature[HASH_HEX_SIZE];
};

/* False for what is no such header. */
bool s3_claim_read(const char *authorization, struct s3_claim *ret);

/* What was signed. */
struct s3_request {
    const char *method;
    const char *uri; /* as it was sent */
    const struct target *target;
    const char *(*header)(const void *user, const char *name); /* NULL: it is not there */
    const void *user;
};

/* 0 if the claim is that of somebody who knows the secret, about this request and not older than a
 * quarter of an hour; else -CAY_FORBIDDEN. The body is what X-Amz-Content-Sha256 says it is, which
 * whoever reads it has to compare. */
int s3_check(const struct s3_claim *claim, const struct s3_request *q, const char *secret,
             int64_t now_ms, struct cay_error *err);

/* The numbers of the parts that the body of CompleteMultipartUpload names, which must grow:
 * how many, or -EINVAL. Nothing else of it counts. */
int s3_read_parts(const char *xml, unsigned *numbers, unsigned max);
