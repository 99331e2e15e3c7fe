#include "wire/wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

enum { WHOLE_MAX = 4096 }; /* a socket takes so many bytes in one piece */

static const enum wire_kind kinds[WIRE_TAG_COUNT_] = {
#define ROW(id, number, kind) [number] = (kind),
    WIRE_TAG_TABLE(ROW)
#undef ROW
};

/* ---- building ---- */

static void put_field(struct buf *b, enum wire_tag tag, const void *value, size_t len) {
    uint16_t t = htole16((uint16_t)tag);
    uint32_t n = htole32((uint32_t)len);
    if (len > WIRE_MESSAGE_MAX) {
        b->failed = true;
        return;
    }
    (void)buf_append(b, &t, sizeof t); /* failures are sticky */
    (void)buf_append(b, &n, sizeof n);
    (void)buf_append(b, value, len);
}

void wire_put_string(struct buf *b, enum wire_tag tag, const char *text) {
    put_field(b, tag, text, strlen(text) + 1);
}

void wire_put_number(struct buf *b, enum wire_tag tag, uint64_t value) {
    uint64_t v = htole64(value);
    put_field(b, tag, &v, sizeof v);
}

static int write_vectors(int fd, struct iovec *iov, int count) {
    while (count > 0) {
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
        ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK) /* an engine may hand us a pipe or a terminal */
            n = writev(fd, iov, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        size_t sent = (size_t)n;
        for (; count > 0 && sent >= iov->iov_len; iov++, count--)
            sent -= iov->iov_len;
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + sent;
            iov->iov_len -= sent;
        }
    }
    return 0;
}

static void fill_header(unsigned char header[static WIRE_HEADER_SIZE], enum wire_type type,
                        size_t len) {
    uint32_t n = htole32((uint32_t)len);
    memset(header, 0, WIRE_HEADER_SIZE);
    memcpy(header, &n, sizeof n);
    header[4] = (unsigned char)type;
}

static int send_frame(int fd, enum wire_type type, const void *data, size_t len) {
    unsigned char header[WIRE_HEADER_SIZE];
    fill_header(header, type, len);
    struct iovec iov[2] = {
        {.iov_base = header, .iov_len = sizeof header},
        {.iov_base = (void *)(uintptr_t)data, .iov_len = len},
    };
    return write_vectors(fd, iov, len > 0 ? 2 : 1);
}

int wire_send(int fd, enum wire_type type, const struct buf *b) {
    if (b == NULL)
        return send_frame(fd, type, NULL, 0);
    if (b->failed)
        return -ENOBUFS;
    return b->len > WIRE_MESSAGE_MAX ? -EMSGSIZE : send_frame(fd, type, b->data, b->len);
}

int wire_send_with(int fd, enum wire_type type, const struct buf *b, const int *fds, size_t count) {
    if (count == 0)
        return wire_send(fd, type, b);
    _cleanup_(buf_free) struct buf frame = BUF_INIT(WIRE_HEADER_SIZE + WIRE_MESSAGE_MAX);
    if (b->failed)
        return -ENOBUFS;
    wire_put_frame(&frame, type, b->data, b->len);
    if (frame.failed)
        return -ENOMEM;
    size_t first = MIN(frame.len, (size_t)WHOLE_MAX);
    int r = fd_send(fd, frame.data, first, fds, count);
    return r < 0 ? r : fd_write_all(fd, frame.data + first, frame.len - first);
}

int wire_send_data(int fd, enum wire_type type, const void *data, size_t len) {
    const char *p = data;
    while (len > 0) {
        size_t part = MIN(len, (size_t)WIRE_DATA_MAX);
        int r = send_frame(fd, type, p, part);
        if (r < 0)
            return r;
        p += part;
        len -= part;
    }
    return 0;
}

int wire_send_frames(int fd, const struct buf *frames) {
    if (frames->failed)
        return -ENOBUFS;
    struct iovec iov = {.iov_base = frames->data, .iov_len = frames->len};
    return write_vectors(fd, &iov, 1);
}

void wire_put_frame(struct buf *out, enum wire_type type, const void *data, size_t len) {
    unsigned char header[WIRE_HEADER_SIZE];
    fill_header(header, type, len);
    (void)buf_append(out, header, sizeof header); /* failures are sticky */
    (void)buf_append(out, data, len);
}

