/* What a terminal keeps of its output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "init/terminal/scrollback.h"

enum { KEPT = 32 * 1024, TOTAL = 300 * 1024 };

/* All that is kept, in one piece. */
static struct buf kept(const struct scrollback *s) {
    struct buf b = BUF_INIT(1024 * 1024);
    const char *data;
    size_t n;
    for (uint64_t at = s->begin; (n = scrollback_at(s, at, &data)) > 0; at += n)
        assert_int_equal(buf_append(&b, data, n), 0);
    assert_int_equal(b.len, s->end - s->begin);
    return b;
}

/* A stream of things that must not be torn, with the places where each begins. */
static size_t make_stream(char *out, bool *starts) {
    static const char *const things[] = {"a", "€", "\x1b[38;5;9m", "\x1b]0;some title\x07",
                                         "😀\r\n"};
    size_t len = 0;
    for (unsigned i = 0; len + 64 < TOTAL; i++) {
        const char *thing = things[i * 7 % ARRAY_LEN(things)];
        starts[len] = true;
        memcpy(out + len, thing, strlen(thing));
        len += strlen(thing);
        if (strcmp(thing, "😀\r\n") == 0)
            starts[len - 2] = starts[len - 1] = true;
    }
    starts[len] = true;
    return len;
}

static void keeps_the_last_and_tears_nothing(void **state) {
    (void)state;
    static char stream[TOTAL];
    static bool starts[TOTAL];
    size_t len = make_stream(stream, starts), at = 0;
    struct scrollback s;
    assert_int_equal(scrollback_init(&s, KEPT), 0);
    for (size_t part = 1; at < len; part = part * 5 % 9973 + 1) {
        size_t n = MIN(part, len - at);
        scrollback_append(&s, stream + at, n);
        at += n;
        assert_int_equal(s.end, at);
        assert_true(starts[s.begin]);
        assert_true(s.end - s.begin >= MIN(at, (size_t)KEPT));
        assert_true(s.end - s.begin <= s.size);
    }
    struct buf b = kept(&s);
    assert_memory_equal(b.data, stream + s.begin, b.len);
    buf_free(&b);
    scrollback_free(&s);
}

static void takes_more_than_it_keeps_at_once(void **state) {
    (void)state;
    struct scrollback s;
    char *data = malloc(TOTAL);
    for (size_t i = 0; i < TOTAL; i++)
        data[i] = (char)('a' + i % 26);
    assert_int_equal(scrollback_init(&s, KEPT), 0);
    scrollback_append(&s, data, TOTAL);
    struct buf b = kept(&s);
    assert_true(b.len >= KEPT);
    assert_memory_equal(b.data, data + TOTAL - b.len, b.len);
    buf_free(&b);
    free(data);
    scrollback_free(&s);
}

/* A program on the other screen for long: who comes later must get there too. */
static void remembers_the_modes_of_what_is_gone(void **state) {
    (void)state;
    struct scrollback s;
    assert_int_equal(scrollback_init(&s, KEPT), 0);
    scrollback_append(&s, "\x1b[?1049h\x1b[?25l", 14);
    assert_int_equal(s.at_begin.modes, 0);
    assert_true(vt_has_other_screen(&s.at_end));
    for (int i = 0; i < TOTAL; i += 8)
        scrollback_append(&s, "screen\r\n", 8);
    assert_true(vt_has_other_screen(&s.at_begin));
    scrollback_append(&s, "\x1b[?1049l", 8);
    assert_true(vt_has_other_screen(&s.at_begin));
    assert_false(vt_has_other_screen(&s.at_end));
    scrollback_free(&s);
}

/* A sequence without an end does not make everything go. */
static void an_endless_sequence_is_cut(void **state) {
    (void)state;
    struct scrollback s;
    static char junk[TOTAL];
    memset(junk, 'x', sizeof junk);
    memcpy(junk, "\x1b]0;", 4);
    assert_int_equal(scrollback_init(&s, KEPT), 0);
    scrollback_append(&s, junk, sizeof junk);
    assert_true(s.end - s.begin >= KEPT);
    assert_true(vt_is_between(&s.at_begin));
    scrollback_free(&s);
}

/* One who comes while a program prints: what he was promised is still there when he reads it. */
static void room_keeps_the_beginning(void **state) {
    (void)state;
    struct scrollback s;
    static char chunk[SCROLLBACK_CHUNK];
    memset(chunk, '.', sizeof chunk);
    assert_int_equal(scrollback_init(&s, KEPT), 0);
    scrollback_make_room(&s);
    assert_int_equal(s.end, 0);
    for (int i = 0; i < 4; i++)
        scrollback_append(&s, chunk, sizeof chunk);
    uint64_t begin = s.begin;
    scrollback_append(&s, "painted", 7);
    assert_int_not_equal(s.begin, begin); /* full: each byte pushes one out */
    scrollback_make_room(&s);
    begin = s.begin;
    assert_true(s.end - begin >= KEPT);
    scrollback_append(&s, chunk, sizeof chunk);
    assert_int_equal(s.begin, begin);
    scrollback_free(&s);
}

/* Room is made at a place where the stream may be cut, and what was promised stays. */
static void room_tears_nothing(void **state) {
    (void)state;
    struct scrollback s;
    static char junk[TOTAL];
    memset(junk, 'x', sizeof junk);
    assert_int_equal(scrollback_init(&s, KEPT), 0);
    scrollback_append(&s, junk, s.size);
    memcpy(junk, "\x1b]0;",
           4); /* a sequence of the greatest length, just where room would be made */
    scrollback_append(&s, junk, SCROLLBACK_CHUNK);
    scrollback_append(&s, junk + 4, KEPT + VT_SEQUENCE_MAX - 1);
    scrollback_make_room(&s);
    assert_true(vt_is_between(&s.at_begin));
    assert_true(s.end - s.begin >= KEPT);
    assert_true(s.end - s.begin + SCROLLBACK_CHUNK <= s.size);
    scrollback_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_last_and_tears_nothing),
        cmocka_unit_test(takes_more_than_it_keeps_at_once),
        cmocka_unit_test(remembers_the_modes_of_what_is_gone),
        cmocka_unit_test(an_endless_sequence_is_cut),
        cmocka_unit_test(room_keeps_the_beginning),
        cmocka_unit_test(room_tears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
