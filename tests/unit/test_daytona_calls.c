/* Daytona's control plane over a manager with an engine that only pretends: calls as HTTP hands
 * them on. */
#include "manager_env.h"

#include "api/build/builds.h"
#include "api/call.h"
#include "api/images.h"
#include "base/json/json.h"

/* ---- what http.c would say of a request ---- */

static const char *sdk_version;

const char *call_header(const struct call *c, const char *name) {
    (void)c;
    return str_equal(name, "Host")                    ? "box.example:80"
           : str_equal(name, "X-Daytona-SDK-Version") ? sdk_version
                                                      : NULL;
}

int call_socket(const struct call *c) {
    (void)c;
    return -1;
}

/* ---- images that only pretend too ---- */

static char kept[64];

static int list_images(void *user, const char *owner, struct buf *text, struct cay_error *err) {
    (void)user, (void)owner, (void)err;
    (void)buf_puts(text, "ok\na:1\tAA\t1073741824\t2026-01-02T03:04:05Z\t\n");
    (void)buf_puts(text, "b:latest\tBB\t1\tno time\t\n");
    if (kept[0] != '\0')
        (void)buf_printf(text, "%s\tCC\t2\t\t\n", kept);
    return buf_puts(text, "\n");
}

static int keep(void *user, const char *owner, const char *made_by, const char *from,
                const char *name, struct cay_error *err) {
    (void)user, (void)owner, (void)made_by, (void)from;
    if (str_equal(kept, name))
        return error_set(err, CAY_CONFLICT, "it is there");
    return str_copy(kept, sizeof kept, name);
}

static int forget(void *user, const char *owner, const char *name, struct cay_error *err) {
    (void)user, (void)owner;
    if (!str_equal(kept, name))
        return error_set(err, CAY_NOT_FOUND, "no image '%s'", name);
    kept[0] = '\0';
    return 0;
}

static const struct image_ops images = {list_images, keep, forget, keep, NULL, NULL};
static struct builds *builds;

static int start(void **state) {
    return setup(state) < 0 ? -1 : builds_new(&images, &builds, NULL);
}

/* ---- calls ---- */

static struct json_document *answer;

/* The status; the answer's JSON is in `answer`, if it has any. */
static unsigned ask(struct world *w, const char *method, const char *uri, const char *body) {
    struct call c = {0};
    call_init(&c, w->m);
    c.images = &images;
    c.builds = builds;
    c.public_url = "";
    c.method = method;
    c.caller = (struct key){.name = "admin", .scopes = SCOPE_ADMIN};
    assert_int_equal(target_parse(uri, &c.target, NULL), 0);
    assert_int_equal(buf_puts(&c.body, body), 0);
    if (call_begin(&c, method) == 0)
        call_run(&c);
    unsigned status = c.answer.status;
    json_free(answer);
    answer = NULL;
    if (c.answer.body.len > 0)
        assert_int_equal(json_parse("answer", c.answer.body.data, c.answer.body.len, &answer, NULL),
                         0);
    call_free(&c);
    return status;
}

/* A text of the answer: "state"; of its first item: "0.name". */
static const char *text_of(const char *key) {
    const char *text = NULL;
    struct json root = json_root(answer, ""), item;
    if (json_child(&root, "items", &item))
        root = item;
    if (str_starts(key, "0.")) {
        assert_true(json_item(&root, 0, &item));
        assert_int_equal(json_get_string(&item, key + 2, JSON_REQUIRED, &text, NULL), 0);
    } else {
        assert_int_equal(json_get_string(&root, key, JSON_REQUIRED, &text, NULL), 0);
    }
    return text;
}

static size_t count_items(void) {
    struct json root = json_root(answer, ""), items;
    return json_child(&root, "items", &items) ? json_count(&items) : json_count(&root);
}

static int stop(void **state) {
    json_free(answer);
    answer = NULL;
    sdk_version = NULL;
    kept[0] = '\0';
    builds_free(builds);
    return teardown(state);
}

/* ---- tests ---- */

static void test_life(void **state) {
    struct world *w = *state;
    open_manager(w);
    assert_int_equal(ask(w, "POST", "/api/sandbox", "{\"name\": \"lab\", \"public\": true}"), 200);
    assert_string_equal(text_of("state"), "started");
    assert_string_equal(text_of("toolboxProxyUrl"), "http://box.example:80/toolbox");
    assert_int_equal(ask(w, "POST", "/api/sandbox", "{\"name\": \"lab\"}"), 409);
    assert_int_equal(ask(w, "POST", "/api/sandbox/lab/stop?force=true", ""), 200);
    assert_string_equal(text_of("state"), "stopped");
    assert_int_equal(ask(w, "POST", "/api/sandbox/lab/start", ""), 200);
    assert_int_equal(ask(w, "POST", "/api/sandbox/lab/pause", ""), 200);
    assert_string_equal(text_of("state"), "paused");
    assert_int_equal(ask(w, "POST", "/api/sandbox/lab/start", ""), 200);
    assert_string_equal(text_of("state"), "started");
    assert_int_equal(ask(w, "POST", "/api/sandbox/lab/recover?skipStart=true", ""), 200);
    assert_string_equal(text_of("state"), "stopped");
    assert_int_equal(ask(w, "GET", "/api/sandbox/lab", ""), 200);
    assert_int_equal(ask(w, "DELETE", "/api/sandbox/lab", ""), 200);
    assert_string_equal(text_of("state"), "destroyed");
    assert_int_equal(ask(w, "GET", "/api/sandbox/lab", ""), 404);
    assert_string_equal(text_of("error"), "Not Found");
    sdk_version = "0.103.0";
    assert_int_equal(ask(w, "GET", "/api/sandbox/lab", ""), 200);
    assert_string_equal(text_of("state"), "destroyed");
    sdk_version = "0.144.0";
    assert_int_equal(ask(w, "GET", "/api/sandbox/lab", ""), 404);
}

