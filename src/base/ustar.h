/* Headers of tar archives: ustar's block, and the records of PAX for what it cannot hold. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;

enum { USTAR_BLOCK = 512 };

enum tar_type {
    TAR_FILE = '0',
    TAR_HARD_LINK = '1',
    TAR_SYMLINK = '2',
    TAR_CHAR_DEVICE = '3',
    TAR_BLOCK_DEVICE = '4',
    TAR_FOLDER = '5',
    TAR_FIFO = '6',
    TAR_PAX = 'x',
    TAR_PAX_GLOBAL = 'g',
    TAR_LONG_NAME = 'L',
    TAR_LONG_LINK = 'K',
    TAR_SPARSE = 'S',
};

/* The fields of a block. */
enum {
    USTAR_NAME_AT = 0,
    USTAR_NAME_LEN = 100,
    USTAR_MODE_AT = 100,
    USTAR_UID_AT = 108,
    USTAR_GID_AT = 116,
    USTAR_SHORT_LEN = 8,
    USTAR_SIZE_AT = 124,
    USTAR_MTIME_AT = 136,
    USTAR_LONG_LEN = 12,
    USTAR_SUM_AT = 148,
    USTAR_TYPE_AT = 156,
    USTAR_LINK_AT = 157,
    USTAR_MAGIC_AT = 257,
    USTAR_MAJOR_AT = 329,
    USTAR_MINOR_AT = 337,
    USTAR_PREFIX_AT = 345,
    USTAR_PREFIX_LEN = 155,
};

/* What fits into the fields; what does not goes into PAX records. */
#define USTAR_LONG_MAX  UINT64_C(077777777777)
#define USTAR_SHORT_MAX UINT64_C(07777777)

struct ustar {
    char type; /* enum tar_type */
    const char *path;
    const char *link; /* NULL if it is none */
    uint32_t mode, major, minor;
    uint64_t uid, gid, size;
    int64_t mtime;
};

/* The block. Of names that are too long it has the beginning, of numbers 0. */
void ustar_encode(const struct ustar *h, unsigned char block[static USTAR_BLOCK]);

/* Appends a PAX record; failures stick to the buffer. */
void ustar_put_record(struct buf *pax, const char *key, const void *value, size_t len);
