/* Tests of imager/build/dockerfile.c, dockerfile_lines.c and dockerfile_words.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "imager/build/dockerfile.h"
#include "imager/build/dockerfile_words.h"

/* An instruction as one line: OP{flags}[exec](words|…)<<NAME=content. */
static void show(const struct instruction *in, struct buf *out) {
    (void)buf_puts(out, dockerfile_op_name(in->op));
    for (size_t i = 0; i < in->flags.len; i++)
        (void)buf_printf(out, " --%s", in->flags.v[i]);
    (void)buf_puts(out, in->exec ? " exec" : "");
    for (size_t i = 0; i < in->words.len; i++)
        (void)buf_printf(out, "%c%s", i == 0 ? ' ' : '|', in->words.v[i]);
    for (size_t i = 0; i < in->heredoc_count; i++)
        (void)buf_printf(out, " <<%s%s=%s", in->heredocs[i].name,
                         in->heredocs[i].expand ? "" : "(raw)", in->heredocs[i].content);
}

static const struct {
    const char *text, *shown;
} instructions[] = {
    {"RUN echo hello", "RUN echo hello"},
    {"run   echo hello  ", "RUN echo hello"},
    {"RuN\techo", "RUN echo"},
    {"   RUN indented", "RUN indented"},
    {"RUN [\"a\", \"b c\"]", "RUN exec a|b c"},
    {"RUN [\"a\", 1]", "RUN [\"a\", 1]"},
    {"RUN [ \"a\" ] && b", "RUN [ \"a\" ] && b"},
    {"RUN ['a']", "RUN ['a']"},
    {"CMD []", "CMD exec"},
    {"CMD [\"x\"]", "CMD exec x"},
    {"ENTRYPOINT exec top -b", "ENTRYPOINT exec top -b"},
    {"RUN a \\\n  b", "RUN a   b"},
    {"RUN a \\  \n b", "RUN a  b"},
    {"RUN a \\\n# comment\n\n   # another\n b", "RUN a  b"},
    {"RUN a \\\\\nRUN b", "RUN a \\\\"},
    {"RUN a\\\n", "RUN a"},
    {"RUN a \\\r\n b\r\n", "RUN a  b"},
    {"RUN echo # no comment", "RUN echo # no comment"},
    {"COPY a b /c", "COPY a|b|/c"},
    {"COPY --from=x --chown=1:2 a /b", "COPY --from=x --chown=1:2 a|/b"},
    {"COPY [\"a b\", \"/c\"]", "COPY exec a b|/c"},
    {"COPY [a-z]* /c", "COPY [a-z]*|/c"},
    {"ADD -- a /b", "ADD a|/b"},
    {"ENV a=b", "ENV a|b"},
    {"ENV a=b c=\"d e\" f='g h'", "ENV a|b|c|\"d e\"|f|'g h'"},
    {"ENV a=b\\ c d=e", "ENV a|b\\ c|d|e"},
    {"ENV a b c", "ENV a|b c"},
    {"ENV a   b=c", "ENV a|b=c"},
    {"ENV a=", "ENV a|"},
    {"ENV a=b=c", "ENV a|b=c"},
    {"LABEL \"x y\"=z", "LABEL \"x y\"|z"},
    {"LABEL a=b \\\n c=d", "LABEL a|b|c|d"},
    {"ARG x", "ARG x"},
    {"ARG x=1 y=\"2 3\" z", "ARG x=1|y=\"2 3\"|z"},
    {"EXPOSE 80 443/tcp", "EXPOSE 80|443/tcp"},
    {"VOLUME /a /b", "VOLUME /a|/b"},
    {"VOLUME [\"/a\"]", "VOLUME exec /a"},
    {"WORKDIR /a b", "WORKDIR /a b"},
    {"USER a:b", "USER a:b"},
    {"SHELL [\"/bin/bash\", \"-c\"]", "SHELL exec /bin/bash|-c"},
    {"STOPSIGNAL SIGINT", "STOPSIGNAL SIGINT"},
    {"HEALTHCHECK --interval=5s CMD true", "HEALTHCHECK --interval=5s CMD true"},
    {"MAINTAINER me and you", "MAINTAINER me and you"},
    {"ONBUILD RUN x", "ONBUILD RUN x"},
    {"FROM a AS b", "FROM a|AS|b"},
    {"FROM --platform=linux/arm64 a as b", "FROM --platform=linux/arm64 a|as|b"},
    {"RUN <<EOF\na\nb\nEOF", "RUN <<EOF <<EOF=a\nb\n"},
    {"RUN <<-EOF\n\ta\n\tEOF", "RUN <<-EOF <<EOF=a\n"},
    {"RUN <<'EOF'\n$a\nEOF", "RUN <<'EOF' <<EOF(raw)=$a\n"},
    {"RUN cat <<A <<B\n1\nA\n2\nB", "RUN cat <<A <<B <<A=1\n <<B=2\n"},
    {"RUN <<EOF\n# kept\n\nx \\\nEOF", "RUN <<EOF <<EOF=# kept\n\nx \\\n"},
    {"COPY <<f.txt /d/\nhi\nf.txt", "COPY <<f.txt|/d/ <<f.txt=hi\n"},
    {"RUN cat <<<word", "RUN cat <<<word"},
    {"RUN echo \"<<EOF\"", "RUN echo \"<<EOF\""},
    {"RUN echo $((1<<3))", "RUN echo $((1<<3))"},
};

