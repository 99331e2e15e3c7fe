/* Whether the head of a request is one that every server reads alike. What is not may be two
 * requests to a proxy before us or an application behind us, so it is refused. */
#pragma once

#include <stddef.h>

struct cay_error;

enum { HEAD_FIELDS_MAX = 256 };

struct head {
    size_t fields;
    size_t bytes;      /* of the fields, with their line ends */
    unsigned seen[5];  /* how often, of those that may come once */
    const char *fault; /* what was wrong first, or NULL */
    const char *coding, *length;
};

/* The next field, as the library left it: name and value in one piece of memory, with a zero and
 * blanks between them. A value that went on in a second line lies elsewhere. */
void head_add(struct head *h, const char *name, const char *value);

/* After the last one; `sent` is how long the head was with its empty line. It is longer than what
 * was read of it if a line ended without CR, went on in the next, or had a zero byte. */
int head_check(const struct head *h, const char *method, const char *uri, const char *version,
               size_t sent, struct cay_error *err);
