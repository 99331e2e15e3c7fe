/* Tests of cmd/opt.c and cmd/help.c: parsing, refusals, help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "opt_sample.h"

enum { WORDS = 12 };

struct outcome {
    int r;
    struct sample_values *v;
    struct opt_rest rest;
    struct cay_error err;
    char *argv[WORDS + 1];
};

static void parse(struct outcome *o, const struct opt_command *cmd, const char *const *words) {
    *o = (struct outcome){.v = opt_values_new(cmd)};
    assert_non_null(o->v);
    int argc = 0;
    for (; words[argc] != NULL; argc++)
        o->argv[argc] = (char *)(uintptr_t)words[argc];
    o->r = opt_parse(cmd, sample_common_options, argc, o->argv, o->v, &o->rest, &o->err);
}

static void finish(struct outcome *o, const struct opt_command *cmd) {
    opt_values_free(cmd, sample_common_options, o->v);
}

/* The values as one line, so that a case states everything that must hold. */
static void describe(const struct outcome *o, struct buf *b) {
    const struct sample_values *v = o->v;
    (void)buf_printf(b, "%s%s%s", v->interactive ? "i" : "", v->tty ? "t" : "",
                     v->no_cache ? "n" : "");
    (void)buf_printf(b, " image=%s host=%s verbose=%d output=%d net=%d",
                     v->image != NULL ? v->image : "-",
                     v->common.host != NULL ? v->common.host : "-", v->common.verbose,
                     v->common.output, v->network);
    (void)buf_printf(b, " pids=%jd timeout=%jd cpus=%g memory=%ju env=", (intmax_t)v->pids,
                     (intmax_t)v->timeout, v->cpus, (uintmax_t)v->memory);
    for (size_t i = 0; i < v->env.len; i++)
        (void)buf_printf(b, "<%s>", v->env.v[i]);
    (void)buf_puts(b, " volumes=");
    for (size_t i = 0; i < v->volumes.len; i++)
        (void)buf_printf(b, "<%s>", v->volumes.v[i]);
    (void)buf_printf(b, " label=%s calls=%d rest=", v->label, v->calls);
    for (int i = 0; i < o->rest.argc; i++)
        (void)buf_printf(b, "<%s>", o->rest.argv[i]);
}

static void accepted(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS];
        const char *expect[4]; /* each must occur */
    } cases[] = {
        {{"true"}, {"t image=- host=-", "pids=256 timeout=0 cpus=1 memory=0", "rest=<true>"}},
        {{"--image", "a", "x"}, {"image=a ", "rest=<x>"}},
        {{"--image=a", "x"}, {"image=a ", "rest=<x>"}},
        {{"--image=", "x"}, {"image= host", "rest=<x>"}},
        {{"--image=a=b", "x"}, {"image=a=b "}},
        {{"--image", "-1", "x"}, {"image=-1 ", "rest=<x>"}},
        {{"--image", "-", "x"}, {"image=- host", "rest=<x>"}},
        {{"--image=--tty", "x"}, {"image=--tty "}},
        {{"--image", "a", "--image", "b", "x"}, {"image=b "}},
        {{"-m", "512m", "x"}, {"memory=536870912 "}},
        {{"-m1.5g", "x"}, {"memory=1610612736 "}},
        {{"--memory=2m", "-m", "1m", "x"}, {"memory=1048576 "}},
        {{"-it", "x"}, {"it image"}},
        {{"-itm512m", "x"}, {"it image", "memory=536870912 "}},
        {{"-itm", "512m", "x"}, {"it image", "memory=536870912 ", "rest=<x>"}},
        {{"--no-tty", "x"}, {" image"}},
        {{"--no-tty", "--tty", "x"}, {"t image"}},
        {{"--no-cache", "x"}, {"tn image"}},
        {{"--no-no-cache", "x"}, {"t image"}},
        {{"--no-verbose", "x"}, {"verbose=0"}},
        {{"--pids", "4096", "--cpus", "0.5", "x"}, {"pids=4096 ", "cpus=0.5 "}},
        {{"-c.25", "--timeout", "1.5s", "x"}, {"cpus=0.25 ", "timeout=1500 "}},
        {{"--timeout=0", "x"}, {"timeout=0 "}},
        {{"--network", "allow", "-o", "json", "x"}, {"net=2 ", "output=1 "}},
        {{"-e", "A=1", "--env=B=2 3", "-eC=", "x"}, {"env=<A=1><B=2 3><C=> "}},
        /* the command's -v hides the common one, whose long name stays */
        {{"-v", "/a:/b", "--verbose", "x"}, {"volumes=</a:/b> ", "verbose=1 "}},
        {{"--label", "a=b", "--count", "x"}, {"label=a=b calls=101 "}},
        {{"--secret", "s", "x"}, {"image=s "}},
        {{"x", "-i", "--bogus", "--", "y"}, {"t image", "rest=<x><-i><--bogus><--><y>"}},
        {{"--", "-i", "--", "z"}, {"t image", "rest=<-i><--><z>"}},
        {{"-", "-i"}, {"rest=<-><-i>"}},
        {{"-i", "--", "", ""}, {"it image", "rest=<><>"}},
        {{"--host", "unix:///x", "x"}, {"host=unix:///x "}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct outcome o;
        parse(&o, &sample_run, cases[i].words);
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        describe(&o, &b);
        if (o.r != 0)
            fail_msg("case %zu: %s", i, o.err.message);
        for (size_t j = 0; j < 4 && cases[i].expect[j] != NULL; j++)
            if (strstr(buf_text(&b), cases[i].expect[j]) == NULL)
                fail_msg("case %zu: no '%s' in '%s'", i, cases[i].expect[j], buf_text(&b));
        assert_null(o.rest.argv[o.rest.argc]);
        finish(&o, &sample_run);
    }
}

