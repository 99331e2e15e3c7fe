/* Compressing as it streams by; the same bytes for the same content: the header tells no time. */
#pragma once

#include "imager/layer/tar_stream.h"

struct cay_error;
struct gzip;

/* What comes out goes to sink. NULL without memory. */
struct gzip *gzip_new(tar_sink sink, void *user);
void gzip_free(struct gzip *g);
void gzip_freep(struct gzip **g);

/* A tar_sink whose user is a struct gzip. */
int gzip_write(void *gzip, const void *data, size_t len, struct cay_error *err);
int gzip_finish(struct gzip *g, struct cay_error *err);
