/* Tests of what Daytona's clients send and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/call.h"
#include "api/daytona/error.h"
#include "api/daytona/tombstones.h"
#include "api/fields_json.h"
#include "api/shape/daytona_read.h"
#include "api/shape/daytona_shape.h"
#include "api/shape/daytona_version.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"

/* ---- versions and paths ---- */

static void test_versions(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int version;
    } rows[] = {
        {"0.218.0", 218}, {"0.21.5", 21}, {"0.128", 128}, {"1.2.3", 1002}, {"0.190.1-rc", 190},
        {"", -1},         {"x", -1},      {"0", -1},      {"0.", -1},      {".1", -1},
        {"0.x", -1},      {"0.1x", -1},   {"0.1234", -1}, {"-1.2", -1},    {"0.-2", -1},
        {"99999.1", -1},  {NULL, -1},     {" 0.218", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(daytona_version(rows[i].text), rows[i].version);
}

static void test_rewrite(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"/api/toolbox/lab/toolbox/files/info?path=a", "/toolbox/lab/files/info"},
        {"/api/toolbox/lab/toolbox", "/toolbox/lab"},
        {"/api/toolbox/lab/toolbox/toolbox", "/toolbox/lab/toolbox"},
        {"/api/toolbox/lab", "/api/toolbox/lab"},
        {"/api/toolbox/lab/other/x", "/api/toolbox/lab/other/x"},
        {"/toolbox/lab/files", "/toolbox/lab/files"},
        {"/", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct target t;
        _cleanup_(buf_free) struct buf path = BUF_INIT(256);
        assert_int_equal(target_parse(rows[i].from, &t, NULL), 0);
        daytona_rewrite(&t);
        for (size_t n = 0; n < t.segments; n++)
            (void)buf_printf(&path, "/%s", t.segment[n]);
        assert_string_equal(buf_text(&path), rows[i].to);
    }
}

