/* Reading HTTP/1.1 answers, strictly and without I/O: whatever is not plainly right is refused, and
 * nothing is guessed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_HEAD_MAX = 1024 * 1024, /* status line and fields; an environment fits */
    HTTP_FIELDS_MAX = 4096,
};

struct http_field {
    const char *name, *value;
};

struct http_head {
    int status;
    int64_t length; /* of the body; -1: not said */
    bool chunked;
    struct http_field *fields;
    size_t field_count;
    char *text; /* what the fields point into */
};

/* True if it can be the name of a field; and if it has no control character but tabs. */
bool http_is_token(const char *text);
bool http_is_line(const char *text);

/* Where the head ends, blank line included; 0 if it is not complete. `from` bytes were looked at
 * before. */
size_t http_head_end(const char *data, size_t len, size_t from);

/* Parses a complete head: 0, -EPROTO, or -ENOMEM. Release it with http_head_free. */
int http_head_parse(const char *data, size_t len, struct http_head *ret);
void http_head_free(struct http_head *h);

/* The value of a field; pass NULL first, then the previous value for the next one of that name. */
const char *http_head_get(const struct http_head *h, const char *name, const char *previous);

/* ---- bodies in chunks ---- */

struct http_chunks {
    int state; /* zero at the beginning; private */
    unsigned digits;
    uint64_t left;
};

enum { HTTP_CHUNKS_MORE = 0, HTTP_CHUNKS_PIECE = 1, HTTP_CHUNKS_END = 2 };

/* Takes bytes off *data: HTTP_CHUNKS_PIECE with a piece of content, HTTP_CHUNKS_MORE when all are
 * used, HTTP_CHUNKS_END behind the last chunk, or -EPROTO. */
int http_chunks_next(struct http_chunks *c, const char **data, size_t *len, const char **ret_piece,
                     size_t *ret_len);

/* Replaces %XX by the byte it stands for, in place: 0, or -EPROTO for a broken one or a NUL. */
int http_unescape(char *text);
