/* Ids of sessions and terminals as names inside a sandbox and back; offered subprotocols. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/toolbox/id.h"
#include "base/auto.h"

/* ---- names ---- */

static void test_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *id;
        bool is_plain;
    } rows[] = {
        {"s1", true},
        {"e0b1c2d3-0000-4444-8888-abcdefabcdef", true},
        {"supervisord-session", true},
        {"a.b_c-D9", true},
        {"b.", false}, /* looks encoded, so it is encoded */
        {"b.czE", false},
        {"my session", false},
        {"a/b", false},
        {"../../etc", false},
        {"größe", false},
        {"x", true},
        {"?", false},
        {"??", false},
        {"???", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[WIRE_NAME_MAX + 1], id[WIRE_NAME_MAX + 1];
        assert_int_equal(toolbox_name_of(rows[i].id, name, NULL), 0);
        assert_true(wire_call_is_name(name));
        assert_int_equal(strcmp(name, rows[i].id) == 0, rows[i].is_plain);
        toolbox_id_of(name, id);
        assert_string_equal(id, rows[i].id);
    }
}

static void test_lengths(void **state) {
    (void)state;
    char id[128], name[WIRE_NAME_MAX + 1], back[WIRE_NAME_MAX + 1];
    for (size_t len = 1; len < sizeof id; len++) {
        memset(id, 'a', len);
        id[len] = '\0';
        assert_int_equal(toolbox_name_of(id, name, NULL) == 0, len <= WIRE_NAME_MAX);
        id[0] = ' ';
        bool fits = toolbox_name_of(id, name, NULL) == 0;
        assert_int_equal(fits, len <= 45);
        if (fits) {
            toolbox_id_of(name, back);
            assert_string_equal(back, id);
        }
    }
    assert_true(toolbox_name_of("", name, NULL) < 0);
}

/* Names that others gave, and that only look encoded, are shown as they are. */
static void test_foreign_names(void **state) {
    (void)state;
    static const char *const names[] = {"b.", "b.A", "b.AA", "b..", "b._____w", "b.gICA"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char id[WIRE_NAME_MAX + 1];
        toolbox_id_of(names[i], id);
        assert_string_equal(id, names[i]);
    }
}

/* ---- subprotocols ---- */

static void test_offers(void **state) {
    (void)state;
    static const struct {
        const char *offers, *prefix, *rest; /* NULL: not found */
    } rows[] = {
        {NULL, "X", NULL},
        {"", "X", NULL},
        {"X-Daytona-Pty-Exit-Control", "X-Daytona-Pty-Exit-Control", ""},
        {"x-daytona-pty-exit-control", "X-Daytona-Pty-Exit-Control", ""},
        {"a, X-Daytona-SDK-Version~0.218.0", "X-Daytona-SDK-Version~", "0.218.0"},
        {"a,X-Daytona-Pty-Envs~e30 ,b", "X-Daytona-Pty-Envs~", "e30"},
        {" ,, ,\tb", "b", ""},
        {"X-Daytona", "X-Daytona-SDK-Version~", NULL},
        {"v~0123456789abcdef", "v~", NULL}, /* does not fit */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char rest[16];
        bool found = toolbox_find_offer(rows[i].offers, rows[i].prefix, rest, sizeof rest);
        assert_int_equal(found, rows[i].rest != NULL);
        if (found)
            assert_string_equal(rest, rows[i].rest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_foreign_names),
        cmocka_unit_test(test_offers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
