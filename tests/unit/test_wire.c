/* Tests of wire/wire.c: frames over a socket pair, fields, and everything that must be refused. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "wire/client_exec.h"
#include "wire/watch.h"

static void pair(int sv[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
}

/* A field by hand, which may lie about its length. */
static void put_raw(struct buf *b, unsigned tag, uint32_t claimed, const void *value, size_t len) {
    uint16_t t = htole16((uint16_t)tag);
    uint32_t n = htole32(claimed);
    assert_int_equal(buf_append(b, &t, sizeof t), 0);
    assert_int_equal(buf_append(b, &n, sizeof n), 0);
    assert_int_equal(buf_append(b, value, len), 0);
}

/* ---- fields ---- */

static void fields(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_OP, WIRE_OP_EXEC);
    wire_put_string(&b, WIRE_TAG_ARG, "sh");
    wire_put_string(&b, WIRE_TAG_CWD, "");
    wire_put_string(&b, WIRE_TAG_ARG, "");
    wire_put_string(&b, WIRE_TAG_ENV, "A=\xff\n");
    wire_put_string(&b, WIRE_TAG_ARG, "-c");
    wire_put_number(&b, WIRE_TAG_TIMEOUT_MS, UINT64_MAX);
    struct wire_message m;
    assert_int_equal(wire_parse(b.data, b.len, &m), 0);
    assert_int_equal(m.number[WIRE_TAG_OP], WIRE_OP_EXEC);
    assert_true(m.number[WIRE_TAG_TIMEOUT_MS] == UINT64_MAX);
    assert_string_equal(m.string[WIRE_TAG_CWD], "");
    assert_true(m.present[WIRE_TAG_CWD] && !m.present[WIRE_TAG_USER]);
    assert_null(m.string[WIRE_TAG_USER]);
    assert_int_equal(m.number[WIRE_TAG_UID], 0);
    assert_int_equal(m.count[WIRE_TAG_ARG], 3);
    assert_string_equal(m.string[WIRE_TAG_ARG], "sh");
    _cleanup_(freep) const char **args = wire_string_array(&m, WIRE_TAG_ARG);
    static const char *const expect[] = {"sh", "", "-c"};
    for (size_t i = 0; i < ARRAY_LEN(expect); i++)
        assert_string_equal(args[i], expect[i]);
    assert_null(args[3]);
    _cleanup_(freep) const char **none = wire_string_array(&m, WIRE_TAG_PATHS);
    assert_null(none[0]);
    assert_null(wire_next_string(&m, WIRE_TAG_PATHS, NULL));
    assert_null(wire_next_string(&m, WIRE_TAG_ENV, m.string[WIRE_TAG_ENV]));
    assert_int_equal(wire_parse("", 0, &m), 0); /* no fields at all */
}

struct raw {
    unsigned tag;
    uint32_t claimed;
    const char *value;
    size_t len;
};

