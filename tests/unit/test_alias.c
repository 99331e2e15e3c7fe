/* Tests of alias: which names are found, what is left alone, and what a wrong alias says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "image/alias.h"

static char *entries[] = {(char[]){"python:3.12-slim=cay/python"}, (char[]){"data=cay/data:2"},
                          (char[]){"cay/python=cay/other"},
                          (char[]){"localhost:5000/a/b:1=team/b@sha256:"
                                   "00112233445566778899aabbccddeeff"
                                   "00112233445566778899aabbccddeeff"},
                          NULL};
static const struct strv aliases = {entries, 4};

static void found(void **state) {
    (void)state;
    static const struct {
        const char *text, *out; /* out NULL: no alias */
    } cases[] = {
        {"python:3.12-slim", "cay/python"},
        {"docker.io/library/python:3.12-slim", "cay/python"},
        {"library/python:3.12-slim", "cay/python"},
        {"data", "cay/data:2"},
        {"data:latest", "cay/data:2"},
        {"cay/python", "cay/other"},
        {"localhost:5000/a/b:1", "team/b@sha256:00112233445566778899aabbccddeeff"
                                 "00112233445566778899aabbccddeeff"},
        {"python", NULL},
        {"python:3.12", NULL},
        {"localhost:5001/a/b:1", NULL},
        {"localhost:5000/python:3.12-slim", NULL},
        {"data@sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", NULL},
        {"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", NULL},
        {"No Name", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[REFERENCE_TEXT_SIZE] = "";
        struct cay_error err = {0};
        int r = image_alias(&aliases, cases[i].text, out, &err);
        assert_int_equal(r, cases[i].out != NULL);
        assert_string_equal(out, cases[i].out != NULL ? cases[i].out : "");
    }
}

static void wrong(void **state) {
    (void)state;
    static const char *const cases[] = {"Python=x", "x=Y", "x=", "=x", "nothing", "x=a b"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[REFERENCE_TEXT_SIZE] = "", entry[64];
        char *one[] = {entry, NULL};
        struct cay_error err = {0};
        assert_int_equal(str_copy(entry, sizeof entry, cases[i]), 0);
        assert_int_equal(image_alias(&(struct strv){one, 1}, "python", out, &err),
                         -CAY_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "images.aliases"));
        assert_non_null(strstr(err.message, cases[i]));
        assert_string_not_equal(err.remedy, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found),
        cmocka_unit_test(wrong),
    };
    return cmocka_run_group_tests_name("alias", tests, NULL, NULL);
}
