/* Tests of what the supervisor reads again, passes on, and keeps of its log. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "daemon/control.h"
#include "daemon/front/reload.h"
#include "daemon/helpers/places.h"
#include "engine/link/client.h"

static char folder[64];

static void put(const char *path, const char *text, mode_t mode) {
    (void)unlink(path);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static int setup(void **state) {
    assert_int_equal(str_copy(folder, sizeof folder, "/tmp/cay-reload-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    log_set_level(LOG_LEVEL_ERROR);
    *state = NULL;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return chdir("/") | path_remove_tree(AT_FDCWD, folder);
}

/* ---- reading again ---- */

static struct settings started_with(const char *text) {
    static char path[PATH_MAX];
    static const char *const no_env[] = {NULL};
    struct settings s = {.log_level = "error"};
    struct cay_error err = {0};
    assert_int_equal(path_join(path, sizeof path, folder, "cay.toml"), 0);
    put(path, text, 0644);
    s.config_file = path;
    assert_int_equal(config_load(path, no_env, &s.config, &err), 0);
    assert_int_equal(tls_read(s.config, &s.tls, &err), 0);
    return s;
}

static void release(struct settings *s, struct reload *r) {
    reload_drop(r);
    config_free(s->config);
    tls_free(&s->tls);
}

static void test_another(void **state) {
    (void)state;
    struct settings s = started_with("[manager]\nmax_sandboxes = 3\n");
    struct reload r = {0};
    struct cay_error err = {0};
    char here[PATH_MAX];
    put("cay.toml", "[manager]\nmax_sandboxes = 5\n[server]\nsocket = \"/run/x\"\n", 0644);
    assert_int_equal(reload_read(&s, &r, &err), 0);
    assert_string_equal(getcwd(here, sizeof here), folder); /* it left it meanwhile */
    assert_int_equal(s.config->manager.max_sandboxes, 3);   /* nobody has taken it over yet */
    reload_finish(&r, &s);
    assert_int_equal(s.config->manager.max_sandboxes, 5);
    assert_null(r.config);
    release(&s, &r);
}

static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[manager]\nmax_sandbox = 3\n", "cay.toml:2:1: unknown key in [manager]: 'max_sandbox'; "
                                         "did you mean 'max_sandboxes'?"},
        {"[manager]\nmax_sandboxes = 0\n", "cay.toml:2:17: manager.max_sandboxes"},
        {"[manager\n", "cay.toml:1:"},
        {"[server]\ntls_cert = \"/x\"\n", "server.tls_key is not"},
        {"[server]\ntls_cert = \"/no/c\"\ntls_key = \"/no/k\"\n", "opening '/no/c'"},
        {"[manager]\nvolume_folders = [\"/a//b\"]\n", "shortest form"},
    };
    struct settings s = started_with("");
    struct reload r = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        put("cay.toml", cases[i].text, 0644);
        assert_true(reload_read(&s, &r, &err) < 0);
        if (strstr(err.message, cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
        assert_null(r.config);
        assert_int_equal(r.number, i + 1);
    }
    struct cay_error err = {0};
    assert_int_equal(unlink("cay.toml"), 0); /* it was asked for by name */
    assert_int_equal(reload_read(&s, &r, &err), -CAY_NOT_FOUND);
    release(&s, &r);
}

/* What a front leaves in its folder is no configuration of the supervisor's. */
static void test_planted(void **state) {
    (void)state;
    struct settings s = started_with("");
    struct reload r = {0};
    struct cay_error err = {0};
    assert_int_equal(mkdir("config", 0700), 0);
    put("config/config.toml", "[manager]\nmax_sandboxes = 999\n", 0644);
    s.config_file = NULL;
    assert_int_equal(reload_read(&s, &r, &err), 0);
    assert_int_not_equal(r.config->manager.max_sandboxes, 999);
    release(&s, &r);
}

static const char with_tls[] = "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";

static void test_certificate(void **state) {
    (void)state;
    struct reload r = {0};
    struct cay_error err = {0};
    put("cert.pem", "one", 0644);
    put("key.pem", "secret", 0600);
    struct settings s = started_with(with_tls);
    assert_int_equal(reload_read(&s, &r, &err), 0);
    assert_null(r.tls.cert); /* the same: connections need not change */
    put("cert.pem", "two", 0644);
    assert_int_equal(reload_read(&s, &r, &err), 0);
    assert_string_equal(r.tls.cert, "two");
    reload_finish(&r, &s);
    assert_string_equal(s.tls.cert, "two");
    assert_string_equal(s.tls.key, "secret");
    put("key.pem", "secret", 0644);
    assert_int_equal(reload_read(&s, &r, &err), -CAY_FORBIDDEN);
    put("cay.toml", "", 0644); /* no TLS any more: after a restart */
    assert_int_equal(reload_read(&s, &r, &err), 0);
    assert_null(r.tls.cert);
    reload_finish(&r, &s);
    assert_string_equal(s.tls.cert, "two");
    release(&s, &r);
}

