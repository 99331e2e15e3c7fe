/* Tests of image names: what Docker accepts means the same here, and what it refuses is refused
 * with a remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/str.h"
#include "image/reference.h"

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct good {
    const char *text, *registry, *repository, *tag, *digest;
    const char *familiar; /* NULL: as typed */
};

static const struct good good_cases[] = {
    {"python", "docker.io", "library/python", "latest", "", "python:latest"},
    {"python:3.12-slim", "docker.io", "library/python", "3.12-slim", "", NULL},
    {"docker.io/python", "docker.io", "library/python", "latest", "", "python:latest"},
    {"docker.io/library/python:3", "docker.io", "library/python", "3", "", "python:3"},
    {"index.docker.io/python:3", "docker.io", "library/python", "3", "", "python:3"},
    {"index.docker.io/me/app:3", "docker.io", "me/app", "3", "", "me/app:3"},
    {"me/app", "docker.io", "me/app", "latest", "", "me/app:latest"},
    {"me/app/part:1", "docker.io", "me/app/part", "1", "", NULL},
    {"library/a/b:1", "docker.io", "library/a/b", "1", "", NULL},
    {"localhost/app", "localhost", "app", "latest", "", "localhost/app:latest"},
    {"localhost:5000/x", "localhost:5000", "x", "latest", "", "localhost:5000/x:latest"},
    {"localhost:5000/x:y", "localhost:5000", "x", "y", "", NULL},
    {"localhost:5000", "docker.io", "library/localhost", "5000", "", NULL},
    {"127.0.0.1:5000/a/b:c", "127.0.0.1:5000", "a/b", "c", "", NULL},
    {"[::1]:5000/x:1", "[::1]:5000", "x", "1", "", NULL},
    {"[fe80::1]/x:1", "[fe80::1]", "x", "1", "", NULL},
    {"ghcr.io/o/p:v1", "ghcr.io", "o/p", "v1", "", NULL},
    {"host:1/x:1", "host:1", "x", "1", "", NULL},
    {"host:65535/x:1", "host:65535", "x", "1", "", NULL},
    {"Example.COM/x:1", "Example.COM", "x", "1", "", NULL},
    {"HOST/x:1", "HOST", "x", "1", "", NULL},
    {"a-b.c-d.example/x:1", "a-b.c-d.example", "x", "1", "", NULL},
    {"python@sha256:" HEX, "docker.io", "library/python", "", HEX, NULL},
    {"python:3@sha256:" HEX, "docker.io", "library/python", "3", HEX, NULL},
    {"h.io/a@sha256:" HEX, "h.io", "a", "", HEX, NULL},
    {"h.io:443/a:t@sha256:" HEX, "h.io:443", "a", "t", HEX, NULL},
    {HEX ":1", "docker.io", "library/" HEX, "1", "", NULL},
    {"docker.io/library/sha256:1", "docker.io", "library/sha256", "1", "", NULL},
    {"docker.io/localhost/x:1", "docker.io", "localhost/x", "1", "", NULL},
    {"docker.io/a.b/x:1", "docker.io", "a.b/x", "1", "", NULL},
    {"a.b:1", "docker.io", "library/a.b", "1", "", NULL},
    {"a_b:1", "docker.io", "library/a_b", "1", "", NULL},
    {"a__b:1", "docker.io", "library/a__b", "1", "", NULL},
    {"a---b:1", "docker.io", "library/a---b", "1", "", NULL},
    {"0/1:2", "docker.io", "0/1", "2", "", NULL},
    {"x:A_b.C-d", "docker.io", "library/x", "A_b.C-d", "", NULL},
    {"x:_", "docker.io", "library/x", "_", "", NULL},
    {"x:" A64 A64, "docker.io", "library/x", A64 A64, "", NULL},
    {"deadbeef", "docker.io", "library/deadbeef", "latest", "", "deadbeef:latest"},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good_cases / sizeof good_cases[0]; i++) {
        const struct good *c = &good_cases[i];
        struct reference ref, again;
        struct cay_error err = {0};
        char text[REFERENCE_TEXT_SIZE];
        if (reference_parse(c->text, &ref, &err) < 0)
            fail_msg("%s: %s", c->text, err.message);
        assert_string_equal(ref.registry, c->registry);
        assert_string_equal(ref.repository, c->repository);
        assert_string_equal(ref.tag, c->tag);
        assert_string_equal(ref.digest, c->digest);
        assert_string_equal(reference_familiar(&ref, text),
                            c->familiar != NULL ? c->familiar : c->text);
        /* both forms mean the same again */
        assert_int_equal(reference_parse(text, &again, NULL), 0);
        assert_memory_equal(&ref, &again, sizeof ref);
        assert_int_equal(reference_parse(reference_format(&ref, text), &again, NULL), 0);
        assert_memory_equal(&ref, &again, sizeof ref);
        assert_true(str_starts(text, c->registry));
    }
}

struct bad {
    const char *text;
    const char *message; /* part of it */
    const char *remedy;
};

