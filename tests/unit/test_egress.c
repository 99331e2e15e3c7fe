#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "egress/network.h"
#include "egress/places.h"
#include "egress/request.h"

/* ---- the list ---- */

static void parse(const char *text, struct network *ret) {
    struct cay_error err = {0};
    if (network_parse(text, ret, &err) < 0)
        fail_msg("%s: %s", text, err.message);
}

static enum network_verdict judge(const struct network *n, const char *address, unsigned port,
                                  bool by_name) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return network_judge(n, (struct sockaddr *)&v4, by_name);
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return network_judge(n, (struct sockaddr *)&v6, by_name);
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *list, *name;
        unsigned port;
        bool open;
    } cases[] = {
        {"allow=a.com", "a.com", 80, true},
        {"allow=a.com", "a.com", 443, true},
        {"allow=a.com", "a.com", 22, false},
        {"allow=a.com:22", "a.com", 22, true},
        {"allow=a.com:22", "a.com", 443, false},
        {"allow=a.com:*", "a.com", 1, true},
        {"allow=A.Com.", "a.com", 80, true},
        {"allow=a.com", "b.a.com", 80, false},
        {"allow=*.a.com", "b.a.com", 80, true},
        {"allow=*.a.com", "c.b.a.com", 80, true},
        {"allow=*.a.com", "a.com", 80, false},
        {"allow=*.a.com", ".a.com", 80, false},
        {"allow=*.a.com", "ba.com", 80, false},
        {"allow=*", "a.com", 443, true},
        {"allow=*", "a.com", 25, false},
        {"allow=10.0.0.0/8", "a.com", 443, false},
        {"allow= a.com , b.org", "b.org", 443, true},
        {"none", "a.com", 443, false},
        {"", "a.com", 443, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct network n;
        parse(cases[i].list, &n);
        if (network_has_name(&n, cases[i].name, cases[i].port) != cases[i].open)
            fail_msg("%s: %s:%u", cases[i].list, cases[i].name, cases[i].port);
    }
}

static void test_addresses(void **state) {
    (void)state;
    static const struct {
        const char *list, *address;
        bool by_name;
        enum network_verdict verdict;
    } cases[] = {
        {"allow=a.com", "1.2.3.4", false, NETWORK_UNLISTED},
        {"allow=a.com", "1.2.3.4", true, NETWORK_OPEN},
        {"allow=1.2.3.4", "1.2.3.4", false, NETWORK_OPEN},
        {"allow=1.2.3.4", "1.2.3.5", false, NETWORK_UNLISTED},
        {"allow=1.2.3.0/30", "1.2.3.3", false, NETWORK_OPEN},
        {"allow=1.2.3.0/30", "1.2.3.4", false, NETWORK_UNLISTED},
        {"allow=1.2.3.0/24:22", "1.2.3.4", false, NETWORK_UNLISTED},
        {"allow=1.2.3.0/24:443", "1.2.3.4", false, NETWORK_OPEN},
        {"allow=0.0.0.0/0", "9.9.9.9", false, NETWORK_OPEN},
        {"allow=0.0.0.0/0", "2600::1", false, NETWORK_UNLISTED},
        {"allow=::/0", "2600::1", false, NETWORK_OPEN},
        {"allow=::/0", "9.9.9.9", false, NETWORK_UNLISTED},
        {"allow=[2600::/16]:443", "2600::1", false, NETWORK_OPEN},
        {"allow=2600::/16", "2601::1", false, NETWORK_UNLISTED},
        {"allow=a.com", "10.1.2.3", true, NETWORK_PRIVATE},
        {"allow=*,0.0.0.0/0", "10.1.2.3", true, NETWORK_PRIVATE},
        {"allow=8.0.0.0/5", "10.1.2.3", false, NETWORK_PRIVATE},
        {"allow=10.1.0.0/16", "10.1.2.3", false, NETWORK_OPEN},
        {"allow=10.1.0.0/16", "10.2.2.3", true, NETWORK_PRIVATE},
        {"allow=fd00::/16", "fd00::1", false, NETWORK_OPEN},
        {"allow=fc00::/7", "fd00:ec2::254", false, NETWORK_CLOSED},
        {"allow=*,0.0.0.0/0", "127.0.0.1", true, NETWORK_CLOSED},
        {"allow=*,0.0.0.0/0", "169.254.169.254", true, NETWORK_CLOSED},
        {"allow=*,0.0.0.0/0", "0.1.2.3", true, NETWORK_CLOSED},
        {"allow=*,0.0.0.0/0", "224.0.0.1", true, NETWORK_CLOSED},
        {"allow=*,0.0.0.0/0", "255.255.255.255", true, NETWORK_CLOSED},
        {"allow=100.64.0.0/10", "100.100.100.200", true, NETWORK_CLOSED},
        {"allow=*,::/0", "::1", true, NETWORK_CLOSED},
        {"allow=*,::/0", "::", true, NETWORK_CLOSED},
        {"allow=*,::/0", "fe80::1", true, NETWORK_CLOSED},
        {"allow=*,::/0", "ff02::1", true, NETWORK_CLOSED},
        {"allow=*,::/0", "::ffff:127.0.0.1", true, NETWORK_CLOSED},
        {"allow=*,::/0", "::ffff:10.0.0.1", true, NETWORK_PRIVATE},
        {"allow=*,::/0", "64:ff9b::a9fe:a9fe", true, NETWORK_CLOSED},
        {"allow=*,::/0", "::ffff:0:7f00:1", true, NETWORK_CLOSED}, /* SIIT */
        {"allow=*,::/0", "2002:7f00:1::", true, NETWORK_CLOSED},
        {"none", "1.2.3.4", false, NETWORK_UNLISTED},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct network n;
        parse(cases[i].list, &n);
        if (judge(&n, cases[i].address, 443, cases[i].by_name) != cases[i].verdict)
            fail_msg("%s: %s", cases[i].list, cases[i].address);
    }
}