static void bad_fields(void **state) {
    (void)state;
    static const struct {
        struct raw fields[2];
        int r;
    } cases[] = {
        {{{WIRE_TAG_PATH, 2, "a", 2}}, 0},
        {{{WIRE_TAG_MODE, 8, "\1\0\0\0\0\0\0", 8}}, 0},
        {{{WIRE_TAG_ARG, 2, "a", 2}, {WIRE_TAG_ARG, 2, "b", 2}}, 0},
        {{{0, 2, "a", 2}}, -EPROTO}, /* unknown tags */
        {{{WIRE_TAG_COUNT_, 2, "a", 2}}, -ENOTSUP},
        {{{65535, 8, "\0\0\0\0\0\0\0", 8}}, -ENOTSUP},
        {{{WIRE_TAG_PATH, 0, "", 0}}, -EPROTO}, /* no terminator */
        {{{WIRE_TAG_PATH, 1, "a", 1}}, -EPROTO},
        {{{WIRE_TAG_PATH, 4, "a\0b", 4}}, -EPROTO}, /* inner NUL */
        {{{WIRE_TAG_PATH, 2, "\0", 2}}, -EPROTO},
        {{{WIRE_TAG_ARG, 3, "a\0", 3}}, -EPROTO},
        {{{WIRE_TAG_MODE, 7, "\0\0\0\0\0\0", 7}}, -EPROTO}, /* number of another length */
        {{{WIRE_TAG_MODE, 4, "\1\0\0", 4}}, -EPROTO},
        {{{WIRE_TAG_MODE, 0, "", 0}}, -EPROTO},
        {{{WIRE_TAG_MODE, 9, "\0\0\0\0\0\0\0\0", 9}}, -EPROTO},
        {{{WIRE_TAG_PATH, 2, "a", 2}, {WIRE_TAG_PATH, 2, "a", 2}}, -EPROTO}, /* repeated */
        {{{WIRE_TAG_MODE, 8, "\0\0\0\0\0\0\0", 8}, {WIRE_TAG_MODE, 8, "\0\0\0\0\0\0\0", 8}},
         -EPROTO},
        {{{WIRE_TAG_PATH, 3, "a", 2}}, -EPROTO}, /* longer than what is there */
        {{{WIRE_TAG_PATH, UINT32_MAX, "a", 2}}, -EPROTO},
        {{{WIRE_TAG_PATH, UINT32_MAX - 5, "a", 2}}, -EPROTO},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
        for (size_t j = 0; j < 2 && cases[i].fields[j].value != NULL; j++) {
            const struct raw *f = &cases[i].fields[j];
            put_raw(&b, f->tag, f->claimed, f->value, f->len);
        }
        struct wire_message m;
        int r = wire_parse(b.data, b.len, &m);
        if (r != cases[i].r)
            fail_msg("case %zu: %d", i, r);
    }
}

/* A message that is cut anywhere but between fields is refused. */
static void truncated(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    wire_put_number(&b, WIRE_TAG_OP, 1);
    size_t border = b.len;
    wire_put_string(&b, WIRE_TAG_PATH, "/x");
    for (size_t len = 0; len <= b.len; len++) {
        char *exact = malloc(len + 1); /* so that a sanitizer sees a read beyond it */
        assert_non_null(exact);
        char *copy = realloc(exact, MAX(len, (size_t)1));
        memcpy(copy, b.data, len);
        struct wire_message m;
        bool whole = len == 0 || len == border || len == b.len;
        assert_int_equal(wire_parse(copy, len, &m), whole ? 0 : -EPROTO);
        free(copy);
    }
}

static void too_many_strings(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    for (int i = 0; i < WIRE_REPEATED_MAX; i++)
        wire_put_string(&b, WIRE_TAG_ARG, "");
    struct wire_message m;
    assert_int_equal(wire_parse(b.data, b.len, &m), 0);
    wire_put_string(&b, WIRE_TAG_ARG, "");
    assert_int_equal(wire_parse(b.data, b.len, &m), -EPROTO);
}

/* ---- frames ---- */

static void frames(void **state) {
    (void)state;
    static const enum wire_type types[] = {WIRE_REQUEST, WIRE_SIGNAL, WIRE_WINDOW,
                                           WIRE_STARTED, WIRE_ENTRY,  WIRE_DONE,
                                           WIRE_ERROR,   WIRE_CREDIT, WIRE_LIMITS};
    int sv[2];
    pair(sv);
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_string(&b, WIRE_TAG_PATH, "/x");
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        assert_int_equal(wire_send(sv[0], types[i], i % 2 ? NULL : &b), 0);
    assert_int_equal(wire_send_data(sv[0], WIRE_STDOUT, "", 0), 0); /* no frame */
    assert_int_equal(wire_send(sv[0], WIRE_INPUT_END, NULL), 0);
    (void)close(sv[0]);
    struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        assert_int_equal(wire_receive(&r, sv[1], &f), 1);
        assert_int_equal(f.type, types[i]);
        assert_int_equal(f.len, i % 2 ? 0 : b.len);
        if (f.len > 0)
            assert_memory_equal(f.data, b.data, b.len);
    }
    assert_int_equal(wire_receive(&r, sv[1], &f), 1);
    assert_int_equal(f.type, WIRE_INPUT_END);
    assert_int_equal(wire_receive(&r, sv[1], &f), 0);
    wire_reader_free(&r);
    (void)close(sv[1]);
}

