#include "api/openapi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json/json.h"

static const struct route one[] = {
    {"GET", "/healthz", NULL},
    {"GET", "/api/box/{who}", NULL},
    {"GET", "/api/box/list", NULL},
};
static const struct route two[] = {
    {"DELETE", "/api/box/{box}", NULL},
    {"*", "/preview/{who}/{port}/*", NULL},
    {"POST", "/api/box/{who}/x", NULL},
};
static const struct route_table first = {one, ARRAY_LEN(one)}, second = {two, ARRAY_LEN(two)};
static const struct route_table empty = {one, 0};
static const struct route_table *const tables[] = {&first, &empty, &second};

static struct json_document *write_all(size_t count) {
    _cleanup_(buf_free) struct buf out = BUF_INIT(64 * 1024);
    struct json_document *doc = NULL;
    struct cay_error err;
    openapi_write(&out, tables, count);
    assert_false(out.failed);
    assert_int_equal(json_parse("doc", buf_text(&out), out.len, &doc, &err), 0);
    return doc;
}

static struct json child(struct json at, const char *key) {
    struct json found;
    assert_true(json_child(&at, key, &found));
    return found;
}

static void test_paths(void **state) {
    (void)state;
    struct json_document *doc = write_all(ARRAY_LEN(tables));
    struct json paths = child(json_root(doc, ""), "paths"), ignored;
    assert_int_equal(json_count(&paths), 5);
    struct json box = child(paths, "/api/box/{who}"); /* {box} is the same path */
    (void)child(box, "get");
    (void)child(box, "delete");
    assert_false(json_child(&box, "post", &ignored));
    struct json parameters = child(box, "parameters");
    assert_int_equal(json_count(&parameters), 1);
    struct json list = child(paths, "/api/box/list");
    assert_false(json_child(&list, "delete", &ignored));
    (void)child(child(paths, "/api/box/{who}/x"), "post");
    json_free(doc);
}

static void test_rest(void **state) {
    (void)state;
    struct json_document *doc = write_all(ARRAY_LEN(tables));
    struct json preview = child(child(json_root(doc, ""), "paths"), "/preview/{who}/{port}/{path}");
    (void)child(preview, "patch");
    (void)child(child(preview, "get"), "responses");
    struct json parameters = child(preview, "parameters");
    assert_int_equal(json_count(&parameters), 3);
    json_free(doc);
}

static void test_nothing(void **state) {
    (void)state;
    struct json_document *doc = write_all(0);
    struct json paths = child(json_root(doc, ""), "paths");
    assert_int_equal(json_count(&paths), 0);
    json_free(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
