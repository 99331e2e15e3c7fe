/* The target of a request, "/api/sandbox/lab?force=true", taken apart. It is split before it is
 * decoded, so that an encoded slash is part of a name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;

enum {
    TARGET_SIZE = 4096, /* of all of it, as sent */
    TARGET_SEGMENTS_MAX = 16,
    TARGET_QUERIES_MAX = 64,
};

struct target_query {
    const char *key, *value; /* value "" if there is none */
};

struct target {
    char text[TARGET_SIZE]; /* holds what the others point to */
    const char *segment[TARGET_SEGMENTS_MAX];
    size_t segments; /* 0: the target is "/" */
    struct target_query query[TARGET_QUERIES_MAX];
    size_t queries;
};

/* Refused as CAY_INVALID_ARGUMENT: what does not begin with a slash, is too long, has an empty
 * segment (but one slash at the end is fine), "%" without two hex digits, or text that is no UTF-8
 * or, but in the values of queries, has a control character. In queries "+" is a space. ret points
 * into itself: not to be copied.
 */
int target_parse(const char *uri, struct target *ret, struct cay_error *err);

/* The value of the first query with this key, or NULL. */
const char *target_query(const struct target *t, const char *key);

/* "true", "1" and "" are true, "false" and "0" are not, and absent is not; all else is refused. */
int target_flag(const struct target *t, const char *key, bool *ret, struct cay_error *err);

/* A text as one part of a path: letters, digits and "-._~" as they are, all else as %XX. */
struct buf;
void target_encode(struct buf *out, const char *text);
