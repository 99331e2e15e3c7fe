/* What a context's driver reports comes from inside: whole records count, and nothing after
 * nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/python/context.h"

#define BYTES(text) text, sizeof(text) - 1

static void languages(void **state) {
    (void)state;
    struct cay_error err = {0};
    assert_string_equal(context_language(NULL, &err), "python");
    assert_string_equal(context_language("", &err), "python");
    assert_string_equal(context_language("node", &err), "javascript");
    assert_string_equal(context_language("bash", &err), "bash");
    assert_null(context_language("Python", &err));
    assert_int_equal(err.code, CAY_INVALID_ARGUMENT);
}

static void all_kinds(void **state) {
    (void)state;
    static const char stream[] = "\1\5\0\0\0N\0V\0T"
                                 "\2\16\0\0\0\1\5\0\0\0t\0a\0b\0\0\0\0" /* an item of no length */
                                 "\3\2\0\0\0hi";
    struct context_reader r = CONTEXT_READER_INIT;
    struct context_record record;
    context_reader_add(&r, BYTES(stream));
    assert_true(context_reader_next(&r, &record));
    assert_int_equal(record.kind, CONTEXT_ERROR);
    assert_string_equal(record.name, "N");
    assert_string_equal(record.value, "V");
    assert_string_equal(record.traceback, "T");
    assert_false(context_reader_next(&r, &record));
    assert_true(r.failed);
    context_reader_free(&r);
}

/* However it is cut into pieces. */
static void piece_by_piece(void **state) {
    (void)state;
    static const char stream[] = "\2\23\0\0\0\1\5\0\0\0t\0a\0b\5\0\0\0u/v\0c"
                                 "\3\2\0\0\0hi\3\0\0\0\0";
    struct context_reader r = CONTEXT_READER_INIT;
    struct context_record record;
    int found = 0;
    for (size_t i = 0; i < sizeof stream - 1; i++) {
        context_reader_add(&r, stream + i, 1);
        while (context_reader_next(&r, &record)) {
            found++;
            if (found == 1) {
                assert_true(record.is_last);
                assert_int_equal(record.count, 2);
                assert_string_equal(record.items[0].type, "t");
                assert_int_equal(record.items[0].len, 3);
                assert_memory_equal(record.items[0].data, "a\0b", 3);
                assert_string_equal(record.items[1].type, "u/v");
                assert_memory_equal(record.items[1].data, "c", 1);
            } else {
                assert_int_equal(record.kind, CONTEXT_NOTICE);
                assert_string_equal(record.text, found == 2 ? "hi" : "");
            }
        }
    }
    assert_int_equal(found, 3);
    context_reader_free(&r);
}

static void nothing_counts_after_nonsense(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
    } cases[] = {
        {BYTES("\0\0\0\0\0")},       /* a kind that is none */
        {BYTES("\4\0\0\0\0")},       /* the same */
        {BYTES("\1\0\0\0\0")},       /* an error without parts */
        {BYTES("\1\3\0\0\0a\0b")},   /* with too few */
        {BYTES("\2\0\0\0\0")},       /* a result without a flag */
        {BYTES("\2\3\0\0\0\1\0\0")}, /* half a length */
        {BYTES("\2\6\0\0\0\1\xff\xff\xff\xff"
               "a")},                       /* an item beyond its record */
        {BYTES("\2\6\0\0\0\1\1\0\0\0a")},   /* a type without an end */
        {BYTES("\2\7\0\0\0\1\2\0\0\0\0a")}, /* without a name */
        {BYTES("\2\xff\xff\xff\xff")},      /* longer than anything */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct context_reader r = CONTEXT_READER_INIT;
        struct context_record record;
        context_reader_add(&r, cases[i].data, cases[i].len);
        assert_false(context_reader_next(&r, &record));
        assert_true(r.failed);
        context_reader_add(&r, BYTES("\3\0\0\0\0"));
        assert_false(context_reader_next(&r, &record));
        context_reader_free(&r);
    }
}

static void too_many_items(void **state) {
    (void)state;
    struct context_reader r = CONTEXT_READER_INIT;
    struct context_record record;
    char item[] = "\3\0\0\0a\0b";
    char head[] = {2, 0, 0, 0, 0, 1};
    uint32_t len = 1 + (CONTEXT_ITEMS_MAX + 1) * (sizeof item - 1);
    head[1] = (char)(len & 255);
    head[2] = (char)(len >> 8);
    context_reader_add(&r, head, sizeof head);
    for (int i = 0; i <= CONTEXT_ITEMS_MAX; i++)
        context_reader_add(&r, item, sizeof item - 1);
    assert_false(context_reader_next(&r, &record));
    assert_true(r.failed);
    context_reader_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(languages),      cmocka_unit_test(all_kinds),
        cmocka_unit_test(piece_by_piece), cmocka_unit_test(nothing_counts_after_nonsense),
        cmocka_unit_test(too_many_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
