#include "base/ustar.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static void put_octal(unsigned char *field, size_t len, uint64_t value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%0*llo", (int)len - 1, (unsigned long long)value);
    memcpy(field, text, len - 1);
}

/* What does not fit is in the PAX header; the field is 0 then. */
static void put_short(unsigned char *field, uint64_t value) {
    put_octal(field, USTAR_SHORT_LEN, value <= USTAR_SHORT_MAX ? value : 0);
}

static void put_long(unsigned char *field, uint64_t value) {
    put_octal(field, USTAR_LONG_LEN, value <= USTAR_LONG_MAX ? value : 0);
}

static void put_checksum(unsigned char *block) {
    unsigned sum = 0;
    memset(block + USTAR_SUM_AT, ' ', USTAR_SHORT_LEN);
    for (size_t i = 0; i < USTAR_BLOCK; i++)
        sum += block[i];
    put_octal(block + USTAR_SUM_AT, USTAR_SHORT_LEN - 1, sum);
    block[USTAR_SUM_AT + USTAR_SHORT_LEN - 2] = '\0';
}

void ustar_encode(const struct ustar *h, unsigned char block[static USTAR_BLOCK]) {
    static const char magic[8] = {'u', 's', 't', 'a', 'r', '\0', '0', '0'};
    memset(block, 0, USTAR_BLOCK);
    memcpy(block + USTAR_NAME_AT, h->path, strnlen(h->path, USTAR_NAME_LEN)); /* full: no NUL */
    put_short(block + USTAR_MODE_AT, h->mode & 07777);
    put_short(block + USTAR_UID_AT, h->uid);
    put_short(block + USTAR_GID_AT, h->gid);
    put_long(block + USTAR_SIZE_AT, h->size);
    put_long(block + USTAR_MTIME_AT, (uint64_t)h->mtime); /* before 1970 it does not fit */
    block[USTAR_TYPE_AT] = (unsigned char)h->type;
    if (h->link != NULL)
        memcpy(block + USTAR_LINK_AT, h->link, strnlen(h->link, USTAR_NAME_LEN));
    memcpy(block + USTAR_MAGIC_AT, magic, sizeof magic);
    put_short(block + USTAR_MAJOR_AT, h->major);
    put_short(block + USTAR_MINOR_AT, h->minor);
    put_checksum(block);
}

/* The length of a record counts its own digits. */
void ustar_put_record(struct buf *pax, const char *key, const void *value, size_t len) {
    size_t base = strlen(key) + len + 3, whole = base + 1;
    for (size_t digits = 1, next = 10; whole >= next; next *= 10)
        whole = base + ++digits;
    (void)buf_printf(pax, "%zu %s=", whole, key);
    (void)buf_append(pax, value, len);
    (void)buf_putc(pax, '\n');
}
