/* Memory that held a secret is wiped before it is given back. */
#pragma once

#include <string.h>

#include "base/buf.h"

/* NULL is fine. */
static inline void secret_free(char *text) {
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static inline void secret_freep(char **text) {
    secret_free(*text);
}

/* A buffer whose maximum was reserved at first never moves, and leaves no copies behind. */
static inline void secret_buf_free(struct buf *b) {
    if (b->data != NULL)
        explicit_bzero(b->data, b->cap);
    buf_free(b);
}
