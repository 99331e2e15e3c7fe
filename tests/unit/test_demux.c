/* Tests of demux: whose output the bytes of a command's logs are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "remote/demux.h"

struct heard {
    struct buf stream[2];
};

static int hear(void *arg, int stream, const char *data, size_t len) {
    struct heard *h = arg;
    assert_true(stream == 0 || stream == 1);
    assert_true(len > 0);
    return buf_append(&h->stream[stream], data, len);
}

/* In pieces of every length the result is the same. */
static void check(const char *text, size_t len, const char *out, const char *err) {
    for (size_t step = 1; step <= len; step++) {
        struct heard h = {{BUF_INIT(1024), BUF_INIT(1024)}};
        struct demux d = {0};
        for (size_t at = 0; at < len; at += step)
            assert_int_equal(demux_take(&d, text + at, MIN(step, len - at), hear, &h), 0);
        assert_int_equal(demux_end(&d, hear, &h), 0);
        assert_string_equal(buf_text(&h.stream[0]), out);
        assert_string_equal(buf_text(&h.stream[1]), err);
        buf_free(&h.stream[0]);
        buf_free(&h.stream[1]);
    }
}

#define CHECK(text, out, err) check(text, sizeof text - 1, out, err)

static void test_streams(void **state) {
    (void)state;
    CHECK("plain", "plain", "");
    CHECK("\1\1\1out\2\2\2err\1\1\1more", "outmore", "err");
    CHECK("\2\2\2e\2\2\2f", "", "ef");
    CHECK("\1\1\1", "", "");
    CHECK("\1\1\1a\1\1b\2c", "a\1\1b\2c", ""); /* no marks */
    CHECK("\1\1\2\2\2x", "\1\1", "x");
    CHECK("end\1\1", "end\1\1", "");
}

static int refuse(void *arg, int stream, const char *data, size_t len) {
    (void)arg, (void)stream, (void)data, (void)len;
    return -7;
}

static void test_a_taker_who_had_enough(void **state) {
    (void)state;
    struct demux d = {0};
    assert_int_equal(demux_take(&d, "abc", 3, refuse, NULL), -7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_a_taker_who_had_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
