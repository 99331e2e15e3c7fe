/* Instructions of a Dockerfile that change an image's configuration only, as `image import
 * --change` takes them. */
#pragma once

struct cay_error;
struct image_record;

/* Applies text, one or more of CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, STOPSIGNAL, USER, VOLUME,
 * WORKDIR. */
int build_change(struct image_record *record, const char *text, struct cay_error *err);
