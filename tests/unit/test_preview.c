/* Tests of previews: which port of whom a request is for, and what passes of its head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/preview/head.h"
#include "api/preview/place.h"
#include "api/toolbox/ports.h"
#include "base/auto.h"

#define ID     "0123456789abcdef"
#define SIGNED ID "6800000000112233445566778899aabb"

/* who NULL: it is no preview. */
static const struct {
    const char *host, *uri, *who;
    uint16_t port;
    bool by_host, is_signed;
    const char *rest, *parent;
} places[] = {
    {"localhost", "/preview/lab/8080/a/b?c=d", "lab", 8080, false, false, "/a/b?c=d", NULL},
    {"localhost", "/preview/lab/8080/", "lab", 8080, false, false, "/", NULL},
    {"localhost", "/preview/lab/8080", "lab", 8080, false, false, "", NULL},
    {"localhost", "/preview/lab/8080?x", "lab", 8080, false, false, "", NULL},
    {"localhost", "/preview/lab/8080//x", "lab", 8080, false, false, "//x", NULL},
    {"localhost", "/preview/" SIGNED "/80/", ID, 80, false, true, "/", NULL},
    {"8080-" ID ".localhost:3986", "/api/sandbox", ID, 8080, true, false, "/api/sandbox",
     "localhost:3986"},
    {"80-" SIGNED ".a.example", "/", ID, 80, true, true, "/", "a.example"},
    {"localhost", "/preview/lab/0/"},
    {"localhost", "/preview/lab/65536/"},
    {"localhost", "/preview/lab/080/"},
    {"localhost", "/preview/lab/80x/"},
    {"localhost", "/preview/lab"},
    {"localhost", "/preview/la%62/80/"},
    {"localhost", "/preview//80/"},
    {"localhost", "/api/preview/lab/80/"},
    {"localhost", "/"},
    {"my-host.example", "/api/sandbox"},
    {"0-" ID ".localhost", "/"},
    {"8080-.localhost", "/"},
    {"8080-a/b.localhost", "/"},
    {NULL, "/"},
};

static void finds_the_place(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct preview_place p;
        preview_read_place(places[i].host, places[i].uri, &p);
        assert_int_equal(p.is_one, places[i].who != NULL);
        if (!p.is_one) {
            assert_true(p.rest == NULL && p.port == 0 && p.who[0] == '\0' && !p.by_host);
            continue;
        }
        assert_string_equal(p.who, places[i].who);
        assert_int_equal(p.port, places[i].port);
        assert_int_equal(p.by_host, places[i].by_host);
        assert_int_equal(p.is_signed, places[i].is_signed);
        assert_string_equal(p.rest, places[i].rest);
        if (places[i].parent != NULL)
            assert_string_equal(p.host, places[i].parent);
        assert_string_equal(p.token, p.is_signed ? SIGNED : "");
    }
}

static void finds_tokens(void **state) {
    (void)state;
    static const struct {
        const char *cookies, *value;
    } cookies[] = {
        {"a=1; daytona-sandbox-auth-x=T; b=2", "T"},
        {"daytona-sandbox-auth-x=T", "T"},
        {"daytona-sandbox-auth-xx=T", NULL},
        {"a=daytona-sandbox-auth-x=T", NULL},
        {"daytona-sandbox-auth-x=", ""},
        {"", NULL},
        {NULL, NULL},
    };
    static const struct {
        const char *rest, *value;
    } queries[] = {
        {"/?DAYTONA_SANDBOX_AUTH_KEY=T", "T"},
        {"/a?b=c&DAYTONA_SANDBOX_AUTH_KEY=T&d", "T"},
        {"/DAYTONA_SANDBOX_AUTH_KEY=T", NULL},
        {"/?XDAYTONA_SANDBOX_AUTH_KEY=T", NULL},
        {"", NULL},
    };
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(cookies); i++) {
        const char *found = preview_cookie(cookies[i].cookies, "daytona-sandbox-auth-x", &len);
        assert_int_equal(found != NULL, cookies[i].value != NULL);
        if (found != NULL)
            assert_true(len == strlen(cookies[i].value) &&
                        memcmp(found, cookies[i].value, len) == 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
        const char *found = preview_query(queries[i].rest, &len);
        assert_int_equal(found != NULL, queries[i].value != NULL);
        if (found != NULL)
            assert_true(len == strlen(queries[i].value) &&
                        memcmp(found, queries[i].value, len) == 0);
    }
}

