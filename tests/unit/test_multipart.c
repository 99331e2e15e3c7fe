/* Tests of multipart bodies: every way to cut them into pieces must give the same parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/http/multipart.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"

#define TYPE "multipart/form-data; boundary=xx"

static int begin(void *user, const struct multipart_part *part, struct cay_error *err) {
    (void)err;
    return buf_printf(user, "[%s%s:", part->name, part->has_filename ? "*" : "") < 0 ? -1 : 0;
}

static int data(void *user, const char *bytes, size_t len, struct cay_error *err) {
    (void)err;
    return buf_append(user, bytes, len);
}

static int end(void *user, struct cay_error *err) {
    (void)err;
    return buf_putc(user, ']');
}

static const struct multipart_handler handler = {begin, data, end};

/* What is heard of a body that comes in pieces of this size. */
static int parse(const char *type, const char *body, size_t len, size_t piece, struct buf *out,
                 struct cay_error *err) {
    struct multipart m;
    int r = multipart_init(&m, type, &handler, out, err);
    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = multipart_feed(&m, body + at, MIN(piece, len - at), err);
    return r < 0 ? r : multipart_finish(&m, err);
}

#define PART(name) "--xx\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static const struct {
    const char *body, *heard; /* NULL: refused */
} cases[] = {
    {PART("a") "1\r\n--xx--\r\n", "[a:1]"},
    {PART("a") "1\r\n" PART("b") "2\r\n--xx--", "[a:1][b:2]"},
    {"hello\r\n" PART("a") "1\r\n--xx-- and more", "[a:1]"},
    {PART("a") "\r\n--xx--", "[a:]"},
    {PART("a") "\r\n--xxy\r\n--xx--", NULL}, /* what no composer may do */
    {PART("a") "\r\n--x\r\n--y\r\n-\r\n\r\n--xx--", "[a:\r\n--x\r\n--y\r\n-\r\n]"},
    {"--xx\r\nX: y\r\ncontent-disposition:form-data;filename=\"a\\\"b;c\"; "
     "NAME=q\r\n\r\nz\r\n--xx--",
     "[q*:z]"},
    {PART("files[0].path") "/tmp/\xc3\xb6\r\n--xx--", "[files[0].path:/tmp/\xc3\xb6]"},
    {"", NULL},
    {"--xx--", ""},
    {PART("a") "1", NULL},
    {PART("a") "1\r\n--xx", NULL},
    {"--xx\r\nContent-Type: text/plain\r\n\r\n1\r\n--xx--", NULL},
    {"--xx\r\nContent-Disposition: form-data\r\n\r\n1\r\n--xx--", NULL},
    {"--xx\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--xx--", NULL},
    {"--xx\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--xx--", NULL},
    {"--xxz\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--xx--", NULL},
};

static void every_cut_is_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = strlen(cases[i].body);
        for (size_t piece = 1; piece <= len + 1; piece++) {
            _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
            struct cay_error err = {0};
            int r = parse(TYPE, cases[i].body, len, piece, &out, &err);
            if (cases[i].heard == NULL) {
                if (r != -CAY_INVALID_ARGUMENT || err.remedy[0] == '\0')
                    fail_msg("case %zu in pieces of %zu: %d", i, piece, r);
                continue;
            }
            if (r < 0)
                fail_msg("case %zu in pieces of %zu: %s", i, piece, err.message);
            assert_string_equal(buf_text(&out), cases[i].heard);
        }
    }
}

static void types(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int result;
    } all[] = {
        {TYPE, 0},
        {"Multipart/Form-Data;boundary=\"xx\"", 0},
        {"multipart/form-data; charset=utf-8; boundary=xx", 0},
        {"multipart/form-data", -CAY_INVALID_ARGUMENT},
        {"multipart/form-data; boundary=", -CAY_INVALID_ARGUMENT},
        {"multipart/form-data; boundary=\"xx", -CAY_INVALID_ARGUMENT},
        {"multipart/form-data; boundary="
         "01234567890123456789012345678901234567890123456789012345678901234567890",
         -CAY_INVALID_ARGUMENT},
        {"multipart/form-database; boundary=xx", -CAY_INVALID_ARGUMENT},
        {"application/json", -CAY_INVALID_ARGUMENT},
        {NULL, -CAY_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
        struct cay_error err;
        assert_int_equal(parse(all[i].type, "--xx--", 6, 6, &out, &err), all[i].result);
    }
}

/* Bytes of any kind, longer than what is kept at a time. */
static void large(void **state) {
    (void)state;
    enum { SIZE = 300000 };
    static char body[SIZE + 200], wanted[SIZE + 8];
    size_t head = strlen(PART("a"));
    memcpy(body, PART("a"), head);
    memcpy(wanted, "[a:", 3);
    for (size_t i = 0; i < SIZE; i++)
        body[head + i] = wanted[3 + i] = (char)("\r\n--x\0"[i % 7 % 6]);
    memcpy(body + head + SIZE, "\r\n--xx--", 8);
    wanted[3 + SIZE] = ']';
    _cleanup_(buf_free) struct buf out = BUF_INIT(1 << 20);
    struct cay_error err = {0};
    assert_int_equal(parse(TYPE, body, head + SIZE + 8, 4099, &out, &err), 0);
    assert_int_equal(out.len, SIZE + 4);
    assert_memory_equal(out.data, wanted, out.len);
}

static void endless_head(void **state) {
    (void)state;
    static char body[20000];
    memset(body, 'a', sizeof body);
    memcpy(body, "--xx\r\n", 6);
    _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
    struct cay_error err;
    assert_int_equal(parse(TYPE, body, sizeof body, 1000, &out, &err), -CAY_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_the_same),
        cmocka_unit_test(types),
        cmocka_unit_test(large),
        cmocka_unit_test(endless_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