/* ---- passing on ---- */

static void test_sent(void **state) {
    (void)state;
    struct reload r = {0};
    struct cay_error err = {0};
    struct control_message m;
    struct config *c = NULL;
    struct tls tls = {0};
    int pair[2], fds[CONTROL_FDS_MAX];
    put("cert.pem", "one", 0644);
    put("key.pem", "secret", 0600);
    struct settings s = started_with(with_tls);
    put("cert.pem", "two", 0644);
    assert_int_equal(reload_read(&s, &r, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(reload_send(pair[0], &r, &err), 0);
    assert_int_equal(control_receive(pair[1], &m, fds), 1);
    assert_int_equal(m.op, CONTROL_RELOAD);
    assert_int_equal(m.number, r.number);
    assert_int_equal(config_unpack(fds[0], &c, &err), 0);
    assert_string_equal(c->server.tls_cert, "cert.pem");
    assert_int_equal(tls_unpack(fds[1], &tls, &err), 0);
    assert_string_equal(tls.cert, "two");
    assert_string_equal(tls.key, "secret");
    tls_free(&tls);
    config_free(c);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(pair[0]);
    (void)close(pair[1]);
    release(&s, &r);
}

static void test_bad_certificates(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {{"", 0}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}, {"\0", 1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tls tls = {0};
        struct cay_error err = {0};
        put("packed", "", 0600);
        _cleanup_(closep) int fd = open("packed", O_RDWR | O_CLOEXEC);
        assert_int_equal(fd_write_all(fd, cases[i].bytes, cases[i].len), 0);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        int r = tls_unpack(fd, &tls, &err);
        assert_int_equal(r, cases[i].len == 0 ? 0 : -CAY_INTERNAL); /* none at all is fine */
        assert_null(tls.cert);
    }
}

/* ---- the log ---- */

static int open_log(const char *text) {
    put("log", text, 0600);
    int fd = open("log", O_RDWR | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void expect(const char *name, const char *text) {
    char found[64];
    ssize_t n = fd_read_file_at(AT_FDCWD, name, found, sizeof found);
    assert_int_equal(n, strlen(text));
    assert_string_equal(found, text);
}

static void test_log(void **state) {
    (void)state;
    struct cay_error err = {0};
    _cleanup_(closep) int log = open_log("one");
    _cleanup_(closep) int copy = dup(log); /* another process's */
    assert_int_equal(places_rotate_log(log, 3, &err), 0);
    assert_int_equal(access("log.1", F_OK), -1);
    assert_int_equal(fd_write_all(copy, " and two", 8), 0);
    assert_int_equal(places_rotate_log(log, 3, &err), 0);
    expect("log.1", "one and two");
    assert_int_equal(fd_write_all(copy, "more", 4), 0);
    expect("log", "more");
    assert_int_equal(places_rotate_log(log, 3, &err), 0);
    expect("log.1", "more"); /* and nothing of what was longer */
}

/* The folder is the front's, which may have put something there. */
static void test_log_is_not_led_astray(void **state) {
    (void)state;
    struct cay_error err = {0};
    _cleanup_(closep) int log = open_log("long enough");
    put("precious", "as it was", 0600);
    assert_int_equal(symlink("precious", "log.1"), 0);
    assert_true(places_rotate_log(log, 3, &err) < 0);
    expect("precious", "as it was");
    expect("log", ""); /* bounded all the same */
    assert_int_equal(unlink("log.1") | link("precious", "log.1"), 0);
    assert_int_equal(fd_write_all(log, "long enough", 11), 0);
    assert_int_equal(places_rotate_log(log, 3, &err), -CAY_FORBIDDEN);
    expect("precious", "as it was");
    expect("log", "");
}

/* ---- the launcher's absence ---- */

static void test_launcher_is_missed(void **state) {
    (void)state;
    struct cay_error err = {0};
    struct engine *e = NULL;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(link_open(pair[0], NULL, NULL, &e, &err), 0);
    assert_int_equal(e->ops->gone_ms(e), 0);
    (void)close(pair[1]);
    int64_t until = clock_ms() + 30000;
    while (e->ops->gone_ms(e) == 0 && clock_ms() < until)
        (void)usleep(1000);
    assert_true(e->ops->gone_ms(e) > 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(link_reconnect(e, pair[0], &err), 0);
    assert_int_equal(e->ops->gone_ms(e), 0);
    e->ops->close(e);
    (void)close(pair[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_planted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_certificate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_certificates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_is_not_led_astray, setup, teardown),
        cmocka_unit_test_setup_teardown(test_launcher_is_missed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
