#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/ustar.h"
#include "init/files/tar.h"

size_t tar_padding(uint64_t size) {
    return (size_t)(-size % TAR_BLOCK);
}

/* ---- decoding ---- */

/* A big-endian two's complement number behind a marker bit, as GNU tar writes large ones. */
static int decode_binary(const unsigned char *field, size_t len, int64_t *ret) {
    bool negative = field[0] == 0xFF;
    if (!negative && field[0] != 0x80)
        return -EBADMSG;
    uint64_t v = negative ? UINT64_MAX : 0;
    for (size_t i = 1; i < len; i++) {
        if (i + 8 < len && field[i] != (negative ? 0xFF : 0))
            return -EBADMSG; /* does not fit 64 bits */
        v = v << 8 | field[i];
    }
    if ((v > INT64_MAX) != negative)
        return -EBADMSG;
    *ret = (int64_t)v;
    return 0;
}

/* An octal number between spaces, ended by a space, a NUL or the end of the field. */
static int decode_number(const unsigned char *field, size_t len, int64_t *ret) {
    if ((field[0] & 0x80) != 0)
        return decode_binary(field, len, ret);
    size_t i = 0;
    while (i < len && field[i] == ' ')
        i++;
    int64_t v = 0;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (field[i] - '0'); /* 12 digits have 36 bits */
    if (i < len && field[i] != ' ' && field[i] != '\0')
        return -EBADMSG;
    *ret = v;
    return 0;
}

static int decode_unsigned(const unsigned char *field, size_t len, uint64_t *ret) {
    int64_t v;
    if (decode_number(field, len, &v) < 0 || v < 0)
        return -EBADMSG;
    *ret = (uint64_t)v;
    return 0;
}

/* The sum of all bytes with the checksum field as spaces; some old writers added signed bytes. */
static bool checksum_matches(const unsigned char *block) {
    int64_t expected, sum = 0, signed_sum = 0;
    if (decode_number(block + USTAR_SUM_AT, USTAR_SHORT_LEN, &expected) < 0)
        return false;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        bool in_field = i >= USTAR_SUM_AT && i < USTAR_SUM_AT + USTAR_SHORT_LEN;
        sum += in_field ? ' ' : block[i];
        signed_sum += in_field ? ' ' : (signed char)block[i];
    }
    return expected == sum || expected == signed_sum;
}

static size_t field_text(const unsigned char *field, size_t len, char *out) {
    size_t n = strnlen((const char *)field, len);
    memcpy(out, field, n);
    out[n] = '\0';
    return n;
}

static void decode_path(const unsigned char *block, struct tar_member *m) {
    char *at = m->path;
    /* GNU's magic is "ustar " and its headers have no prefix. */
    if (memcmp(block + USTAR_MAGIC_AT, "ustar", 6) == 0 && block[USTAR_PREFIX_AT] != '\0') {
        at += field_text(block + USTAR_PREFIX_AT, USTAR_PREFIX_LEN, at);
        *at++ = '/';
    }
    (void)field_text(block + USTAR_NAME_AT, USTAR_NAME_LEN, at);
}

