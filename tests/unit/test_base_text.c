/* Tests of base/error.c, buf.c and str.c. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/passwd.h"
#include "base/str.h"

/* ---- error ---- */

static void codes(void **state) {
    (void)state;
    static const struct {
        enum cay_code code;
        const char *name;
        int http, exit;
    } cases[] = {
        {CAY_OK, "ok", 200, 0},
        {CAY_NOT_FOUND, "not_found", 404, 3},
        {CAY_TIMEOUT, "timeout", 504, 124},
        {CAY_INTERNAL, "internal", 500, 1},
        {(enum cay_code)12, "internal", 500, 1}, /* unknown */
        {(enum cay_code) - 1, "internal", 500, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_string_equal(cay_code_name(cases[i].code), cases[i].name);
        assert_int_equal(cay_code_http(cases[i].code), cases[i].http);
        assert_int_equal(cay_code_exit(cases[i].code), cases[i].exit);
    }
    for (int c = 0; c <= CAY_INTERNAL; c++)
        assert_int_equal(error_code_from_name(cay_code_name((enum cay_code)c)), c);
    assert_int_equal(error_code_from_name("nonsense"), CAY_INTERNAL);
}

static void error_classes(void **state) {
    (void)state;
    static const struct {
        int sys;
        enum cay_code code;
    } cases[] = {
        {ENOENT, CAY_NOT_FOUND},  {EEXIST, CAY_CONFLICT},           {EINVAL, CAY_INVALID_ARGUMENT},
        {EACCES, CAY_FORBIDDEN},  {ENOSPC, CAY_RESOURCE_EXHAUSTED}, {ECONNREFUSED, CAY_UNAVAILABLE},
        {ETIMEDOUT, CAY_TIMEOUT}, {ENOSYS, CAY_UNSUPPORTED},        {EIO, CAY_INTERNAL},
        {0, CAY_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(error_class(cases[i].sys), cases[i].code);
}

/* A state folder that cannot be used is no fault of the caller. */
static void storage_errors(void **state) {
    (void)state;
    static const struct {
        int sys;
        enum cay_code code;
        const char *remedy;
    } cases[] = {
        {ENOSPC, CAY_RESOURCE_EXHAUSTED, "free space"}, {EROFS, CAY_UNAVAILABLE, "read-only"},
        {EACCES, CAY_INTERNAL, "right to write"},       {EIO, CAY_INTERNAL, "dmesg"},
        {EMFILE, CAY_RESOURCE_EXHAUSTED, "open files"}, {ENOENT, CAY_INTERNAL, "whole"},
        {ENAMETOOLONG, CAY_INTERNAL, "whole"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        assert_int_equal(error_storage(&err, cases[i].sys, "writing %s", "it"),
                         -(int)cases[i].code);
        assert_int_equal(err.sys, cases[i].sys);
        assert_non_null(strstr(err.message, "writing it: "));
        assert_non_null(strstr(err.remedy, cases[i].remedy));
        assert_int_equal(error_storage(NULL, cases[i].sys, "writing"), -(int)cases[i].code);
    }
}

static void errors(void **state) {
    (void)state;
    struct cay_error err = {0};
    assert_int_equal(error_set(&err, CAY_CONFLICT, "name '%s' taken", "lab"), -CAY_CONFLICT);
    assert_int_equal(error_remedy(&err, "use %s", "another"), -CAY_CONFLICT);
    assert_int_equal(error_prefix(&err, "creating %d", 7), -CAY_CONFLICT);
    assert_string_equal(err.message, "creating 7: name 'lab' taken");
    assert_string_equal(err.remedy, "use another");
    errno = ENOENT;
    assert_int_equal(error_errno(&err, "opening '%s'", "x"), -CAY_NOT_FOUND);
    assert_string_equal(err.message, "opening 'x': No such file or directory");
    assert_string_equal(err.remedy, ""); /* that of the earlier error is gone */
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(error_sys(&err, 99999, "x"), -CAY_INTERNAL);
    assert_string_equal(err.message, "x: unknown error");
    assert_int_equal(error_set(NULL, CAY_TIMEOUT, "x"), -CAY_TIMEOUT);
    assert_int_equal(error_prefix(NULL, "x"), -CAY_INTERNAL);
    assert_int_equal(error_remedy(NULL, "x"), -CAY_INTERNAL);
}

/* However long the parts are, the message stays terminated and begins with the context. */
static void error_lengths(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 1, 470, 476, 477, 478, 479, 480, 481, 2000};
    char text[2001];
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        for (size_t j = 0; j < ARRAY_LEN(lengths); j++) {
            memset(text, 'a', sizeof text);
            struct cay_error err;
            memset(&err, 'x', sizeof err);
            error_set(&err, CAY_CONFLICT, "%.*s", (int)lengths[i], text);
            assert_int_equal(strlen(err.message), MIN(lengths[i], sizeof err.message - 1));
            memset(text, 'b', sizeof text);
            error_prefix(&err, "%.*s", (int)lengths[j], text);
            size_t all = MIN(lengths[i], sizeof err.message - 1) + 2 + lengths[j];
            assert_int_equal(strlen(err.message), MIN(all, sizeof err.message - 1));
            error_remedy(&err, "%.*s", (int)lengths[j], text);
            assert_int_equal(strlen(err.remedy), MIN(lengths[j], sizeof err.remedy - 1));
            errno = EIO;
            error_errno(&err, "%.*s", (int)lengths[j], text);
            assert_true(strlen(err.message) < sizeof err.message);
        }
    }
}

static void sanitizing(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain \xc3\xa4", "plain \xc3\xa4"},
        {"a\x1b[31mb\n\x7f", "a?[31mb??"},
        {"\xc2\x9b"
         "31m",
         "??31m"}, /* the one-character form of ESC [ */
        {"\xff\xc3", "??"},
        {"\xe2\x82\xac\xe2\x82", "\xe2\x82\xac??"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {.code = CAY_TIMEOUT};
        assert_int_equal(str_copy(err.message, sizeof err.message, cases[i].in), 0);
        assert_int_equal(str_copy(err.remedy, sizeof err.remedy, cases[i].in), 0);
        error_sanitize(&err);
        assert_string_equal(err.message, cases[i].out);
        assert_string_equal(err.remedy, cases[i].out);
        assert_int_equal(err.code, CAY_TIMEOUT);
    }
    struct cay_error err = {.code = (enum cay_code)77};
    memset(err.message, 'a', sizeof err.message); /* not terminated */
    error_sanitize(&err);
    assert_int_equal(err.code, CAY_INTERNAL);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    err.code = CAY_OK; /* an error that says that all is well */
    error_sanitize(&err);
    assert_int_equal(err.code, CAY_INTERNAL);
}

/* ---- buf ---- */

static void buf_bounds(void **state) {
    (void)state;
    static const struct {
        size_t max, first, second;
        int r1, r2;
    } cases[] = {
        {10, 4, 6, 0, 0},       {10, 4, 7, 0, -ENOBUFS},       {10, 11, 0, -ENOBUFS, -ENOBUFS},
        {0, 0, 0, 0, 0},        {0, 1, 0, -ENOBUFS, -ENOBUFS}, {1000, 127, 1, 0, 0},
        {1000, 128, 872, 0, 0}, {1000, 999, 2, 0, -ENOBUFS},   {SIZE_MAX, 300, 600, 0, 0},
    };
    static const char data[1024] = "x";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(cases[i].max);
        assert_string_equal(buf_text(&b), "");
        assert_int_equal(buf_append(&b, data, cases[i].first), cases[i].r1);
        assert_int_equal(buf_append(&b, data, cases[i].second), cases[i].r2);
        assert_true(b.failed == (cases[i].r1 < 0 || cases[i].r2 < 0));
        if (b.data != NULL)
            assert_int_equal(b.data[b.len], '\0');
        assert_true(b.cap == 0 || b.cap - 1 <= b.max);
    }
    struct buf b = BUF_INIT(SIZE_MAX);
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_null(buf_reserve(&b, SIZE_MAX - 1)); /* the sum overflows */
    assert_true(b.failed);
    buf_free(&b);
}

static void buf_use(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(20);
    assert_int_equal(buf_puts(&b, "hello"), 0);
    assert_int_equal(buf_putc(&b, ' '), 0);
    assert_int_equal(buf_printf(&b, "%d-%s", 42, "x"), 0);
    assert_string_equal(buf_text(&b), "hello 42-x");
    buf_consume(&b, 6);
    assert_string_equal(buf_text(&b), "42-x");
    buf_consume(&b, 0);
    char *to = buf_reserve(&b, 3);
    assert_non_null(to);
    memcpy(to, "abc", 3);
    buf_commit(&b, 2); /* less than was reserved */
    assert_string_equal(buf_text(&b), "42-xab");
    buf_consume(&b, b.len);
    assert_string_equal(buf_text(&b), "");
    assert_int_equal(buf_printf(&b, "%21s", ""), -ENOBUFS);
    assert_int_equal(buf_puts(&b, ""), -ENOBUFS); /* sticky */
    assert_null(buf_take(&b));
    buf_clear(&b);
    assert_int_equal(buf_printf(&b, "%20s", "z"), 0);
    _cleanup_(freep) char *taken = buf_take(&b);
    assert_int_equal(strlen(taken), 20);
    assert_null(b.data);
    _cleanup_(freep) char *empty = buf_take(&b);
    assert_string_equal(empty, "");
    buf_free(&b);
    buf_free(&b);
    buf_consume(&b, 0);
    buf_clear(&b);
}

static void buf_over_an_array(void **state) {
    (void)state;
    char room[8];
    _cleanup_(buf_free) struct buf b = BUF_OVER(room, 20);
    assert_string_equal(buf_text(&b), "");
    assert_int_equal(buf_puts(&b, "1234567"), 0); /* and its end: just fits */
    assert_ptr_equal(buf_text(&b), room);
    assert_int_equal(buf_putc(&b, '8'), 0);
    assert_ptr_not_equal(buf_text(&b), room);
    assert_string_equal(buf_text(&b), "12345678");
    assert_string_equal(room, "1234567"); /* left as it was */
    assert_int_equal(buf_printf(&b, "%12s", "z"), 0);
    assert_int_equal(buf_putc(&b, '!'), -ENOBUFS);
    buf_free(&b);
    b = BUF_OVER(room, 20);
    assert_int_equal(buf_puts(&b, "ab"), 0);
    _cleanup_(freep) char *taken = buf_take(&b);
    assert_string_equal(taken, "ab");
    assert_ptr_not_equal(taken, room);
    b = BUF_OVER(room, 20);
    _cleanup_(freep) char *empty = buf_take(&b);
    assert_string_equal(empty, "");
}

/* ---- str ---- */

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } cases[] = {
        {"1", 1},
        {"512", 512},
        {"512b", 512},
        {"1k", 1024},
        {"1.5g", 1610612736},
        {"1MB", 1048576},
        {"1t", 1ULL << 40},
        {"0.1", 1},
        {".5k", 512},
        {"2GiB", 2147483648},
        {"1kIB", 1024},
        {"512x", 0},
        {"", 0},
        {"-1", 0},
        {"-0", 0},
        {"0", 0},
        {"0k", 0},
        {"1kk", 0},
        {"k", 0},
        {"1e3", 0},
        {"0x10", 0},
        {" 1", 0},
        {"1 ", 0},
        {"nan", 0},
        {"99999999t", 0},
        {"inf", 0},
        {"1kbx", 0},
        {"1bb", 0},
        {"+1", 0},
        {".", 0},
        {"1.2.3", 0},
        {"1,5k", 0},
        {"8000000t", 8000000ULL << 40},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t got = 0;
        struct cay_error err = {0};
        int r = str_to_size("--memory", cases[i].text, &got, &err);
        if (cases[i].bytes != 0 && (r != 0 || got != cases[i].bytes))
            fail_msg("'%s': %d, %ju", cases[i].text, r, (uintmax_t)got);
        if (cases[i].bytes != 0)
            continue;
        assert_int_equal(r, -CAY_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "--memory"));
        assert_true(err.remedy[0] != '\0');
    }
}

