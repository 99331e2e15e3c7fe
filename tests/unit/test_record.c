/* Tests of image records: what is written is read again, byte for byte, and nothing else is taken.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/record.h"

#define HEX_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEX_B "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void set(char *field, const char *text) {
    memcpy(field, text, strlen(text) + 1);
}

static struct image_record *sample(void) {
    struct image_record *r = record_new();
    if (r == NULL)
        abort(); /* which gcc understands, unlike an assertion of cmocka */
    set(r->id, HEX_A);
    set(r->manifest, HEX_B);
    set(r->created, "2026-11-15T00:00:00Z");
    set(r->os, "linux");
    set(r->architecture, "amd64");
    set(r->user, "app:staff");
    set(r->working_dir, "/work space");
    set(r->stop_signal, "SIGTERM");
    struct record_layer *layer = record_add_layer(r);
    assert_non_null(layer);
    set(layer->chain, HEX_A);
    set(layer->diff_id, HEX_B);
    set(layer->blob, HEX_A);
    set(layer->media_type, "application/vnd.oci.image.layer.v1.tar+gzip");
    layer->blob_size = INT64_MAX;
    layer->size = 5;
    layer->entries = 7;
    layer = record_add_layer(r);
    assert_non_null(layer);
    set(layer->chain, HEX_B); /* a snapshot: nothing else is known */
    return r;
}

static struct image_record *round_trip(const struct image_record *r) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    struct image_record *again = NULL;
    struct cay_error err = {0};
    assert_int_equal(record_write(r, &text), 0);
    if (record_read("sample", text.data, text.len, &again, &err) < 0)
        fail_msg("%s\n%s", err.message, text.data);
    return again;
}

static void assert_same_list(const struct strv *a, const struct strv *b) {
    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len; i++)
        assert_string_equal(a->v[i], b->v[i]);
}

/* Every character that a C string can hold, as UTF-8, and what could be taken for TOML. */
static void test_round_trip(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = sample();
    char controls[128] = "";
    for (int c = 1; c < 128; c++)
        controls[c - 1] = (char)c;
    static const char *const values[] = {
        "",
        "K=",
        "PATH=/usr/bin:/bin",
        "Q=\"\"\"'''",
        "B=\\u0041\\",
        "N=a\n\tb",
        "C=[[layer]]",
        "D=\r\n[layer]\r\n",
        "E=# no comment",
        "U=é€😀\xc2\x80\xef\xbf\xbf",
    };
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        assert_int_equal(strv_push(&r->env, values[i]), 0);
        assert_int_equal(strv_push(&r->labels, values[i]), 0);
    }
    assert_int_equal(strv_push(&r->cmd, controls), 0);
    assert_int_equal(strv_push(&r->entrypoint, "/bin/sh"), 0);
    assert_int_equal(strv_push(&r->volumes, "/data"), 0);
    assert_int_equal(strv_push(&r->ports, "80/tcp"), 0);

    _cleanup_(record_freep) struct image_record *again = round_trip(r);
    assert_string_equal(again->id, r->id);
    assert_string_equal(again->manifest, r->manifest);
    assert_string_equal(again->created, r->created);
    assert_string_equal(again->user, r->user);
    assert_string_equal(again->working_dir, r->working_dir);
    assert_string_equal(again->variant, "");
    assert_same_list(&again->env, &r->env);
    assert_same_list(&again->labels, &r->labels);
    assert_same_list(&again->cmd, &r->cmd);
    assert_same_list(&again->entrypoint, &r->entrypoint);
    assert_same_list(&again->volumes, &r->volumes);
    assert_same_list(&again->ports, &r->ports);
    assert_int_equal(again->layer_count, 2);
    assert_memory_equal(again->layers, r->layers, 2 * sizeof *r->layers);
}

static void test_no_layers(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = record_new();
    assert_non_null(r);
    set(r->id, HEX_A);
    _cleanup_(record_freep) struct image_record *again = round_trip(r);
    assert_int_equal(again->layer_count, 0);
    assert_int_equal(again->env.len, 0);
}

static int try_write(const struct image_record *r) {
    _cleanup_(buf_free) struct buf text = BUF_INIT((size_t)RECORD_TEXT_MAX * 4);
    return record_write(r, &text);
}

static void test_unwritable(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = sample();
    r->layers[0].blob_size = (uint64_t)INT64_MAX + 1;
    assert_int_equal(try_write(r), -ERANGE);
    r->layers[0].blob_size = 0;
    set(r->id, "short");
    assert_int_equal(try_write(r), -EINVAL);
    set(r->id, "");
    assert_int_equal(try_write(r), -EINVAL);
    set(r->id, HEX_A);
    set(r->user, "\xff");
    assert_int_equal(try_write(r), -EILSEQ);
    set(r->user, "");
    assert_int_equal(strv_push(&r->env, "A=\xed\xa0\x80"), 0); /* a surrogate */
    assert_int_equal(try_write(r), -EILSEQ);
}

