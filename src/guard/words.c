#include "guard/words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

int words_push(struct words *w, const char *text) {
    if (w->len == w->cap) {
        size_t cap = MAX(w->cap * 2, (size_t)8);
        char **v = reallocarray(w->v, cap, sizeof *v);
        if (v == NULL)
            return -ENOMEM;
        w->v = v;
        w->cap = cap;
    }
    w->v[w->len] = strdup(text);
    if (w->v[w->len] == NULL)
        return -ENOMEM;
    w->len++;
    return 0;
}

void words_free(struct words *w) {
    for (size_t i = 0; i < w->len; i++)
        free(w->v[i]);
    free(w->v);
    *w = (struct words){0};
}
