#include "api/shape/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static int read_create(const char *text, struct sandbox_record *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(1024 * 1024);
    *ret = (struct sandbox_record){0};
    assert_int_equal(buf_puts(&body, text), 0);
    return shape_read_create(&body, ret, err);
}

static void test_everything(void **state) {
    (void)state;
    struct sandbox_record r;
    assert_int_equal(
        read_create("{\"name\": \"lab\", \"image\": \"python:3.12\", \"env\": {\"B\": \"x=y\", "
                    "\"A\": \"\"}, \"labels\": {\"team\": \"red\"}, \"user\": \"1000:1000\", "
                    "\"workDir\": \"/w\", \"memory\": 1048576, \"disk\": \"1.5g\", \"cpus\": 0.5, "
                    "\"pids\": 7, \"volumes\": [\"/srv:/data:ro\"], \"autoStopInterval\": 3, "
                    "\"autoDeleteInterval\": 4, \"readOnly\": true, \"profile\": \"build\", "
                    "\"tier\": \"rootless\"}",
                    &r, NULL),
        0);
    assert_string_equal(r.name, "lab");
    assert_string_equal(r.image_name, "python:3.12");
    assert_int_equal(r.env.len, 2);
    assert_string_equal(r.env.v[0], "A=");
    assert_string_equal(r.env.v[1], "B=x=y");
    assert_string_equal(r.labels.v[0], "team=red");
    assert_string_equal(r.user, "1000:1000");
    assert_string_equal(r.work_dir, "/w");
    assert_int_equal(r.memory_bytes, 1048576);
    assert_int_equal(r.disk_bytes, 1536 * 1024 * 1024);
    assert_int_equal(r.cpu_quota_us, 50000);
    assert_int_equal(r.pids, 7);
    assert_string_equal(r.volumes.v[0], "/srv:/data:ro");
    assert_int_equal(r.auto_stop_minutes, 3);
    assert_int_equal(r.auto_delete_minutes, 4);
    assert_true(r.read_only);
    assert_int_equal(r.profile, PROFILE_BUILD);
    assert_int_equal(r.tier, TIER_ROOTLESS);
    sandbox_record_free(&r);
}

static void test_left_out(void **state) {
    (void)state;
    static const char *const rows[] = {"", "{}", "{\"name\": null, \"env\": null, \"cpus\": null}"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sandbox_record r;
        assert_int_equal(read_create(rows[i], &r, NULL), 0);
        assert_string_equal(r.name, "");
        assert_int_equal(r.memory_bytes + r.cpu_quota_us + r.pids + r.env.len, 0);
        assert_int_equal(r.auto_stop_minutes, 0);
        assert_int_equal(r.auto_delete_minutes, 0);
        assert_int_equal(r.tier, TIER_NONE);
    }
}

/* Zero is a wish in a request, and the default in a record. */
static void test_zero_intervals(void **state) {
    (void)state;
    struct sandbox_record r;
    assert_int_equal(read_create("{\"autoStopInterval\": 0, \"autoDeleteInterval\": 0}", &r, NULL),
                     0);
    assert_int_equal(r.auto_stop_minutes, -1);
    assert_true(r.auto_delete_minutes == INTERVAL_AT_ONCE);
    assert_int_equal(read_create("{\"autoDeleteInterval\": -1}", &r, NULL), 0);
    assert_int_equal(r.auto_delete_minutes, -1);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message, *remedy;
    } rows[] = {
        {"[]", "expected an object", ""},
        {"{", "request body", ""},
        {"nonsense", "request body", ""},
        {"{} {}", "request body", ""},
        {"{\"memroy\": 1}", "'memroy' is no key", "did you mean 'memory'?"},
        {"{\"name\": \"a\", \"name\": \"b\"}", "request body", ""},
        {"{\"name\": \"-a\"}", "name", ""},
        {"{\"name\": \"a/b\"}", "name", ""},
        {"{\"name\": 5}", "name: expected", ""},
        {"{\"memory\": 0}", "memory", ""},
        {"{\"memory\": -1}", "memory", ""},
        {"{\"memory\": \"lots\"}", "memory", ""},
        {"{\"memory\": 1e30}", "memory", ""},
        {"{\"cpus\": 0}", "cpus: expected 0.01 to 4096", ""},
        {"{\"cpus\": 5000}", "cpus", ""},
        {"{\"cpus\": \"1\"}", "cpus", ""},
        {"{\"pids\": 0}", "pids", ""},
        {"{\"pids\": 4294967296}", "pids", ""},
        {"{\"env\": [\"A=1\"]}", "env", ""},
        {"{\"env\": {\"A\": 1}}", "env.A", ""},
        {"{\"env\": {\"\": \"x\"}}", "must not be empty", ""},
        {"{\"env\": {\"A=B\": \"x\"}}", "have a '='", ""},
        {"{\"volumes\": \"/a:/b\"}", "volumes", ""},
        {"{\"volumes\": [1]}", "volumes[0]", ""},
        {"{\"autoStopInterval\": -1}", "autoStopInterval", ""},
        {"{\"autoDeleteInterval\": -2}", "autoDeleteInterval", ""},
        {"{\"profile\": \"root\"}", "profile", ""},
        {"{\"tier\": \"none\"}", "tier", ""},
        {"{\"readOnly\": 1}", "readOnly", ""},
        {"{\"name\": \"a\\u0000b\"}", "request body", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sandbox_record r;
        struct cay_error err;
        assert_int_equal(read_create(rows[i].text, &r, &err), -CAY_INVALID_ARGUMENT);
        if (strstr(err.message, rows[i].message) == NULL)
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, err.message, rows[i].message);
        if (rows[i].remedy[0] != '\0')
            assert_string_equal(err.remedy, rows[i].remedy);
        sandbox_record_free(&r);
    }
}

static void test_labels_and_names(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int labels, name;
    } rows[] = {
        {"{\"labels\": {}}", 0, -CAY_INVALID_ARGUMENT},
        {"{\"name\": \"lab\"}", -CAY_INVALID_ARGUMENT, 0},
        {"{}", -CAY_INVALID_ARGUMENT, -CAY_INVALID_ARGUMENT},
        {"", -CAY_INVALID_ARGUMENT, -CAY_INVALID_ARGUMENT},
        {"{\"labels\": null}", -CAY_INVALID_ARGUMENT, -CAY_INVALID_ARGUMENT},
        {"{\"name\": \"\"}", -CAY_INVALID_ARGUMENT, -CAY_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(buf_free) struct buf body = BUF_INIT(1024);
        struct strv labels = {0};
        struct cay_error err;
        char name[NAME_MAX_LEN + 1];
        assert_int_equal(buf_puts(&body, rows[i].text), 0);
        assert_int_equal(shape_read_labels(&body, &labels, &err), rows[i].labels);
        assert_int_equal(shape_read_rename(&body, name, &err), rows[i].name);
        strv_free(&labels);
    }
}

static void test_errors(void **state) {
    (void)state;
    struct cay_error err;
    error_set(&err, CAY_NOT_FOUND, "no \"lab\"\nhere");
    (void)error_remedy(&err, "make one");
    _cleanup_(buf_free) struct buf json = BUF_INIT(2048);
    shape_error(&json, &err, 404);
    assert_non_null(strstr(buf_text(&json), "\"code\":\"not_found\""));
    assert_non_null(strstr(buf_text(&json), "\"statusCode\":404"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),       cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_zero_intervals),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_labels_and_names), cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