static void test_public_paths(void **state) {
    (void)state;
    static const struct {
        const char *path;
        bool is_public;
    } rows[] = {{"/api/config", true},        {"/api/health", true},     {"/api/sandbox", false},
                {"/api/config/x", false},     {"/config", false},        {"/api", false},
                {"/api/health/ready", false}, {"/api/cay/config", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct target t;
        assert_int_equal(target_parse(rows[i].path, &t, NULL), 0);
        assert_int_equal(daytona_is_public(&t), rows[i].is_public);
    }
}

/* ---- FROM ---- */

static void test_from(void **state) {
    (void)state;
    static const struct {
        const char *dockerfile, *image;
    } rows[] = {
        {"FROM debian:12\n", "debian:12"},
        {"FROM debian:12", "debian:12"},
        {"\n# a comment\n  from   host:5000/a/b@sha256:0 \r\n\n# more\n", "host:5000/a/b@sha256:0"},
        {"FROM\tx AS stage\n", "x"},
        {"FROM a as b", "a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char image[64];
        assert_int_equal(daytona_read_from(rows[i].dockerfile, image, sizeof image, NULL), 0);
        assert_string_equal(image, rows[i].image);
    }
}

static void test_more_than_from(void **state) {
    (void)state;
    static const struct {
        const char *dockerfile;
        int result; /* 1: it has to be built */
    } rows[] = {
        {"", -CAY_INVALID_ARGUMENT},
        {" \n# nothing\n", -CAY_INVALID_ARGUMENT},
        {"FROM a\nRUN b\n", 1},
        {"RUN b\n", 1},
        {"FROM", 1},
        {"FROMa b", 1},
        {"FROM a AS", 1},
        {"FROM a b", 1},
        {"FROM a ASb", 1},
        {"FROM --platform=x a", 1},
        {"FROM $BASE", 1},
        {"FROM a \\\n  AS b", 1},
        {"FROM aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", -CAY_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char image[32];
        struct cay_error err = {0};
        int r = daytona_read_from(rows[i].dockerfile, image, sizeof image, &err);
        if (r != rows[i].result)
            fail_msg("'%s' is %d", rows[i].dockerfile, r);
        assert_int_equal(r < 0, err.remedy[0] != '\0');
    }
}

/* ---- requests ---- */

static int read_create(const char *text, struct sandbox_record *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(1024 * 1024);
    *ret = (struct sandbox_record){0};
    assert_int_equal(buf_puts(&body, text), 0);
    struct daytona_build build = {0};
    int r = daytona_read_create(&body, ret, &build, err);
    assert_null(build.dockerfile);
    daytona_build_free(&build);
    return r;
}

/* What has to be built is handed over whole, and names no image. */
#define HASH "0123456789abcdef0123456789abcdef"

static void test_create_from_dockerfile(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf body = BUF_INIT(4096);
    _cleanup_(daytona_build_free) struct daytona_build build = {0};
    struct sandbox_record r = {0};
    assert_int_equal(buf_puts(&body, "{\"buildInfo\": {\"dockerfileContent\": \"FROM x\\nRUN y\", "
                                     "\"contextHashes\": [\"" HASH "\"]}}"),
                     0);
    assert_int_equal(daytona_read_create(&body, &r, &build, NULL), 0);
    assert_string_equal(build.dockerfile, "FROM x\nRUN y");
    assert_int_equal(build.contexts.len, 1);
    assert_string_equal(build.contexts.v[0], HASH);
    assert_string_equal(r.image_name, "");
    assert_false(r.is_local);
    sandbox_record_free(&r);
}

static void test_create(void **state) {
    (void)state;
    struct sandbox_record r;
    assert_int_equal(
        read_create("{\"name\": \"lab\", \"buildInfo\": {\"dockerfileContent\": \"FROM "
                    "x:1\\n\"}, "
                    "\"env\": {\"A\": \"b\"}, \"labels\": {\"code-toolbox-language\": "
                    "\"python\"}, "
                    "\"public\": true, \"cpu\": 2, \"gpu\": 0, \"memory\": 4, \"disk\": "
                    "5, "
                    "\"autoStopInterval\": 0, \"autoArchiveInterval\": 1440, "
                    "\"autoDeleteInterval\": 0, \"ttlMinutes\": 2, \"target\": \"us\", "
                    "\"user\": \"daytona\", \"secrets\": [], \"networkAllowList\": \"\", "
                    "\"volumes\": [{\"volumeId\": \"data\", \"mountPath\": \"/data\"}, "
                    "{\"volumeId\": \"data\", \"mountPath\": \"/b\", \"subpath\": "
                    "\"a/b\"}], "
                    "\"somethingNew\": {\"a\": 1}}",
                    &r, NULL),
        0);
    assert_string_equal(r.name, "lab");
    assert_string_equal(r.image_name, "x:1");
    assert_string_equal(r.user, "daytona");
    assert_string_equal(r.env.v[0], "A=b");
    assert_string_equal(r.labels.v[0], "code-toolbox-language=python");
    assert_string_equal(r.volumes.v[0], "data:/data");
    assert_string_equal(r.volumes.v[1], "data/a/b:/b");
    assert_true(r.is_public);
    assert_int_equal(r.cpu_quota_us, 200000);
    assert_int_equal(r.memory_bytes, UINT64_C(4) << 30);
    assert_int_equal(r.disk_bytes, UINT64_C(5) << 30);
    assert_true(r.auto_stop_minutes < 0);
    assert_int_equal(r.auto_archive_minutes, 1440);
    assert_int_equal(r.auto_delete_minutes, INTERVAL_AT_ONCE);
    int64_t left = r.destroy_ms - clock_wall_ms();
    assert_true(left > 60 * 1000 && left <= 120 * 1000);
    sandbox_record_free(&r);
}

static void test_bad_creates(void **state) {
    (void)state;
    static const struct {
        const char *body;
        enum cay_code code;
    } rows[] = {
        {"[]", CAY_INVALID_ARGUMENT},
        {"{", CAY_INVALID_ARGUMENT},
        {"{\"name\": 1}", CAY_INVALID_ARGUMENT},
        {"{\"name\": \"-x\"}", CAY_INVALID_ARGUMENT},
        {"{\"snapshot\": \"a\", \"buildInfo\": {\"dockerfileContent\": \"FROM "
         "b\"}}",
         CAY_INVALID_ARGUMENT},
        {"{\"buildInfo\": {}}", CAY_INVALID_ARGUMENT},
        {"{\"buildInfo\": \"FROM b\"}", CAY_INVALID_ARGUMENT},
        {"{\"cpu\": 0.5}", CAY_INVALID_ARGUMENT},
        {"{\"cpu\": -1}", CAY_INVALID_ARGUMENT},
        {"{\"memory\": \"4\"}", CAY_INVALID_ARGUMENT},
        {"{\"memory\": 99999999999}", CAY_INVALID_ARGUMENT},
        {"{\"env\": {\"A\": 1}}", CAY_INVALID_ARGUMENT},
        {"{\"public\": \"yes\"}", CAY_INVALID_ARGUMENT},
        {"{\"ttlMinutes\": -1}", CAY_INVALID_ARGUMENT},
        {"{\"volumes\": [{\"volumeId\": \"a\"}]}", CAY_INVALID_ARGUMENT},
        {"{\"volumes\": [{\"volumeId\": \"a\", \"mountPath\": \"/a\", "
         "\"subpath\": \"/b\"}]}",
         CAY_INVALID_ARGUMENT},
        {"{\"volumes\": [{\"volumeId\": \"a\", \"mountPath\": \"/a\", "
         "\"subpath\": \"b:c\"}]}",
         CAY_INVALID_ARGUMENT},
        {"{\"gpu\": 1}", CAY_UNSUPPORTED},
        {"{\"networkAllowList\": \"a.com\"}", CAY_INVALID_ARGUMENT},
        {"{\"networkAllowList\": \"127.0.0.0/8\"}", CAY_INVALID_ARGUMENT},
        {"{\"networkAllowList\": [\"1.2.3.4\"]}", CAY_INVALID_ARGUMENT},
        {"{\"domainAllowList\": \"1.2.3.4\"}", CAY_INVALID_ARGUMENT},
        {"{\"outboundProxyUrl\": \"http://a\"}", CAY_UNSUPPORTED},
        {"{\"secrets\": [{\"A\": \"b\"}]}", CAY_UNSUPPORTED},
        {"{\"autoPauseInterval\": 5}", CAY_UNSUPPORTED},
        {"{\"networkBlockAll\": 0}", CAY_INVALID_ARGUMENT},
        {"{\"buildInfo\": {\"dockerfileContent\": \"FROM a\\nRUN b\", "
         "\"contextHashes\": [\"0\"]}}",
         CAY_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sandbox_record r;
        struct cay_error err = {0};
        int code = read_create(rows[i].body, &r, &err);
        if (code != -(int)rows[i].code)
            fail_msg("%s is %d: %s", rows[i].body, code, err.message);
        sandbox_record_free(&r);
    }
}

static void test_network(void **state) {
    (void)state;
    static const struct {
        const char *body;
        enum cay_code code;
        const char *network;
    } rows[] = {
        {"{\"networkBlockAll\": true}", CAY_OK, "none"},
        {"{}", CAY_OK, ""},
        {"{\"networkBlockAll\": null, \"networkAllowList\": null}", CAY_OK, ""},
        {"{\"networkBlockAll\": false}", CAY_OK, "allow=*"},
        {"{\"networkBlockAll\": true, \"domainAllowList\": \"a.com\"}", CAY_OK, "none"},
        {"{\"networkAllowList\": \"1.2.3.4/32, 10.0.0.0/8\"}", CAY_OK,
         "allow=1.2.3.4/32,10.0.0.0/8"},
        {"{\"networkAllowList\": \"1.2.3.4\", \"domainAllowList\": "
         "\"a.com,*.b.org\"}",
         CAY_OK, "allow=1.2.3.4,a.com,*.b.org"},
        {"{\"networkBlockAll\": 1}", CAY_INVALID_ARGUMENT, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(buf_free) struct buf body = BUF_INIT(1024);
        assert_int_equal(buf_puts(&body, rows[i].body), 0);
        struct cay_error err = {0};
        struct manager_update u = MANAGER_UPDATE_INIT;
        assert_int_equal(daytona_read_network(&body, &u, &err), -(int)rows[i].code);
        assert_string_equal(u.to.network, rows[i].network);
        assert_int_equal(FIELD_IN(&u.set, network), rows[i].network[0] != '\0');
    }
}

/* ---- attributes ---- */

/* Something that no other field has, and that its range allows. */
static void put_value(const struct field *f, size_t i, struct sandbox_record *r) {
    if (f->kind == FIELD_TEXT)
        assert_int_equal(str_format(field_in(f, r), f->size, "text-%zu", i), 0);
    else if (field_is_list(f))
        assert_int_equal(strv_pushf(field_in(f, r), "key-%zu=value", i), 0);
    else if (f->kind == FIELD_CHOICE)
        assert_int_equal(field_set_number(f, r, f->names->end - 1), 0);
    else
        assert_int_equal(field_set_number(f, r, f->kind == FIELD_FLAG ? 1 : 2000 + (int)i), 0);
}

static void assert_same(const struct field *f, const struct sandbox_record *a,
                        const struct sandbox_record *b) {
    if (f->kind == FIELD_TEXT) {
        assert_string_equal(field_of(f, a), field_of(f, b));
    } else if (field_is_list(f)) {
        const struct strv *x = field_of(f, a), *y = field_of(f, b);
        assert_int_equal(x->len, y->len);
        for (size_t i = 0; i < x->len; i++)
            assert_string_equal(x->v[i], y->v[i]);
    } else {
        assert_int_equal(field_number(f, a), field_number(f, b));
    }
}

/* A row in the table is all that an attribute needs: what is written as JSON is read from it. */
static void test_each_attribute_there_and_back(void **state) {
    (void)state;
    static const enum field_flags ways[] = {FIELD_CREATE, FIELD_UPDATE, FIELD_LIMIT};
    for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
        for (size_t i = 0; i < sandbox_field_count; i++) {
            struct field alone = sandbox_fields[i];
            const struct field *f = &sandbox_fields[i];
            if ((f->flags & ways[way]) == 0 || (ways[way] == FIELD_UPDATE && field_is_list(f)))
                continue;
            struct sandbox_record r = {0}, found = {0};
            struct field_set set = {0};
            struct cay_error err = {0};
            _cleanup_(buf_free) struct buf out = BUF_INIT(65536);
            _cleanup_(json_freep) struct json_document *doc = NULL;
            struct jsonw w = JSONW_INIT(&out);
            alone.daytona = NULL;
            put_value(f, i, &r);
            jsonw_begin_object(&w);
            fields_json_put(&w, &alone, &r);
            jsonw_end_object(&w);
            assert_int_equal(json_parse("request", out.data, out.len, &doc, NULL), 0);
            struct json root = json_root(doc, "");
            if (fields_json_read(&root, ways[way], &found, &set, &err) < 0)
                fail_msg("%s: %s", f->json, err.message);
            for (size_t k = 0; k < sandbox_field_count; k++) {
                assert_int_equal(set.has[k], k == i);
                if (sandbox_fields[k].kind != FIELD_DERIVED)
                    assert_same(&sandbox_fields[k], &r, &found);
            }
            sandbox_record_free(&r);
            sandbox_record_free(&found);
        }
    }
}

/* The error names the member, and what it may be. */
static void test_bad_attributes(void **state) {
    (void)state;
    static const struct {
        const char *body, *word, *more;
    } rows[] = {
        {"{\"pidsLimit\": 0}", "pidsLimit", "between 1 and 4194304"},
        {"{\"cpus\": 5000}", "cpus", "between 0.01 and 4096"},
        {"{\"cpu\": 1.5}", "cpu", "integer"},
        {"{\"cpu\": 1, \"cpus\": 1}", "cpus and cpu", "exclude"},
        {"{\"memoryBytes\": \"much\"}", "memoryBytes", "size"},
        {"{\"memory\": 0}", "memory", "between 1"},
        {"{\"autoStopInterval\": -1}", "autoStopInterval", "between 0 and"},
        {"{\"autoDeleteInterval\": -2}", "autoDeleteInterval", "between -1 and"},
        {"{\"onFailure\": \"explode\"}", "onFailure", "keep, recreate, remove"},
        {"{\"onFailure\": 1}", "onFailure", "string"},
        {"{\"public\": \"yes\"}", "public", "boolean"},
        {"{\"labels\": {\"a\": 1}}", "labels.a", "string"},
        {"{\"autoDestroyAt\": \"soon\"}", "autoDestroyAt", "time"},
        {"{\"network\": \"none\", \"networkBlockAll\": true}", "network", "exclude"},
        {"{\"tier\": \"full\"}", "tier", "no key"}, /* only at create */
        {"{\"memoryByte\": 1}", "memoryByte", "memoryBytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(buf_free) struct buf body = BUF_INIT(1024);
        struct manager_update u = MANAGER_UPDATE_INIT;
        struct cay_error err = {0};
        assert_int_equal(buf_puts(&body, rows[i].body), 0);
        assert_int_equal(daytona_read_update(&body, &u, &err), -CAY_INVALID_ARGUMENT);
        if (strstr(err.message, rows[i].word) == NULL ||
            (strstr(err.message, rows[i].more) == NULL && strstr(err.remedy, rows[i].more) == NULL))
            fail_msg("%s: %s; %s", rows[i].body, err.message, err.remedy);
        manager_update_free(&u);
    }
}

/* ---- answers ---- */

static void check_text(const struct json *at, const char *key, const char *wanted) {
    const char *text = NULL;
    assert_int_equal(json_get_string(at, key, JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, wanted);
}

static void check_number(const struct json *at, const char *key, int64_t wanted) {
    int64_t number;
    assert_int_equal(json_get_integer(at, key, JSON_REQUIRED, INT64_MIN, INT64_MAX, &number, NULL),
                     0);
    assert_int_equal(number, wanted);
}

static struct json_document *write_sandbox(const struct sandbox_record *r,
                                           const struct daytona_view *view) {
    _cleanup_(buf_free) struct buf out = BUF_INIT(65536);
    struct json_document *doc = NULL;
    struct jsonw w = JSONW_INIT(&out);
    daytona_write_sandbox(&w, r, view);
    assert_int_equal(jsonw_finish(&w), 0);
    assert_int_equal(json_parse("sandbox", out.data, out.len, &doc, NULL), 0);
    return doc;
}

static struct sandbox_record sample(void) {
    struct sandbox_record r = {.id = "0123456789abcdef",
                               .name = "lab",
                               .state = SANDBOX_STARTED,
                               .image_name = "x:1",
                               .memory_bytes = (UINT64_C(1) << 30) + 1,
                               .cpu_quota_us = 50000,
                               .auto_delete_minutes = -1};
    assert_int_equal(strv_push(&r.env, "A=b=c"), 0);
    assert_int_equal(strv_push(&r.labels, "k=v"), 0);
    assert_int_equal(strv_push(&r.volumes, "1122334455667788:/data:ro"), 0);
    assert_int_equal(strv_push(&r.volumes, "/srv:/host"), 0);
    assert_int_equal(strv_push(&r.volumes, "1122334455667788/a/b:/part"), 0);
    return r;
}

static void test_sandbox(void **state) {
    (void)state;
    struct sandbox_record r = sample();
    const struct daytona_view view = {.origin = "http://a:1"};
    _cleanup_(json_freep) struct json_document *doc = write_sandbox(&r, &view);
    struct json root = json_root(doc, ""), env, volumes, volume;
    check_text(&root, "id", r.id);
    check_text(&root, "state", "started");
    check_text(&root, "desiredState", "started");
    check_text(&root, "user", "root");
    check_text(&root, "toolboxProxyUrl", "http://a:1/toolbox");
    check_text(&root, "snapshot", "x:1");
    check_number(&root, "cpu", 1);
    check_number(&root, "memory", 2);
    check_number(&root, "disk", 0);
    check_number(&root, "autoDeleteInterval", -1);
    assert_int_equal(json_get_object(&root, "env", JSON_REQUIRED, &env, NULL), 0);
    check_text(&env, "A", "b=c");
    assert_int_equal(json_get_array(&root, "volumes", JSON_REQUIRED, &volumes, NULL), 0);
    assert_int_equal(json_count(&volumes), 2); /* a folder of the host is nobody's business */
    assert_true(json_item(&volumes, 0, &volume));
    check_text(&volume, "volumeId", "1122334455667788");
    check_text(&volume, "mountPath", "/data");
    assert_false(json_child(&volume, "subpath", &env));
    assert_true(json_item(&volumes, 1, &volume));
    check_text(&volume, "volumeId", "1122334455667788");
    check_text(&volume, "subpath", "a/b");
    check_text(&volume, "mountPath", "/part");
    assert_false(json_child(&root, "errorReason", &env));
    sandbox_record_free(&r);
}

/* A sandbox whose image is not there yet: its build is what clients see. */
static void test_build_states(void **state) {
    (void)state;
    static const struct {
        enum sandbox_state state;
        const char *image, *name, *seen;
    } rows[] = {
        {SANDBOX_CREATING, "", "cay-build/00", "building_snapshot"},
        {SANDBOX_ERROR, "", "cay-build/00", "build_failed"},
        {SANDBOX_CREATING, "c", "cay-build/00", "creating"},
        {SANDBOX_ERROR, "c", "cay-build/00", "error"},
        {SANDBOX_ERROR, "", "x:1", "error"},
        {SANDBOX_STARTED, "c", "cay-build/00", "started"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sandbox_record r = {.state = rows[i].state};
        (void)snprintf(r.image, sizeof r.image, "%s", rows[i].image);
        (void)snprintf(r.image_name, sizeof r.image_name, "%s", rows[i].name);
        assert_string_equal(daytona_state(&r), rows[i].seen);
    }
    struct sandbox_record r = {.state = SANDBOX_CREATING, .image_name = "cay-build/00"};
    const struct daytona_view view = {.origin = "", .state = "pending_build"};
    _cleanup_(json_freep) struct json_document *doc = write_sandbox(&r, &view);
    struct json root = json_root(doc, ""), found;
    check_text(&root, "state", "pending_build");
    check_text(&root, "desiredState", "started");
    assert_false(json_child(&root, "snapshot", &found));
}

static void test_list_item(void **state) {
    (void)state;
    struct sandbox_record r = sample();
    struct json found;
    r.state = SANDBOX_ERROR;
    (void)snprintf(r.reason, sizeof r.reason, "it broke");
    const struct daytona_view view = {.origin = "", .is_item = true};
    _cleanup_(json_freep) struct json_document *doc = write_sandbox(&r, &view);
    struct json root = json_root(doc, "");
    assert_false(json_child(&root, "env", &found));
    assert_false(json_child(&root, "volumes", &found));
    check_text(&root, "state", "error");
    check_text(&root, "errorReason", "it broke");
    sandbox_record_free(&r);
}

static void test_gone(void **state) {
    (void)state;
    const struct key owner = {.id = "1111111111111111", .scopes = SCOPE_SANDBOXES};
    const struct key other = {.id = "2222222222222222", .scopes = SCOPE_SANDBOXES};
    const struct key admin = {.scopes = SCOPE_ADMIN};
    struct sandbox_record r = sample(), found = {0};
    memcpy(r.owner, owner.id, sizeof r.owner);
    for (int i = 0; i < 300; i++) /* more than are remembered */
        daytona_gone_add(&r);
    assert_true(daytona_gone_find(&owner, "lab", &found));
    assert_string_equal(found.labels.v[0], "k=v");
    sandbox_record_free(&found);
    assert_true(daytona_gone_find(&admin, r.id, &found));
    sandbox_record_free(&found);
    assert_false(daytona_gone_find(&other, "lab", &found));
    assert_false(daytona_gone_find(&owner, "la", &found));
    sandbox_record_free(&r);
}

static void test_errors(void **state) {
    (void)state;
    struct call c = {.method = "GET"};
    struct cay_error err;
    _cleanup_(buf_free) struct buf out = BUF_INIT(8192);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    assert_int_equal(target_parse("/api/sandbox/none", &c.target, NULL), 0);
    assert_true(daytona_is_asked(&c));
    error_set(&err, CAY_NOT_FOUND, "there is no sandbox 'none'");
    (void)error_remedy(&err, "make one");
    daytona_write_error(&out, &c, &err, 404);
    assert_int_equal(json_parse("error", out.data, out.len, &doc, NULL), 0);
    struct json root = json_root(doc, "");
    check_text(&root, "path", "/api/sandbox/none");
    check_text(&root, "error", "Not Found");
    check_text(&root, "message", "there is no sandbox 'none'; make one");
    check_text(&root, "code", "not_found");
    check_number(&root, "statusCode", 404);
    assert_int_equal(target_parse("/api/cay/sandbox/none", &c.target, NULL), 0);
    assert_false(daytona_is_asked(&c));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_rewrite),
        cmocka_unit_test(test_public_paths),
        cmocka_unit_test(test_from),
        cmocka_unit_test(test_more_than_from),
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_create_from_dockerfile),
        cmocka_unit_test(test_build_states),
        cmocka_unit_test(test_bad_creates),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_each_attribute_there_and_back),
        cmocka_unit_test(test_bad_attributes),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_list_item),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
