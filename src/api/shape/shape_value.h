/* Values in the bodies of requests: checked, and put where a record has them. What is left out
 * stays as it is. */
#pragma once

#include "base/json/json.h"
#include "manager/manager.h"

struct cay_error;

enum { VALUE_PAIRS_MAX = 1024 };

/* Reads the body of a request, which must be an object; an empty one is an empty object. The
 * object lives as long as the document, which the caller frees also after a failure. */
int value_parse(const struct buf *body, struct json_document **ret_document, struct json *ret,
                struct cay_error *err);
/* Refuses a key that is not known, with the nearest one. */
int value_check_keys(const struct json *at, const char *const *known, size_t count,
                     struct cay_error *err);

int value_text(const struct json *at, const char *key, char *out, size_t size,
               struct cay_error *err);
/* A number of bytes, or a text as flags have it: "512m". */
int value_size(const struct json *at, const char *key, uint64_t *ret, struct cay_error *err);
/* Processors, as a quota. */
int value_cpus(const struct json *at, const char *key, uint32_t *ret, struct cay_error *err);
int value_pids(const struct json *at, uint32_t *ret, struct cay_error *err);
/* An object of strings as sorted "K=V". */
int value_pairs(const struct json *at, const char *key, size_t max, struct strv *ret,
                struct cay_error *err);
/* "volumes": texts as flags have them, or Daytona's {"volumeId", "mountPath"}. */
int value_volumes(const struct json *at, struct strv *ret, struct cay_error *err);
/* "autoStopInterval" and the others, as a request of the manager has them. */
int value_intervals(const struct json *at, struct sandbox_record *ret, struct cay_error *err);