void wire_put_error(struct buf *b, const struct cay_error *err) {
    wire_put_number(b, WIRE_TAG_CODE, (uint64_t)err->code);
    wire_put_number(b, WIRE_TAG_ERRNO, (uint64_t)err->sys);
    wire_put_string(b, WIRE_TAG_MESSAGE, err->message);
    wire_put_string(b, WIRE_TAG_REMEDY, err->remedy);
}

int wire_send_error(int fd, const struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_error(&b, err);
    return wire_send(fd, WIRE_ERROR, &b);
}

/* ---- reading ---- */

/* The largest payload of a type; -1 for an unknown type. */
static long payload_max(unsigned type) {
    switch (type) {
    case WIRE_INPUT:
    case WIRE_STDOUT:
    case WIRE_STDERR:
    case WIRE_REPORT:
        return WIRE_DATA_MAX;
    case WIRE_INPUT_END:
    case WIRE_STDOUT_END:
    case WIRE_STDERR_END:
        return 0;
    case WIRE_REQUEST:
    case WIRE_SIGNAL:
    case WIRE_WINDOW:
    case WIRE_LIMITS:
    case WIRE_STARTED:
    case WIRE_ENTRY:
    case WIRE_DONE:
    case WIRE_ERROR:
    case WIRE_CREDIT:
        return WIRE_MESSAGE_MAX;
    default:
        return -1;
    }
}

int wire_reader_next(struct wire_reader *r, struct wire_frame *f) {
    size_t have = r->in.len - r->used;
    if (have < WIRE_HEADER_SIZE)
        return 0;
    const unsigned char *h = (const unsigned char *)r->in.data + r->used;
    uint32_t len;
    memcpy(&len, h, sizeof len);
    len = le32toh(len);
    long max = payload_max(h[4]);
    if (max < 0 || h[5] != 0 || h[6] != 0 || h[7] != 0)
        return -EPROTO;
    if (len > (unsigned long)max)
        return -EMSGSIZE;
    if (have - WIRE_HEADER_SIZE < len)
        return 0;
    f->type = (enum wire_type)h[4];
    f->data = (const char *)h + WIRE_HEADER_SIZE;
    f->len = len;
    r->used += WIRE_HEADER_SIZE + len;
    return 1;
}

int wire_reader_fill(struct wire_reader *r, int fd) {
    buf_consume(&r->in, r->used);
    r->used = 0;
    char *to = buf_reserve(&r->in, WIRE_DATA_MAX);
    if (to == NULL)
        return -ENOBUFS;
    ssize_t n;
    do
        n = read(fd, to, WIRE_DATA_MAX);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    buf_commit(&r->in, (size_t)n);
    return (int)n;
}

int wire_reader_fill_with(struct wire_reader *r, int fd, int fds[static WIRE_FDS_MAX]) {
    buf_consume(&r->in, r->used);
    r->used = 0;
    char *to = buf_reserve(&r->in, WIRE_DATA_MAX);
    if (to == NULL)
        return -ENOBUFS;
    size_t count;
    int got[WIRE_FDS_MAX];
    ssize_t n = fd_receive(fd, to, WIRE_DATA_MAX, got, WIRE_FDS_MAX, &count);
    if (n < 0)
        return (int)n;
    for (size_t i = 0; i < count; i++) {
        fd_close(&fds[i]);
        fds[i] = got[i];
    }
    buf_commit(&r->in, (size_t)n);
    return (int)n;
}

int wire_receive(struct wire_reader *r, int fd, struct wire_frame *f) {
    for (;;) {
        int n = wire_reader_next(r, f);
        if (n != 0)
            return n;
        n = wire_reader_fill(r, fd);
        if (n < 0)
            return n;
        if (n == 0)
            return r->in.len == r->used ? 0 : -EPIPE;
    }
}

void wire_reader_free(struct wire_reader *r) {
    buf_free(&r->in);
    r->used = 0;
}

struct field {
    unsigned tag;
    const char *value;
    size_t len;
};

