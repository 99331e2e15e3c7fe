/* Tests of imager/build*.c with a runner that only notes what it is asked for. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "imager/build/build.h"
#include "imager/build/state.h"
#include "imager/runner.h"
#include "imager/transfer/change.h"

/* ---- the runner ---- */

static struct {
    unsigned calls;
    char argv[512], env[1024], cwd[256], user[64], network[32];
    int exit_code;
    int store;
} asked;

static void join(const char *const *words, char *out, size_t size) {
    out[0] = '\0';
    for (size_t at = 0; *words != NULL && at < size; words++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? "|" : "", *words);
}

/* Stands for the one of the program; it writes a file, as a command would. */
int runner_run(struct runner *r, const struct runner_command *c, int *exit_code,
               struct cay_error *err) {
    (void)r;
    asked.calls++;
    join(c->argv, asked.argv, sizeof asked.argv);
    join(c->env, asked.env, sizeof asked.env);
    (void)snprintf(asked.cwd, sizeof asked.cwd, "%s", c->cwd);
    (void)snprintf(asked.user, sizeof asked.user, "%s", c->user);
    (void)snprintf(asked.network, sizeof asked.network, "%s", c->network);
    char path[128];
    (void)snprintf(path, sizeof path, "work/%s/fs/made", c->work);
    _cleanup_(closep) int fd =
        openat(asked.store, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || fd_write_all(fd, asked.argv, strlen(asked.argv)) < 0)
        return error_errno(err, "making a file");
    *exit_code = asked.exit_code;
    return 0;
}

/* ---- a store and a context ---- */

struct place {
    char top[64];
    struct image_store store;
    int context, log;
};

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    struct cay_error err = {0};
    (void)snprintf(p->top, sizeof p->top, "/tmp/building-XXXXXX");
    assert_non_null(mkdtemp(p->top));
    if (image_store_open(p->top, true, geteuid(), &p->store, &err) < 0)
        fail_msg("%s", err.message);
    p->context = open(p->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    p->log = open("/dev/null", O_WRONLY | O_CLOEXEC);
    asked.store = p->store.dir;
    asked.calls = 0;
    asked.exit_code = 0;
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    /* waits for whom a build leaves behind to bring its layers to the disk */
    assert_int_equal(
        image_store_prune(&p->store, true, false, 60000, &(struct prune_result){0}, NULL), 0);
    image_store_close(&p->store);
    (void)close(p->context);
    (void)close(p->log);
    assert_int_equal(path_remove_tree(AT_FDCWD, p->top), 0);
    free(p);
    return 0;
}

static int build(struct place *p, const char *text, const char *arg, bool no_cache,
                 char id[static HEX_SIZE], struct cay_error *err) {
    struct build_options options = {
        .context = p->context,
        .dockerfile = text,
        .dockerfile_len = strlen(text),
        .source_date_epoch = 1000,
        .no_cache = no_cache,
        .log = p->log,
        .pull.policy = PULL_NEVER,
    };
    if (arg != NULL)
        assert_int_equal(strv_push(&options.args, arg), 0);
    int r = image_build(&p->store, &options, id, err);
    strv_free(&options.args);
    return r;
}

/* ---- tests ---- */

