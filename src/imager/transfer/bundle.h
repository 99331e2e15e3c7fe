/* An archive or a folder of images, as named pieces. Nothing is unpacked: a piece is a stretch of a
 * file. Names in it are hostile, and only compared. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/store.h"

struct cay_error;
struct bundle_member;

struct bundle {
    int fd; /* a plain tar that can be read anywhere, or a folder */
    bool is_folder;
    struct bundle_member *members; /* of a tar, sorted by name */
    size_t count;
};
#define BUNDLE_NONE ((struct bundle){.fd = -1})

/* A stretch of a file. */
struct extent {
    int fd;
    uint64_t offset, size;
};
#define EXTENT_NONE ((struct extent){.fd = -1})
void extent_close(struct extent *e);

/* input is a folder, a file or a pipe; the last two may be compressed as a whole, and are copied to
 * the store's folder then, for as long as the bundle is open. */
int bundle_open(const struct image_store *store, int input, struct bundle *ret,
                struct cay_error *err);
void bundle_close(struct bundle *b);

bool bundle_has(const struct bundle *b, const char *name);
/* Finds a piece, through symlinks that stay in the bundle. CAY_NOT_FOUND if it is missing. */
int bundle_find(const struct bundle *b, const char *name, struct extent *ret,
                struct cay_error *err);
/* Reads a small one; more than out's maximum is refused. */
int bundle_read(const struct bundle *b, const char *name, struct buf *out, struct cay_error *err);

/* ---- bundle_tar.c ---- */

enum bundle_kind { BUNDLE_FILE, BUNDLE_SYMLINK, BUNDLE_HARD_LINK, BUNDLE_OTHER };

struct bundle_member {
    enum bundle_kind kind;
    size_t order; /* in the tar: of equal names the last counts */
    uint64_t offset, size;
    char *name, *link;
};

/* Lists the tar b->fd. */
int bundle_list(const struct image_store *store, struct bundle *b, struct cay_error *err);

/* A plain tar of input, uncompressed if it was not, that can be read anywhere: an fd. With
 * keep_gzip a file that is compressed so stays as it is. */
int bundle_plain(const struct image_store *store, int input, bool keep_gzip, struct cay_error *err);
