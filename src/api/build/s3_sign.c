#include "api/build/s3_sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/http/target.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

enum {
    CANONICAL_MAX = 128 * 1024,
    SKEW_MS = 15 * 60 * 1000,
    PART_MAX = 10000, /* the protocol's own limit */
    STAMP_LEN = 16,   /* 20261115T185500Z */
};

static const char algorithm[] = "AWS4-HMAC-SHA256";

/* ---- the header ---- */

/* Copies what is before the next of these characters, or the end, and steps behind it. */
static bool take(const char **text, const char *ends, char *out, size_t size) {
    size_t len = strcspn(*text, ends);
    if (len == 0 || len >= size)
        return false;
    memcpy(out, *text, len);
    out[len] = '\0';
    *text += len + ((*text)[len] != '\0');
    return true;
}

static bool read_credential(const char *text, struct s3_claim *ret) {
    char service[8], end[16];
    bool is_whole = take(&text, "/", ret->access, sizeof ret->access) &&
                    take(&text, "/", ret->date, sizeof ret->date) &&
                    take(&text, "/", ret->region, sizeof ret->region) &&
                    take(&text, "/", service, sizeof service) && take(&text, "/", end, sizeof end);
    return is_whole && *text == '\0' && str_equal(service, "s3") && str_equal(end, "aws4_request");
}

static bool read_field(const char *field, struct s3_claim *ret) {
    static const char credential[] = "Credential=", headers[] = "SignedHeaders=",
                      signature[] = "Signature=";
    if (str_starts(field, credential))
        return read_credential(field + sizeof credential - 1, ret);
    if (str_starts(field, headers))
        return str_copy(ret->headers, sizeof ret->headers, field + sizeof headers - 1) == 0;
    if (str_starts(field, signature))
        return str_copy(ret->signature, sizeof ret->signature, field + sizeof signature - 1) == 0;
    return false;
}

bool s3_claim_read(const char *authorization, struct s3_claim *ret) {
    char field[S3_HEADERS_SIZE + 32];
    *ret = (struct s3_claim){0};
    if (authorization == NULL || !str_starts(authorization, algorithm))
        return false;
    const char *p = authorization + sizeof algorithm - 1;
    if (*p != ' ')
        return false;
    for (p += strspn(p, " ,"); *p != '\0'; p += strspn(p, " ,"))
        if (!take(&p, ", ", field, sizeof field) || !read_field(field, ret))
            return false;
    return ret->access[0] != '\0' && ret->headers[0] != '\0' && ret->signature[0] != '\0';
}

/* ---- what is signed ---- */

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a=1&b=2", by name and then by value, each written the one way that there is. */
static void put_queries(struct buf *out, const struct target *t) {
    struct strv pairs = {0};
    for (size_t i = 0; i < t->queries && !out->failed; i++) {
        _cleanup_(buf_free) struct buf pair = BUF_INIT(CANONICAL_MAX);
        target_encode(&pair, t->query[i].key);
        (void)buf_putc(&pair, '=');
        target_encode(&pair, t->query[i].value);
        out->failed |= pair.failed || strv_push(&pairs, buf_text(&pair)) < 0;
    }
    if (pairs.len > 1)
        qsort(pairs.v, pairs.len, sizeof *pairs.v, compare_texts);
    for (size_t i = 0; i < pairs.len; i++)
        (void)buf_printf(out, "%s%s", i > 0 ? "&" : "", pairs.v[i]);
    strv_free(&pairs);
}

/* Without blanks at the ends, and one where there are several. */
static void put_value(struct buf *out, const char *value) {
    value += strspn(value, " \t");
    for (; *value != '\0'; value++) {
        if (*value != ' ' && *value != '\t')
            (void)buf_putc(out, *value);
        else if (strchr(" \t", value[1]) == NULL) /* the last one, and not at the end */
            (void)buf_putc(out, ' ');
    }
}

/* False if one of them is not there. What must not be left out is checked by the caller. */
static bool put_headers(struct buf *out, const struct s3_claim *claim, const struct s3_request *q) {
    char name[128];
    for (const char *p = claim->headers; *p != '\0';) {
        if (!take(&p, ";", name, sizeof name))
            return false;
        const char *value = q->header(q->user, name);
        if (value == NULL)
            return false;
        (void)buf_printf(out, "%s:", name);
        put_value(out, value);
        (void)buf_putc(out, '\n');
    }
    return true;
}

static bool signs(const struct s3_claim *claim, const char *name) {
    char wanted[64], all[S3_HEADERS_SIZE + 2];
    return str_format(wanted, sizeof wanted, ";%s;", name) == 0 &&
           str_format(all, sizeof all, ";%s;", claim->headers) == 0 && strstr(all, wanted) != NULL;
}