static const struct {
    const char *words[WORDS];
    const char *message, *remedy; /* each must occur */
} refused_cases[] = {
    {{"--memry", "1g", "x"}, "unknown option '--memry'", "did you mean --memory?"},
    {{"--memry=1g", "x"}, "unknown option '--memry'", "did you mean --memory?"},
    {{"--mem", "1g", "x"}, "unknown option '--mem'", "did you mean --memory?"},
    {{"--ne", "x"}, "unknown option '--ne'", "did you mean --network?"},
    {{"--i", "x"}, "unknown option '--i'", "--interactive or --image?"},
    {{"--verbos", "x"}, "unknown option '--verbos'", "did you mean --verbose?"},
    {{"--secre", "x"}, "unknown option '--secre'", "see 'cay run --help'"},
    {{"--zzzzzzzz", "x"}, "unknown option '--zzzzzzzz'", "see 'cay run --help'"},
    {{"--=x", "x"}, "unknown option '--'", "see 'cay run --help'"},
    {{"--no-image", "x"}, "unknown option '--no-image'", ""},
    {{"--no-", "x"}, "unknown option '--no-'", ""},
    {{"--a\x1b]0;pwned\x07", "x"}, "unknown option '--a\\x1b]0;pwned\\x07'", ""},
    {{"-x", "y"}, "unknown option '-x'", "see 'cay run --help'"},
    {{"-itx", "y"}, "unknown option '-x' in '-itx'", "see 'cay run --help'"},
    {{"-\xff", "y"}, "unknown option '-\\xff'", ""},
    {{"-i5", "y"}, "unknown option '-5' in '-i5'", ""},
    {{"--tty=yes", "x"}, "option '--tty' takes no value", "see 'cay run --help'"},
    {{"--no-tty=1", "x"}, "option '--no-tty' takes no value", ""},
    {{"--count=1", "x"}, "option '--count' takes no value", ""},
    {{"--help=me"}, "option '--help' takes no value", ""},
    {{"--image"}, "option '--image' needs a value", "--image=IMAGE"},
    {{"-m"}, "option '--memory' needs a value", "--memory=SIZE"},
    {{"--image", "--tty", "x"}, "option '--image' needs a value", ""},
    {{"--image", "--cpus=1", "x"}, "option '--image' needs a value", ""},
    {{"--image", "--", "x"}, "option '--image' needs a value", ""},
    {{"--memory", "lots", "x"}, "--memory: 'lots' is not a size", "512m"},
    {{"--memory", "a\x1b[31m", "x"}, "--memory: 'a\\x1b[31m' is not a size", ""},
    {{"--memory", "-1", "x"}, "--memory: '-1' must be more than zero", ""},
    {{"--memory", "1k", "x"}, "--memory: '1k' is out of range", "use 1.0 MB to 1.0 TB"},
    {{"--timeout", "2x", "x"}, "--timeout: '2x' is not a duration", "30s"},
    {{"--timeout", "2h", "x"}, "--timeout: '2h' is out of range", "use 0s to 3600s"},
    {{"--pids", "x", "x"}, "--pids: 'x' is not a whole number", ""},
    {{"--pids", "1.5", "x"}, "--pids: '1.5' is not a whole number", ""},
    {{"--pids=", "x"}, "--pids: '' is not a whole number", ""},
    {{"--pids", "0", "x"}, "--pids: '0' is out of range", "from 1 to 4096"},
    {{"--pids", "4097", "x"}, "--pids: '4097' is out of range", "from 1 to 4096"},
    {{"--pids", "99999999999999999999", "x"}, "is out of range", "from 1 to 4096"},
    {{"--cpus", "1e3", "x"}, "--cpus: '1e3' is not a number", ""},
    {{"--cpus", "nan", "x"}, "--cpus: 'nan' is not a number", ""},
    {{"--cpus", "65", "x"}, "--cpus: '65' is out of range", "from 0.1 to 64"},
    {{"--network", "host", "x"},
     "--network: 'host' is not one of its values",
     "use one of: none, bridge, allow"},
    {{"--network", "non", "x"}, "--network: 'non'", ""},
    {{"--label", "0123456789012345678901234567890123456789", "x"}, "--label: too long", ""},
    {{NULL}, "'cay run' needs at least 1 argument", "usage: cay run [OPTIONS] [--] COMMAND"},
    {{"-i", "--"}, "'cay run' needs at least 1 argument", ""},
};

