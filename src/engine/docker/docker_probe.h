/* What the Docker that the environment names can do, for `cay doctor`. */
#pragma once

struct buf;
struct cay_error;
struct docker_host;

/* Appends a table: a line with the names of its columns (name, ok, detail, remedy), then a line for
 * each finding, with tabs between them. `unusable` says why there is no host, or is NULL. */
int docker_probe(const struct docker_host *host, const struct cay_error *unusable, struct buf *out,
                 struct cay_error *err);