static void test_instructions(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(instructions); i++) {
        char text[512];
        struct cay_error err = {0};
        struct dockerfile *file = NULL;
        _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
        int n = snprintf(text, sizeof text, "FROM scratch\n%s", instructions[i].text);
        if (dockerfile_parse(text, (size_t)n, &file, &err) < 0)
            fail_msg("%s: %s", instructions[i].text, err.message);
        show(&file->list[1], &out);
        assert_string_equal(buf_text(&out), instructions[i].shown);
        dockerfile_free(file);
    }
}

static void test_bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *message, *remedy;
    } cases[] = {
        {"", "there is no FROM", "FROM scratch"},
        {"# only a comment\n", "there is no FROM", ""},
        {"ARG x\n", "there is no FROM", ""},
        {"RUN x\n", "Dockerfile:1: RUN stands before the first FROM", "only ARG"},
        {"FROM a\nRUNN x\n", "Dockerfile:2: unknown instruction 'RUNN'", "did you mean RUN?"},
        {"FROM a\n\nCOPPY x y\n", "Dockerfile:3: unknown instruction", "did you mean COPY?"},
        {"FROM a\nRUN x && \\\n y\napt-get\n", "Dockerfile:4: unknown instruction 'apt-get'", ""},
        {"FROM a\nRUN\n", "Dockerfile:2: RUN says nothing", "RUN make"},
        {"FROM a\nCOPY x\n", "Dockerfile:2: COPY needs more words", "COPY src/"},
        {"FROM a\nCOPY --form=b x y\n", "COPY has no flag --form", "did you mean --from?"},
        {"FROM a\nENV x\n", "ENV has a name without a value", "ENV LANG"},
        {"FROM a\nENV x=1 y\n", "ENV has a name without '='", ""},
        {"FROM a\nENV =1\n", "ENV has a value without a name", ""},
        {"FROM a\nSHELL /bin/bash -c\n", "SHELL takes a JSON array", ""},
        {"FROM\n", "FROM says nothing", ""},
        {"FROM a b\n", "FROM takes an image", ""},
        {"FROM a AS\n", "FROM takes an image", ""},
        {"FROM a AS 1x\n", "starts with a letter", ""},
        {"FROM a AS x/y\n", "letters, digits", ""},
        {"# escape=x\nFROM a\n", "escape must be", ""},
        {"# escape=\\\n# escape=`\nFROM a\n", "stands twice", ""},
        {"FROM a\nRUN <<EOF\nx\n", "Dockerfile:3: a heredoc is not closed: no line is 'EOF'", ""},
        {"FROM a\nCMD\n", "CMD says nothing", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        struct dockerfile *file = NULL;
        assert_int_equal(dockerfile_parse(cases[i].text, strlen(cases[i].text), &file, &err),
                         -CAY_INVALID_ARGUMENT);
        assert_null(file);
        if (strstr(err.message, cases[i].message) == NULL ||
            strstr(err.remedy, cases[i].remedy) == NULL)
            fail_msg("%s: '%s' / '%s'", cases[i].text, err.message, err.remedy);
    }
}

