/* What cay_manager makes of requests and answers, without a daemon. */
#include <string.h>

#include <setjmp.h> /* cmocka needs these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/str.h"
#include "client/create.h"
#include "client/info.h"

static void test_fields_are_unescaped(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"a\\tb\\nc\\\\d", "a\tb\nc\\d"},
        {"\\x2c\\x7F", ",\x7f"},
        {"\\x00", "\\x00"}, /* would end the text */
        {"\\x4", "\\x4"},
        {"\\q\\", "\\q\\"},
        {"\\\\x41", "\\x41"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        assert_true(str_copy(text, sizeof text, cases[i][0]) == 0);
        table_unescape(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void test_info(void **state) {
    (void)state;
    struct cay_error err;
    struct table t;
    struct cay_info *all;
    assert_int_equal(table_parse("id\tname\tlabels\tmemory\tcpus\tpids\tcreatedAt\n"
                                 "1\tone\ta=1,b=x\\x2cy,c=\\\\\t512\t0.5\t7\t1970-01-01T00:00:01Z\n"
                                 "2\ttwo\t\t\t\tno\tnever\n",
                                 &t, &err),
                     0);
    assert_int_equal(info_read(&t, &all, &err), 0);
    table_free(&t);
    assert_string_equal(all[0].id, "1");
    assert_string_equal(all[0].name, "one");
    assert_string_equal(all[0].labels[0], "a=1");
    assert_string_equal(all[0].labels[1], "b=x,y");
    assert_string_equal(all[0].labels[2], "c=\\");
    assert_null(all[0].labels[3]);
    assert_int_equal(all[0].memory_bytes, 512);
    assert_int_equal(all[0].pids, 7);
    assert_int_equal(all[0].created_ms, 1000);
    assert_true(all[0].cpus > 0.49 && all[0].cpus < 0.51);
    assert_string_equal(all[0].error_reason, ""); /* no such column */
    assert_string_equal(all[1].name, "two");
    assert_null(all[1].labels[0]);
    assert_int_equal(all[1].memory_bytes, 0);
    assert_int_equal(all[1].created_ms, -1);
    cay_info_free(all);

    assert_int_equal(table_parse("id\tname\n", &t, &err), 0);
    assert_int_equal(info_read(&t, &all, &err), 0);
    assert_non_null(all);
    table_free(&t);
    cay_info_free(all);
}

static void test_only_what_was_said_is_asked_for(void **state) {
    (void)state;
    struct cay_error err;
    struct cay_create c;
    _cleanup_(buf_free) struct buf b = BUF_INIT(CREATE_BODY_MAX);
    cay_create_init(&c);
    assert_int_equal(create_body(&c, &b, &err), 0);
    assert_string_equal(buf_text(&b), "{}");
    buf_clear(&b);
    c.spec.name = "a\"b";
    c.spec.memory_bytes = 5;
    c.spec.cpus = 0.5;
    c.spec.volumes = (const char *const[]){"/a:/b:ro", NULL};
    c.auto_stop_minutes = 0;
    c.auto_delete_minutes = -1;
    c.on_failure = "recreate";
    c.env = (const char *const[]){"A=1", "B=", "A=x=y", NULL};
    c.labels = (const char *const[]){NULL};
    assert_int_equal(create_body(&c, &b, &err), 0);
    assert_string_equal(buf_text(&b),
                        "{\"name\":\"a\\\"b\",\"memory\":5,\"cpus\":0.5,\"volumes\":[\"/a:/b:ro\"],"
                        "\"onFailure\":\"recreate\",\"autoStopInterval\":0,"
                        "\"autoDeleteInterval\":-1,\"env\":{\"B\":\"\",\"A\":\"x=y\"}}");
}

static void test_what_is_no_request(void **state) {
    (void)state;
    struct cay_error err;
    struct cay_create c;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    cay_create_init(&c);
    c.env = (const char *const[]){"A", NULL};
    assert_int_equal(create_body(&c, &b, &err), -CAY_INVALID_ARGUMENT);
    c.env = NULL;
    c.labels = (const char *const[]){"=x", NULL};
    assert_int_equal(create_body(&c, &b, &err), -CAY_INVALID_ARGUMENT);
    c.labels = NULL;
    c.spec.network = "bridges";
    assert_int_equal(create_body(&c, &b, &err), -CAY_INVALID_ARGUMENT);
    c.spec.network = "none";
    c.work_dir = "/a/folder/whose/name/is/longer/than/this/buffer/allows/it/to/be/ever";
    assert_int_equal(create_body(&c, &b, &err), -CAY_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_unescaped),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_only_what_was_said_is_asked_for),
        cmocka_unit_test(test_what_is_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