static void test_reach(void **state) {
    (void)state;
    static const struct {
        const char *list;
        enum network_reach reach;
    } cases[] = {
        {"none", NETWORK_REACH_NONE},
        {"bridge", NETWORK_REACH_PUBLIC},
        {"allow=a.com", NETWORK_REACH_PUBLIC},
        {"allow=0.0.0.0/0", NETWORK_REACH_PUBLIC},
        {"allow=a.com,192.168.1.1", NETWORK_REACH_PRIVATE},
        {"allow=fd12::/32", NETWORK_REACH_PRIVATE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct network n;
        parse(cases[i].list, &n);
        assert_int_equal(network_reach(&n), cases[i].reach);
    }
}

static void test_wrong_lists(void **state) {
    (void)state;
    static const char *const lists[] = {
        "allow",          "allow=",           "allow=,",          "allow=a.com,",
        "allow=a..com",   "allow=-/8",        "allow=a.com:",     "allow=a.com:65536",
        "allow=a.com:x",  "allow=*a.com",     "allow=*.*.com",    "allow=1.2.3.4/33",
        "allow=1.2.3/24", "allow=::/129",     "allow=127.0.0.1",  "allow=169.254.0.0/24",
        "allow=::1",      "allow=[a.com]:80", "allow=a.com/path", "allow=[::ffff",
        "allow=a\nb",     "Allow=a.com",      "deny=a.com",       "allow=fe80::/64",
    };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct network n;
        struct cay_error err = {0};
        if (network_parse(lists[i], &n, &err) != -CAY_INVALID_ARGUMENT)
            fail_msg("%s is taken", lists[i]);
        assert_true(err.message[0] != '\0' && err.remedy[0] != '\0');
    }
    char many[NETWORK_TEXT_SIZE] = "allow=a";
    for (int i = 0; i < NETWORK_ENTRIES_MAX; i++)
        memcpy(many + strlen(many), ",a", 3);
    struct network n;
    struct cay_error err;
    assert_int_equal(network_parse(many, &n, &err), -CAY_INVALID_ARGUMENT);
}

/* ---- requests ---- */

static int read_request(const char *text, struct proxy_request *ret) {
    struct cay_error err;
    return proxy_request_parse(text, strlen(text), ret, &err);
}