static void test_bounds(void **state) {
    (void)state;
    struct cay_error err = {0};
    struct dockerfile *file = NULL;
    assert_int_equal(dockerfile_parse("FROM a\0b", 8, &file, &err), -CAY_INVALID_ARGUMENT);
    _cleanup_(buf_free) struct buf many = BUF_INIT(8 * 1024 * 1024);
    (void)buf_puts(&many, "FROM a\n");
    for (size_t i = 0; i < DOCKERFILE_INSTRUCTIONS_MAX; i++)
        (void)buf_puts(&many, "RUN x\n");
    assert_int_equal(dockerfile_parse(many.data, many.len, &file, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "instructions"));
    buf_clear(&many);
    (void)buf_puts(&many, "FROM a\nCOPY");
    for (size_t i = 0; i < DOCKERFILE_WORDS_MAX + 1; i++)
        (void)buf_puts(&many, " x");
    assert_int_equal(dockerfile_parse(many.data, many.len, &file, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "words"));
    while (many.len <= DOCKERFILE_TEXT_MAX)
        (void)buf_puts(&many, "# more\n");
    assert_int_equal(dockerfile_parse(many.data, many.len, &file, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "larger"));
    assert_null(file);
}

static void test_directives(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf# syntax = docker/dockerfile:1\n#escape=`\n"
                               "FROM a\nRUN x `\n y\nWORKDIR c:\\\n";
    static const char late[] = "# a comment\n# escape=`\nFROM a\nRUN x \\\n y\n";
    struct dockerfile *file = NULL;
    struct cay_error err = {0};
    assert_int_equal(dockerfile_parse(text, sizeof text - 1, &file, &err), 0);
    assert_string_equal(file->syntax, "docker/dockerfile:1");
    assert_int_equal(file->escape, '`');
    assert_int_equal(file->count, 3);
    assert_int_equal(file->list[0].line, 3);
    assert_string_equal(file->list[1].words.v[0], "x  y");
    assert_string_equal(file->list[2].words.v[0], "c:\\");
    dockerfile_free(file);
    assert_int_equal(dockerfile_parse(late, sizeof late - 1, &file, &err), 0);
    assert_int_equal(file->escape, '\\');
    assert_string_equal(file->list[1].words.v[0], "x  y");
    dockerfile_free(file);
}

static void test_changes_need_no_from(void **state) {
    (void)state;
    struct dockerfile *file = NULL;
    struct cay_error err = {0};
    assert_int_equal(dockerfile_parse_changes("CMD [\"a\"]", 9, &file, &err), 0);
    assert_int_equal(file->count, 1);
    dockerfile_free(file);
    assert_int_equal(dockerfile_parse_changes("", 0, &file, &err), 0);
    dockerfile_free(file);
}

/* ---- expansion ---- */

static const char *lookup(void *user, const char *name) {
    (void)user;
    if (strcmp(name, "a") == 0)
        return "A";
    if (strcmp(name, "long_name1") == 0)
        return "L";
    if (strcmp(name, "empty") == 0)
        return "";
    return strcmp(name, "blank") == 0 ? "x y" : NULL;
}

