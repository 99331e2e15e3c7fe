/* Reading what a remote says, which may be anything: what does not fit is as if it were not there.
 */
#pragma once

#include "base/json/json.h"
#include "base/str.h"

/* A member, or the fallback where it is absent or something else. */
const char *far_string(const struct json *at, const char *key, const char *fallback);
double far_number(const struct json *at, const char *key, double fallback);
int64_t far_integer(const struct json *at, const char *key, int64_t fallback);
bool far_bool(const struct json *at, const char *key);
/* An object of strings as "K=V". */
int far_pairs(const struct json *at, const char *key, struct strv *ret);