static void refused(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused_cases); i++) {
        struct outcome o;
        parse(&o, &sample_run, refused_cases[i].words);
        if (o.r != -CAY_INVALID_ARGUMENT || o.err.code != CAY_INVALID_ARGUMENT)
            fail_msg("case %zu: %d", i, o.r);
        if (strstr(o.err.message, refused_cases[i].message) == NULL)
            fail_msg("case %zu: message '%s'", i, o.err.message);
        if (strstr(o.err.remedy, refused_cases[i].remedy) == NULL || o.err.remedy[0] == '\0')
            if (refused_cases[i].remedy[0] != '\0')
                fail_msg("case %zu: remedy '%s'", i, o.err.remedy);
        finish(&o, &sample_run);
    }
}

/* Without stop_at_operand options and operands mix. */
static void mixed_operands(void **state) {
    (void)state;
    static const struct {
        const struct opt_command *cmd;
        const char *words[WORDS];
        int r;
        const char *text; /* operands, or the message */
    } cases[] = {
        {&sample_rm, {"a", "-v", "b", "-o", "json", "c"}, 0, "<a><b><c>"},
        {&sample_rm, {"-v", "a", "--", "-v", "--x"}, 0, "<a><-v><--x>"},
        {&sample_rm, {"a", "-", "--verbose"}, 0, "<a><->"},
        {&sample_rm, {"-v"}, -CAY_INVALID_ARGUMENT, "'cay rm' needs at least 1 argument"},
        {&sample_rm, {"a", "-z"}, -CAY_INVALID_ARGUMENT, "unknown option '-z'"},
        {&sample_image_pull, {"-a", "x"}, 0, "<x>"},
        {&sample_image_pull, {"-a"}, -CAY_INVALID_ARGUMENT, "'cay image pull' needs 1 argument"},
        {&sample_image_pull, {"x", "y\x1b"}, -CAY_INVALID_ARGUMENT, "unexpected argument 'y\\x1b'"},
        {&sample_ls, {"x"}, -CAY_INVALID_ARGUMENT, "unexpected argument 'x'"},
        {&sample_ls, {NULL}, 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct outcome o;
        parse(&o, cases[i].cmd, cases[i].words);
        assert_int_equal(o.r, cases[i].r);
        _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
        for (int j = 0; o.r == 0 && j < o.rest.argc; j++)
            (void)buf_printf(&b, "<%s>", o.rest.argv[j]);
        assert_string_equal(o.r == 0 ? buf_text(&b) : o.err.message, cases[i].text);
        finish(&o, cases[i].cmd);
    }
}

static void help_is_asked(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS];
        int r;
    } cases[] = {
        {{"--help"}, 1},
        {{"-h"}, 1},
        {{"-ih"}, 1},
        {{"--help", "--bogus"}, 1},
        {{"--image", "x", "--help"}, 1},
        {{"x", "--help"}, 0}, /* the inner command's */
        {{"--", "--help"}, 0},
        {{"--bogus", "--help"}, -CAY_INVALID_ARGUMENT},
        {{"--image", "--help"}, -CAY_INVALID_ARGUMENT},
        {{"--image=--help", "x"}, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct outcome o;
        parse(&o, &sample_run, cases[i].words);
        if (o.r != cases[i].r)
            fail_msg("case %zu: %d", i, o.r);
        finish(&o, &sample_run);
    }
}

