/* A Docker on another machine, without a Docker: contexts, mixed streams, and the process in the
 * container that passes an operation on. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/docker/parse.h"
#include "engine/docker/transport/demux.h"
#include "engine/docker/transport/host.h"
#include "engine/docker/transport/relay.h"

/* ---- contexts ---- */

static void write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    assert_int_equal(str_format(path, sizeof path, "%s/%s", folder, name), 0);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

#define CONTEXT(name, host, more)                                                                  \
    "{\"Name\":\"" name "\",\"Metadata\":{},\"Endpoints\":{\"docker\":{\"Host\":\"" host "\"" more \
    "}}}"

static int set_up(void **state) {
    static char folder[] = "/tmp/test-contexts-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_file(folder, "config.json", "{\"auths\":{},\"currentContext\":\"here\"}");
    write_file(folder, "contexts/meta/aa/meta.json", CONTEXT("here", "unix:///run/x.sock", ""));
    write_file(folder, "contexts/meta/bb/meta.json",
               CONTEXT("far", "tcp://box:99", ",\"SkipTLSVerify\":false"));
    write_file(folder, "contexts/tls/bb/docker/ca.pem", "");
    write_file(folder, "contexts/meta/cc/meta.json",
               CONTEXT("trusting", "tcp://box:2376", ",\"SkipTLSVerify\":true"));
    write_file(folder, "contexts/meta/dd/meta.json", CONTEXT("ssh", "ssh://box", ""));
    write_file(folder, "contexts/meta/ee/meta.json", "{broken");
    write_file(folder, "contexts/meta/ff/meta.json", CONTEXT("plain", "tcp://box", ""));
    *state = folder;
    return 0;
}

static int tear_down(void **state) {
    const char *folder = *state;
    return path_remove_tree(AT_FDCWD, folder);
}

static void test_contexts(void **state) {
    char certs[PATH_MAX];
    assert_int_equal(str_format(certs, sizeof certs, "%s/contexts/tls/bb/docker", (char *)*state),
                     0);
    const struct {
        const char *host, *context, *socket, *url, *certs;
        bool verify;
    } cases[] = {
        {NULL, NULL, "/run/x.sock", "http://docker", "", false},
        {"", "", "/run/x.sock", "http://docker", "", false},
        {NULL, "default", "/var/run/docker.sock", "http://docker", "", false},
        {NULL, "far", "", "https://box:99", certs, true},
        {NULL, "plain", "", "http://box:2375", "", false},
        {NULL, "trusting", "", "https://box:2376", "/home/u/.docker", false},
        {"tcp://other:1", "far", "", "http://other:1", "", false}, /* the host goes first */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_host h;
        struct docker_host_env env = {.host = cases[i].host,
                                      .context = cases[i].context,
                                      .config = *state,
                                      .home = "/home/u"};
        assert_int_equal(docker_host_look_up(&env, &h, NULL), 0);
        assert_string_equal(h.socket, cases[i].socket);
        assert_string_equal(h.url, cases[i].url);
        assert_string_equal(h.certs, cases[i].certs);
        assert_int_equal(h.verify, cases[i].verify);
    }
}

static void test_contexts_refused(void **state) {
    static const struct {
        const char *context, *part;
        enum cay_code code;
    } cases[] = {{"unknown", "no context 'unknown'", CAY_NOT_FOUND},
                 {"a\nb", "a\\x0ab", CAY_NOT_FOUND},
                 {"ssh", "context 'ssh'", CAY_INVALID_ARGUMENT}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_host h;
        struct cay_error err = {0};
        struct docker_host_env env = {.context = cases[i].context, .config = *state};
        assert_true(docker_host_look_up(&env, &h, &err) < 0);
        assert_int_equal(err.code, cases[i].code);
        assert_non_null(strstr(err.message, cases[i].part));
        assert_true(err.remedy[0] != '\0');
    }
    struct docker_host h;
    struct cay_error err = {0};
    write_file(*state, "config.json", "[]");
    assert_true(docker_host_look_up(&(struct docker_host_env){.config = *state}, &h, &err) < 0);
    assert_non_null(strstr(err.remedy, "/config.json"));
    /* without a config.json it is the usual socket */
    struct docker_host_env nowhere = {.config = "/nonexistent"};
    assert_int_equal(docker_host_look_up(&nowhere, &h, &err), 0);
    assert_string_equal(h.socket, "/var/run/docker.sock");
}

