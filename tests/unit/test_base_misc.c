/* Tests of base/id.c, clock.c and log.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

/* ---- id ---- */

static void ids(void **state) {
    (void)state;
    char a[ID_SIZE], b[ID_SIZE];
    assert_int_equal(id_new(a, NULL), 0);
    assert_int_equal(id_new(b, NULL), 0);
    assert_true(id_is_valid(a) && id_is_valid(b));
    assert_string_not_equal(a, b);
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {
        {"0123456789abcdef", true},  {"0123456789abcde", false},  {"0123456789abcdef0", false},
        {"0123456789ABCDEF", false}, {"0123456789abcdeg", false}, {"", false},
        {"../../../../../x", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_true(id_is_valid(cases[i].text) == cases[i].ok);
}

static void names(void **state) {
    (void)state;
    char longest[NAME_MAX_LEN + 1], longer[NAME_MAX_LEN + 2];
    memset(longest, 'a', sizeof longest - 1);
    memset(longer, 'a', sizeof longer - 1);
    longest[NAME_MAX_LEN] = longer[NAME_MAX_LEN + 1] = '\0';
    const struct {
        const char *name;
        bool ok;
    } cases[] = {
        {"lab", true},       {"a", true},    {"A.b_c-9", true}, {"9", true},    {longest, true},
        {longer, false},     {"", false},    {"-a", false},     {".a", false},  {"_a", false},
        {"a b", false},      {"a/b", false}, {"..", false},     {"a\n", false}, {"a\x1b[m", false},
        {"\xc3\xa4", false}, {"a=b", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        int r = id_check_name("--name", cases[i].name, &err);
        if (r != (cases[i].ok ? 0 : -CAY_INVALID_ARGUMENT))
            fail_msg("'%s': %d", cases[i].name, r);
        assert_null(strchr(err.message, 0x1b));
        assert_true(cases[i].ok || err.remedy[0] != '\0');
    }
}

static void randomness(void **state) {
    (void)state;
    static unsigned char data[100000];
    assert_int_equal(id_random(data, sizeof data), 0);
    size_t seen[256] = {0};
    for (size_t i = 0; i < sizeof data; i++)
        seen[data[i]]++;
    for (size_t i = 0; i < 256; i++)
        assert_in_range(seen[i], 200, 600); /* 390 each, sigma 20; the last byte is filled too */
    assert_int_equal(id_random(data, 0), 0);
}

/* ---- clock ---- */

static void deadlines(void **state) {
    (void)state;
    int64_t now = clock_ms();
    assert_true(now > 0 && clock_us() / 1000 >= now);
    assert_int_equal(clock_deadline(0), 0);
    assert_int_equal(clock_deadline(-5), 0);
    assert_false(clock_expired(0));
    assert_true(clock_expired(now) && clock_expired(1));
    assert_false(clock_expired(clock_deadline(60000)));
    assert_true(clock_deadline(INT64_MAX) == INT64_MAX); /* no overflow */
    assert_int_equal(clock_poll_timeout(0), -1);
    assert_int_equal(clock_poll_timeout(now), 0);
    assert_int_equal(clock_poll_timeout(INT64_MAX), INT_MAX);
    int left = clock_poll_timeout(clock_deadline(60000));
    assert_in_range(left, 50000, 60000);
    assert_int_equal(clock_earlier(0, 0), 0);
    assert_int_equal(clock_earlier(0, 5), 5);
    assert_int_equal(clock_earlier(5, 0), 5);
    assert_int_equal(clock_earlier(7, 5), 5);
}

/* However long the machine stands still between two looks. */
static void patience(void **state) {
    (void)state;
    struct clock_patience p = clock_patience_of(2 * CLOCK_LOOK_MS);
    p.at_ms -= 3600 * 1000;
    assert_false(clock_patience_ends(&p));
    assert_int_equal(p.left_ms, CLOCK_LOOK_MS);
    p.at_ms -= 3600 * 1000;
    assert_true(clock_patience_ends(&p));
    p = clock_patience_of(CLOCK_LOOK_MS / 2);
    while (!clock_patience_ends(&p))
        assert_true(p.left_ms > 0);
    assert_true(clock_patience_ends(&p));
}

static void iso8601_back(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.25Z", 250},
        {"1970-01-01T00:00:00.1239999z", 123},
        {"1970-01-01T02:00:00+02:00", 0},
        {"1969-12-31T23:30:00-00:30", 0},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
    };
    static const char *const bad[] = {
        "",
        "now",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:00Zx",
        "2026-01-01T00:00:00+2:00",
        "0000-01-01T00:00:00Z",
        "+026-01-01T00:00:00Z",
    };
    int64_t ms;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(clock_from_iso8601(good[i].text, &ms), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(clock_from_iso8601(bad[i], &ms), -EINVAL);
}

static void iso8601(void **state) {
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"}, /* a file may be that old */
        {-1000, "1969-12-31T23:59:59.000Z"},
        {951782400123, "2000-02-29T00:00:00.123Z"},
        {1794719273000, "2026-11-15T05:07:53.000Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {INT64_MIN, "0001-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[32];
        assert_string_equal(clock_iso8601(cases[i].ms, out), cases[i].text);
    }
    assert_true(clock_wall_ms() > 1600000000000);
}

/* ---- log ---- */

/* The line without its time, which is checked for its shape. */
static const char *format(char out[static 1024], size_t size, const char *event, const char *key,
                          const char *value) {
    int n = log_format(out, size, LOG_LEVEL_WARN, event, key, value);
    assert_int_equal(n, strlen(out));
    assert_true(str_starts(out, "time=") && strlen(out) < size);
    const char *rest = strchr(out, ' ');
    return rest != NULL ? rest + 1 : "";
}

static void log_lines(void **state) {
    (void)state;
    static const struct {
        const char *event, *key, *value, *line;
    } cases[] = {
        {"started", NULL, NULL, "level=warn event=started"},
        {"two words", "pid", "7", "level=warn event=\"two words\" pid=7"},
        {"e", "k", "", "level=warn event=e k=\"\""},
        {"e", "k", "a=b", "level=warn event=e k=\"a=b\""},
        {"e", "k", "say \"hi\"", "level=warn event=e k=\"say \\\"hi\\\"\""},
        /* a value can end neither its line nor its quotes */
        {"e", "k", "x\nlevel=error", "level=warn event=e k=\"x\\\\x0alevel=error\""},
        {"e", "k", "a \\\" level=error", "level=warn event=e k=\"a \\\\\\\" level=error\""},
        {"e", "k", "a b\\", "level=warn event=e k=\"a b\\\\\""},
        {"e", "k", "\x1b[31m", "level=warn event=e k=\\x1b[31m"},
        {"e", "k", "\xff", "level=warn event=e k=\\xff"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[1024];
        assert_string_equal(format(out, sizeof out, cases[i].event, cases[i].key, cases[i].value),
                            cases[i].line);
    }
}

static void log_fields(void **state) {
    (void)state;
    char out[1024];
    log_set_field("box", "b1");
    log_set_field("req", "r 1");
    log_set_field("box", "b2\n");
    assert_string_equal(format(out, sizeof out, "e", "k", "v"),
                        "level=warn event=e box=b2\\x0a req=\"r 1\" k=v");
    log_set_field("box", NULL);
    log_set_field("absent", NULL);
    assert_string_equal(format(out, sizeof out, "e", NULL, NULL), "level=warn event=e req=\"r 1\"");
    log_set_field("a", "1");
    log_set_field("b", "2");
    log_set_field("c", "3");
    log_set_field("d", "4"); /* the fifth is dropped */
    assert_null(strstr(format(out, sizeof out, "e", NULL, NULL), "d=4"));
    static const char *const keys[] = {"req", "a", "b", "c"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        log_set_field(keys[i], NULL);
    assert_string_equal(format(out, sizeof out, "e", NULL, NULL), "level=warn event=e");
}

/* A line that does not fit is cut, never overrun. */
static void log_sizes(void **state) {
    (void)state;
    char value[4000];
    memset(value, '"', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (size_t size = 1; size < 300; size++) {
        char out[1024];
        memset(out, 'Z', sizeof out);
        int n = log_format(out, size, LOG_LEVEL_ERROR, "an event", "key", value);
        assert_true(n >= 0 && (size_t)n < size);
        assert_int_equal(strlen(out), n);
        assert_int_equal(out[size], 'Z');
    }
}

static void log_output(void **state) {
    (void)state;
    int pipefd[2];
    assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0);
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    assert_true(dup2(pipefd[1], STDERR_FILENO) == STDERR_FILENO);
    log_event(LOG_LEVEL_INFO, "hidden", NULL, NULL);
    log_event(LOG_LEVEL_WARN, "shown", "n", "%d", 5);
    log_set_level(LOG_LEVEL_DEBUG);
    assert_true(log_enabled(LOG_LEVEL_DEBUG));
    log_event(LOG_LEVEL_DEBUG, "detail", NULL, NULL);
    log_set_level(LOG_LEVEL_WARN);
    assert_false(log_enabled(LOG_LEVEL_INFO));
    assert_true(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
    (void)close(saved);
    (void)close(pipefd[1]);
    char text[1024] = "";
    ssize_t n = read(pipefd[0], text, sizeof text - 1);
    assert_true(n > 0);
    (void)close(pipefd[0]);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "level=warn event=shown n=5\n"));
    assert_true(str_ends(text, "level=debug event=detail\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids),          cmocka_unit_test(names),      cmocka_unit_test(randomness),
        cmocka_unit_test(deadlines),    cmocka_unit_test(patience),   cmocka_unit_test(iso8601),
        cmocka_unit_test(iso8601_back), cmocka_unit_test(log_lines),  cmocka_unit_test(log_fields),
        cmocka_unit_test(log_sizes),    cmocka_unit_test(log_output),
    };
    return cmocka_run_group_tests_name("base_misc", tests, NULL, NULL);
}
