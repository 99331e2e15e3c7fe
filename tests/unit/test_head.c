#include "api/http/head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

/* Reads lines of fields as the library does, bare line feeds and continued lines included: names
 * end where the colon was, and what a second line adds is added to a copy of the name. */
static int read_fields(const char *fields, const char *version) {
    _cleanup_(freep) char *text = strdup(fields);
    char *copies[16] = {NULL}, *name = NULL, *value = NULL;
    size_t count = 0;
    struct head h = {0};
    struct cay_error err;
    for (char *line = text, *next; *line != '\0'; line = next) {
        size_t len = strcspn(line, "\n");
        next = line + len + 1;
        line[len] = '\0';
        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (*line == ' ' && name != NULL) {
            assert_true(asprintf(&copies[count], "%s%s", name, line + 1) > 0);
            name = copies[count++];
            continue;
        }
        if (name != NULL)
            head_add(&h, name, value);
        name = line;
        value = strchr(line, ':');
        assert_non_null(value);
        *value++ = '\0';
        value += strspn(value, " \t");
    }
    if (name != NULL)
        head_add(&h, name, value);
    size_t sent = strlen("POST /x \r\n\r\n") + strlen(version) + strlen(fields);
    int r = head_check(&h, "POST", "/x", version, sent, &err);
    for (size_t i = 0; i < count; i++)
        free(copies[i]);
    return r;
}

static void takes_what_is_clear(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",
        "Host: x\r\n",
        "Host:x\r\nX: \t y \r\nX:\r\nX: \xc3\xa4\ty\r\n",
        "Content-Length: 3\r\n",
        "transfer-encoding: Chunked\r\n",
        "Cookie: a\r\nCookie: b\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(read_fields(cases[i], "HTTP/1.1"), 0);
    assert_int_equal(read_fields("Content-Length: 3\r\n", "HTTP/1.0"), 0);
}

static void refuses_what_is_not(void **state) {
    (void)state;
    static const char *const cases[] = {
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked \r\n",
        "Transfer-Encoding:\r\n",
        "Host: x\r\nhost: y\r\n",
        "Authorization: x\r\nAuthorization: y\r\n",
        "Origin: x\r\nOrigin: y\r\n",
        "Transfer-Encodi: chunked\r\n ng\r\n",
        "X: y\r\n \r\n",
        "X: y\n",
        "X: y\r\nY: z\n",
        "X : y\r\n",
        "X\t: y\r\n",
        ": y\r\n",
        "X(: y\r\n",
        "X\xc3: y\r\n",
        "X: a\rb\r\n",
        "X: a\x7f\r\n",
        "X: a\x01\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (read_fields(cases[i], "HTTP/1.1") != -CAY_INVALID_ARGUMENT)
            fail_msg("'%s' is taken", cases[i]);
    assert_int_equal(read_fields("Transfer-Encoding: chunked\r\n", "HTTP/1.0"),
                     -CAY_INVALID_ARGUMENT);
}

static void counts_fields(void **state) {
    (void)state;
    struct head h = {0};
    struct cay_error err;
    char field[] = "X\0y";
    for (size_t i = 0; i < HEAD_FIELDS_MAX; i++)
        head_add(&h, field, field + 2);
    size_t line = strlen("GET / HTTP/1.1\r\n\r\n"),
           sent = line + HEAD_FIELDS_MAX * strlen("X:y\r\n");
    assert_int_equal(head_check(&h, "GET", "/", "HTTP/1.1", sent, &err), 0);
    assert_int_equal(head_check(&h, "GET", "/", "HTTP/1.1", sent + 1, &err), -CAY_INVALID_ARGUMENT);
    head_add(&h, field, field + 2);
    sent += strlen("X:y\r\n");
    assert_int_equal(head_check(&h, "GET", "/", "HTTP/1.1", sent, &err), -CAY_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_clear),
        cmocka_unit_test(refuses_what_is_not),
        cmocka_unit_test(counts_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
