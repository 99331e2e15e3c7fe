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

static void read_reply(const char *text, struct reply *ret) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    struct cay_error err;
    assert_int_equal(buf_puts(&b, text), 0);
    assert_int_equal(reply_parse_list(&b, ret, &err), 0);
}

static void test_info(void **state) {
    (void)state;
    struct cay_error err;
    struct reply t;
    struct cay_info *all;
    read_reply(
        "[{\"id\":\"1\",\"name\":\"one\",\"labels\":{\"a\":\"1\",\"b\":\"x,y\",\"c\":\"\\\\\"},"
        "\"memory\":512,\"cpus\":0.5,\"pids\":7,\"createdAt\":\"1970-01-01T00:00:01Z\"},"
        "{\"id\":\"2\",\"name\":\"two\",\"pids\":\"no\",\"createdAt\":\"never\"}]",
        &t);
    assert_int_equal(info_read(&t, &all, &err), 0);
    reply_free(&t);
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
    assert_string_equal(all[0].error_reason, ""); /* no such member */
    assert_string_equal(all[1].name, "two");
    assert_null(all[1].labels[0]);
    assert_int_equal(all[1].memory_bytes, 0);
    assert_int_equal(all[1].created_ms, -1);
    cay_info_free(all);

    read_reply("[]", &t);
    assert_int_equal(info_read(&t, &all, &err), 0);
    assert_non_null(all);
    reply_free(&t);
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
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_only_what_was_said_is_asked_for),
        cmocka_unit_test(test_what_is_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