static const struct bad bad_cases[] = {
    {"", "is empty", "python:3.12-slim"},
    {HEX, "is an image's id", "such as"},
    {"sha256:" HEX, "is an image's id", "such as"},
    {"sha256:abcd", "is an image's id", "such as"},
    {"Python", "upper-case", "'python'"},
    {"Python:3.12", "upper-case", "'python'"},
    {"docker.io/Me/App", "upper-case", "'me/app'"},
    {"h.io/A-", "characters", "such as"},
    {"https://h.io/x", "is an address", "leave out"},
    {"docker://x", "is an address", "leave out"},
    {"x:", "tag", "128"},
    {"x:.a", "tag", "128"},
    {"x:-a", "tag", "128"},
    {"x:a b", "tag", "128"},
    {"x:a:b", "tag", "128"},
    {"x:a\n", "tag", "128"},
    {"x:\xc3\xa9", "tag", "128"},
    {"x:" A64 A64 "a", "tag", "128"},
    {"x@", "digest", "sha256:"},
    {"x@sha256:", "digest", "sha256:"},
    {"x@sha256:" A16, "digest", "sha256:"},
    {"x@sha256:" A64 "a", "digest", "sha256:"},
    {"x@sha256:" A16 A16 A16 "aaaaaaaaaaaaaaaA", "digest", "sha256:"},
    {"x@sha512:" A64 A64, "digest", "sha256:"},
    {"x@sha256:" HEX "@sha256:" HEX, "digest", "sha256:"},
    {"@sha256:" HEX, "characters", "such as"},
    {":tag", "characters", "such as"},
    {"/x", "characters", "such as"},
    {"x/", "characters", "such as"},
    {"x//y", "characters", "such as"},
    {"h.io/", "characters", "such as"},
    {"h.io//x", "characters", "such as"},
    {"-x", "characters", "such as"},
    {"x-", "characters", "such as"},
    {"x..y", "characters", "such as"},
    {"x___y", "characters", "such as"},
    {"x._y", "characters", "such as"},
    {"a/b:c/d", "characters", "such as"},
    {"a/../b", "characters", "such as"},
    {"../x", "registry", "localhost:5000"},
    {"./x", "registry", "localhost:5000"},
    {".h/x", "registry", "localhost:5000"},
    {"h./x", "registry", "localhost:5000"},
    {"a..b/x", "registry", "localhost:5000"},
    {"-h.io/x", "registry", "localhost:5000"},
    {"h-.io/x", "registry", "localhost:5000"},
    {"h.-io/x", "registry", "localhost:5000"},
    {"h_h.io/x", "registry", "localhost:5000"},
    {"h:/x", "registry", "localhost:5000"},
    {"h:0/x", "registry", "localhost:5000"},
    {"h:65536/x", "registry", "localhost:5000"},
    {"h:0000080/x", "registry", "localhost:5000"},
    {"h:a/x", "registry", "localhost:5000"},
    {"h:1:2/x", "registry", "localhost:5000"},
    {"u:p@h/x", "digest", "sha256:"},
    {"[::1/x", "registry", "localhost:5000"},
    {"[]:1/x", "registry", "localhost:5000"},
    {"[::1]x:1/x", "registry", "localhost:5000"},
    {"x y", "characters", "such as"},
    {"x\x1b[31m", "characters", "such as"},
    {"x+y", "characters", "such as"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const struct bad *c = &bad_cases[i];
        struct reference ref = {.tag = "untouched"};
        struct cay_error err = {0};
        if (reference_parse(c->text, &ref, &err) != -CAY_INVALID_ARGUMENT)
            fail_msg("'%s' was not refused", c->text);
        if (strstr(err.message, c->message) == NULL || strstr(err.remedy, c->remedy) == NULL)
            fail_msg("'%s': %s (%s)", c->text, err.message, err.remedy);
        assert_null(strchr(err.message, '\x1b'));
        assert_string_equal(ref.tag, "untouched");
    }
}

/* Fills text with prefix, count times 'a', suffix. */
static const char *stretched(char *text, const char *prefix, size_t count, const char *suffix) {
    size_t len = strlen(prefix);
    memcpy(text, prefix, len);
    memset(text + len, 'a', count);
    memcpy(text + len + count, suffix, strlen(suffix) + 1);
    return text;
}

static void test_lengths(void **state) {
    (void)state;
    char text[8192], out[REFERENCE_TEXT_SIZE];
    struct reference ref, again;
    assert_int_equal(reference_parse(stretched(text, "h.io/", 255, ""), &ref, NULL), 0);
    assert_true(reference_parse(stretched(text, "h.io/", 256, ""), &ref, NULL) < 0);
    assert_int_equal(reference_parse(stretched(text, "", 255 - 8, ""), &ref, NULL), 0);
    assert_true(reference_parse(stretched(text, "", 255 - 7, ""), &ref, NULL) < 0);
    assert_true(reference_parse(stretched(text, "", 253, ".io/x"), &ref, NULL) < 0);
    assert_true(reference_parse(stretched(text, "", 8000, ""), &ref, NULL) < 0);

    /* the longest that there is fits its text */
    char longest[REFERENCE_TEXT_SIZE];
    (void)stretched(longest, "", 252, ".io/");
    (void)stretched(longest + strlen(longest), "", 255, ":");
    (void)stretched(longest + strlen(longest), "", 128, "@sha256:" HEX);
    assert_int_equal(reference_parse(longest, &ref, NULL), 0);
    assert_string_equal(reference_format(&ref, out), longest);
    assert_int_equal(reference_parse(out, &again, NULL), 0);
    assert_memory_equal(&ref, &again, sizeof ref);
}

static void test_digests(void **state) {
    (void)state;
    char hex[HEX_SIZE] = "";
    assert_true(hex_is_valid(HEX));
    assert_false(hex_is_valid(""));
    assert_false(hex_is_valid(HEX "0"));
    assert_false(hex_is_valid(A16 A16 A16 "aaaaaaaaaaaaaaag"));
    assert_true(digest_parse("sha256:" HEX, hex));
    assert_string_equal(hex, HEX);
    assert_false(digest_parse(HEX, hex));
    assert_false(digest_parse("SHA256:" HEX, hex));
    assert_false(digest_parse("sha256:" HEX "\n", hex));
    assert_true(reference_is_id(HEX));
    assert_true(reference_is_id("sha256:ab"));
    assert_false(reference_is_id("python"));
    assert_false(reference_is_id(A16));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