/* Reads the field at *at and moves it behind: 1, 0 at the end, -EPROTO. */
static int next_field(const char *data, size_t len, size_t *at, struct field *f) {
    if (*at == len)
        return 0;
    if (len - *at < WIRE_FIELD_HEADER_SIZE)
        return -EPROTO;
    uint16_t tag;
    uint32_t n;
    memcpy(&tag, data + *at, sizeof tag);
    memcpy(&n, data + *at + sizeof tag, sizeof n);
    *at += WIRE_FIELD_HEADER_SIZE;
    f->tag = le16toh(tag);
    f->len = le32toh(n);
    if (f->len > len - *at)
        return -EPROTO;
    f->value = data + *at;
    *at += f->len;
    return 1;
}

static int take_field(struct wire_message *m, const struct field *f) {
    if (f->tag == 0)
        return -EPROTO;
    if (f->tag >= WIRE_TAG_COUNT_)
        return -ENOTSUP;
    enum wire_kind kind = kinds[f->tag];
    if (m->present[f->tag] && kind != WIRE_KIND_STRINGS)
        return -EPROTO;
    if (kind == WIRE_KIND_NUMBER) {
        uint64_t v;
        if (f->len != sizeof v)
            return -EPROTO;
        memcpy(&v, f->value, sizeof v);
        m->number[f->tag] = le64toh(v);
    } else {
        if (f->len == 0 || memchr(f->value, '\0', f->len) != f->value + f->len - 1)
            return -EPROTO;
        if (m->string[f->tag] == NULL)
            m->string[f->tag] = f->value;
    }
    m->present[f->tag] = true;
    return ++m->count[f->tag] > WIRE_REPEATED_MAX ? -EPROTO : 0;
}

int wire_parse(const void *payload, size_t len, struct wire_message *m) {
    *m = (struct wire_message){.data = payload, .len = len};
    size_t at = 0;
    struct field f;
    for (;;) {
        int r = next_field(m->data, len, &at, &f);
        if (r <= 0)
            return r;
        r = take_field(m, &f);
        if (r < 0)
            return r;
    }
}

const char *wire_next_string(const struct wire_message *m, enum wire_tag tag,
                             const char *previous) {
    if (previous == NULL)
        return m->string[tag];
    size_t at = (size_t)(previous - m->data) + strlen(previous) + 1;
    struct field f;
    while (next_field(m->data, m->len, &at, &f) == 1)
        if (f.tag == (unsigned)tag)
            return f.value;
    return NULL;
}

void wire_copy_strings(const struct wire_message *m, enum wire_tag tag, const char **v) {
    for (const char *s = wire_next_string(m, tag, NULL); s != NULL; s = wire_next_string(m, tag, s))
        *v++ = s;
    *v = NULL;
}

const char **wire_string_array(const struct wire_message *m, enum wire_tag tag) {
    const char **v = calloc((size_t)m->count[tag] + 1, sizeof *v);
    if (v != NULL)
        wire_copy_strings(m, tag, v);
    return v;
}

static void copy_text(char *dst, size_t size, const char *text) {
    (void)snprintf(dst, size, "%s", text != NULL ? text : "");
}

int wire_refuse_foreign(struct cay_error *err) {
    error_set(err, CAY_UNSUPPORTED,
              "the sandbox was started by another version of cay, which does "
              "not know this operation");
    return error_remedy(err, "stop the sandbox and start it again: cay stop NAME; cay start NAME");
}

/* What those answer that had no word for it. We send nothing that is malformed. */
static bool is_foreign(const struct cay_error *err) {
    return (err->code == CAY_INVALID_ARGUMENT && strcmp(err->message, "malformed request") == 0) ||
           (err->code == CAY_UNSUPPORTED && str_starts(err->message, "unknown operation ") &&
            err->remedy[0] == '\0');
}

int wire_take_error(const struct wire_message *m, struct cay_error *err) {
    struct cay_error scratch;
    if (err == NULL)
        err = &scratch;
    uint64_t code = m->number[WIRE_TAG_CODE];
    err->code = code <= CAY_INTERNAL ? (enum cay_code)code : CAY_INTERNAL;
    uint64_t sys = m->number[WIRE_TAG_ERRNO];
    err->sys = sys < 4096 ? (int)sys : 0;
    copy_text(err->message, sizeof err->message, m->string[WIRE_TAG_MESSAGE]);
    copy_text(err->remedy, sizeof err->remedy, m->string[WIRE_TAG_REMEDY]);
    error_sanitize(err);
    return is_foreign(err) ? wire_refuse_foreign(err) : -(int)err->code;
}