static void test_exec_ids(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {{"{\"Id\":\"0123abcd\"}", true}, {"{\"Id\":\"\"}", false},
                 {"{\"Id\":\"../x\"}", false},    {"{\"Id\":\"a b\"}", false},
                 {"{\"Id\":7}", false},           {"{}", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[DOCKER_EXEC_SIZE];
        assert_int_equal(docker_parse_exec(cases[i].text, strlen(cases[i].text), out, NULL) == 0,
                         cases[i].ok);
    }
}

/* ---- mixed streams ---- */

static void test_demux(void **state) {
    (void)state;
    static const unsigned char mixed[] = "\1\0\0\0\0\0\0\3abc" /* as Docker writes them */
                                         "\2\0\0\0\0\0\0\0"
                                         "\2\0\0\0\0\0\0\1E"
                                         "\1\0\0\0\0\0\0\2de";
    for (size_t step = 1; step <= sizeof mixed - 1; step++) {
        char text[4][16] = {{0}};
        struct demux d = {0};
        for (size_t at = 0; at < sizeof mixed - 1;) {
            size_t used, len;
            enum demux_stream which;
            assert_int_equal(
                demux_take(&d, mixed + at, MIN(step, sizeof mixed - 1 - at), &used, &which, &len),
                0);
            at += used;
            memcpy(text[which] + strlen(text[which]), mixed + at - len, len);
        }
        assert_string_equal(text[DEMUX_STDOUT], "abcde");
        assert_string_equal(text[DEMUX_STDERR], "E");
    }
}

static void test_demux_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"OCI runtime exec failed", "\4\0\0\0\0\0\0\1x",
                                      "\1\0\0\1\0\0\0\1x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct demux d = {0};
        size_t used, len;
        enum demux_stream which;
        assert_int_equal(demux_take(&d, (const unsigned char *)bad[i], 9, &used, &which, &len),
                         -EPROTO);
    }
}

/* ---- the relay ---- */

struct relay_test {
    pid_t pid;
    int in, out, err; /* of the process */
    int sock;         /* cay-init's end */
};