static void test_targets(void **state) {
    (void)state;
    static const struct {
        const char *text, *host;
        unsigned port;
        bool is_tunnel, is_address;
    } cases[] = {
        {"CONNECT a.com:443 HTTP/1.1\r\n\r\n", "a.com", 443, true, false},
        {"CONNECT A.COM.:1 HTTP/1.0\r\nHost: x\r\n\r\n", "a.com", 1, true, false},
        {"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n", "2001:db8::1", 443, true, true},
        {"CONNECT 1.2.3.4:80 HTTP/1.1\r\n\r\n", "1.2.3.4", 80, true, true},
        {"GET http://a.com HTTP/1.1\r\n\r\n", "a.com", 80, false, false},
        {"GET HTTP://a.com:8080/x HTTP/1.1\r\n\r\n", "a.com", 8080, false, false},
        {"GET http://[::1]/ HTTP/1.1\r\n\r\n", "::1", 80, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct proxy_request r;
        if (read_request(cases[i].text, &r) != 1)
            fail_msg("%s", cases[i].text);
        assert_string_equal(r.host, cases[i].host);
        assert_int_equal(r.port, cases[i].port);
        assert_int_equal(r.is_tunnel, cases[i].is_tunnel);
        assert_int_equal(r.is_address, cases[i].is_address);
        assert_int_equal(r.head_len, strlen(cases[i].text));
    }
}

static void test_pieces(void **state) {
    (void)state;
    static const char text[] = "GET http://a.com/ HTTP/1.1\r\nA: b\r\n\r\n";
    struct proxy_request r;
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_int_equal(proxy_request_parse(text, len, &r, NULL), 0);
    assert_int_equal(proxy_request_parse(text, sizeof text - 1, &r, NULL), 1);
}

static void test_broken_requests(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET https://a.com/ HTTP/1.1\r\n\r\n",
        "GET http:///x HTTP/1.1\r\n\r\n",
        "GET http://u@a.com/ HTTP/1.1\r\n\r\n",
        "GET http://a.com:x/ HTTP/1.1\r\n\r\n",
        "GET http://a.com:99999/ HTTP/1.1\r\n\r\n",
        "GET http://a.com/ x HTTP/1.1\r\n\r\n",
        "GET http://a.com/#x HTTP/1.1\r\n\r\n",
        "GET http://a.com?x HTTP/1.1\r\n\r\n",
        "GET http://a.com/ HTTP/1.2\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\nA\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\n: b\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\nA : b\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\nA: b\n c\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n",
        "GET http://a.com/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "CONNECT a.com HTTP/1.1\r\n\r\n",
        "CONNECT a.com:443x HTTP/1.1\r\n\r\n",
        "CONNECT [a.com]:443 HTTP/1.1\r\n\r\n",
        "CONNECT ::1:443 HTTP/1.1\r\n\r\n",
        "CONNECT http://a.com:443 HTTP/1.1\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct proxy_request r;
        if (read_request(texts[i], &r) != -CAY_INVALID_ARGUMENT)
            fail_msg("taken: %s", texts[i]);
    }
}

static void test_rewriting(void **state) {
    (void)state;
    static const char text[] = "POST http://a.com:8080/x?y=1 HTTP/1.0\r\nHost: b.org\r\n"
                               "Proxy-Connection: keep-alive\r\nProxy-Authorization: x\r\n"
                               "Connection: keep-alive\r\nAccept:  */* \r\nContent-Length: 3\r\n"
                               "Upgrade: x\r\n\r\nabc";
    struct proxy_request r;
    _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
    assert_int_equal(read_request(text, &r), 1);
    assert_int_equal(proxy_request_rewrite(text, &r, &out), 0);
    assert_string_equal(out.data, "POST /x?y=1 HTTP/1.1\r\nHost: a.com:8080\r\nAccept: */*\r\n"
                                  "Content-Length: 3\r\nConnection: close\r\n\r\n");
    assert_string_equal(text + r.head_len, "abc");
}

/* ---- places ---- */

static void test_places(void **state) {
    (void)state;
    static const struct {
        struct places places;
        const char *refused; /* NULL: there is room */
    } cases[] = {
        {{.owner_id = "a"}, NULL},
        {{.all = 63, .box = 63, .owner = 63, .owner_id = "a"}, NULL},
        {{.all = 64, .box = 64, .owner = 64, .owner_id = "a"}, "this sandbox has 64 connections"},
        {{.all = 511, .box = 7, .owner = 511, .owner_id = "a"}, NULL},
        {{.all = 512, .box = 7, .owner = 512, .owner_id = "a"}, "512 of the proxy's 1024"},
        {{.all = 512, .owner = 0, .owner_id = "b"}, NULL},
        {{.all = 1023, .owner = 0, .owner_id = "b"}, NULL},
        {{.all = 768, .owner = 256, .owner_id = "b"}, "256 of the proxy's 1024"},
        {{.all = 1024, .owner = 0, .owner_id = "b"}, "0 of the proxy's 1024"},
        {{.all = 1000, .box = 3, .owner = 1000, .owner_id = ""}, NULL},
        {{.all = 1024, .box = 3, .owner = 1024, .owner_id = ""}, "the proxy has 1024"},
        {{.all = 9, .box = 1, .owner = 9, .owner_max = 10, .owner_id = "a"}, NULL},
        {{.all = 10, .box = 1, .owner = 10, .owner_max = 10, .owner_id = "a"},
         "10 connections, which is its limit"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        int r = places_check(&cases[i].places, &err);
        assert_int_equal(r, cases[i].refused == NULL ? 0 : -CAY_LIMIT_REACHED);
        if (r < 0 && strstr(err.message, cases[i].refused) == NULL)
            fail_msg("%s", err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),           cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_reach),           cmocka_unit_test(test_wrong_lists),
        cmocka_unit_test(test_targets),         cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_broken_requests), cmocka_unit_test(test_rewriting),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
