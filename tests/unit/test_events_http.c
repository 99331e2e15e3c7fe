/* Tests of the socket of events over HTTP, with an engine that only pretends: the frames of SDKs.
 */
#include "manager_env.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "api/http.h"
#include "api/http/tls.h"

#define KEY "cay_admin_of_this_test"

static uint16_t port;
static struct http *http;

static void open_server(struct world *w) {
    static const struct tls no_tls;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    struct cay_error err = {0};
    open_manager(w);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&a, &len), 0);
    port = ntohs(a.sin_port);
    const struct http_options options = {.manager = w->m,
                                         .unix_socket = -1,
                                         .tcp_socket = sock,
                                         .key = KEY,
                                         .tls = &no_tls,
                                         .rules = {.public_url = ""}};
    if (http_start(&options, &http, &err) < 0)
        fail_msg("%s", err.message);
}

static int open_socket(void) {
    static const char request[] =
        "GET /api/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    char head[1024] = "";
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(fd_write_all(fd, request, sizeof request - 1), 0);
    for (size_t n = 0; !str_ends(head, "\r\n\r\n"); n++)
        assert_int_equal(fd_read_all(fd, head + n, 1), 1);
    assert_true(str_starts(head, "HTTP/1.1 101 "));
    return fd;
}

/* A text frame, masked by zeros. */
static void say(int fd, const char *text) {
    size_t len = strlen(text);
    unsigned char head[6] = {0x81, (unsigned char)(0x80 | len)};
    assert_true(len < 126);
    assert_int_equal(fd_write_all(fd, head, sizeof head), 0);
    assert_int_equal(fd_write_all(fd, text, len), 0);
}

/* The next text frame; "" for a close or the end. */
static const char *hear(int fd) {
    static char text[65536];
    unsigned char head[4] = {0};
    text[0] = '\0';
    if (fd_read_all(fd, head, 2) != 1 || head[0] != 0x81)
        return text;
    size_t len = head[1];
    if (len == 126) {
        assert_int_equal(fd_read_all(fd, head + 2, 2), 1);
        len = (size_t)head[2] << 8 | head[3];
    }
    assert_int_equal(fd_read_all(fd, text, len), 1);
    text[len] = '\0';
    return text;
}

static void assert_begins(const char *text, const char *prefix) {
    if (!str_starts(text, prefix))
        fail_msg("'%s' does not begin: %.300s", prefix, text);
}

static void refuses(const char *first) {
    int fd = open_socket();
    assert_begins(hear(fd), "0{\"sid\":\"");
    say(fd, first);
    assert_string_equal(hear(fd), "44{\"message\":\"Unauthorized\"}");
    assert_string_equal(hear(fd), "");
    (void)close(fd);
}

static void tells(struct world *w) {
    struct cay_error err;
    int fd = open_socket();
    assert_begins(hear(fd), "0{\"sid\":\"");
    say(fd, "40{\"token\":\"" KEY "\"}");
    assert_begins(hear(fd), "40{\"sid\":\"");
    const char *id = make_box(w, "lab");
    const char *created = hear(fd);
    assert_begins(created, "42[\"sandbox.created\",{");
    assert_non_null(strstr(created, id));
    assert_non_null(strstr(created, "\"toolboxProxyUrl\":\"http://localhost/toolbox\""));
    const char *started = hear(fd);
    assert_begins(started, "42[\"sandbox.state.updated\",{\"sandbox\":{");
    assert_true(str_ends(started, "\"oldState\":\"creating\",\"newState\":\"started\"}]"));
    assert_int_equal(manager_remove(w->m, id, true, &err), 0);
    assert_true(str_ends(hear(fd), "\"newState\":\"destroying\"}]"));
    const char *gone = hear(fd);
    assert_true(str_ends(gone, "\"oldState\":\"destroying\",\"newState\":\"destroyed\"}]"));
    assert_non_null(strstr(gone, "\"state\":\"destroyed\""));
    say(fd, "3");
    say(fd, "41");
    assert_string_equal(hear(fd), "");
    (void)close(fd);
}

/* The end of the daemon does not wait for who only listens. */
static void ends(struct world *w) {
    int fd = open_socket();
    (void)hear(fd);
    say(fd, "40{\"token\":\"" KEY "\"}");
    assert_begins(hear(fd), "40{\"sid\":\"");
    manager_drain(w->m, 1000);
    assert_string_equal(hear(fd), "");
    (void)close(fd);
    http_drain(http, false);
    assert_true(http_wait(http, 10000)); /* before the manager goes */
}

/* One server for all of it: its threads end with the process only. */
static void test_events(void **state) {
    open_server(*state);
    refuses("40{\"token\":\"cay_wrong\"}");
    refuses("40");
    refuses("2");
    tells(*state);
    ends(*state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
