/* Inside of layer_tar_write(): what a tar says of a file beside its name. layer_tar_attr.c has the
 * PAX records, layer_tar_sparse.c files with holes. Not for others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "imager/layer/tar_stream.h"

struct cay_error;

/* ---- layer_tar_attr.c ---- */

/* The mark of a socket, which tar has no type for: a fifo with this attribute. */
#define TAR_SOCKET_MARK "cay.socket"

/* Which attributes are written: those of an image's files; or all that a sandbox can give to a
 * file, the overlay's included, with or without what a folder hands on to new files. */
enum attr_choice { ATTR_OF_LAYER, ATTR_RAW, ATTR_RAW_WITHOUT_DEFAULT };

/* Appends the extended attributes, sorted by name: 0 or -errno. */
int attr_put_all(int fd, enum attr_choice choice, struct buf *out);
/* Appends a single one. */
int attr_put(const char *name, const void *value, size_t len, struct buf *out);
/* True if new files in the folder would get an access list by it. */
bool attr_has_default(int folder);
/* Appends the times, to the nanosecond. */
void attr_put_times(const struct stat *st, struct buf *out);

/* ---- layer_tar_sparse.c ---- */

/* The parts of a file that are no holes. */
struct sparse {
    struct sparse_part {
        uint64_t at, len;
    } * parts;
    size_t count;
};
void sparse_free(struct sparse *s);

/* Looks for holes; none are found in a file that is as large as what it takes. 0 or -errno. */
int sparse_find(int fd, const struct stat *st, struct sparse *ret);
bool sparse_has_holes(const struct sparse *s, uint64_t size);

/* A file with holes in GNU's format 1.0: its records and what its entry's size is then, and, after
 * the entry, its content. Both need the map, which sparse_put_records() makes. */
int sparse_put_records(const struct sparse *s, uint64_t size, struct buf *pax, struct buf *map,
                       uint64_t *ret_size);
int sparse_put_content(const struct sparse *s, int fd, const struct buf *map, struct tar_stream *t,
                       struct cay_error *err);