/* At its largest a record can still be read; one word or byte more is not written. */
static void test_limits(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = sample();
    while (r->layer_count < RECORD_LAYERS_MAX)
        set(record_add_layer(r)->chain, HEX_B);
    assert_null(record_add_layer(r));
    for (int i = 0; i < RECORD_WORDS_MAX; i++)
        assert_int_equal(strv_push(&r->env, "A=b"), 0);
    _cleanup_(record_freep) struct image_record *again = round_trip(r);
    assert_int_equal(again->env.len, RECORD_WORDS_MAX);
    assert_int_equal(again->layer_count, RECORD_LAYERS_MAX);
    assert_int_equal(strv_push(&r->labels, "one=more"), 0);
    assert_int_equal(try_write(r), -E2BIG);

    _cleanup_(record_freep) struct image_record *large = sample();
    _cleanup_(freep) char *word = calloc(1, RECORD_TEXT_MAX);
    assert_non_null(word);
    memset(word, 1, RECORD_TEXT_MAX / 6); /* six bytes each, once escaped */
    assert_int_equal(strv_push(&large->env, word), 0);
    assert_int_equal(try_write(large), -E2BIG);
}

static void test_sizes(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = sample();
    r->layers[1].size = 10;
    assert_int_equal(record_size(r), 15);
    r->layers[0].size = UINT64_MAX;
    assert_true(record_size(r) == UINT64_MAX);
}

/* Replaces the first `from` in the text of the sample by `to`. */
static void change(const char *from, const char *to, struct buf *out) {
    _cleanup_(record_freep) struct image_record *r = sample();
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    assert_int_equal(strv_push(&r->env, "A=b"), 0);
    assert_int_equal(record_write(r, &text), 0);
    const char *at = strstr(text.data, from);
    if (at == NULL)
        fail_msg("no '%s' in\n%s", from, text.data);
    assert_int_equal(buf_append(out, text.data, (size_t)(at - text.data)), 0);
    assert_int_equal(buf_puts(out, to), 0);
    assert_int_equal(buf_puts(out, at + strlen(from)), 0);
}

static void test_bad_texts(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"format = 1", "format = 2", "format"},
        {"format = 1", "format = \"1\"", "format"},
        {"format = 1", "", "format"},
        {"id = \"" HEX_A, "id = \"" HEX_A "0", "id is not a digest"},
        {"id = \"0", "id = \"G", "id is not a digest"},
        {"id = \"" HEX_A "\"", "id = 5", "id is not a string"},
        {"id = \"" HEX_A "\"", "id = \"\"", "id is not a digest"},
        {"id = \"" HEX_A "\"\n", "", "id is missing"},
        {"os = \"linux\"", "os = \"linux-on-a-very-long-system-name-\"", "os is too long"},
        {"os = \"linux\"", "os = \"li\\u0000x\"", "NUL"},
        {"\"A=b\"", "\"A=\\u0000b\"", "NUL"},
        {"\"A=b\"", "5", "env is not a string"},
        {"cmd = []", "cmd = {}", "cmd is not a list"},
        {"cmd = []", "cmd = \"sh\"", "cmd is not a list"},
        {"chain = \"" HEX_A, "chain = \"../../../etc", "chain is not a digest"},
        {"chain = \"" HEX_A, "chain = \"", "chain is not a digest"},
        {"blob_size = ", "blob_size = -", "blob_size is not a number"},
        {"size = 5", "size = 5.0", "size is not a number"},
        {"entries = 7\n", "", "entries is missing"},
        {"[[layer]]", "[[layer", "image record"},
        {"os = ", "os = \"a\"\nos = ", "image record"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
        struct image_record *record = NULL;
        struct cay_error err = {0};
        change(cases[i].from, cases[i].to, &text);
        if (record_read("sample", text.data, text.len, &record, &err) != -CAY_INVALID_ARGUMENT)
            fail_msg("%s -> %s was taken", cases[i].from, cases[i].to);
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("%s -> %s: %s", cases[i].from, cases[i].to, err.message);
        assert_null(record);
        assert_true(err.remedy[0] != '\0');
    }
}

static void test_newer_keys(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    _cleanup_(record_freep) struct image_record *record = NULL;
    change("entries = 7\n", "entries = 7\nlater = [{a = 1}]\n\n[other]\nx = 1\n", &text);
    assert_int_equal(record_read("sample", text.data, text.len, &record, NULL), 0);
    assert_int_equal(record->layer_count, 2);
}

static void test_too_many_layers(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf text = BUF_INIT(RECORD_TEXT_MAX);
    struct image_record *record = NULL;
    change("entries = 7\n", "entries = 7\n", &text);
    for (int i = 0; i < RECORD_LAYERS_MAX; i++)
        assert_int_equal(buf_puts(&text, "[[layer]]\nchain = \"" HEX_A "\"\n"), 0);
    struct cay_error err = {0};
    assert_true(record_read("sample", text.data, text.len, &record, &err) < 0);
    assert_non_null(strstr(err.message, "at most 127 layers"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_no_layers),
        cmocka_unit_test(test_unwritable), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_sizes),      cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_newer_keys), cmocka_unit_test(test_too_many_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
