/* The first half of unpacking: compressed bytes in, tar out, both hashed. The libraries for it are
 * used directly: libarchive's filters work in blocks of 64 KiB and do not say how much of the input
 * they have used, which the limits need to know. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/unpack/internal.h"

enum { BLOCK = 1024 * 1024 };

/* Below this no ratio is a bomb. */
#define RATIO_FROM (UINT64_C(1) << 30)

struct reader {
    const struct unpack_job *job;
    int out, report;
    bool plain; /* not compressed: one digest serves for both */
    uint64_t bytes_in, bytes_out, reported;
    unsigned char *input, *output; /* BLOCK each */
    size_t have, at;               /* of input */
    bool full;                     /* the output was: there may be more without further input */
    struct cay_error *err;
};

static int refuse(struct reader *r, const char *why) {
    error_set(r->err, CAY_INVALID_ARGUMENT, "layer: %s", why);
    return error_remedy(r->err, "pull or export the image again; if that does not help, its maker "
                                "must repair it");
}

static void report_progress(struct reader *r) {
    if (r->bytes_in - r->reported < BLOCK)
        return;
    struct unpack_report p = {.kind = UNPACK_PROGRESS, .result.blob_size = r->bytes_in};
    r->reported = r->bytes_in;
    (void)fd_write_all(r->report, &p, sizeof p);
}