/* What is in use is ended all the same. */
static void test_removal_does_not_wait(void **state) {
    struct world *w = *state;
    struct operation *op;
    open_manager(w);
    assert_int_equal(ask(w, "POST", "/api/sandbox", "{\"name\": \"lab\"}"), 200);
    int fd = begin(w, "lab", &op);
    assert_int_equal(ask(w, "DELETE", "/api/sandbox/lab", ""), 200);
    end(w, fd, op);
}

static void test_changes(void **state) {
    struct world *w = *state;
    struct sandbox_record r = {0};
    open_manager(w);
    assert_int_equal(ask(w, "POST", "/api/sandbox", "{\"name\": \"lab\"}"), 200);
    static const struct {
        const char *method, *path, *body;
        unsigned status;
    } rows[] = {
        {"POST", "/autostop/3", "", 200},
        {"POST", "/autoarchive/4", "", 200},
        {"POST", "/autodelete/5", "", 200},
        {"POST", "/public/true", "", 200},
        {"POST", "/ttl/60", "", 200},
        {"PUT", "/labels", "{\"labels\": {\"a\": \"b\"}}", 200},
        {"POST", "/resize", "{\"cpu\": 2}", 200},
        {"POST", "/last-activity", "{}", 201},
        {"POST", "/network-settings", "{\"networkBlockAll\": true}", 200},
        {"GET", "/toolbox-proxy-url", "", 200},
        {"GET", "/forks", "", 200},
        {"POST", "/snapshot", "{\"name\": \"kept\"}", 200},
        {"POST", "/snapshot", "{\"name\": \"kept\"}", 409},
        {"POST", "/snapshot", "{\"name\": \"No Name\"}", 400},
        {"POST", "/public/x", "", 400},
        {"POST", "/ttl/-1", "", 400},
        {"POST", "/ssh-access", "", 501},
        {"DELETE", "/ssh-access", "", 501},
        {"POST", "/fork", "", 501},
        {"GET", "/telemetry/metrics", "", 501},
        {"GET", "/nothing", "", 404},
        {"PUT", "/start", "", 405},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char uri[128];
        assert_int_equal(str_format(uri, sizeof uri, "/api/sandbox/lab%s", rows[i].path), 0);
        unsigned status = ask(w, rows[i].method, uri, rows[i].body);
        if (status != rows[i].status)
            fail_msg("%s %s is %u", rows[i].method, uri, status);
    }
    assert_int_equal(manager_get(w->m, "lab", &r, NULL), 0);
    assert_int_equal(r.auto_stop_minutes, 3);
    assert_int_equal(r.auto_archive_minutes, 4);
    assert_int_equal(r.auto_delete_minutes, 5);
    assert_true(r.is_public && r.destroy_ms > 0 && r.cpu_quota_us == 200000);
    assert_int_equal(r.state, SANDBOX_STARTED); /* goes on after its snapshot */
    sandbox_record_free(&r);
}

static void test_lists(void **state) {
    struct world *w = *state;
    open_manager(w);
    for (char name[] = "a"; name[0] <= 'e'; name[0]++) {
        char body[64];
        assert_int_equal(str_format(body, sizeof body, "{\"name\": \"%s\", \"public\": %s}", name,
                                    name[0] == 'b' ? "true" : "false"),
                         0);
        assert_int_equal(ask(w, "POST", "/api/sandbox", body), 200);
    }
    assert_int_equal(ask(w, "GET", "/api/sandbox?sort=name&order=asc&limit=2", ""), 200);
    assert_int_equal(count_items(), 2);
    assert_string_equal(text_of("0.name"), "a");
    char next[160], uri[256];
    struct json root = json_root(answer, "");
    const char *cursor = NULL;
    assert_int_equal(json_get_string(&root, "nextCursor", JSON_REQUIRED, &cursor, NULL), 0);
    assert_int_equal(str_copy(next, sizeof next, cursor), 0);
    assert_int_equal(ask(w, "DELETE", "/api/sandbox/b", ""), 200); /* which the cursor names */
    assert_int_equal(
        str_format(uri, sizeof uri, "/api/sandbox?sort=name&order=asc&limit=3&cursor=%s", next), 0);
    assert_int_equal(ask(w, "GET", uri, ""), 200);
    assert_int_equal(count_items(), 3);
    assert_string_equal(text_of("0.name"), "c");
    root = json_root(answer, "");
    assert_int_equal(json_get_string(&root, "nextCursor", JSON_REQUIRED, &cursor, NULL),
                     -CAY_INVALID_ARGUMENT); /* null */
    assert_int_equal(ask(w, "GET", "/api/sandbox?isPublic=true", ""), 200);
    assert_int_equal(count_items(), 0);
    assert_int_equal(ask(w, "GET", "/api/sandbox?cursor=1::x", ""), 400);
    assert_int_equal(ask(w, "GET", "/api/sandbox/paginated?page=2&limit=3", ""), 200);
    assert_int_equal(count_items(), 1);
    sdk_version = "0.21.5";
    assert_int_equal(ask(w, "GET", "/api/sandbox", ""), 200);
    assert_int_equal(count_items(), 4);
    (void)text_of("0.name"); /* an array, not an object */
}