static void headers(void **state) {
    (void)state;
    static const struct {
        unsigned char header[WIRE_HEADER_SIZE];
        int r;
    } cases[] = {
        {{0, 0, 0, 0, WIRE_DONE, 0, 0, 0}, 1},
        {{1, 0, 0, 0, WIRE_DONE, 0, 0, 0}, 0}, /* one byte is still to come */
        {{0, 0, 0, 0, 0, 0, 0, 0}, -EPROTO},   /* no such types */
        {{0, 0, 0, 0, 9, 0, 0, 0}, -EPROTO},
        {{0, 0, 0, 0, 15, 0, 0, 0}, -EPROTO},
        {{0, 0, 0, 0, 100, 0, 0, 0}, -EPROTO},
        {{0, 0, 0, 0, 255, 0, 0, 0}, -EPROTO},
        {{0, 0, 0, 0, WIRE_DONE, 1, 0, 0}, -EPROTO}, /* bytes that must be zero */
        {{0, 0, 0, 0, WIRE_DONE, 0, 1, 0}, -EPROTO},
        {{0, 0, 0, 0, WIRE_DONE, 0, 0, 128}, -EPROTO},
        {{1, 0, 0, 0, WIRE_INPUT_END, 0, 0, 0}, -EMSGSIZE},
        {{1, 0, 0, 0, WIRE_STDOUT_END, 0, 0, 0}, -EMSGSIZE},
        {{0, 0, 1, 0, WIRE_STDOUT, 0, 0, 0}, 0}, /* 64 KiB: the largest */
        {{1, 0, 1, 0, WIRE_STDOUT, 0, 0, 0}, -EMSGSIZE},
        {{1, 0, 1, 0, WIRE_STDERR, 0, 0, 0}, -EMSGSIZE},
        {{1, 0, 1, 0, WIRE_INPUT, 0, 0, 0}, -EMSGSIZE},
        {{0, 0, 64, 0, WIRE_REQUEST, 0, 0, 0}, 0}, /* 4 MiB */
        {{1, 0, 64, 0, WIRE_REQUEST, 0, 0, 0}, -EMSGSIZE},
        {{255, 255, 255, 255, WIRE_ERROR, 0, 0, 0}, -EMSGSIZE},
        {{255, 255, 255, 127, WIRE_ENTRY, 0, 0, 0}, -EMSGSIZE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wire_reader r = WIRE_READER_INIT;
        struct wire_frame f;
        for (size_t j = 0; j < WIRE_HEADER_SIZE; j++) {
            assert_int_equal(wire_reader_next(&r, &f), 0); /* a part of a header says nothing */
            assert_int_equal(buf_append(&r.in, &cases[i].header[j], 1), 0);
        }
        int got = wire_reader_next(&r, &f);
        if (got != cases[i].r)
            fail_msg("case %zu: %d", i, got);
        wire_reader_free(&r);
    }
}

/* The stream cut at every place, byte by byte and at the end of the connection. */
static void partial_reads(void **state) {
    (void)state;
    static const unsigned char bytes[] = {3,   0, 0, 0, WIRE_STDOUT, 0,         0, 0, 'a', 'b',
                                          'c', 0, 0, 0, 0,           WIRE_DONE, 0, 0, 0};
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        int sv[2];
        pair(sv);
        struct wire_reader r = WIRE_READER_INIT;
        struct wire_frame f;
        int frames_seen = 0;
        for (size_t i = 0; i < cut; i++) {
            assert_int_equal(fd_write_all(sv[0], &bytes[i], 1), 0);
            assert_int_equal(wire_reader_fill(&r, sv[1]), 1);
            int got = wire_reader_next(&r, &f);
            assert_int_equal(got, i + 1 == 11 || i + 1 == sizeof bytes);
            if (got == 1 && ++frames_seen == 1)
                assert_memory_equal(f.data, "abc", 3);
        }
        (void)close(sv[0]);
        bool clean = cut == 0 || cut == 11 || cut == sizeof bytes;
        assert_int_equal(wire_receive(&r, sv[1], &f), clean ? 0 : -EPIPE);
        wire_reader_free(&r);
        (void)close(sv[1]);
    }
}

