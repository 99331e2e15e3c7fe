/* Images for containers, without a Docker: what it tells of a pull, how a pull fails, and which
 * names are nobody's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/docker/api.h"
#include "engine/docker/images/ensure.h"
#include "engine/docker/images/pull.h"
#include "engine/docker/parse.h"

static void test_progress(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
        struct docker_progress expected;
    } cases[] = {
        {"{\"status\":\"Downloading\",\"progressDetail\":{\"current\":12,\"total\":34},\"id\":"
         "\"a3\"}",
         0,
         {.id = "a3", .status = "Downloading", .done = 12, .total = 34}},
        {"{\"status\":\"Pull complete\",\"progressDetail\":{},\"id\":\"a3\"}",
         0,
         {.id = "a3", .status = "Pull complete"}},
        {"{\"errorDetail\":{\"message\":\"bad\"},\"error\":\"bad\\nline\"}",
         0,
         {.error = "bad\\x0aline"}},
        {"{\"progressDetail\":{\"current\":-1}}", -CAY_INVALID_ARGUMENT, {.done = 0}},
        {"{\"status\":7}", -CAY_INVALID_ARGUMENT, {.done = 0}},
        {"nonsense", -CAY_INVALID_ARGUMENT, {.done = 0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_progress p;
        int r = docker_parse_progress(cases[i].text, strlen(cases[i].text), &p, NULL);
        assert_int_equal(r, cases[i].result);
        if (r < 0)
            continue;
        assert_string_equal(p.id, cases[i].expected.id);
        assert_string_equal(p.status, cases[i].expected.status);
        assert_string_equal(p.error, cases[i].expected.error);
        assert_int_equal(p.done, cases[i].expected.done);
        assert_int_equal(p.total, cases[i].expected.total);
    }
}

/* What Docker 20.10 and registries really say. */
static void test_failures(void **state) {
    (void)state;
    static const struct {
        const char *message;
        enum cay_code code;
        const char *remedy;
    } cases[] = {
        {"manifest for r.example/a:1 not found: manifest unknown: manifest unknown", CAY_NOT_FOUND,
         "tag"},
        {"pull access denied for a, repository does not exist or may require 'docker login': "
         "denied",
         CAY_NOT_FOUND, "cay image login r.example"},
        {"Get \"http://r.example/v2/a/manifests/1\": no basic auth credentials", CAY_UNAUTHORIZED,
         "cay image login r.example"},
        {"unauthorized: authentication required", CAY_UNAUTHORIZED, "login"},
        {"denied: requested access to the resource is denied", CAY_FORBIDDEN, "login"},
        {"Get \"https://r.example/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
         CAY_UNAVAILABLE, "reaches r.example"},
        {"Get \"https://r.example/v2/\": x509: certificate signed by unknown authority",
         CAY_UNAVAILABLE, "certs.d"},
        {"http: server gave HTTP response to HTTPS client", CAY_UNAVAILABLE, "insecure-registries"},
        {"write /var/lib/docker/tmp/x: no space left on device", CAY_RESOURCE_EXHAUSTED, "room"},
        {"toomanyrequests: You have reached your pull rate limit", CAY_LIMIT_REACHED, "login"},
    };
    struct reference ref;
    assert_int_equal(reference_parse("r.example/a:1", &ref, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        assert_int_equal(docker_pull_failed(&ref, cases[i].message, &err), -(int)cases[i].code);
        assert_non_null(strstr(err.message, "r.example/a:1"));
        assert_non_null(strstr(err.remedy, cases[i].remedy));
    }
}

/* ---- a Docker that says what it is told to ---- */

struct fake {
    int listener;
    const char *pull; /* what it answers to a pull; NULL: nothing, until the client goes */
};

static void serve_one(const struct fake *f, int sock) {
    static const char ping[] = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n"
                               "Connection: close\r\n\r\nOK";
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    char request[4096] = "";
    size_t len = 0;
    while (strstr(request, "\r\n\r\n") == NULL) {
        ssize_t n = recv(sock, request + len, sizeof request - 1 - len, 0);
        if (n <= 0)
            return;
        len += (size_t)n;
    }
    if (strstr(request, "/images/create") == NULL) {
        (void)send(sock, ping, sizeof ping - 1, MSG_NOSIGNAL);
    } else if (f->pull != NULL) {
        (void)send(sock, head, sizeof head - 1, MSG_NOSIGNAL);
        (void)send(sock, f->pull, strlen(f->pull), MSG_NOSIGNAL);
    } else {
        (void)recv(sock, request, sizeof request, 0);
    }
}

static void *serve(void *arg) {
    const struct fake *f = arg;
    int sock;
    while ((sock = accept(f->listener, NULL, NULL)) >= 0) {
        serve_one(f, sock);
        (void)close(sock);
    }
    return NULL;
}

/* Calls with an API that leads to it. */
static void with_fake(const char *pull, void (*check)(struct docker_api *api)) {
    char path[] = "/tmp/test-docker-XXXXXX";
    assert_non_null(mkdtemp(path));
    struct docker_host host = {.url = "http://docker", .shown = "the fake"};
    (void)snprintf(host.socket, sizeof host.socket, "%s/sock", path);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s/sock", path);
    struct fake f = {.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .pull = pull};
    assert_int_equal(bind(f.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(f.listener, 8), 0);
    pthread_t thread;
    struct docker_api *api = NULL;
    assert_int_equal(pthread_create(&thread, NULL, serve, &f), 0);
    assert_int_equal(docker_api_new(&host, NULL, &api, NULL), 0);
    check(api);
    docker_api_free(api);
    (void)shutdown(f.listener, SHUT_RDWR);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(f.listener);
    (void)unlink(host.socket);
    (void)rmdir(path);
}

static void expect_unknown(struct docker_api *api) {
    struct reference ref;
    struct cay_error err = {0};
    assert_int_equal(reference_parse("r.example/a:1", &ref, NULL), 0);
    assert_int_equal(docker_pull(api, &ref, NULL, NULL, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.message, "manifest unknown"));
}

static void expect_pulled(struct docker_api *api) {
    struct reference ref;
    struct cay_error err = {0};
    assert_int_equal(reference_parse("r.example/a:1", &ref, NULL), 0);
    assert_int_equal(docker_pull(api, &ref, NULL, NULL, &err), 0);
}

/* The last line has an end, or has none. */
static void test_last_line(void **state) {
    (void)state;
    with_fake("{\"status\":\"Pulling\"}\n{\"error\":\"manifest unknown\"}\n", expect_unknown);
    with_fake("{\"status\":\"Pulling\"}\n{\"error\":\"manifest unknown\"}", expect_unknown);
    with_fake("{\"status\":\"Pulling\"}\r\n{\"status\":\"Pull complete\",\"id\":\"a\"}",
              expect_pulled);
    with_fake("", expect_pulled);
}

static void expect_given_up(struct docker_api *api) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct cay_error err = {0};
    struct docker_call call = {
        .method = "POST", .path = "/images/create", .timeout_ms = -1, .silence_s = 1};
    assert_int_equal(docker_ask(api, &call, &a, &err), -CAY_UNAVAILABLE);
    assert_true(err.remedy[0] != '\0');
}

static void test_silence(void **state) {
    (void)state;
    with_fake(NULL, expect_given_up);
}

static void test_own_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool is_own;
    } cases[] = {
        {"cay:0123456789ab", true},
        {"cay-archive:0123456789abcdef", true},
        {"docker.io/library/cay-archive", true},
        {"index.docker.io/cay-backup", true},
        {"cayenne", false},
        {"somebody/cay-archive", false},
        {"r.example/cay-archive", false},
        {"python", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct reference ref;
        assert_int_equal(reference_parse(cases[i].name, &ref, NULL), 0);
        assert_int_equal(docker_is_own_name(&ref), cases[i].is_own);
    }
}

static void test_policies(void **state) {
    (void)state;
    enum docker_policy p;
    assert_true(docker_policy_parse("missing", &p) && p == DOCKER_PULL_MISSING);
    assert_true(docker_policy_parse("always", &p) && p == DOCKER_PULL_ALWAYS);
    assert_true(docker_policy_parse("never", &p) && p == DOCKER_PULL_NEVER);
    assert_false(docker_policy_parse("auto", &p) || docker_policy_parse("", &p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress),  cmocka_unit_test(test_failures),
        cmocka_unit_test(test_last_line), cmocka_unit_test(test_silence),
        cmocka_unit_test(test_own_names), cmocka_unit_test(test_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