static void start_relay(struct relay_test *t) {
    int in[2], out[2], err[2], pair[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    t->pid = fork();
    if (t->pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)dup2(err[1], 2);
        int fds[] = {in[0], in[1], out[0], out[1], err[0], err[1], pair[0]};
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
            (void)close(fds[i]);
        _exit(relay_between(pair[1]));
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    (void)close(pair[1]);
    *t = (struct relay_test){t->pid, in[1], out[0], err[0], pair[0]};
}

static void put(const struct relay_test *t, const char *text) {
    unsigned char head[RELAY_HEADER];
    relay_put_number(head, sizeof head, strlen(text));
    assert_int_equal(fd_write_all(t->in, head, sizeof head), 0);
    assert_int_equal(fd_write_all(t->in, text, strlen(text)), 0);
}

static void expect(int fd, const char *text) {
    char got[64] = "";
    assert_int_equal(fd_read_all(fd, got, strlen(text)), 1);
    assert_string_equal(got, text);
}

static int end_relay(struct relay_test *t) {
    int status;
    fd_close(&t->in);
    fd_close(&t->sock);
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    fd_close(&t->out);
    fd_close(&t->err);
    return status;
}

/* Each direction ends for itself. */
static void test_relay(void **state) {
    (void)state;
    struct relay_test t;
    unsigned char total[RELAY_TOTAL];
    char byte;
    start_relay(&t);
    put(&t, "a");
    put(&t, "bc");
    expect(t.sock, "abc");
    assert_int_equal(fd_write_all(t.sock, "xyz", 3), 0);
    expect(t.out, "xyz");
    assert_int_equal(shutdown(t.sock, SHUT_WR), 0);
    assert_int_equal(fd_read_all(t.err, total, sizeof total), 1);
    assert_int_equal(relay_get_number(total, sizeof total), 3);
    put(&t, "more");
    expect(t.sock, "more");
    put(&t, ""); /* which ends it */
    assert_int_equal(read(t.sock, &byte, 1), 0);
    assert_int_equal(end_relay(&t), 0);
}

/* The end of its input is the end of all, but what came before is passed on. */
static void test_relay_hangs_up(void **state) {
    (void)state;
    struct relay_test t;
    char byte;
    start_relay(&t);
    put(&t, "last");
    fd_close(&t.in);
    expect(t.sock, "last");
    assert_int_equal(read(t.sock, &byte, 1), 0);
    assert_int_equal(end_relay(&t), 0);
}

/* More than fits anywhere, both ways at once: neither waits for the other. */
static void test_relay_full(void **state) {
    (void)state;
    struct relay_test t;
    static char data[RELAY_DATA_MAX];
    enum { ROUNDS = 64 };
    start_relay(&t);
    pid_t feeder = fork();
    if (feeder == 0) {
        unsigned char head[RELAY_HEADER];
        relay_put_number(head, sizeof head, sizeof data);
        for (int i = 0; i < ROUNDS; i++)
            if (fd_write_all(t.in, head, sizeof head) < 0 ||
                fd_write_all(t.in, data, sizeof data) < 0)
                _exit(1);
        _exit(0);
    }
    pid_t init = fork();
    if (init == 0) { /* writes all before it reads anything */
        static char got[RELAY_DATA_MAX];
        for (int i = 0; i < ROUNDS; i++)
            if (fd_write_all(t.sock, data, sizeof data) < 0)
                _exit(1);
        for (int i = 0; i < ROUNDS; i++)
            if (fd_read_all(t.sock, got, sizeof got) != 1)
                _exit(1);
        _exit(0);
    }
    static char got[RELAY_DATA_MAX];
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(fd_read_all(t.out, got, sizeof got), 1);
    int status;
    assert_int_equal(waitpid(feeder, &status, 0), feeder);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(init, &status, 0), init);
    assert_int_equal(status, 0);
    assert_int_equal(end_relay(&t), 0);
}

/* When cay-init closes the connection the process ends, and all that it had said is there. */
static void test_relay_ends(void **state) {
    (void)state;
    struct relay_test t;
    start_relay(&t);
    put(&t, "x");
    expect(t.sock, "x");
    assert_int_equal(fd_write_all(t.sock, "done", 4), 0);
    fd_close(&t.sock);
    expect(t.out, "done");
    int status;
    assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
    assert_int_equal(status, 0);
    fd_close(&t.in);
    fd_close(&t.out);
    fd_close(&t.err);
}

static void test_relay_nonsense(void **state) {
    (void)state;
    struct relay_test t;
    start_relay(&t);
    assert_int_equal(fd_write_all(t.in, "\xff\xff\xff\xff", 4), 0);
    int status;
    assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    fd_close(&t.in);
    fd_close(&t.sock);
    fd_close(&t.out);
    fd_close(&t.err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contexts),       cmocka_unit_test(test_contexts_refused),
        cmocka_unit_test(test_exec_ids),       cmocka_unit_test(test_demux),
        cmocka_unit_test(test_demux_refused),  cmocka_unit_test(test_relay),
        cmocka_unit_test(test_relay_hangs_up), cmocka_unit_test(test_relay_full),
        cmocka_unit_test(test_relay_ends),     cmocka_unit_test(test_relay_nonsense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
