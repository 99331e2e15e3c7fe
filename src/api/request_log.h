/* One line of the log and one count for each request. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct route;

enum { REQUEST_ID_SIZE = 65, METHOD_SIZE = 16 };

struct request_log {
    char id[REQUEST_ID_SIZE]; /* the client's, if it is a sane one */
    char method[METHOD_SIZE];
    int64_t began_us;
    unsigned status; /* of the answer; 0: there was none */
};

/* Begins it: later lines of this thread carry its id. `given` is X-Request-Id, or NULL: 1 to 64
 * letters, digits, dots, underscores and hyphens are taken over. */
void request_log_begin(struct request_log *l, const char *method, const char *given);

/* Counts it and writes its line: at warn if we failed, at debug if it only looked and all is well,
 * else at info. route is NULL if it came to none. */
void request_log_end(const struct request_log *l, const struct route *route, size_t row,
                     const char *caller);
