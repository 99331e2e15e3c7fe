#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Room for len more bytes and the terminator. */
static int grow(struct buf *b, size_t len) {
    if (b->failed)
        return -ENOBUFS;
    size_t need;
    if (__builtin_add_overflow(b->len, len, &need) || need > b->max || need > SIZE_MAX / 4) {
        b->failed = true;
        return -ENOBUFS;
    }
    if (need + 1 <= b->cap)
        return 0;
    size_t cap = MAX(b->cap * 2, (size_t)128) - 1;
    cap = MAX(MIN(cap, b->max), need) + 1;
    char *data = realloc(b->borrowed ? NULL : b->data, cap);
    if (data == NULL) {
        b->failed = true;
        return -ENOMEM;
    }
    if (b->borrowed)
        memcpy(data, b->data, b->len);
    b->borrowed = false;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_append(struct buf *b, const void *data, size_t len) {
    int r = grow(b, len);
    if (r < 0)
        return r;
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): grow() left room for it */
    b->data[b->len] = '\0';
    return 0;
}

int buf_puts(struct buf *b, const char *text) {
    return buf_append(b, text, strlen(text));
}

int buf_putc(struct buf *b, char c) {
    return buf_append(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return -EINVAL;
    }
    int r = grow(b, (size_t)n);
    if (r < 0)
        return r;
    va_start(ap, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

char *buf_reserve(struct buf *b, size_t len) {
    return grow(b, len) < 0 ? NULL : b->data + b->len;
}

void buf_commit(struct buf *b, size_t len) {
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_consume(struct buf *b, size_t len) {
    if (len == 0)
        return;
    b->len -= len;
    memmove(b->data, b->data + len, b->len + 1);
}

void buf_clear(struct buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data != NULL)
        b->data[0] = '\0';
}

void buf_free(struct buf *b) {
    if (!b->borrowed)
        free(b->data);
    *b = BUF_INIT(b->max);
}

const char *buf_text(const struct buf *b) {
    return b->len > 0 ? b->data : "";
}

char *buf_take(struct buf *b) {
    if (b->failed)
        return NULL;
    if (b->borrowed)
        b->cap = 0; /* so that it gets memory of its own */
    if (b->cap == 0 && buf_append(b, "", 0) < 0)
        return NULL;
    char *data = b->data;
    *b = BUF_INIT(b->max);
    return data;
}