static bool is_zero(const unsigned char *block) {
    return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

int tar_decode(const unsigned char block[static TAR_BLOCK], struct tar_member *ret) {
    if (is_zero(block))
        return 0;
    if (!checksum_matches(block))
        return -EBADMSG;
    uint64_t mode;
    int64_t mtime;
    if (decode_unsigned(block + USTAR_MODE_AT, USTAR_SHORT_LEN, &mode) < 0 ||
        decode_unsigned(block + USTAR_UID_AT, USTAR_SHORT_LEN, &ret->uid) < 0 ||
        decode_unsigned(block + USTAR_GID_AT, USTAR_SHORT_LEN, &ret->gid) < 0 ||
        decode_unsigned(block + USTAR_SIZE_AT, USTAR_LONG_LEN, &ret->size) < 0 ||
        decode_number(block + USTAR_MTIME_AT, USTAR_LONG_LEN, &mtime) < 0)
        return -EBADMSG;
    ret->mode = (uint32_t)(mode & 07777);
    ret->mtime = (struct timespec){.tv_sec = mtime};
    unsigned char type = block[USTAR_TYPE_AT];
    ret->type = type == '\0' || type == '7' ? TAR_FILE : (char)type;
    (void)field_text(block + USTAR_LINK_AT, USTAR_NAME_LEN, ret->link);
    decode_path(block, ret);
    return 1;
}

/* ---- pax ---- */

static int parse_unsigned(const char *text, uint64_t *ret) {
    return str_to_u64(text, INT64_MAX, ret) < 0 ? -EBADMSG : 0;
}

/* "1700000000.25", "-1.5": seconds since 1970. */
static int parse_time(const char *text, struct timespec *ret) {
    bool negative = text[0] == '-';
    const char *p = text + negative;
    int64_t sec = 0, nsec = 0;
    if (*p < '0' || *p > '9')
        return -EBADMSG;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (sec > (int64_t)USTAR_LONG_MAX * 16)
            return -EBADMSG;
        sec = sec * 10 + (*p - '0');
    }
    if (*p == '.') {
        p++;
        for (int64_t unit = 100000000; *p >= '0' && *p <= '9'; p++, unit /= 10)
            nsec += unit * (*p - '0');
    }
    if (*p != '\0')
        return -EBADMSG;
    if (negative) {
        sec = -sec - (nsec > 0);
        nsec = nsec > 0 ? 1000000000 - nsec : 0;
    }
    *ret = (struct timespec){.tv_sec = sec, .tv_nsec = nsec};
    return 0;
}

static int apply_record(const char *key, const char *value, struct tar_member *m) {
    if (str_starts(key, "GNU.sparse."))
        return -EOPNOTSUPP;
    if (strcmp(key, "path") == 0)
        return str_copy(m->path, sizeof m->path, value) < 0 ? -EBADMSG : 0;
    if (strcmp(key, "linkpath") == 0)
        return str_copy(m->link, sizeof m->link, value) < 0 ? -EBADMSG : 0;
    if (strcmp(key, "size") == 0)
        return parse_unsigned(value, &m->size);
    if (strcmp(key, "uid") == 0)
        return parse_unsigned(value, &m->uid);
    if (strcmp(key, "gid") == 0)
        return parse_unsigned(value, &m->gid);
    if (strcmp(key, "mtime") == 0)
        return parse_time(value, &m->mtime);
    return 0;
}

/* The length at the start of a record; 0 if there is none that fits `left`. */
static size_t record_length(const char *at, size_t left, size_t *ret_digits) {
    size_t len = 0, i = 0;
    for (; i < left && i < 8 && at[i] >= '0' && at[i] <= '9'; i++)
        len = len * 10 + (size_t)(at[i] - '0');
    if (i == 0 || i >= left || at[i] != ' ' || len > left || len < i + 4)
        return 0;
    *ret_digits = i + 1;
    return len;
}

/* "LENGTH KEY=VALUE\n"; the length counts the whole record. */
static int apply_pax_record(const char *text, size_t len, struct tar_member *m) {
    char key[128], value[PATH_MAX];
    if (text[len - 1] != '\n')
        return -EBADMSG;
    const char *equals = memchr(text, '=', len);
    if (equals == NULL)
        return -EBADMSG;
    size_t key_len = (size_t)(equals - text), value_len = len - key_len - 2;
    if (key_len == 0)
        return -EBADMSG;
    if (key_len >= sizeof key)
        return 0; /* none of ours */
    memcpy(key, text, key_len);
    key[key_len] = '\0';
    bool is_name = strcmp(key, "path") == 0 || strcmp(key, "linkpath") == 0;
    if (value_len >= sizeof value || memchr(equals + 1, '\0', value_len) != NULL)
        return is_name || strcmp(key, "size") == 0 ? -EBADMSG : 0; /* a binary xattr */
    memcpy(value, equals + 1, value_len);
    value[value_len] = '\0';
    return apply_record(key, value, m);
}