static bool write_canonical(struct buf *out, const struct s3_claim *claim,
                            const struct s3_request *q) {
    const char *body = q->header(q->user, "x-amz-content-sha256");
    if (body == NULL || !signs(claim, "host") || !signs(claim, "x-amz-date") ||
        !signs(claim, "x-amz-content-sha256"))
        return false;
    (void)buf_printf(out, "%s\n%.*s\n", q->method, (int)strcspn(q->uri, "?"), q->uri);
    put_queries(out, q->target);
    (void)buf_putc(out, '\n');
    if (!put_headers(out, claim, q))
        return false;
    (void)buf_printf(out, "\n%s\n%s", claim->headers, body);
    return !out->failed;
}

/* ---- the signature ---- */

static void make_key(const struct s3_claim *claim, const char *secret,
                     unsigned char key[static HASH_SIZE]) {
    char first[HASH_HEX_SIZE + 8];
    const char *const parts[] = {claim->region, "s3", "aws4_request"};
    (void)snprintf(first, sizeof first, "AWS4%s", secret);
    hash_sign(first, strlen(first), claim->date, strlen(claim->date), key);
    explicit_bzero(first, sizeof first);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        unsigned char next[HASH_SIZE];
        hash_sign(key, HASH_SIZE, parts[i], strlen(parts[i]), next);
        memcpy(key, next, HASH_SIZE);
    }
}

static void sign(const struct s3_claim *claim, const char *stamp, const struct buf *canonical,
                 const char *secret, char out[static HASH_HEX_SIZE]) {
    unsigned char key[HASH_SIZE], digest[HASH_SIZE];
    char hex[HASH_HEX_SIZE], text[256];
    hash_of(buf_text(canonical), canonical->len, digest);
    hash_hex(digest, hex);
    (void)snprintf(text, sizeof text, "%s\n%s\n%s/%s/s3/aws4_request\n%s", algorithm, stamp,
                   claim->date, claim->region, hex);
    make_key(claim, secret, key);
    hash_sign(key, sizeof key, text, strlen(text), digest);
    hash_hex(digest, out);
    explicit_bzero(key, sizeof key);
}

/* In a time that does not tell where they differ. */
static bool is_same(const char *a, const char *b) {
    unsigned char one[HASH_SIZE], other[HASH_SIZE];
    hash_of(a, strlen(a), one);
    hash_of(b, strlen(b), other);
    return hash_equal(one, other);
}

/* "20261115T185500Z" */
static bool is_recent(const char *stamp, const char *date, int64_t now_ms) {
    char text[32];
    int64_t then_ms;
    if (stamp == NULL || strlen(stamp) != STAMP_LEN || !str_starts(stamp, date) || date[8] != '\0')
        return false;
    int n = snprintf(text, sizeof text, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", stamp, stamp + 4,
                     stamp + 6, stamp + 9, stamp + 11, stamp + 13);
    return n == 20 && stamp[8] == 'T' && stamp[15] == 'Z' &&
           clock_from_iso8601(text, &then_ms) == 0 && then_ms <= now_ms + SKEW_MS &&
           then_ms >= now_ms - SKEW_MS;
}

int s3_check(const struct s3_claim *claim, const struct s3_request *q, const char *secret,
             int64_t now_ms, struct cay_error *err) {
    _cleanup_(buf_free) struct buf canonical = BUF_INIT(CANONICAL_MAX);
    char right[HASH_HEX_SIZE];
    const char *stamp = q->header(q->user, "x-amz-date");
    if (strlen(claim->date) != 8 || !is_recent(stamp, claim->date, now_ms)) {
        error_set(err, CAY_FORBIDDEN, "the time of the request is not that of this machine");
        return error_remedy(err, "set the clocks of both machines");
    }
    if (write_canonical(&canonical, claim, q)) {
        sign(claim, stamp, &canonical, secret, right);
        if (is_same(right, claim->signature))
            return 0;
    }
    error_set(err, CAY_FORBIDDEN, "the signature of the request is not valid");
    return error_remedy(err, "ask for new credentials: GET /api/object-storage/push-access");
}

/* ---- parts ---- */

int s3_read_parts(const char *xml, unsigned *numbers, unsigned max) {
    static const char open[] = "<PartNumber>", close[] = "</PartNumber>";
    unsigned count = 0;
    for (const char *p = strstr(xml, open); p != NULL; p = strstr(p, open)) {
        char text[8];
        uint64_t number;
        p += sizeof open - 1;
        if (!take(&p, "<", text, sizeof text) || !str_starts(p, close + 1) ||
            str_to_u64(text, PART_MAX, &number) < 0 || number == 0 || count == max ||
            (count > 0 && number <= numbers[count - 1]))
            return -EINVAL;
        numbers[count++] = (unsigned)number;
    }
    return count > 0 ? (int)count : -EINVAL;
}