struct sender {
    int fd;
    const char *data;
    size_t len;
    int r;
};

static void *send_all(void *arg) {
    struct sender *s = arg;
    s->r = wire_send_data(s->fd, WIRE_STDOUT, s->data, s->len);
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    static char text[WIRE_MESSAGE_MAX - WIRE_FIELD_HEADER_SIZE];
    memset(text, 't', sizeof text - 1);
    wire_put_string(&b, WIRE_TAG_TEXT, text);
    if (s->r == 0)
        s->r = wire_send(s->fd, WIRE_ENTRY, &b);
    (void)close(s->fd);
    return NULL;
}

/* More than a socket buffer holds: short writes and reads on both sides, frames of the maximum. */
static void large_transfers(void **state) {
    (void)state;
    enum { SIZE = 1000003 };
    char *data = malloc(SIZE);
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 7 + i / 251);
    int sv[2];
    pair(sv);
    struct sender s = {.fd = sv[0], .data = data, .len = SIZE};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_all, &s), 0);
    struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    size_t at = 0;
    while (at < SIZE) {
        assert_int_equal(wire_receive(&r, sv[1], &f), 1);
        assert_int_equal(f.type, WIRE_STDOUT);
        assert_int_equal(f.len, MIN((size_t)WIRE_DATA_MAX, SIZE - at));
        assert_memory_equal(f.data, data + at, f.len);
        at += f.len;
    }
    assert_int_equal(wire_receive(&r, sv[1], &f), 1);
    assert_int_equal(f.type, WIRE_ENTRY);
    assert_int_equal(f.len, WIRE_MESSAGE_MAX);
    struct wire_message m;
    assert_int_equal(wire_parse(f.data, f.len, &m), 0);
    assert_int_equal(wire_receive(&r, sv[1], &f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.r, 0);
    wire_reader_free(&r);
    (void)close(sv[1]);
    free(data);
}

static void send_failures(void **state) {
    (void)state;
    int sv[2], pipefd[2];
    pair(sv);
    (void)close(sv[1]);
    assert_int_equal(wire_send(sv[0], WIRE_DONE, NULL), -EPIPE); /* and no signal */
    assert_int_equal(wire_send_data(sv[0], WIRE_STDOUT, "x", 1), -EPIPE);
    (void)close(sv[0]);
    struct buf b = BUF_INIT(10);
    wire_put_string(&b, WIRE_TAG_PATH, "/too/long");
    assert_int_equal(wire_send(1, WIRE_REQUEST, &b), -ENOBUFS);
    buf_free(&b);
    struct buf large = BUF_INIT((size_t)WIRE_MESSAGE_MAX * 2);
    char *text = calloc(1, WIRE_MESSAGE_MAX + 1);
    memset(text, 'x', WIRE_MESSAGE_MAX);
    wire_put_string(&large, WIRE_TAG_TEXT, text);
    assert_true(large.failed);
    buf_clear(&large);
    text[WIRE_MESSAGE_MAX / 2] = '\0';
    wire_put_string(&large, WIRE_TAG_TEXT, text);
    wire_put_string(&large, WIRE_TAG_PATH, text);
    assert_int_equal(wire_send(1, WIRE_REQUEST, &large), -EMSGSIZE); /* the peer would hang up */
    free(text);
    buf_free(&large);
    assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0); /* an engine may give us a pipe */
    assert_int_equal(wire_send_data(pipefd[1], WIRE_STDOUT, "abc", 3), 0);
    struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    assert_int_equal(wire_receive(&r, pipefd[0], &f), 1);
    assert_memory_equal(f.data, "abc", 3);
    wire_reader_free(&r);
    (void)close(pipefd[0]);
    (void)close(pipefd[1]);
    r = WIRE_READER_INIT;
    assert_int_equal(wire_receive(&r, -1, &f), -EBADF);
    wire_reader_free(&r);
}

