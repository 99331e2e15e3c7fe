/* A list of words that a hostile text may make half a million long: unlike strv it grows by
 * doubling. */
#pragma once

#include <stddef.h>

struct words {
    char **v; /* owned strings; not NULL-terminated */
    size_t len;
    size_t cap;
};

/* Appends a copy: 0 or -ENOMEM. */
int words_push(struct words *w, const char *text);
void words_free(struct words *w);
