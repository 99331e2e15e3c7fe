/* Tests of previews from a socket of HTTP to what answers inside, with an engine that only
 * pretends: what is passed on, both ways, and what becomes of an application that misbehaves. */
#include "manager_env.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "api/http.h"
#include "api/http/tls.h"
#include "wire/wire.h"

#define KEY "cay_admin_of_this_test"

/* ---- inside: cay-init, and an application behind the port that is dialled ---- */

static void say(int fd, const char *text) {
    (void)fd_write_all(fd, text, strlen(text));
}

/* The request's head, and what came behind it. */
static size_t read_head(int fd, char *text, size_t size) {
    size_t len = 0;
    ssize_t n;
    text[0] = '\0';
    while (strstr(text, "\r\n\r\n") == NULL && len + 1 < size &&
           (n = read(fd, text + len, size - 1 - len)) > 0) {
        len += (size_t)n;
        text[len] = '\0';
    }
    return len;
}

/* Sends back all that comes, in an answer that ends with it. */
static void echo(int fd, const char *text) {
    char data[4096];
    ssize_t n;
    say(fd, "HTTP/1.0 201 Made\r\nX-App: yes\r\n\r\n");
    say(fd, text);
    while (strstr(text, "END") == NULL && (n = read(fd, data, sizeof data - 1)) > 0) {
        data[n] = '\0';
        say(fd, data);
        text = data;
    }
}

