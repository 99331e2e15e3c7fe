/* Any bytes as the report of a context's driver, in pieces of any size: what is returned lies
 * within what came. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/python/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned seen;

static size_t measure(const struct context_record *r) {
    if (r->kind == CONTEXT_ERROR)
        return strlen(r->name) + strlen(r->value) + strlen(r->traceback);
    if (r->kind == CONTEXT_NOTICE)
        return strlen(r->text);
    size_t sum = 0;
    if (r->count > CONTEXT_ITEMS_MAX)
        abort();
    for (size_t i = 0; i < r->count; i++) {
        sum += strlen(r->items[i].type) + r->items[i].len;
        for (size_t k = 0; k < r->items[i].len; k++)
            seen += (unsigned char)r->items[i].data[k]; /* the sanitizer sees whether it may */
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct context_reader r = CONTEXT_READER_INIT;
    struct context_record record;
    size_t total = 0, piece = size > 0 ? 1 + data[0] : 1;
    for (size_t at = 0; at < size; at += piece) {
        context_reader_add(&r, (const char *)data + at, piece < size - at ? piece : size - at);
        while (context_reader_next(&r, &record))
            total += measure(&record);
    }
    if (total > size)
        abort();
    context_reader_free(&r);
    return 0;
}
