/* Writing a tar: PAX where ustar cannot hold it, nothing that depends on when or by whom it is
 * written. Bytes go to a sink, and through SHA-256 if wanted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ustar.h"
#include "image/reference.h"

struct cay_error;
struct digest;

/* Takes the bytes in order; negative with err filled ends it. */
typedef int (*tar_sink)(void *user, const void *data, size_t len, struct cay_error *err);

/* A sink whose user is a pointer to a descriptor. */
int tar_sink_fd(void *user, const void *data, size_t len, struct cay_error *err);

struct tar_entry {
    enum tar_type type;
    const char *path; /* of a folder with a slash at the end */
    const char *link; /* NULL if it is none */
    uint32_t mode, uid, gid;
    uint32_t major, minor;
    uint64_t size;
    int64_t mtime;
    const struct buf *xattrs; /* PAX records of ustar_put_record(), or NULL */
};

struct tar_stream {
    tar_sink sink; /* NULL: only counted and digested */
    void *user;
    struct digest *digest; /* NULL: none wanted */
    uint64_t size;         /* so far */
    size_t used;           /* of data */
    char *data;
};

/* Begins one; with_digest for tar_stream_end() to give it. */
int tar_stream_begin(struct tar_stream *s, tar_sink sink, void *user, bool with_digest,
                     struct cay_error *err);
/* The header of an entry; its size bytes of content follow by the two below. */
int tar_stream_entry(struct tar_stream *s, const struct tar_entry *entry, struct cay_error *err);
/* Content from memory, padded. */
int tar_stream_content(struct tar_stream *s, const void *data, size_t len, struct cay_error *err);
/* Content from a descriptor, from where it stands, padded. Less than size is CAY_CONFLICT. */
int tar_stream_copy(struct tar_stream *s, int fd, uint64_t size, struct cay_error *err);
/* The end of the archive; hex (may be NULL) is its digest. */
int tar_stream_end(struct tar_stream *s, char *hex, struct cay_error *err);
void tar_stream_free(struct tar_stream *s);
