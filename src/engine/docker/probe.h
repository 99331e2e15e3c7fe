/* What the Docker that the environment names can do, for `cay doctor`. */
#pragma once

struct buf;
struct cay_error;
struct docker_host;

/* Appends a JSON array with an object for each finding: name, ok, detail, remedy. `unusable` says
 * why there is no host, or is NULL. */
int docker_probe(const struct docker_host *host, const struct cay_error *unusable, struct buf *out,
                 struct cay_error *err);