int tar_apply_pax(const char *data, size_t len, struct tar_member *m) {
    while (len > 0) {
        size_t digits, record = record_length(data, len, &digits);
        if (record == 0)
            return -EBADMSG;
        int r = apply_pax_record(data + digits, record - digits, m);
        if (r < 0)
            return r;
        data += record;
        len -= record;
    }
    return 0;
}

/* ---- names ---- */

int tar_clean_path(const char *path, char out[static PATH_MAX]) {
    size_t at = 0, depth = 0;
    while (*path != '\0') {
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        if (len == 2 && memcmp(path, "..", 2) == 0)
            return -EINVAL;
        if (len > NAME_MAX || at + len + 2 > PATH_MAX)
            return -ENAMETOOLONG;
        if (len > 0 && !(len == 1 && *path == '.')) {
            if (++depth > TAR_DEPTH_MAX)
                return -ENAMETOOLONG;
            if (at > 0)
                out[at++] = '/';
            memcpy(out + at, path, len);
            at += len;
        }
        path += len;
    }
    out[at] = '\0';
    return 0;
}

/* ---- encoding ---- */

static void put_block(const struct tar_member *m, struct buf *out) {
    const struct ustar head = {
        .type = m->type,
        .path = m->path,
        .link = m->link,
        .mode = m->mode,
        .uid = m->uid,
        .gid = m->gid,
        .size = m->size,
        .mtime = m->mtime.tv_sec,
    };
    unsigned char block[TAR_BLOCK];
    ustar_encode(&head, block);
    (void)buf_append(out, block, sizeof block); /* failures are sticky */
}

static void put_record(struct buf *pax, const char *key, const char *value) {
    ustar_put_record(pax, key, value, strlen(value));
}

static void put_record_number(struct buf *pax, const char *key, uint64_t value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_record(pax, key, text);
}

static void put_record_time(struct buf *pax, const struct timespec *t) {
    char text[48];
    bool negative = t->tv_sec < 0;
    long long sec = negative ? -(long long)t->tv_sec - (t->tv_nsec > 0) : (long long)t->tv_sec;
    long nsec = negative && t->tv_nsec > 0 ? 1000000000 - t->tv_nsec : t->tv_nsec;
    (void)snprintf(text, sizeof text, "%s%lld.%09ld", negative ? "-" : "", sec, nsec);
    put_record(pax, "mtime", text);
}

static void put_records(const struct tar_member *m, struct buf *pax) {
    if (strlen(m->path) > USTAR_NAME_LEN)
        put_record(pax, "path", m->path);
    if (strlen(m->link) > USTAR_NAME_LEN)
        put_record(pax, "linkpath", m->link);
    if (m->size > USTAR_LONG_MAX)
        put_record_number(pax, "size", m->size);
    if (m->uid > USTAR_SHORT_MAX)
        put_record_number(pax, "uid", m->uid);
    if (m->gid > USTAR_SHORT_MAX)
        put_record_number(pax, "gid", m->gid);
    if (m->mtime.tv_nsec != 0 || m->mtime.tv_sec < 0 || m->mtime.tv_sec > (int64_t)USTAR_LONG_MAX)
        put_record_time(pax, &m->mtime);
}

void tar_encode(const struct tar_member *m, struct buf *out) {
    static const char zeros[TAR_BLOCK];
    _cleanup_(buf_free) struct buf pax = BUF_INIT((size_t)4 * PATH_MAX);
    put_records(m, &pax);
    if (pax.len > 0) {
        struct tar_member header = {.type = TAR_PAX, .path = "././@PaxHeader", .mode = 0644};
        header.size = pax.len;
        put_block(&header, out);
        (void)buf_append(out, pax.data, pax.len);
        (void)buf_append(out, zeros, tar_padding(pax.len));
    }
    put_block(m, out);
}