static void test_expansion(void **state) {
    (void)state;
    static const struct {
        const char *text, *expanded;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"$a", "A"},
        {"${a}", "A"},
        {"$a$a/${a}b", "AA/Ab"},
        {"$ab", ""},
        {"$long_name1.x", "L.x"},
        {"$none-", "-"},
        {"$", "$"},
        {"$/", "$/"},
        {"$$x", "x"},
        {"$1x", "x"},
        {"\\$a", "$a"},
        {"\\\\$a", "\\A"},
        {"\\x", "x"},
        {"x\\", "x"},
        {"'$a'", "$a"},
        {"\"$a\"", "A"},
        {"\"\\$a\"", "$a"},
        {"\"\\\"\"", "\""},
        {"\"\\n\"", "\\n"},
        {"\"'$a'\"", "'A'"},
        {"'\"'", "\""},
        {"x'y'\"z\"", "xyz"},
        {"$blank", "x y"},
        {"${none:-d}", "d"},
        {"${empty:-d}", "d"},
        {"${empty-d}", ""},
        {"${none-d}", "d"},
        {"${a:-d}", "A"},
        {"${a:+d}", "d"},
        {"${none:+d}", ""},
        {"${empty:+d}", ""},
        {"${empty+d}", "d"},
        {"${a:?m}", "A"},
        {"${none:-$a}", "A"},
        {"${none:-${none:-${a}}}", "A"},
        {"${none:-'}'}", "}"},
        {"${none:-\"x}\"}y", "x}y"},
        {"${a:+${none:-\"q\"}}", "q"},
    };
    struct word_scope scope = {.lookup = lookup, .escape = '\\'};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        _cleanup_(freep) char *text = word_expanded(&scope, cases[i].text, &err);
        if (text == NULL)
            fail_msg("%s: %s", cases[i].text, err.message);
        if (strcmp(text, cases[i].expanded) != 0)
            fail_msg("%s: '%s', not '%s'", cases[i].text, text, cases[i].expanded);
    }
}

static void test_bad_expansion(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"${", "without a name"},
        {"${}", "without a name"},
        {"${a", "not closed"},
        {"${a:", "not closed"},
        {"${a:-x", "not closed"},
        {"'x", "' is not closed"},
        {"\"x", "\" is not closed"},
        {"${a/x/y}", "modifier"},
        {"${a:=x}", "modifier"},
        {"${none:?give it}", "none: give it"},
        {"${none?}", "none: is not set"},
    };
    struct word_scope scope = {.lookup = lookup, .escape = '\\'};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        assert_null(word_expanded(&scope, cases[i].text, &err));
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_int_equal(err.code, CAY_INVALID_ARGUMENT);
    }
    char deep[256] = "";
    for (size_t i = 0; i < 40; i++)
        memcpy(deep + 5 * i, "${n:-", 6);
    struct cay_error err = {0};
    assert_null(word_expanded(&scope, deep, &err));
    assert_non_null(strstr(err.message, "within each other"));
}

/* A variable cannot blow up a word beyond its bound. */
static const char *lookup_big(void *user, const char *name) {
    (void)name;
    return user;
}

static void test_expansion_is_bounded(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf text = BUF_INIT(1024 * 1024);
    char big[4096];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    for (size_t i = 0; i < 100; i++)
        (void)buf_puts(&text, "$v");
    struct word_scope scope = {.lookup = lookup_big, .user = big, .escape = '\\'};
    struct cay_error err = {0};
    assert_null(word_expanded(&scope, buf_text(&text), &err));
    assert_non_null(strstr(err.message, "grows beyond"));
}

static void test_heredoc_expansion(void **state) {
    (void)state;
    struct word_scope scope = {.lookup = lookup, .escape = '\\'};
    struct cay_error err = {0};
    _cleanup_(freep) char *text =
        word_expanded_heredoc(&scope, "it's \"$a\" \\$a \\n ${none:-'d'}\n", &err);
    assert_string_equal(text, "it's \"A\" $a \\n 'd'\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_directives),
        cmocka_unit_test(test_changes_need_no_from),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_bad_expansion),
        cmocka_unit_test(test_expansion_is_bounded),
        cmocka_unit_test(test_heredoc_expansion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