static const struct {
    const char *path, *answer;
} answers[] = {
    {"/sized",
     "HTTP/1.1 404 No\r\nContent-Length: 5\r\nContent-Type: x/y\r\nX-Empty:\r\n\r\nhello"},
    {"/chunks",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"},
    {"/continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
    {"/short", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nonly"},
    {"/broken", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
    {"/none", "HTTP/1.1 204 No Content\r\nSet-Cookie: daytona-sandbox-auth-x=1\r\n\r\n"},
    {"/garbage", "SSH-2.0-x\r\n\r\n"},
    {"/silent", ""},
    {"/unasked", "HTTP/1.1 101 Now\r\nUpgrade: x\r\n\r\n"},
};

static void serve(int fd) {
    char text[65536];
    (void)read_head(fd, text, sizeof text);
    if (strstr(text, " /ws HTTP") != NULL) {
        say(fd, "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nwelcome");
        ssize_t n = read(fd, text, sizeof text);
        if (n > 0)
            (void)fd_write_all(fd, text, (size_t)n);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        const char *at = strstr(text, answers[i].path);
        if (at != NULL && strncmp(at + strlen(answers[i].path), " HTTP", 5) == 0) {
            say(fd, answers[i].answer);
            return;
        }
    }
    echo(fd, text);
}

/* Port 9 is closed. */
static void *run_inside(void *arg) {
    int fd = (int)(intptr_t)arg;
    struct wire_reader reader = WIRE_READER_INIT;
    struct wire_frame f;
    struct wire_message m;
    if (wire_receive(&reader, fd, &f) == 1 && wire_parse(f.data, f.len, &m) == 0) {
        struct cay_error err;
        error_set(&err, CAY_UNAVAILABLE, "nobody listens on port 9");
        if (m.number[WIRE_TAG_PORT] == 9)
            (void)wire_send_error(fd, &err);
        else if (wire_send(fd, WIRE_DONE, NULL) == 0)
            serve(fd);
    }
    wire_reader_free(&reader);
    (void)close(fd);
    return NULL;
}

static void *run_door(void *arg) {
    int fd, listener = (int)(intptr_t)arg;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_inside, (void *)(intptr_t)fd) == 0)
            (void)pthread_detach(thread);
    }
    return NULL;
}

/* ---- outside ---- */

static struct {
    const char *id;
    int listener;
    uint16_t port;
    pthread_t door;
    struct http *http;
} stage;

static int connect_daemon(void) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(stage.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* The whole answer to a request, of which "%s" is the id. */
static char *ask(const char *method, const char *path, const char *fields, const char *body) {
    static char text[1 << 20];
    size_t len = 0;
    ssize_t n;
    int fd = connect_daemon();
    (void)snprintf(text, sizeof text,
                   "%s /preview/%s/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   "Authorization: Bearer " KEY "\r\n%s\r\n%s",
                   method, stage.id, path, fields, body);
    say(fd, text);
    while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    (void)close(fd);
    return text;
}

static void open_stage(struct world *w) {
    static const struct tls no_tls;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    struct cay_error err = {0};
    open_manager(w);
    stage.id = make_box(w, "lab");
    stage.listener = fake_find(&w->fake, stage.id)->listener;
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&a, &len), 0);
    stage.port = ntohs(a.sin_port);
    const struct http_options options = {.manager = w->m,
                                         .unix_socket = -1,
                                         .tcp_socket = sock,
                                         .key = KEY,
                                         .tls = &no_tls,
                                         .rules = {.public_url = ""}};
    if (http_start(&options, &stage.http, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(pthread_create(&stage.door, NULL, run_door, (void *)(intptr_t)stage.listener),
                     0);
}

static void assert_has(const char *text, const char *part) {
    assert_non_null(strstr(text, part));
}

static void passes_answers(void) {
    const char *text = ask("GET", "8080/sized", "", "");
    assert_has(text, "HTTP/1.1 404 ");
    assert_has(text, "Content-Type: x/y\r\n");
    assert_has(text, "Content-Length: 5\r\n");
    assert_has(text, "\r\n\r\nhello");
    assert_has(text, "Content-Security-Policy: sandbox");
    assert_null(strstr(text, "no-store"));
    text = ask("GET", "8080/chunks", "", "");
    assert_has(text, "HTTP/1.1 200 ");
    assert_has(text, "abc");
    assert_true(str_ends(text, "0\r\n\r\n"));
    text = ask("GET", "8080/continue", "", "");
    assert_has(text, "HTTP/1.1 200 ");
    assert_true(str_ends(text, "\r\n\r\nok"));
    text = ask("HEAD", "8080/sized", "", "");
    assert_has(text, "Content-Length: 5\r\n");
    assert_true(str_ends(text, "\r\n\r\n"));
    text = ask("GET", "8080/none", "", "");
    assert_has(text, "HTTP/1.1 204 ");
    assert_null(strstr(text, "Set-Cookie"));
}

static void passes_requests(void) {
    const char *text = ask("PUT", "8080/a//b%20c?x", "Content-Length: 6\r\nX-Own: 1\r\n", "theEND");
    assert_has(text, "HTTP/1.1 201 ");
    assert_has(text, "X-App: yes\r\n");
    assert_has(text, "PUT /a//b%20c?x HTTP/1.1\r\n");
    assert_has(text, "X-Own: 1\r\n");
    assert_has(text, "theEND");
    assert_null(strstr(text, KEY));
    text =
        ask("POST", "8080/", "Transfer-Encoding: chunked\r\n", "3\r\none\r\n3\r\nEND\r\n0\r\n\r\n");
    assert_has(text, "Transfer-Encoding: chunked\r\n");
    assert_has(text, "END");
    text = ask("GET", "8080", "", "");
    assert_has(text, "HTTP/1.1 308 ");
}

static void tells_what_fails(void) {
    static const char *const paths[] = {"9/", "8080/garbage", "8080/silent", "8080/unasked"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        const char *text = ask("GET", paths[i], "", "");
        assert_has(text, "HTTP/1.1 502 ");
        assert_has(text, "\"message\"");
    }
    assert_has(ask("GET", "0/", "", ""), "HTTP/1.1 400 ");
    assert_has(ask("GET", "8%30/", "", ""), "HTTP/1.1 400 ");
    assert_true(strlen(strstr(ask("GET", "8080/short", "", ""), "\r\n\r\n")) < 90);
    assert_false(str_ends(ask("GET", "8080/broken", "", ""), "0\r\n\r\n"));
}

static void switches_protocols(void) {
    char text[4096];
    int fd = connect_daemon();
    (void)snprintf(text, sizeof text,
                   "GET /preview/%s/8080/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                   "Upgrade: websocket\r\nAuthorization: Bearer " KEY "\r\n\r\n",
                   stage.id);
    say(fd, text);
    size_t len = read_head(fd, text, sizeof text);
    ssize_t n;
    assert_has(text, "HTTP/1.1 101 ");
    while (!str_ends(text, "welcome") && (n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        text[len += (size_t)n] = '\0';
    say(fd, "and back");
    while (!str_ends(text, "and back") && (n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        text[len += (size_t)n] = '\0';
    assert_true(str_ends(text, "welcomeand back"));
    (void)close(fd);
}

static void needs_a_key(void) {
    char text[4096];
    int fd = connect_daemon();
    (void)snprintf(text, sizeof text,
                   "GET / HTTP/1.1\r\nHost: 8080-%s.localhost\r\nConnection: close\r\n\r\n",
                   stage.id);
    say(fd, text);
    (void)read_head(fd, text, sizeof text);
    assert_has(text, "HTTP/1.1 401 ");
    (void)close(fd);
}

static void assert_origin(const char *origin) {
    char text[4096], url[128];
    int fd = connect_daemon();
    size_t len = 0;
    ssize_t n;
    say(fd, "GET /api/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    (void)snprintf(url, sizeof url, "\"proxyToolboxUrl\":\"%s/toolbox\"", origin);
    assert_has(text, url);
    (void)close(fd);
}

/* As the hosts and origins that are allowed, it may change while it serves. */
static void follows_the_public_url(void) {
    char *text = strdup("https://cay.example");
    struct http_rules rules = {.public_url = text};
    struct cay_error err;
    assert_origin("http://localhost");
    assert_int_equal(http_set_rules(stage.http, &rules, &err), 0);
    free(text); /* which was copied */
    assert_origin("https://cay.example");
    rules.public_url = "";
    assert_int_equal(http_set_rules(stage.http, &rules, &err), 0);
    assert_origin("http://localhost");
}

/* One server for all of it: its threads end with the process only. */
static void test_previews(void **state) {
    open_stage(*state);
    passes_answers();
    passes_requests();
    tells_what_fails();
    switches_protocols();
    needs_a_key();
    follows_the_public_url();
    http_drain(stage.http, false);
    assert_true(http_wait(stage.http, 10000)); /* before the manager goes */
    (void)shutdown(stage.listener, SHUT_RDWR);
    (void)pthread_join(stage.door, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_previews, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
