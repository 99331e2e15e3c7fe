#include "imager/layer/manifest_keys.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

/* A text with its key's length and its place before, which orders those with one key. */
struct keyed {
    char *text;
    size_t key_len;
    size_t place;
};

static int compare_keys(const struct keyed *a, const struct keyed *b) {
    int c = memcmp(a->text, b->text, MIN(a->key_len, b->key_len));
    return c != 0 ? c : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

static int compare(const void *x, const void *y) {
    const struct keyed *a = x, *b = y;
    int c = compare_keys(a, b);
    return c != 0 ? c : (a->place > b->place) - (a->place < b->place);
}

/* separator ends a key; "": the whole text is one. */
static int sort(struct strv *list, const char *separator) {
    if (list->len == 0)
        return 0;
    _cleanup_(freep) struct keyed *items = calloc(list->len, sizeof *items);
    if (items == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < list->len; i++)
        items[i] = (struct keyed){list->v[i], strcspn(list->v[i], separator), i};
    qsort(items, list->len, sizeof *items, compare);
    size_t n = 0;
    for (size_t i = 0; i < list->len; i++) {
        if (i + 1 < list->len && compare_keys(&items[i], &items[i + 1]) == 0)
            free(items[i].text);
        else
            list->v[n++] = items[i].text;
    }
    list->v[n] = NULL;
    list->len = n;
    return 0;
}

int manifest_sort_set(struct strv *list) {
    return sort(list, "");
}

int manifest_sort_labels(struct strv *list) {
    return sort(list, "=");
}
