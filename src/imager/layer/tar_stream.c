#include "imager/layer/tar_stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "imager/layer/digest.h"

enum {
    DATA_SIZE = 256 * 1024,
    PAX_MAX = 1024 * 1024, /* readers refuse larger ones */
};

int tar_sink_fd(void *user, const void *data, size_t len, struct cay_error *err) {
    int r = fd_write_all(*(const int *)user, data, len);
    return r < 0 ? error_sys(err, -r, "writing the archive") : 0;
}

/* ---- bytes ---- */

int tar_stream_begin(struct tar_stream *s, tar_sink sink, void *user, bool with_digest,
                     struct cay_error *err) {
    *s = (struct tar_stream){.sink = sink, .user = user, .data = malloc(DATA_SIZE)};
    if (with_digest)
        s->digest = digest_new();
    if (s->data == NULL || (with_digest && s->digest == NULL)) {
        tar_stream_free(s);
        return error_sys(err, ENOMEM, "writing an archive");
    }
    return 0;
}

void tar_stream_free(struct tar_stream *s) {
    digest_free(s->digest);
    free(s->data);
    *s = (struct tar_stream){0};
}

static int flush(struct tar_stream *s, struct cay_error *err) {
    digest_update(s->digest, s->data, s->used);
    int r = s->sink == NULL || s->used == 0 ? 0 : s->sink(s->user, s->data, s->used, err);
    s->used = 0;
    return r;
}

/* Appends bytes, zeros if data is NULL. */
static int put(struct tar_stream *s, const char *data, size_t len, struct cay_error *err) {
    while (len > 0) {
        int r = s->used == DATA_SIZE ? flush(s, err) : 0;
        if (r < 0)
            return r;
        size_t n = MIN(len, DATA_SIZE - s->used);
        if (data == NULL) {
            memset(s->data + s->used, 0, n);
        } else {
            memcpy(s->data + s->used, data, n);
            data += n;
        }
        s->used += n;
        s->size += n;
        len -= n;
    }
    return 0;
}

static int put_padding(struct tar_stream *s, struct cay_error *err) {
    return put(s, NULL, (size_t)(-s->size % USTAR_BLOCK), err);
}

int tar_stream_content(struct tar_stream *s, const void *data, size_t len, struct cay_error *err) {
    int r = put(s, data, len, err);
    return r < 0 ? r : put_padding(s, err);
}

int tar_stream_copy(struct tar_stream *s, int fd, uint64_t size, struct cay_error *err) {
    while (size > 0) {
        int r = s->used == DATA_SIZE ? flush(s, err) : 0;
        if (r < 0)
            return r;
        ssize_t n = read(fd, s->data + s->used, (size_t)MIN(size, (uint64_t)(DATA_SIZE - s->used)));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "reading");
        if (n == 0)
            return error_set(err, CAY_CONFLICT, "it became shorter while it was read");
        s->used += (size_t)n;
        s->size += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return put_padding(s, err);
}

int tar_stream_end(struct tar_stream *s, char *hex, struct cay_error *err) {
    int r = put(s, NULL, (size_t)2 * USTAR_BLOCK, err);
    if (r == 0)
        r = flush(s, err);
    if (r == 0 && hex != NULL)
        digest_finish(s->digest, hex);
    return r;
}

/* ---- headers ---- */

static int put_block(struct tar_stream *s, const struct tar_entry *e, char type,
                     struct cay_error *err) {
    const struct ustar head = {
        .type = type,
        .path = e->path,
        .link = e->link,
        .mode = e->mode,
        .major = e->major,
        .minor = e->minor,
        .uid = e->uid,
        .gid = e->gid,
        .size = e->size,
        .mtime = e->mtime,
    };
    unsigned char block[USTAR_BLOCK];
    ustar_encode(&head, block);
    return put(s, (const char *)block, sizeof block, err);
}

static void put_text(struct buf *pax, const char *key, const char *text) {
    ustar_put_record(pax, key, text, strlen(text));
}

static void put_number(struct buf *pax, const char *key, int64_t value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    put_text(pax, key, text);
}

static bool is_long(const char *name) {
    return name != NULL && strlen(name) > USTAR_NAME_LEN;
}

/* Names in PAX are UTF-8, unless it is said that they are not. */
static bool is_binary(const char *name) {
    return is_long(name) && !str_is_utf8(name, strlen(name));
}

static void put_records(struct buf *pax, const struct tar_entry *e) {
    if (is_binary(e->path) || is_binary(e->link))
        put_text(pax, "hdrcharset", "BINARY");
    if (is_long(e->path))
        put_text(pax, "path", e->path);
    if (is_long(e->link))
        put_text(pax, "linkpath", e->link);
    if (e->size > USTAR_LONG_MAX)
        put_number(pax, "size", (int64_t)e->size);
    if (e->uid > USTAR_SHORT_MAX)
        put_number(pax, "uid", e->uid);
    if (e->gid > USTAR_SHORT_MAX)
        put_number(pax, "gid", e->gid);
    if ((uint64_t)e->mtime > USTAR_LONG_MAX) /* before 1970 too */
        put_number(pax, "mtime", e->mtime);
    if (e->xattrs != NULL && e->xattrs->len > 0)
        (void)buf_append(pax, e->xattrs->data, e->xattrs->len);
}

int tar_stream_entry(struct tar_stream *s, const struct tar_entry *entry, struct cay_error *err) {
    _cleanup_(buf_free) struct buf pax = BUF_INIT(PAX_MAX);
    put_records(&pax, entry);
    if (pax.failed)
        return error_set(err, CAY_LIMIT_REACHED, "its name and attributes are too large for a tar");
    if (pax.len > 0) {
        struct tar_entry header = {.path = "././@PaxHeader", .mode = 0644, .size = pax.len};
        int r = put_block(s, &header, TAR_PAX, err);
        if (r == 0)
            r = tar_stream_content(s, pax.data, pax.len, err);
        if (r < 0)
            return r;
    }
    return put_block(s, entry, (char)entry->type, err);
}