/* More input, once all is used. 1, 0 at the end, or negative. */
static int fill(struct reader *r) {
    ssize_t n;
    do
        n = read(r->job->in, r->input, BLOCK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(r->err, "reading a layer");
    if (!r->plain)
        digest_update(r->job->blob, r->input, (size_t)n);
    r->bytes_in += (uint64_t)n;
    r->have = (size_t)n;
    r->at = 0;
    report_progress(r);
    return n > 0;
}

/* The tar has headers and padding beside the files that the limit is for. */
static uint64_t tar_limit(const struct unpack_limits *l) {
    uint64_t headers, sum;
    if (__builtin_mul_overflow(l->entries, 4096, &headers) ||
        __builtin_add_overflow(l->bytes, headers + BLOCK, &sum))
        return UINT64_MAX;
    return sum;
}

static int check_limits(struct reader *r) {
    const struct unpack_limits *l = &r->job->limits;
    if (r->bytes_out > tar_limit(l)) {
        char text[32];
        error_set(r->err, CAY_RESOURCE_EXHAUSTED, "layer: unpacks to more than %s",
                  str_bytes(tar_limit(l), text));
        return error_remedy(r->err, "do not use this image: it fills disks");
    }
    if (r->bytes_out > RATIO_FROM && r->bytes_out / l->ratio > r->bytes_in) {
        error_set(r->err, CAY_RESOURCE_EXHAUSTED,
                  "layer: unpacks to more than %u times its compressed size", l->ratio);
        return error_remedy(r->err, "do not use this image: it fills disks");
    }
    return 0;
}

static int emit(struct reader *r, const void *data, size_t len) {
    if (len == 0)
        return 0;
    digest_update(r->job->tar, data, len);
    r->bytes_out += len;
    int result = check_limits(r);
    if (result < 0)
        return result;
    result = fd_write_all(r->out, data, len);
    return result < 0 ? error_sys(r->err, -result, "unpacking a layer: handing on") : 0;
}

static int read_plain(struct reader *r) {
    int result;
    do {
        result = emit(r, r->input, r->have);
        if (result == 0)
            result = fill(r);
    } while (result > 0);
    return result;
}

/* ---- gzip ---- */

/* Behind a member there may be another one, or padding with zeroes. 1 if there is another. */
static int next_member(struct reader *r) {
    for (;;) {
        for (; r->at < r->have; r->at++)
            if (r->input[r->at] != 0)
                return 1;
        int more = fill(r);
        if (more <= 0)
            return more;
    }
}

static int inflate_some(struct reader *r, z_stream *z) {
    z->next_in = r->input + r->at;
    z->avail_in = (unsigned)(r->have - r->at);
    z->next_out = r->output;
    z->avail_out = BLOCK;
    int status = inflate(z, Z_NO_FLUSH);
    r->at = r->have - z->avail_in;
    r->full = z->avail_out == 0;
    int result = emit(r, r->output, BLOCK - z->avail_out);
    if (result < 0)
        return result;
    if (status == Z_STREAM_END)
        return 1;
    if (status == Z_MEM_ERROR)
        return error_sys(r->err, ENOMEM, "unpacking a layer");
    return status == Z_OK || status == Z_BUF_ERROR ? 0 : refuse(r, "its gzip data is damaged");
}

static int read_member(struct reader *r, z_stream *z) {
    for (;;) {
        int more = r->at < r->have || r->full ? 1 : fill(r);
        if (more <= 0)
            return more < 0 ? more : refuse(r, "it is cut off in the middle of its gzip data");
        int result = inflate_some(r, z);
        if (result != 0)
            return result;
    }
}

static int read_gzip(struct reader *r) {
    enum { WINDOW = 15, GZIP = 16 };
    z_stream z = {0};
    if (inflateInit2(&z, WINDOW + GZIP) != Z_OK)
        return error_sys(r->err, ENOMEM, "unpacking a layer");
    int result;
    do {
        result = read_member(r, &z);
        if (result == 1)
            result = next_member(r);
    } while (result == 1 && inflateReset(&z) == Z_OK);
    (void)inflateEnd(&z);
    return result;
}

/* ---- zstd ---- */

static int read_frames(struct reader *r, ZSTD_DCtx *z) {
    size_t status = 0; /* at the end of a frame */
    for (;;) {
        int more = r->at < r->have || r->full ? 1 : fill(r);
        if (more < 0)
            return more;
        if (more == 0)
            return status == 0 ? 0 : refuse(r, "it is cut off in the middle of its zstd data");
        ZSTD_inBuffer in = {r->input, r->have, r->at};
        ZSTD_outBuffer out = {r->output, BLOCK, 0};
        status = ZSTD_decompressStream(z, &out, &in);
        if (ZSTD_isError(status))
            return refuse(r, "its zstd data is damaged");
        r->at = in.pos;
        r->full = out.pos == BLOCK && status != 0;
        int result = emit(r, r->output, out.pos);
        if (result < 0)
            return result;
    }
}

static int read_zstd(struct reader *r) {
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (z == NULL)
        return error_sys(r->err, ENOMEM, "unpacking a layer");
    int result = read_frames(r, z);
    (void)ZSTD_freeDCtx(z);
    return result;
}

/* ---- which one ---- */

static bool begins(const struct reader *r, size_t at, const char *magic, size_t len) {
    return r->have >= at + len && memcmp(r->input + at, magic, len) == 0;
}

/* A frame, or one to be skipped, which zstd:chunked has too. */
static bool is_zstd(const struct reader *r) {
    return begins(r, 0, "\x28\xb5\x2f\xfd", 4) ||
           (begins(r, 1, "\x2a\x4d\x18", 3) && (r->input[0] & 0xf0) == 0x50);
}

static bool is_foreign(const struct reader *r) {
    static const char xz[] = {'\xfd', '7', 'z', 'X', 'Z'};
    return begins(r, 0, "BZh", 3) || begins(r, 0, xz, sizeof xz);
}

/* The first bytes decide, and a pipe may give them one by one. */
static int fill_first(struct reader *r) {
    enum { MAGIC = 6 };
    while (r->have < MAGIC) {
        ssize_t n = read(r->job->in, r->input + r->have, BLOCK - r->have);
        if (n < 0 && errno != EINTR)
            return error_errno(r->err, "reading a layer");
        if (n == 0)
            break;
        r->have += n > 0 ? (size_t)n : 0;
    }
    r->bytes_in = r->have;
    return 0;
}

static int read_any(struct reader *r) {
    int result = fill_first(r);
    if (result < 0)
        return result;
    if (is_foreign(r))
        return refuse(r, "it is compressed with bzip2 or xz; gzip, zstd and plain tar are known");
    bool gzip = begins(r, 0, "\x1f\x8b", 2);
    bool zstd = is_zstd(r);
    r->plain = !gzip && !zstd;
    if (!r->plain)
        digest_update(r->job->blob, r->input, r->have);
    return gzip ? read_gzip(r) : zstd ? read_zstd(r) : read_plain(r);
}

int unpack_read(const struct unpack_job *job, int out, int report, struct unpack_result *ret,
                struct cay_error *err) {
    _cleanup_(freep) unsigned char *input = malloc(BLOCK);
    _cleanup_(freep) unsigned char *output = malloc(BLOCK);
    struct reader r = {.job = job, .out = out, .report = report, .err = err};
    r.input = input;
    r.output = output;
    if (input == NULL || output == NULL)
        return error_sys(err, ENOMEM, "unpacking a layer");
    int result = read_any(&r);
    if (result < 0)
        return result;
    digest_finish(job->tar, ret->diff_id);
    if (r.plain)
        memcpy(ret->blob, ret->diff_id, HEX_SIZE);
    else
        digest_finish(job->blob, ret->blob);
    ret->blob_size = r.bytes_in;
    return 0;
}