static void passes_requests(void **state) {
    (void)state;
    static const char *const fields[][2] = {
        {"Host", "evil"},
        {"Accept", "*/*"},
        {"Authorization", "Bearer ours"},
        {"Connection", "close, X-Hop"},
        {"X-Hop", "1"},
        {"Transfer-Encoding", "chunked"},
        {"Content-Length", "7"},
        {"TE", "trailers"},
        {"X-Daytona-Preview-Token", "secret"},
        {"Cookie", "a=1; daytona-sandbox-auth-x=secret; b=2"},
        {"Cookie", "daytona-sandbox-auth-x=secret"},
        {"Bad", "a\r\nInjected: 1"},
        {"Bad Name", "x"},
    };
    struct preview_place place = {
        .rest = "/p?DAYTONA_SANDBOX_AUTH_KEY=secret&a=b&DAYTONA_SANDBOX_AUTH_KEY=secret"};
    struct preview_head h = {.place = &place,
                             .method = "PUT",
                             .host = "8080-x.localhost",
                             .connection = "close, X-Hop",
                             .length = "7",
                             .hides_key = true};
    _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
    preview_put_request(&out, &h);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        preview_put_field(&out, &h, fields[i][0], fields[i][1]);
    preview_put_end(&out);
    assert_string_equal(buf_text(&out), "PUT /p?a=b HTTP/1.1\r\n"
                                        "Host: 8080-x.localhost\r\n"
                                        "X-Forwarded-Host: 8080-x.localhost\r\n"
                                        "X-Forwarded-Proto: http\r\n"
                                        "Connection: close\r\n"
                                        "Content-Length: 7\r\n"
                                        "Accept: */*\r\n"
                                        "Cookie: a=1; b=2\r\n"
                                        "\r\n");
    buf_clear(&out);
    h.hides_key = false;
    preview_put_field(&out, &h, "Authorization", "Basic theirs");
    assert_string_equal(buf_text(&out), "Authorization: Basic theirs\r\n");
}

static void passes_answers(void **state) {
    (void)state;
    static const struct {
        const char *name, *value;
        bool by_path, by_host;
    } cases[] = {
        {"Content-Type", "text/html", true, true},
        {"Set-Cookie", "a=b", true, true},
        {"Set-Cookie", "daytona-sandbox-auth-x=forged", false, false},
        {"transfer-encoding", "chunked", false, false},
        {"Content-Length", "3", false, false},
        {"X-Hop", "1", false, false},
        {"Clear-Site-Data", "\"*\"", false, true},
        {"Service-Worker-Allowed", "/", false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(preview_passes_back(cases[i].name, cases[i].value, "x-hop", false),
                         cases[i].by_path);
        assert_int_equal(preview_passes_back(cases[i].name, cases[i].value, "x-hop", true),
                         cases[i].by_host);
    }
}

static void keeps_cookies_apart(void **state) {
    (void)state;
    static const char path[] = "/preview/lab/8080/rest";
    static const struct {
        const char *given, *passed;
    } cases[] = {
        {"a=b", "a=b; Path=/preview/lab/8080/"},
        {"a=b; Path=/; HttpOnly", "a=b; HttpOnly; Path=/preview/lab/8080/"},
        {"a=b;path=/preview/other;DOMAIN = .localhost; Secure",
         "a=b; Secure; Path=/preview/lab/8080/"},
        {"a=b; Path; Domain;;", "a=b; ; ; Path=/preview/lab/8080/"},
        {"a=b; Pathology=1", "a=b; Pathology=1; Path=/preview/lab/8080/"},
        {"", "; Path=/preview/lab/8080/"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf out = BUF_INIT(1000);
        preview_put_set_cookie(&out, cases[i].given, path, strlen("/preview/lab/8080/"));
        assert_string_equal(buf_text(&out), cases[i].passed);
    }
}

/* By host: the cookie is the application's own, and of its own host only. */
static void drops_the_domain_of_cookies(void **state) {
    (void)state;
    static const struct {
        const char *given, *passed;
    } cases[] = {
        {"a=b", "a=b"},
        {"a=b; Domain=.localhost; Path=/x; Secure", "a=b; Path=/x; Secure"},
        {"a=b;dOmAiN = localhost", "a=b"},
        {"a=b; Domain; Domainname=x", "a=b; Domainname=x"},
        {"a=Domain=b", "a=Domain=b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf out = BUF_INIT(1000);
        preview_put_set_cookie(&out, cases[i].given, NULL, 0);
        assert_string_equal(buf_text(&out), cases[i].passed);
    }
}

static void reads_ports(void **state) {
    (void)state;
    bool open[PORTS_LAST + 1] = {0};
    ports_read("  sl  local_address rem_address   st\n"
               "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n" /* 8080 */
               "   1: 0100007F:0BB8 0100007F:C350 01 00000000:00000000\n" /* 3000, connected */
               "   2: 00000000:0016 00000000:0000 0A 00000000:00000000\n" /* 22 */
               "   3: 00000000000000000000000000000000:1388 "
               "00000000000000000000000000000000:0000 0A\n" /* 5000 */
               "   4: 0100007F:FFFFFF 0:0 0A\n   5:\n:::\n   6: 0100007F:1F91",
               open);
    for (int i = 0; i <= PORTS_LAST; i++)
        assert_int_equal(open[i], i == 8080 || i == 5000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_place),
        cmocka_unit_test(finds_tokens),
        cmocka_unit_test(passes_requests),
        cmocka_unit_test(passes_answers),
        cmocka_unit_test(keeps_cookies_apart),
        cmocka_unit_test(reads_ports),
        cmocka_unit_test(drops_the_domain_of_cookies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
