/* Records of a driver: a kind (u8), a length (u32, little endian) and so many bytes. */
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "lib/python/context.h"

enum { HEADER_SIZE = 5, TYPE_MAX = 128 };

bool context_is_text(const struct context_item *item) {
    return str_starts(item->type, "text/") || str_ends(item->type, "json") ||
           str_ends(item->type, "+xml");
}

bool context_is_repeated(const struct context_record *r, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (str_equal(r->items[i].type, r->items[index].type))
            return true;
    return false;
}

static uint32_t number_at(const char *p) {
    uint32_t n;
    memcpy(&n, p, sizeof n);
    return le32toh(n);
}

void context_reader_free(struct context_reader *r) {
    buf_free(&r->in);
}

static void forget_last(struct context_reader *r) {
    buf_consume(&r->in, r->used);
    r->used = 0;
}

void context_reader_add(struct context_reader *r, const char *data, size_t len) {
    forget_last(r);
    if (!r->failed && buf_append(&r->in, data, len) < 0)
        r->failed = true;
}

/* Three texts with a NUL between, in a buffer that has one behind. */
static bool take_error(const char *data, size_t len, struct context_record *ret) {
    const char *end = data + len;
    ret->name = data;
    const char *nul = memchr(data, '\0', len);
    if (nul == NULL)
        return false;
    ret->value = nul + 1;
    nul = memchr(ret->value, '\0', (size_t)(end - ret->value));
    if (nul == NULL)
        return false;
    ret->traceback = nul + 1;
    return true;
}

static bool take_item(const char *data, size_t len, struct context_item *ret) {
    size_t type = strnlen(data, len);
    if (type == 0 || type >= len || type > TYPE_MAX)
        return false;
    *ret = (struct context_item){data, data + type + 1, len - type - 1};
    return true;
}

static bool take_result(const char *data, size_t len, struct context_record *ret) {
    if (len == 0)
        return false;
    ret->is_last = data[0] != 0;
    for (size_t at = 1; at < len;) {
        if (len - at < sizeof(uint32_t) || ret->count == CONTEXT_ITEMS_MAX)
            return false;
        uint32_t size = number_at(data + at);
        at += sizeof size;
        if (size > len - at || !take_item(data + at, size, &ret->items[ret->count++]))
            return false;
        at += size;
    }
    return true;
}

static bool take_record(const char *data, size_t len, struct context_record *ret) {
    switch (ret->kind) {
    case CONTEXT_ERROR:
        return take_error(data, len, ret);
    case CONTEXT_RESULT:
        return take_result(data, len, ret);
    case CONTEXT_NOTICE:
        ret->text = data;
        return true;
    default:
        return false;
    }
}

/* Texts end where their record does: it moves over its header, which leaves room for a NUL. */
bool context_reader_next(struct context_reader *r, struct context_record *ret) {
    forget_last(r);
    if (r->failed || r->in.len < HEADER_SIZE)
        return false;
    uint32_t len = number_at(r->in.data + 1);
    if (len > CONTEXT_REPORT_MAX) {
        r->failed = true;
        return false;
    }
    if (r->in.len - HEADER_SIZE < len)
        return false;
    *ret = (struct context_record){.kind = (enum context_record_kind)(unsigned char)r->in.data[0]};
    char *data = r->in.data + HEADER_SIZE;
    memmove(r->in.data, data, len);
    r->in.data[len] = '\0';
    r->used = HEADER_SIZE + len;
    r->failed = !take_record(r->in.data, len, ret);
    return !r->failed;
}
