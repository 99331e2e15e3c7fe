/* A multipart/form-data body (RFC 7578), piece by piece as it arrives: nothing is kept but the
 * head of a part and what could be the beginning of a boundary. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_NAME_MAX = 255,
    MULTIPART_HEAD_MAX = 8 * 1024,
};

struct multipart_part {
    char name[MULTIPART_NAME_MAX + 1];
    bool has_filename; /* what it says is not told: no two clients mean the same by it */
};

/* Who hears of the parts; a negative result ends the parsing. */
struct multipart_handler {
    int (*begin)(void *user, const struct multipart_part *part, struct cay_error *err);
    int (*data)(void *user, const char *data, size_t len, struct cay_error *err);
    int (*end)(void *user, struct cay_error *err);
};

enum multipart_state {
    MULTIPART_PREAMBLE,
    MULTIPART_BOUNDARY_END, /* behind a boundary: another part, or the end */
    MULTIPART_HEAD,
    MULTIPART_BODY,
    MULTIPART_DONE,
};

struct multipart {
    const struct multipart_handler *handler;
    void *user;
    enum multipart_state state;
    char delimiter[4 + MULTIPART_BOUNDARY_MAX + 1]; /* "\r\n--" and the boundary */
    size_t delimiter_len;
    char kept[MULTIPART_HEAD_MAX + 4 + MULTIPART_BOUNDARY_MAX + 1];
    size_t kept_len;
};

/* From a Content-Type header; -CAY_INVALID_ARGUMENT if it is no multipart/form-data. handler and
 * user are borrowed. */
int multipart_init(struct multipart *m, const char *content_type,
                   const struct multipart_handler *handler, void *user, struct cay_error *err);

/* The next bytes of the body, as many as there are. */
int multipart_feed(struct multipart *m, const char *data, size_t len, struct cay_error *err);

/* The body has ended: an error if it was cut off. */
int multipart_finish(const struct multipart *m, struct cay_error *err);