/* ---- errors ---- */

static void error_round_trip(void **state) {
    (void)state;
    int sv[2];
    pair(sv);
    struct cay_error out = {0}, in;
    error_sys(&out, ENOENT, "opening '%s'", "/x");
    error_remedy(&out, "make it");
    assert_int_equal(wire_send_error(sv[0], &out), 0);
    struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    struct wire_message m;
    assert_int_equal(wire_receive(&r, sv[1], &f), 1);
    assert_int_equal(f.type, WIRE_ERROR);
    assert_int_equal(wire_parse(f.data, f.len, &m), 0);
    memset(&in, 'x', sizeof in);
    assert_int_equal(wire_take_error(&m, &in), -CAY_NOT_FOUND);
    assert_int_equal(in.code, out.code);
    assert_int_equal(in.sys, out.sys);
    assert_string_equal(in.message, out.message);
    assert_string_equal(in.remedy, out.remedy);
    assert_int_equal(wire_take_error(&m, NULL), -CAY_NOT_FOUND);
    wire_reader_free(&r);
    (void)close(sv[0]);
    (void)close(sv[1]);
}

/* What a sandbox says about its failure is text for people, and no more. */
static void hostile_errors(void **state) {
    (void)state;
    static char endless[10000];
    memset(endless, 'e', sizeof endless - 1);
    const struct {
        uint64_t code, sys;
        const char *message; /* NULL: absent */
        enum cay_code want_code;
        int want_sys;
        const char *want;
    } cases[] = {
        {CAY_TIMEOUT, ETIMEDOUT, "slow", CAY_TIMEOUT, ETIMEDOUT, "slow"},
        {0, 0, "fine", CAY_INTERNAL, 0, "fine"},
        {12, 4096, "x", CAY_INTERNAL, 0, "x"},
        {UINT64_MAX, UINT64_MAX, "x", CAY_INTERNAL, 0, "x"},
        {(1ULL << 32) + 1, (1ULL << 32) + 2, "x", CAY_INTERNAL, 0, "x"},
        {1, 0, NULL, CAY_NOT_FOUND, 0, ""},
        {1, 0, "a\x1b]0;title\x07\r\nb", CAY_NOT_FOUND, 0, "a?]0;title???b"},
        {1, 0,
         "\xc2\x9b"
         "2J\xff",
         CAY_NOT_FOUND, 0, "??2J?"},
        {1, 0, endless, CAY_NOT_FOUND, 0, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
        wire_put_number(&b, WIRE_TAG_CODE, cases[i].code);
        wire_put_number(&b, WIRE_TAG_ERRNO, cases[i].sys);
        if (cases[i].message != NULL) {
            wire_put_string(&b, WIRE_TAG_MESSAGE, cases[i].message);
            wire_put_string(&b, WIRE_TAG_REMEDY, cases[i].message);
        }
        struct wire_message m;
        struct cay_error err;
        memset(&err, 'x', sizeof err);
        assert_int_equal(wire_parse(b.data, b.len, &m), 0);
        assert_int_equal(wire_take_error(&m, &err), -(int)cases[i].want_code);
        assert_int_equal(err.code, cases[i].want_code);
        assert_int_equal(err.sys, cases[i].want_sys);
        if (cases[i].want != NULL) {
            assert_string_equal(err.message, cases[i].want);
            assert_string_equal(err.remedy, cases[i].want);
        } else {
            assert_int_equal(strlen(err.message), sizeof err.message - 1);
            assert_int_equal(strlen(err.remedy), sizeof err.remedy - 1);
        }
    }
}

/* What sandboxes of earlier builds answer to a request that they do not know. */
static void foreign_sandboxes(void **state) {
    (void)state;
    static const struct {
        enum cay_code code;
        const char *message;
        bool is_foreign;
    } cases[] = {
        {CAY_INVALID_ARGUMENT, "malformed request", true},
        {CAY_UNSUPPORTED, "unknown operation 33", true},
        {CAY_NOT_FOUND, "malformed request", false},
        {CAY_INVALID_ARGUMENT, "malformed requests", false},
        {CAY_UNSUPPORTED, "unknown", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
        struct cay_error err = {0}, sent = {.code = cases[i].code};
        struct wire_message m;
        (void)snprintf(sent.message, sizeof sent.message, "%s", cases[i].message);
        wire_put_error(&b, &sent);
        assert_int_equal(wire_parse(b.data, b.len, &m), 0);
        int r = wire_take_error(&m, &err);
        assert_int_equal(r, cases[i].is_foreign ? -CAY_UNSUPPORTED : -(int)cases[i].code);
        assert_int_equal(strstr(err.remedy, "start it again") != NULL, cases[i].is_foreign);
        if (!cases[i].is_foreign)
            assert_string_equal(err.message, cases[i].message);
    }
}

/* ---- frames that pass by ---- */

static void put_end(struct buf *out, uint64_t exit_code, enum wire_reason reason) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_EXIT, exit_code);
    wire_put_number(&b, WIRE_TAG_REASON, (uint64_t)reason);
    wire_put_frame(out, WIRE_DONE, b.data, b.len);
}