static void durations(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"300", 300000},  {"0", 0},       {"1.5s", 1500},
        {"200ms", 200},   {"5m", 300000}, {"2h", 7200000},
        {"1d", 86400000}, {"0.3s", 300},  {"1.0005s", 1001},
        {".1ms", 0},      {"-1", -1},     {"", -1},
        {"s", -1},        {"1S", -1},     {"1 s", -1},
        {"1m30s", -1},    {"1e9", -1},    {"99999999999d", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t got = -1;
        struct cay_error err = {0};
        int r = str_to_duration("--timeout", cases[i].text, &got, &err);
        if ((r == 0) != (cases[i].ms >= 0) || got != cases[i].ms)
            fail_msg("'%s': %d, %jd", cases[i].text, r, (intmax_t)got);
        if (r != 0) {
            assert_int_equal(r, -CAY_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, "--timeout"));
            assert_true(err.remedy[0] != '\0');
        }
    }
    struct cay_error err = {0};
    int64_t got;
    assert_int_equal(str_to_duration("x", "\x1b]0;a\x07", &got, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "'\\x1b]0;a\\x07'"));
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int r;
        int64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"-5", 0, -5},
        {"10", 0, 10},
        {"007", 0, 7},
        {"11", -ERANGE, 0},
        {"-6", -ERANGE, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"-", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"1x", -EINVAL, 0},
        {"0x1", -EINVAL, 0},
        {"--1", -EINVAL, 0},
        {"- 1", -EINVAL, 0},
        {"1.0", -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t got = 0;
        int r = str_to_i64(cases[i].text, -5, 10, &got);
        if (r != cases[i].r || got != cases[i].value)
            fail_msg("'%s': %d", cases[i].text, r);
    }
    int64_t i;
    uint64_t u = 0;
    assert_int_equal(str_to_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &i), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(str_to_u64("18446744073709551615", UINT64_MAX, &u), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(str_to_u64("18446744073709551616", UINT64_MAX, &u), -ERANGE);
    assert_int_equal(str_to_u64("-1", UINT64_MAX, &u), -EINVAL);
    assert_int_equal(str_to_u64("8", 7, &u), -ERANGE);
    double d = 0;
    assert_int_equal(str_to_double("0.3", &d), 0);
    assert_true(d == 0.3); /* not 0.30000000000000004 */
    assert_int_equal(str_to_double("-1234.5678", &d), 0);
    assert_true(d == -1234.5678);
    assert_int_equal(str_to_double("0.00000000000000000000000000000001", &d), 0);
    assert_int_equal(str_to_double("1e5", &d), -EINVAL);
    assert_int_equal(str_to_double("", &d), -EINVAL);
    char huge[400];
    memset(huge, '9', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(str_to_double(huge, &d), -EINVAL);
}

static void escaping(void **state) {
    (void)state;
    static const struct {
        const char *in;
        size_t size;
        const char *out;
    } cases[] = {
        {"abc", 80, "abc"},
        {"", 80, ""},
        {"\x1b[2J\n\t\x7f", 80, "\\x1b[2J\\x0a\\x09\\x7f"},
        {"\xc3\xa4\xe2\x82\xac", 80, "\xc3\xa4\xe2\x82\xac"},
        {"\xc2\x9b", 80, "\\xc2\\x9b"},
        {"\xff\xc3", 80, "\\xff\\xc3"},
        {"abcdef", 4, "abc"},
        {"ab\x01", 6, "ab"}, /* an escape is whole or not there */
        {"ab\x01", 7, "ab\\x01"},
        {"a\xe2\x82\xac", 4, "a"}, /* so is a character */
        {"a\xe2\x82\xac", 5, "a\xe2\x82\xac"},
        {"abc", 1, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[80];
        memset(out, 'Z', sizeof out);
        assert_string_equal(str_escape(out, cases[i].size, cases[i].in), cases[i].out);
    }
}

static void utf8(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
        bool ok;
    } cases[] = {
        {"", 0, true},
        {"a\0b", 3, true},
        {"\xc3\xa4", 2, true},
        {"\xed\x9f\xbf\xee\x80\x80", 6, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"\xc3", 1, false},
        {"\x80", 1, false},
        {"\xc0\x80", 2, false},
        {"\xc1\xbf", 2, false},
        {"\xe0\x9f\xbf", 3, false},
        {"\xed\xa0\x80", 3, false},
        {"\xf0\x8f\xbf\xbf", 4, false},
        {"\xf4\x90\x80\x80", 4, false},
        {"\xf5\x80\x80\x80", 4, false},
        {"\xe2\x82", 2, false},
        {"\xe2\x82"
         "a",
         3, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (str_is_utf8(cases[i].data, cases[i].len) != cases[i].ok)
            fail_msg("case %zu", i);
}

static void small_things(void **state) {
    (void)state;
    char out[4], text[32];
    assert_int_equal(str_format(out, sizeof out, "%d", 123), 0);
    assert_int_equal(str_format(out, sizeof out, "%d", 1234), -ENAMETOOLONG);
    assert_int_equal(str_copy(out, sizeof out, "abc"), 0);
    assert_int_equal(str_copy(out, sizeof out, "abcd"), -ENAMETOOLONG);
    assert_string_equal(out, "abc"); /* untouched */
    assert_true(str_equal(NULL, NULL) && str_equal("a", "a"));
    assert_false(str_equal(NULL, "a") || str_equal("a", NULL) || str_equal("a", "b"));
    assert_true(str_starts("abc", "ab") && str_starts("abc", "") && !str_starts("ab", "abc"));
    assert_true(str_ends("abc", "bc") && str_ends("abc", "") && !str_ends("bc", "abc"));
    assert_string_equal(str_bytes(0, text), "0 B");
    assert_string_equal(str_bytes(1023, text), "1023 B");
    assert_string_equal(str_bytes(1536, text), "1.5 KB");
    assert_string_equal(str_bytes(512ULL << 20, text), "512.0 MB");
    assert_string_equal(str_bytes(UINT64_MAX, text), "16777216.0 TB");
}

static void nearness(void **state) {
    (void)state;
    static const char *const names[] = {"memory", "network", "rm", "run"};
    static const struct {
        const char *text, *nearest;
    } cases[] = {
        {"memroy", "memory"}, {"memory", "memory"}, {"netwrk", "network"}, {"runn", "run"},
        {"rnu", "run"},       {"unr", NULL},        {"xyz", NULL},         {"", NULL},
        {"m", "rm"},          {"memoryyyy", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *got = str_nearest(cases[i].text, names, ARRAY_LEN(names));
        if (!str_equal(got, cases[i].nearest))
            fail_msg("'%s': %s", cases[i].text, got != NULL ? got : "nothing");
    }
    assert_int_equal(str_distance("kitten", "sitting"), 3);
    assert_int_equal(str_distance("", "abc"), 3);
    char text[100];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(str_distance(text, text), 32); /* too long to compare */
    text[32] = '\0';
    assert_int_equal(str_distance(text, text), 0);
}

static void vectors(void **state) {
    (void)state;
    struct strv s = {0};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(i % 2 ? strv_push(&s, "odd") : strv_pushf(&s, "%d", i), 0);
        assert_int_equal(s.len, i + 1);
        assert_null(s.v[s.len]);
    }
    assert_string_equal(s.v[98], "98");
    strv_free(&s);
    assert_null(s.v);
    strv_free(&s);
}

static void passwd_lines(void **state) {
    (void)state;
    char text[] = "\n#\nroot:x:0:0:r:/root:/bin/sh\nshort:x:1\n::::::\nlast:x:7:8:a:b:c:d:e";
    char *at = text, *f[PASSWD_FIELDS];
    unsigned id = 77;
    assert_true(passwd_next(&at, f, PASSWD_FIELDS));
    assert_string_equal(f[0], "root");
    assert_string_equal(f[6], "/bin/sh");
    assert_true(passwd_next(&at, f, PASSWD_FIELDS)); /* what is empty is a field too */
    assert_string_equal(f[0], "");
    assert_false(passwd_id(f[2], &id));
    assert_true(passwd_next(&at, f, PASSWD_FIELDS));
    assert_string_equal(f[6], "c");
    assert_true(passwd_id(f[2], &id));
    assert_int_equal(id, 7);
    assert_false(passwd_next(&at, f, PASSWD_FIELDS));
    assert_false(passwd_id("65536", &id) || passwd_id("-1", &id) || passwd_id("1x", &id));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(error_classes),
        cmocka_unit_test(storage_errors),
        cmocka_unit_test(errors),
        cmocka_unit_test(error_lengths),
        cmocka_unit_test(sanitizing),
        cmocka_unit_test(buf_bounds),
        cmocka_unit_test(buf_use),
        cmocka_unit_test(buf_over_an_array),
        cmocka_unit_test(sizes),
        cmocka_unit_test(durations),
        cmocka_unit_test(numbers),
        cmocka_unit_test(escaping),
        cmocka_unit_test(utf8),
        cmocka_unit_test(small_things),
        cmocka_unit_test(nearness),
        cmocka_unit_test(vectors),
        cmocka_unit_test(passwd_lines),
    };
    return cmocka_run_group_tests_name("base_text", tests, NULL, NULL);
}