static void test_snapshots(void **state) {
    struct world *w = *state;
    open_manager(w);
    assert_int_equal(ask(w, "GET", "/api/snapshots?page=1&limit=1", ""), 200);
    assert_int_equal(count_items(), 1);
    assert_string_equal(text_of("0.name"), "a:1");
    assert_int_equal(ask(w, "GET", "/api/snapshots?name=B", ""), 200);
    assert_string_equal(text_of("0.name"), "b");
    assert_int_equal(ask(w, "GET", "/api/snapshots/b", ""), 200);
    assert_string_equal(text_of("ref"), "BB");
    assert_int_equal(ask(w, "GET", "/api/snapshots/docker.io%2Flibrary%2Fa:1", ""), 200);
    assert_string_equal(text_of("createdAt"), "2026-01-02T03:04:05.000Z");
    assert_int_equal(ask(w, "GET", "/api/snapshots/c", ""), 404);
    assert_int_equal(ask(w, "GET", "/api/snapshots/No%20Name", ""), 400);
    assert_int_equal(ask(w, "GET", "/api/snapshots?limit=0", ""), 400);
    static const char body[] = "{\"name\": \"c\", \"imageName\": \"a:1\"}";
    assert_int_equal(ask(w, "POST", "/api/snapshots", body), 200);
    assert_string_equal(text_of("state"), "active");
    assert_int_equal(ask(w, "POST", "/api/snapshots", body), 409);
    assert_int_equal(ask(w, "POST", "/api/snapshots/c/activate", ""), 200);
    assert_int_equal(ask(w, "POST", "/api/snapshots/c/deactivate", ""), 501);
    assert_int_equal(ask(w, "DELETE", "/api/snapshots/c", ""), 200);
    assert_int_equal(ask(w, "DELETE", "/api/snapshots/c", ""), 404);
}

static void test_the_rest(void **state) {
    struct world *w = *state;
    open_manager(w);
    static const struct {
        const char *method, *uri, *body;
        unsigned status;
    } rows[] = {
        {"GET", "/api/config", "", 200},
        {"GET", "/api/health", "", 200},
        {"GET", "/api/regions", "", 200},
        {"GET", "/api/regions/local", "", 200},
        {"GET", "/api/regions/mars", "", 404},
        {"GET", "/api/organizations", "", 200},
        {"GET", "/api/organizations/none", "", 404},
        {"GET", "/api/users/me", "", 200},
        {"GET", "/api/api-keys/current", "", 200},
        {"POST", "/api/api-keys", "{\"name\": \"ci\", \"permissions\": [\"write:sandboxes\"]}",
         201},
        {"GET", "/api/api-keys/ci", "", 200},
        {"GET", "/api/api-keys", "", 200},
        {"DELETE", "/api/api-keys/ci", "", 204},
        {"GET", "/api/volumes", "", 200},
        {"GET", "/api/volumes/none", "", 404},
        {"POST", "/api/organizations", "{}", 501},
        {"PATCH", "/api/regions/local", "{}", 501},
        {"GET", "/api/runners", "", 501},
        {"GET", "/api/secret/paginated", "", 501},
        {"GET", "/api/object-storage/push-access", "", 501},
        {"GET", "/api/sandbox/ssh-access/validate?token=x", "", 501},
        {"GET", "/api/nothing", "", 404},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned status = ask(w, rows[i].method, rows[i].uri, rows[i].body);
        if (status != rows[i].status)
            fail_msg("%s %s is %u", rows[i].method, rows[i].uri, status);
        if (status >= 400)
            assert_string_not_equal(text_of("message"), "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, start, stop),
        cmocka_unit_test_setup_teardown(test_removal_does_not_wait, start, stop),
        cmocka_unit_test_setup_teardown(test_changes, start, stop),
        cmocka_unit_test_setup_teardown(test_lists, start, stop),
        cmocka_unit_test_setup_teardown(test_snapshots, start, stop),
        cmocka_unit_test_setup_teardown(test_the_rest, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