static void passing_by(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf all = BUF_INIT(WIRE_MESSAGE_MAX);
    struct exec_outcome o;
    wire_put_frame(&all, WIRE_STDOUT, "\x14 no end", 8);
    wire_put_frame(&all, WIRE_STDERR, "", 0);
    size_t before = all.len;
    put_end(&all, 137, WIRE_REASON_TIMEOUT);
    size_t after = all.len;
    put_end(&all, 0, WIRE_REASON_EXIT); /* of nobody: the command has ended */
    for (size_t cut = 0; cut <= all.len; cut++) {
        struct wire_watch w = {0};
        wire_watch_see(&w, all.data, cut);
        assert_int_equal(wire_watch_end(&w, &o), cut >= after);
        wire_watch_see(&w, all.data + cut, all.len - cut);
        assert_true(wire_watch_end(&w, &o));
        assert_int_equal(o.exit_code, 137);
        assert_int_equal(o.reason, WIRE_REASON_TIMEOUT);
    }
    assert_true(before < after);
}

static void nonsense_passing_by(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
    } cases[] = {
        {"\xff\xff\xff\xff\x14\0\0\0", 8},      /* too long */
        {"\0\x05\0\0\x14\0\0\0", 8},            /* an end of more than it can be */
        {"\x03\0\0\0\x14\0\0\0abc", 11},        /* no fields */
        {"\0\0\0\0\x14\0\0\0", 8},              /* the end of something else */
        {"\0\0\0\0\x15\0\0\0\0\0\0\0\x14", 13}, /* behind an error */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wire_watch w = {0};
        struct exec_outcome o;
        wire_watch_see(&w, cases[i].data, cases[i].len);
        wire_watch_see(&w, cases[i].data, cases[i].len);
        assert_false(wire_watch_end(&w, &o));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),         cmocka_unit_test(bad_fields),
        cmocka_unit_test(truncated),      cmocka_unit_test(too_many_strings),
        cmocka_unit_test(frames),         cmocka_unit_test(headers),
        cmocka_unit_test(partial_reads),  cmocka_unit_test(large_transfers),
        cmocka_unit_test(send_failures),  cmocka_unit_test(error_round_trip),
        cmocka_unit_test(hostile_errors), cmocka_unit_test(foreign_sandboxes),
        cmocka_unit_test(passing_by),     cmocka_unit_test(nonsense_passing_by),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
