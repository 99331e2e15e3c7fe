/* The client of the daemon: its HTTP, its tables, its progress, and the names of a copy. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h> /* cmocka needs these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/copy_path.h"
#include "client/daemon.h"
#include "client/http.h"
#include "client/progress.h"
#include "client/reply.h"

/* ---- addresses ---- */

static void test_addresses(void **state) {
    (void)state;
    static const struct {
        const char *url;
        int code; /* 0: taken */
        const char *path, *host, *port;
    } cases[] = {
        {"unix:///run/cay.sock", 0, "/run/cay.sock", "", ""},
        {"unix://cay.sock", CAY_INVALID_ARGUMENT, "", "", ""},
        {"unix://", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box", 0, "", "box", "3986"},
        {"http://box/", 0, "", "box", "3986"},
        {"http://box:80", 0, "", "box", "80"},
        {"http://[::1]:81", 0, "", "::1", "81"},
        {"http://[::1]", 0, "", "::1", "3986"},
        {"http://[::1", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://[::1]x", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box:0", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box:65536", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box:x", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box/api", 0, "", "box", "80"},
        {"http://box:81/cay/", 0, "", "box", "81"},
        {"http://box/a?b", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box/a b", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://box/a%0d", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://a b", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://me@box", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://a\r\nX: y", CAY_INVALID_ARGUMENT, "", "", ""},
        {"http://", CAY_INVALID_ARGUMENT, "", "", ""},
        {"https://box", 0, "", "box", "443"},
        {"https://box/api/", 0, "", "box", "443"},
        {"https://[::1]:8443/api", 0, "", "::1", "8443"},
        {"https://", CAY_INVALID_ARGUMENT, "", "", ""},
        {"https://me@box", CAY_INVALID_ARGUMENT, "", "", ""},
        {"box:3986", CAY_INVALID_ARGUMENT, "", "", ""},
        {"", CAY_INVALID_ARGUMENT, "", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_address a;
        struct cay_error err;
        int r = http_address_parse(cases[i].url, &a, &err);
        if (r != -cases[i].code)
            fail_msg("%s: %d", cases[i].url, r);
        if (r < 0) {
            assert_string_not_equal(err.remedy, "");
            continue;
        }
        assert_string_equal(a.path, cases[i].path);
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.port, cases[i].port);
    }
}

static void test_prefixes(void **state) {
    (void)state;
    static const struct {
        const char *url, *prefix;
        bool tls, is_api;
    } cases[] = {
        {"http://box", "", false, false},
        {"https://box/", "", true, false},
        {"https://box/api", "", true, true},
        {"https://box/api/", "", true, true},
        {"https://box/cay/api", "/cay", true, true},
        {"http://box/cay", "/cay", false, false},
        {"https://box/myapi", "/myapi", true, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_address a;
        struct cay_error err;
        assert_int_equal(http_address_parse(cases[i].url, &a, &err), 0);
        assert_string_equal(a.prefix, cases[i].prefix);
        assert_int_equal(a.tls, cases[i].tls);
        assert_int_equal(a.is_api, cases[i].is_api);
    }
}

/* ---- heads ---- */

#define H "HTTP/1.1 200 OK\r\n"

static void test_heads(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result, status;
        int64_t length;
        bool chunked;
    } cases[] = {
        {H "\r\n", 0, 200, -1, false},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n", 0, 404, 12, false},
        {"HTTP/1.1 101\r\n\r\n", 0, 101, -1, false},
        {H "Transfer-Encoding: chunked\r\n\r\n", 0, 200, -1, true},
        {H "content-length:\t 7 \t\r\n\r\n", 0, 200, 7, false},
        {"HTTP/1.0 200 OK\r\n\r\n", -EPROTO},
        {"HTTP/1.1 20 OK\r\n\r\n", -EPROTO},
        {"HTTP/1.1 2000 OK\r\n\r\n", -EPROTO},
        {"HTTP/1.1 020 OK\r\n\r\n", -EPROTO},
        {"SSH-2.0-OpenSSH\r\n\r\n", -EPROTO},
        {H "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", -EPROTO},
        {H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", -EPROTO},
        {H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", -EPROTO},
        {H "Transfer-Encoding: gzip\r\n\r\n", -EPROTO},
        {H "Content-Length: -1\r\n\r\n", -EPROTO},
        {H "Content-Length: +1\r\n\r\n", -EPROTO},
        {H "Content-Length: 1x\r\n\r\n", -EPROTO},
        {H "Content-Length: 9223372036854775808\r\n\r\n", -EPROTO},
        {H "Name\r\n\r\n", -EPROTO},
        {H ": value\r\n\r\n", -EPROTO},
        {H "A b: value\r\n\r\n", -EPROTO},
        {H "A: b\r\n continued\r\n\r\n", -EPROTO},
        {H "A: b\nB: c\r\n\r\n", -EPROTO},
        {H "A: \x01\r\n\r\n", -EPROTO},
        {H "A: b\r\n", -EPROTO},
        {H "\r\nmore", -EPROTO},
        {"", -EPROTO},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_head h;
        int r = http_head_parse(cases[i].text, strlen(cases[i].text), &h);
        if (r != cases[i].result)
            fail_msg("%s: %d", cases[i].text, r);
        if (r < 0)
            continue;
        assert_int_equal(h.status, cases[i].status);
        assert_int_equal(h.length, cases[i].length);
        assert_int_equal(h.chunked, cases[i].chunked);
        http_head_free(&h);
    }
}

static void test_fields(void **state) {
    (void)state;
    static const char text[] = H "X-Env: a=1\r\nOther: \r\nx-env: b=2\r\n\r\n";
    struct http_head h;
    assert_int_equal(http_head_parse(text, sizeof text - 1, &h), 0);
    const char *first = http_head_get(&h, "x-env", NULL);
    assert_string_equal(first, "a=1");
    const char *second = http_head_get(&h, "X-Env", first);
    assert_string_equal(second, "b=2");
    assert_null(http_head_get(&h, "x-env", second));
    assert_null(http_head_get(&h, "x-en", NULL));
    assert_string_equal(http_head_get(&h, "other", NULL), "");
    http_head_free(&h);
    assert_int_equal(http_head_parse("HTTP/1.1 200 \0\r\n\r\n", 18, &h), -EPROTO);
}

static void test_head_end(void **state) {
    (void)state;
    static const char text[] = "HTTP/1.1 200 OK\r\n\r\nbody";
    for (size_t len = 0; len < 19; len++)
        for (size_t from = 0; from <= len; from++)
            assert_int_equal(http_head_end(text, len, from), 0);
    for (size_t from = 0; from < 19; from++)
        assert_int_equal(http_head_end(text, sizeof text - 1, from), 19);
    assert_int_equal(http_head_end(text, sizeof text - 1, 0), 19);
}

static void test_unescape(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
        const char *plain;
    } cases[] = {
        {"A=b%20c%25%C3%A4", 0, "A=b c%\xc3\xa4"},
        {"", 0, ""},
        {"%0a", 0, "\n"},
        {"%", -EPROTO, ""},
        {"%2", -EPROTO, ""},
        {"%zz", -EPROTO, ""},
        {"a%00", -EPROTO, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", cases[i].text);
        assert_int_equal(http_unescape(text), cases[i].result);
        if (cases[i].result == 0)
            assert_string_equal(text, cases[i].plain);
    }
}

/* ---- chunks ---- */

static int decode(const char *text, size_t step, struct buf *out) {
    struct http_chunks c = {0};
    int r = HTTP_CHUNKS_MORE;
    for (size_t at = 0, len = strlen(text); at < len && r == HTTP_CHUNKS_MORE;) {
        const char *data = text + at, *piece;
        size_t left = MIN(step, len - at), piece_len;
        at += left;
        while ((r = http_chunks_next(&c, &data, &left, &piece, &piece_len)) == HTTP_CHUNKS_PIECE)
            (void)buf_append(out, piece, piece_len);
    }
    return r;
}

static void test_chunks(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
        const char *content;
    } cases[] = {
        {"0\r\n\r\n", HTTP_CHUNKS_END, ""},
        {"3\r\nabc\r\n0\r\n\r\n", HTTP_CHUNKS_END, "abc"},
        {"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", HTTP_CHUNKS_END, "abc0123456789"},
        {"003\r\nabc\r\n0\r\n\r\nrest", HTTP_CHUNKS_END, "abc"},
        {"3\r\nab", HTTP_CHUNKS_MORE, "ab"},
        {"0\r\n\r", HTTP_CHUNKS_MORE, ""},
        {"3\nabc\r\n", -EPROTO, ""},
        {"3\r\nabcd\r\n", -EPROTO, "abc"},
        {"\r\n", -EPROTO, ""},
        {"x\r\n", -EPROTO, ""},
        {"-1\r\n", -EPROTO, ""},
        {"1;ext\r\na\r\n", -EPROTO, ""},
        {"0\r\nTrailer: x\r\n\r\n", -EPROTO, ""},
        {"ffffffffffffffff\r\n", -EPROTO, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 40; step += 3) {
            _cleanup_(buf_free) struct buf out = BUF_INIT(1024);
            int r = decode(cases[i].text, step, &out);
            if (r != cases[i].result)
                fail_msg("%s by %zu: %d", cases[i].text, step, r);
            assert_string_equal(buf_text(&out), cases[i].content);
        }
}

/* ---- a whole answer ---- */

static int take(void *arg, const char *data, size_t len, struct cay_error *err) {
    return buf_append(arg, data, len) < 0 ? error_set(err, CAY_INTERNAL, "full") : 0;
}

/* The answer is in the socket; ret_rest is what is left behind the head. */
static int answer(const char *text, size_t max, struct http_head *head, struct buf *body,
                  struct cay_error *err) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(write(pair[0], text, strlen(text)), (ssize_t)strlen(text));
    (void)close(pair[0]);
    int r = http_receive_head(pair[1], head, err);
    if (r == 0)
        r = http_receive_body(pair[1], head, max, take, body, err);
    (void)close(pair[1]);
    return r;
}

static void test_answers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
        const char *body;
    } cases[] = {
        {H "Content-Length: 3\r\n\r\nabcdef", 0, "abc"},
        {H "\r\nto the end", 0, "to the end"},
        {H "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 0, "ab"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 0, ""},
        {H "Content-Length: 4\r\n\r\nabc", -CAY_UNAVAILABLE, ""},
        {H "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", -CAY_UNAVAILABLE, ""},
        {H "Transfer-Encoding: chunked\r\n\r\nzz\r\n", -CAY_UNAVAILABLE, ""},
        {H "Content-Length: 33\r\n\r\n012345678901234567890123456789012", -CAY_UNAVAILABLE, ""},
        {H "Content-Le", -CAY_UNAVAILABLE, ""},
        {"hello\r\n\r\n", -CAY_UNAVAILABLE, ""},
        {"", -CAY_UNAVAILABLE, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf body = BUF_INIT(64);
        _cleanup_(http_head_free) struct http_head head = {0};
        struct cay_error err = {0};
        int r = answer(cases[i].text, 32, &head, &body, &err);
        if (r != cases[i].result)
            fail_msg("%s: %d %s", cases[i].text, r, err.message);
        if (r == 0)
            assert_string_equal(buf_text(&body), cases[i].body);
        else
            assert_string_not_equal(err.remedy, "");
    }
}

/* What follows the head belongs to whoever takes the stream over. */
static void test_nothing_behind_the_head_is_read(void **state) {
    (void)state;
    int pair[2];
    char rest[16] = "";
    struct http_head head;
    struct cay_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    static const char text[] = "HTTP/1.1 101 Switching\r\nUpgrade: cay-init\r\n\r\nstream";
    assert_int_equal(write(pair[0], text, sizeof text - 1), (ssize_t)sizeof text - 1);
    assert_int_equal(http_receive_head(pair[1], &head, &err), 0);
    assert_int_equal(head.status, 101);
    assert_int_equal(read(pair[1], rest, sizeof rest), 6);
    assert_string_equal(rest, "stream");
    http_head_free(&head);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void *write_slowly(void *arg) {
    const int *fd = arg;
    static const char text[] = H "X-A: 1\r\n\r\n";
    for (size_t i = 0; i < sizeof text - 1; i++)
        (void)!write(*fd, text + i, 1);
    return NULL;
}

static void test_a_head_in_pieces(void **state) {
    (void)state;
    int pair[2];
    pthread_t writer;
    struct http_head head;
    struct cay_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, &pair[0]), 0);
    assert_int_equal(http_receive_head(pair[1], &head, &err), 0);
    assert_string_equal(http_head_get(&head, "x-a", NULL), "1");
    (void)pthread_join(writer, NULL);
    http_head_free(&head);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void *write_forever(void *arg) {
    const int *fd = arg;
    char text[4096];
    memset(text, 'a', sizeof text);
    while (send(*fd, text, sizeof text, MSG_NOSIGNAL) > 0)
        ;
    return NULL;
}

static void test_a_head_without_end(void **state) {
    (void)state;
    int pair[2];
    pthread_t writer;
    struct http_head head;
    struct cay_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_forever, &pair[0]), 0);
    assert_int_equal(http_receive_head(pair[1], &head, &err), -CAY_UNAVAILABLE);
    (void)close(pair[1]);
    (void)pthread_join(writer, NULL);
    (void)close(pair[0]);
}

static void test_nobody_listens(void **state) {
    (void)state;
    struct http_address a = {.path = "/nonexistent/cay.sock"};
    struct cay_error err;
    assert_int_equal(http_connect(&a, &err), -CAY_UNAVAILABLE);
    assert_int_equal(err.sys, ENOENT);
    assert_non_null(strstr(err.message, "not running"));
    memset(a.path + 1, 'x', 300);
    memcpy(a.path + 301, "/s", 3);
    assert_int_equal(http_connect(&a, &err), -CAY_UNAVAILABLE);
}

/* ---- replies ---- */

static int parse_reply(const char *text, struct reply *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_puts(&b, text), 0);
    return text[0] == '[' ? reply_parse_list(&b, ret, err) : reply_parse(&b, ret, err);
}

static void test_replies(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rows; /* -1: refused */
    } cases[] = {
        {"{}", 1},
        {"{\"id\":1}\n", 1},
        {"[]", 0},
        {"[{}, {\"id\":\"a\"}]", 2},
        {"", -1},
        {"id\tname\n", -1},
        {"[1]", -1},
        {"[{},[]]", -1},
        {"<html></html>", -1},
        {"{\"id\":1", -1},
        {"{\"a\":1,\"a\":2}", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct reply t;
        struct cay_error err = {0};
        int r = parse_reply(cases[i].text, &t, &err);
        if (r != (cases[i].rows < 0 ? -CAY_UNAVAILABLE : 0))
            fail_msg("%s: %d", cases[i].text, r);
        if (r == 0)
            assert_int_equal(t.rows, cases[i].rows);
        reply_free(&t);
    }
}

static void test_members_of_replies(void **state) {
    (void)state;
    static const struct {
        size_t row;
        const char *name, *text;
    } cases[] = {
        {0, "id", "a"},
        {0, "line", "one\\x0atwo\\x1b[31m"}, /* nothing drives a terminal */
        {0, "back", "a\\tb"},
        {0, "memory", "12"},
        {0, "least", "-1"},
        {0, "most", "18446744073709551615"},
        {0, "cpus", "0.5"},
        {0, "on", "true"},
        {0, "none", ""},
        {0, "nosuch", ""},
        {0, "labels", "k=v,l\\x0a=1"},
        {0, "words", "a,b"},
        {0, "empty", ""},
        {1, "id", "b"},
        {1, "memory", "x"},
        {2, "id", ""},
    };
    struct reply t;
    struct cay_error err = {0};
    assert_int_equal(
        parse_reply("[{\"id\":\"a\",\"line\":\"one\\ntwo\\u001b[31m\",\"back\":\"a\\\\tb\","
                    "\"memory\":12,\"least\":-1,\"most\":18446744073709551615,\"cpus\":0.5,"
                    "\"on\":true,\"none\":null,\"labels\":{\"k\":\"v\",\"l\\n\":1},"
                    "\"words\":[\"a\",\"b\"],\"empty\":[]},{\"id\":\"b\",\"memory\":\"x\"}]",
                    &t, &err),
        0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(reply_text(&t, cases[i].row, cases[i].name), cases[i].text);
    assert_int_equal(reply_unsigned(&t, 0, "memory"), 12);
    assert_int_equal(reply_unsigned(&t, 1, "memory"), 0);
    assert_int_equal(reply_unsigned(&t, 0, "least"), 0);
    assert_true(reply_unsigned(&t, 0, "most") == UINT64_MAX);
    assert_true(reply_number(&t, 0, "cpus") == 0.5 && reply_number(&t, 0, "id") == 0);
    assert_true(reply_is_true(&t, 0, "on") && !reply_is_true(&t, 0, "id"));
    assert_string_equal(reply_string(&t, 0, "line"), "one\ntwo\x1b[31m");
    assert_string_equal(reply_string(&t, 0, "memory"), "");
    reply_free(&t);
}

/* ---- progress ---- */

static void report(void *arg, const char *line) {
    (void)buf_printf(arg, "%s|", line);
}

static void test_progress(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int end; /* of progress_end; -99: refused before */
        const char *told, *answer;
    } cases[] = {
        {"progress a\nprogress b c\ndone\nid\n1\n", 0, "a|b c|", "id\n1\n"},
        {"done\n", 0, "", ""},
        {"error\nnot_found\nx\ny\n", 1, "", "not_found\nx\ny\n"},
        {"progress a\n", -CAY_UNAVAILABLE, "a|", ""},
        {"nonsense\n", -99, "", ""},
        {"done\nprogress a\n", 0, "", "progress a\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 12; step++) {
            _cleanup_(buf_free) struct buf told = BUF_INIT(1024), body = BUF_INIT(1024);
            struct progress p = {.tell = report, .arg = &told, .answer = &body};
            struct cay_error err;
            int r = 0;
            for (size_t at = 0, len = strlen(cases[i].text); at < len && r == 0; at += step)
                r = progress_take(&p, cases[i].text + at, MIN(step, len - at), &err);
            r = r < 0 ? -99 : progress_end(&p, &err);
            assert_int_equal(r, cases[i].end);
            assert_string_equal(buf_text(&told), cases[i].told);
            assert_string_equal(buf_text(&body), cases[i].answer);
            progress_free(&p);
        }
}

/* ---- the names of a copy ---- */

static void test_copy_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *folder, *name;
        bool content, is_folder;
    } cases[] = {
        {"a", ".", "a", false, false},      {"a/", ".", "a", false, true},
        {"a/b", "a", "b", false, false},    {"/a", "/", "a", false, false},
        {"/a/b//", "/a", "b", false, true}, {".", ".", "", true, true},
        {"a/.", "a/.", "", true, true},     {"..", "..", "", true, true},
        {"/", "/", "", true, true},         {"", ".", "", true, true},
        {"a/./", "a/.", "", true, true},    {"...", ".", "...", false, false},
        {"//a", "/", "a", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct copy_path p;
        struct cay_error err;
        assert_int_equal(copy_path_parse(cases[i].path, &p, &err), 0);
        if (strcmp(p.folder, cases[i].folder) != 0 || strcmp(p.name, cases[i].name) != 0)
            fail_msg("'%s': '%s' '%s'", cases[i].path, p.folder, p.name);
        assert_int_equal(p.content, cases[i].content);
        assert_int_equal(p.is_folder, cases[i].is_folder);
    }
    char longer[PATH_MAX + 1];
    struct copy_path p;
    struct cay_error err;
    memset(longer, 'a', sizeof longer - 1);
    longer[PATH_MAX] = '\0';
    assert_int_equal(copy_path_parse(longer, &p, &err), -CAY_INVALID_ARGUMENT);
    longer[NAME_MAX + 1] = '\0';
    assert_int_equal(copy_path_parse(longer, &p, &err), -CAY_INVALID_ARGUMENT);
}

static void test_escaping(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    daemon_put_escaped(&b, "a-b_c.d~/ %?&\r\n\xc3\xa4");
    assert_string_equal(buf_text(&b), "a-b_c.d~%2F%20%25%3F%26%0D%0A%C3%A4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_head_end),
        cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_nothing_behind_the_head_is_read),
        cmocka_unit_test(test_a_head_in_pieces),
        cmocka_unit_test(test_a_head_without_end),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_members_of_replies),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_copy_paths),
        cmocka_unit_test(test_escaping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
