/* Where a stream for a terminal may be cut, and the modes it leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/vt.h"

static struct vt fed(const char *text) {
    struct vt v = {0};
    vt_feed(&v, text, strlen(text));
    return v;
}

static const char *modes_of(const char *text) {
    static char out[256];
    struct vt v = fed(text);
    struct buf b = BUF_INIT(256);
    vt_put_modes(&v, &b);
    (void)snprintf(out, sizeof out, "%s", buf_text(&b));
    buf_free(&b);
    return out;
}

/* Each text is one thing: no cut inside, one behind it. */
static void is_cut_between_things_only(void **state) {
    (void)state;
    static const char *const things[] = {
        "ä",
        "€",
        "😀",
        "\x1b[31m",
        "\x1b[?1049h",
        "\x1b[38;2;1;2;3m",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1bP1$r0m\x1b\\",
        "\x1b_anything ä\x1b\\",
        "\x1b(B",
        "\x1bM",
        "\x1b[!p",
        "\x1b[1;\n2H",
    };
    for (size_t i = 0; i < ARRAY_LEN(things); i++) {
        struct vt v = {0};
        for (const char *p = things[i]; *p != '\0'; p++) {
            assert_true((p == things[i]) == vt_is_between(&v));
            vt_feed(&v, p, 1);
        }
        assert_true(vt_is_between(&v));
    }
}

static void plain_text_may_be_cut_anywhere(void **state) {
    (void)state;
    struct vt v = {0};
    for (const char *p = "hello\r\n\tworld\x08\x7f"; *p != '\0'; p++) {
        vt_feed(&v, p, 1);
        assert_true(vt_is_between(&v));
    }
}

static void broken_things_end(void **state) {
    (void)state;
    assert_true(vt_is_between(&(struct vt[]){fed("\xe2\x82x")}[0])); /* half a character */
    assert_true(vt_is_between(&(struct vt[]){fed("\xff\x80\xfe")}[0]));
    assert_true(vt_is_between(&(struct vt[]){fed("\x1b[12\x18")}[0])); /* cancelled */
    assert_true(vt_is_between(&(struct vt[]){fed("\x1b]0;a\x1b[m")}[0]));
    struct vt v = fed("\x1b]0;");
    for (int i = 0; i < VT_SEQUENCE_MAX; i++)
        vt_feed(&v, "x", 1);
    assert_true(vt_is_between(&v)); /* too long to be one */
}

static void modes_are_known(void **state) {
    (void)state;
    assert_string_equal(modes_of("plain \x1b[1m bold"), "");
    assert_string_equal(modes_of("\x1b[?1049h\x1b[?25l"), "\x1b[?1049h\x1b[?25l");
    assert_string_equal(modes_of("\x1b[?1049;25h\x1b[?1049l"), "");
    assert_string_equal(modes_of("\x1b[?1000;1006h\x1b="), "\x1b[?1000h\x1b[?1006h\x1b=");
    assert_string_equal(modes_of("\x1b[25l"), ""); /* not a private one */
    assert_string_equal(modes_of("\x1b[?25$l"), "");
    assert_string_equal(modes_of("\x1b[?1049h\x1b[?25l\x1b=\x1b"
                                 "c"),
                        "");
    assert_string_equal(modes_of("\x1b[?1h\x1b[?25l\x1b=\x1b[?2004h\x1b[!p"), "\x1b[?2004h");
    assert_string_equal(modes_of("\x1b[?99999999999999999999h\x1b[?h\x1b[?;;;h"), "");
    assert_string_equal(modes_of("\x1b[?1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18h"),
                        "\x1b[?1h\x1b[?9h");
    assert_true(vt_has_other_screen(&(struct vt[]){fed("\x1b[?47h")}[0]));
}

static void reset_undoes(void **state) {
    (void)state;
    struct vt v = fed("\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b=\x1b[");
    struct buf b = BUF_INIT(1024);
    vt_put_reset(&v, &b);
    vt_feed(&v, b.data, b.len);
    assert_true(v.modes == 0 && vt_is_between(&v));
    struct vt wanted = fed("\x1b[?1049h\x1b[?7l"), other = fed("\x1b[?25l\x1b[?1003h\x1b=");
    buf_clear(&b);
    vt_put_all_modes(&wanted, &b);
    vt_feed(&other, b.data, b.len);
    assert_int_equal(other.modes, wanted.modes);
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_cut_between_things_only),
        cmocka_unit_test(plain_text_may_be_cut_anywhere),
        cmocka_unit_test(broken_things_end),
        cmocka_unit_test(modes_are_known),
        cmocka_unit_test(reset_undoes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
