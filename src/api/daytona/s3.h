/* Uploads of build contexts, as SDKs do them: the few requests of S3 that they make, with temporary
 * credentials. */
#pragma once

#include "api/route.h"

struct buf;
struct contexts;
struct manager;
struct cay_error;

extern const struct route_table s3_routes;

/* Charges everybody for the uploads that there are now. */
void s3_note_uploads(const struct contexts *contexts, struct manager *m);

/* True for paths of S3. */
bool s3_is_asked(const struct target *t);
/* Who signed the request; fills the caller. */
int s3_identify(struct call *c, struct cay_error *err);
/* The error as S3's clients read it. */
void s3_write_error(struct buf *out, const struct cay_error *err);