static void commands(void **state) {
    (void)state;
    size_t n = ARRAY_LEN(sample_commands);
    assert_ptr_equal(opt_find_command(sample_commands, n, "run"), &sample_run);
    assert_ptr_equal(opt_find_command(sample_commands, n, "delete"), &sample_rm);
    assert_ptr_equal(opt_find_command(sample_commands, n, "debug"), &sample_debug);
    assert_null(opt_find_command(sample_commands, n, "ru"));
    assert_null(opt_find_command(sample_commands, n, ""));
    assert_int_equal(opt_count_commands(sample_image_commands), 2);
    assert_int_equal(opt_count_commands(NULL), 0);
    static const struct opt_habit habits[] = {{"inspect", "use 'cay info'"}, {0}};
    static const struct {
        const char *name, *message, *remedy;
    } cases[] = {
        {"rnu", "'rnu' is not a command of cay", "did you mean 'cay run'? See 'cay --help'"},
        {"rmm", "'rmm' is not a command of cay", "see 'cay --help'"}, /* it destroys */
        {"inspect", "'inspect' is not a command of cay", "use 'cay info'"},
        {"exce", "'exce' is not a command of cay", "did you mean 'cay exec'? See 'cay --help'"},
        {"rum", "'rum' is not a command of cay", "did you mean 'cay run'? See 'cay --help'"},
        {"debu", "'debu' is not a command of cay", "see 'cay --help'"},
        {"\x1b[2J", "'\\x1b[2J' is not a command of cay", "see 'cay --help'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        assert_int_equal(
            opt_unknown_command("cay", sample_commands, n, habits, cases[i].name, &err),
            -CAY_INVALID_ARGUMENT);
        assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.remedy, cases[i].remedy);
    }
}

static size_t longest_line(const char *text) {
    size_t longest = 0;
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        longest = MAX(longest, len);
        text += len + (text[len] == '\n');
    }
    return longest;
}

static void help_text(void **state) {
    (void)state;
    static const char *const expect[] = {
        "Usage: cay run [OPTIONS] [--] COMMAND [ARG...]\n\nRun a command in a fresh sandbox\n\n",
        "\n\nSecond one.\n",
        "\nOptions:\n  -i, --interactive      Keep standard input open\n",
        "\n      --network MODE     What it reaches (none, bridge, allow)\n",
        "\n  -e, --env K=V          Set a variable (may be repeated)\n",
        "\n  -h, --help             Show this help\n",
        "\nCommon options:\n      --host URL         Talk to the daemon at URL\n",
        "\n      --verbose          Say what is done\n", /* its letter is the command's */
        "\nExamples:\n  cay run -- true\n  cay run -m 1g -- make\n",
    };
    _cleanup_(buf_free) struct buf b = BUF_INIT(65536);
    opt_print_help(&b, &sample_run, sample_common_options, 0);
    assert_false(b.failed);
    for (size_t i = 0; i < ARRAY_LEN(expect); i++)
        if (strstr(buf_text(&b), expect[i]) == NULL)
            fail_msg("no '%s' in:\n%s", expect[i], buf_text(&b));
    assert_null(strstr(buf_text(&b), "secret"));
    static const unsigned widths[] = {0, 80, 60, 100, 1, 5000};
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        size_t limit = widths[i] == 0 ? 80 : MIN(MAX(widths[i], 50U), 120U);
        buf_clear(&b);
        opt_print_help(&b, &sample_run, sample_common_options, widths[i]);
        assert_in_range(longest_line(buf_text(&b)), 20, limit);
    }
}

static void overview(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(65536);
    opt_print_commands(&b, "cay", "Sandboxes for agents.", sample_commands,
                       ARRAY_LEN(sample_commands), sample_common_options, 80);
    static const char *const expect[] = {
        "Usage: cay [OPTIONS] COMMAND [ARG...]\n\nSandboxes for agents.\n",
        "\nSandboxes:\n  run    Run a command in a fresh sandbox\n  rm     Remove sandboxes\n",
        "\nCommands:\n  image  Images",
        "\n  -o, --output FORMAT  How results are shown (table, json)\n",
        "\nSee 'cay COMMAND --help' for one command.\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(expect); i++)
        if (strstr(buf_text(&b), expect[i]) == NULL)
            fail_msg("no '%s' in:\n%s", expect[i], buf_text(&b));
    assert_null(strstr(buf_text(&b), "debug"));
    buf_clear(&b);
    opt_print_help(&b, &sample_image, sample_common_options, 80);
    assert_non_null(strstr(buf_text(&b), "\nCommands:\n  pull  Fetch an image\n  ls    List"));
    buf_clear(&b);
    opt_print_help(&b, &sample_rm, NULL, 80);
    assert_non_null(strstr(buf_text(&b), "\nAlso: remove, delete\n"));
}

/* A buffer that is too small fails instead of giving half a text. */
static void help_is_bounded(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(100);
    opt_print_help(&b, &sample_run, sample_common_options, 80);
    assert_true(b.failed);
    assert_null(buf_take(&b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),       cmocka_unit_test(refused),
        cmocka_unit_test(mixed_operands), cmocka_unit_test(help_is_asked),
        cmocka_unit_test(commands),       cmocka_unit_test(help_text),
        cmocka_unit_test(overview),       cmocka_unit_test(help_is_bounded),
    };
    return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
