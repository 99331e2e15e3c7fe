/* The error classes of cay and the one error type that every layer and every caller shares. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* One row per class: name, wire/JSON name, HTTP status, exit code of a verb that fails with it.
 * The numbers are part of the API and of the wire protocol: append, never renumber. */
#define CAY_ERROR_TABLE(X)                                                                         \
    X(CAY_OK, 0, "ok", 200, 0)                                                                     \
    X(CAY_NOT_FOUND, 1, "not_found", 404, 3)                                                       \
    X(CAY_CONFLICT, 2, "conflict", 409, 4)                                                         \
    X(CAY_INVALID_ARGUMENT, 3, "invalid_argument", 400, 2)                                         \
    X(CAY_LIMIT_REACHED, 4, "limit_reached", 429, 5)                                               \
    X(CAY_TIMEOUT, 5, "timeout", 504, 124)                                                         \
    X(CAY_RESOURCE_EXHAUSTED, 6, "resource_exhausted", 507, 6)                                     \
    X(CAY_UNSUPPORTED, 7, "unsupported", 501, 7)                                                   \
    X(CAY_UNAUTHORIZED, 8, "unauthorized", 401, 8)                                                 \
    X(CAY_FORBIDDEN, 9, "forbidden", 403, 9)                                                       \
    X(CAY_UNAVAILABLE, 10, "unavailable", 503, 10)                                                 \
    X(CAY_INTERNAL, 11, "internal", 500, 1)

enum cay_code {
#define CAY_ERROR_ENUM(id, number, name, http, exit) id = number,
    CAY_ERROR_TABLE(CAY_ERROR_ENUM)
#undef CAY_ERROR_ENUM
};

/* Plain data: needs no release, survives fork and shared memory, travels in one write.
 * Functions that fill it return the negative code. */
struct cay_error {
    enum cay_code code;
    int sys;           /* errno where it happened, 0 if none */
    char message[480]; /* what failed, on what, why; outermost context first */
    char remedy[256];  /* what to do about it; empty if nothing useful can be said */
};

/* Row lookups; an unknown code is treated as CAY_INTERNAL. */
const char *cay_code_name(enum cay_code code);
int cay_code_http(enum cay_code code);
int cay_code_exit(enum cay_code code);

#ifdef __cplusplus
}
#endif