static void test_what_a_command_is_given(void **state) {
    struct place *p = *state;
    static const char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static const struct {
        const char *text, *argv, *env, *cwd, *user;
    } cases[] = {
        {"RUN a $x", "/bin/sh|-c|a $x", "", "/", ""},
        {"RUN [\"a\", \"$x\"]", "a|$x", "", "/", ""},
        {"SHELL [\"bash\", \"-ec\"]\nRUN a", "bash|-ec|a", "", "/", ""},
        {"ENV x=1\nENV y=${x}2 x=3\nRUN a", "/bin/sh|-c|a", "|x=3|y=12", "/", ""},
        {"ARG x=1\nRUN a", "/bin/sh|-c|a", "|x=1", "/", ""},
        {"ARG x=1\nENV x=2\nRUN a", "/bin/sh|-c|a", "|x=2", "/", ""},
        {"ENV x=2\nARG x=1\nRUN a", "/bin/sh|-c|a", "|x=2", "/", ""},
        {"ARG given=1\nRUN a", "/bin/sh|-c|a", "|given=by user", "/", ""},
        {"ARG global\nRUN a", "/bin/sh|-c|a", "|global=g", "/", ""},
        {"ARG global=own\nRUN a", "/bin/sh|-c|a", "|global=own", "/", ""},
        {"ARG nothing\nRUN a", "/bin/sh|-c|a", "", "/", ""},
        {"USER u$given\nARG given\nUSER ${given}:g\nRUN a", "/bin/sh|-c|a", "|given=by user", "/",
         "by user:g"},
        {"RUN <<E\na\nb\nE", "/bin/sh|-c|a\nb\n", "", "/", ""},
        {"RUN x <<E y\na\nE", "/bin/sh|-c|x <<E y\na\nE\n", "", "/", ""},
        {"RUN <<E\n#!/bin/py -x\na\nE",
         "/bin/sh|-c|/bin/py -x <<'CAY_SCRIPT_0'\n#!/bin/py -x\na\nCAY_SCRIPT_0\n", "", "/", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512], env[512], id[HEX_SIZE];
        struct cay_error err = {0};
        (void)snprintf(text, sizeof text, "ARG global=g\nFROM scratch\n%s\n", cases[i].text);
        (void)snprintf(env, sizeof env, "%s%s|SOURCE_DATE_EPOCH=1000", path, cases[i].env);
        if (build(p, text, "given=by user", true, id, &err) < 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_string_equal(asked.argv, cases[i].argv);
        assert_string_equal(asked.env, env);
        assert_string_equal(asked.cwd, cases[i].cwd);
        assert_string_equal(asked.user, cases[i].user);
        assert_string_equal(asked.network, "none");
    }
}

static void test_cache(void **state) {
    struct place *p = *state;
    char first[HEX_SIZE], id[HEX_SIZE];
    struct cay_error err = {0};
    static const char text[] = "FROM scratch\nARG x=1\nRUN a\nCMD b\n";
    assert_int_equal(build(p, text, NULL, false, first, &err), 0);
    assert_int_equal(build(p, text, NULL, false, id, &err), 0);
    assert_int_equal(asked.calls, 1);
    assert_string_equal(id, first);
    assert_int_equal(build(p, text, NULL, true, id, &err), 0);
    assert_int_equal(asked.calls, 2);
    assert_string_equal(id, first);
    assert_int_equal(build(p, text, "x=2", false, id, &err), 0);
    assert_int_equal(asked.calls, 3);
    /* the same file, and the argument is not in the image */
    assert_string_equal(id, first);
}

static void test_cache_entries(void **state) {
    struct place *p = *state;
    struct record_layer layer = {0}, got;
    char key[HEX_SIZE], path[128];
    memset(key, 'a', HEX_SIZE - 1);
    key[HEX_SIZE - 1] = '\0';
    memset(layer.chain, 'b', HEX_SIZE - 1);
    memset(layer.diff_id, 'c', HEX_SIZE - 1);
    build_cache_put(&p->store, key, &layer);
    assert_false(build_cache_get(&p->store, key, &got)); /* its layer is not there */
    (void)snprintf(path, sizeof path, "cache/%s", key);
    assert_int_equal(faccessat(p->store.dir, path, F_OK, 0), 0);
    build_cache_sweep(&p->store);
    assert_int_equal(faccessat(p->store.dir, path, F_OK, 0), -1);
    build_cache_put(&p->store, "../../escape", &layer);
    assert_false(build_cache_get(&p->store, "../../escape", &got));
}

static void test_failures_leave_nothing(void **state) {
    struct place *p = *state;
    char id[HEX_SIZE], work[96];
    struct cay_error err = {0};
    asked.exit_code = 3;
    assert_int_equal(build(p, "FROM scratch\nRUN a\n", NULL, false, id, &err), -CAY_INTERNAL);
    assert_non_null(
        strstr(err.message, "Dockerfile:2: step 2/2: the command ended with exit code 3"));
    assert_int_equal(build(p, "FROM host\nRUN a\n", NULL, false, id, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "FROM: nothing can be built on 'host'"));
    (void)snprintf(work, sizeof work, "%s/images/store/work", p->top);
    assert_int_equal(rmdir(work), 0); /* so it is empty */
    assert_int_equal(mkdir(work, 0755), 0);
}

static void test_changes(void **state) {
    (void)state;
    static const struct {
        const char *text, *shown; /* entrypoint, cmd, env, ports, labels, volumes, user, folder */
    } cases[] = {
        {"CMD a b", ";/bin/sh,-c,a b,;;;;;;"},
        {"CMD [\"a\", \"b\"]", ";a,b,;;;;;;"},
        {"CMD x\nENTRYPOINT [\"e\"]", "e,;/bin/sh,-c,x,;;;;;;"},
        {"ENV a=1 b=\"2 3\"\nENV a=4", ";;a=4,b=2 3,;;;;;"},
        {"ENV a=1\nENV b=$a-${a:+x}", ";;a=1,b=1-x,;;;;;"},
        {"EXPOSE 80 81/UDP 90-92", ";;;80/tcp,81/udp,90/tcp,91/tcp,92/tcp,;;;;"},
        {"EXPOSE 80 80/tcp", ";;;80/tcp,;;;;"},
        {"LABEL a=b \"c d\"='e f'", ";;;;a=b,c d=e f,;;;"},
        {"VOLUME /a /b\nVOLUME [\"/a\"]", ";;;;;/a,/b,;;"},
        {"USER x:y", ";;;;;;x:y;"},
        {"WORKDIR /a\nWORKDIR b/../c/./d", ";;;;;;;/a/c/d"},
        {"WORKDIR a", ";;;;;;;/a"},
        {"WORKDIR /../..", ";;;;;;;/"},
        {"", ";;;;;;;"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(record_freep) struct image_record *r = record_new();
        _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
        struct cay_error err = {0};
        if (build_change(r, cases[i].text, &err) < 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        const struct strv *lists[] = {&r->entrypoint, &r->cmd,    &r->env,
                                      &r->ports,      &r->labels, &r->volumes};
        for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
            for (size_t n = 0; n < lists[k]->len; n++)
                (void)buf_printf(&out, "%s,", lists[k]->v[n]);
            (void)buf_putc(&out, ';');
        }
        (void)buf_printf(&out, "%s;%s", r->user, r->working_dir);
        assert_string_equal(buf_text(&out), cases[i].shown);
    }
}

static void test_bad_changes(void **state) {
    (void)state;
    static const char *const cases[] = {"RUN x",      "FROM x",       "COPY a b",    "EXPOSE x",
                                        "EXPOSE 3-1", "EXPOSE 1/ppp", "WORKDIR $no", "USER ''",
                                        "VOLUME ''",  "ENV ''=x",     "NOTHING"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(record_freep) struct image_record *r = record_new();
        struct cay_error err = {0};
        if (build_change(r, cases[i], &err) != -CAY_INVALID_ARGUMENT)
            fail_msg("%s: %s", cases[i], err.message);
        assert_non_null(strstr(err.message, "Dockerfile:1: "));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_command_is_given, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures_leave_nothing, setup, teardown),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_bad_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
