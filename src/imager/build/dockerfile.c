#include "imager/build/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json.h"
#include "imager/build/dockerfile_lines.h"
#include "imager/build/dockerfile_words.h"

/* How the words of an instruction are written. */
enum syntax {
    SYNTAX_LINE,          /* the rest of the line */
    SYNTAX_EXEC_OR_LINE,  /* a JSON array, else the rest of the line */
    SYNTAX_EXEC_OR_WORDS, /* a JSON array, else what stands between blanks */
    SYNTAX_EXEC,          /* a JSON array */
    SYNTAX_WORDS,         /* what stands between blanks */
    SYNTAX_QUOTED,        /* words with quotes */
    SYNTAX_PAIRS,         /* NAME=VALUE …, or NAME VALUE */
};

static const struct op {
    const char *name;
    enum syntax syntax;
    size_t min_words;
    const char *flags; /* known ones, between blanks */
    const char *example;
} ops[DOCKERFILE_OP_COUNT] = {
    [DOCKERFILE_ADD] = {"ADD", SYNTAX_EXEC_OR_WORDS, 2, "chown chmod link", "ADD a.tar.gz /opt/"},
    [DOCKERFILE_ARG] = {"ARG", SYNTAX_QUOTED, 1, "", "ARG VERSION=1.0"},
    [DOCKERFILE_CMD] = {"CMD", SYNTAX_EXEC_OR_LINE, 0, "", "CMD [\"python3\"]"},
    [DOCKERFILE_COPY] = {"COPY", SYNTAX_EXEC_OR_WORDS, 2, "from chown chmod link",
                         "COPY src/ /app/"},
    [DOCKERFILE_ENTRYPOINT] = {"ENTRYPOINT", SYNTAX_EXEC_OR_LINE, 0, "", "ENTRYPOINT [\"/app\"]"},
    [DOCKERFILE_ENV] = {"ENV", SYNTAX_PAIRS, 2, "", "ENV LANG=C.UTF-8"},
    [DOCKERFILE_EXPOSE] = {"EXPOSE", SYNTAX_WORDS, 1, "", "EXPOSE 8080/tcp"},
    [DOCKERFILE_FROM] = {"FROM", SYNTAX_WORDS, 1, "platform", "FROM python:3.12-slim AS build"},
    [DOCKERFILE_HEALTHCHECK] = {"HEALTHCHECK", SYNTAX_LINE, 1,
                                "interval timeout start-period start-interval retries",
                                "HEALTHCHECK NONE"},
    [DOCKERFILE_LABEL] = {"LABEL", SYNTAX_PAIRS, 2, "", "LABEL version=1"},
    [DOCKERFILE_MAINTAINER] = {"MAINTAINER", SYNTAX_LINE, 1, "", "LABEL maintainer=me"},
    [DOCKERFILE_ONBUILD] = {"ONBUILD", SYNTAX_LINE, 1, "", "ONBUILD COPY . /app"},
    [DOCKERFILE_RUN] = {"RUN", SYNTAX_EXEC_OR_LINE, 1, "network mount security", "RUN make"},
    [DOCKERFILE_SHELL] = {"SHELL", SYNTAX_EXEC, 1, "", "SHELL [\"/bin/bash\", \"-c\"]"},
    [DOCKERFILE_STOPSIGNAL] = {"STOPSIGNAL", SYNTAX_LINE, 1, "", "STOPSIGNAL SIGTERM"},
    [DOCKERFILE_USER] = {"USER", SYNTAX_LINE, 1, "", "USER nobody"},
    [DOCKERFILE_VOLUME] = {"VOLUME", SYNTAX_EXEC_OR_WORDS, 1, "", "VOLUME /data"},
    [DOCKERFILE_WORKDIR] = {"WORKDIR", SYNTAX_LINE, 1, "", "WORKDIR /app"},
};

const char *dockerfile_op_name(enum dockerfile_op op) {
    return ops[op].name;
}

const char *instruction_flag(const struct instruction *in, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < in->flags.len; i++) {
        const char *flag = in->flags.v[i];
        if (strncmp(flag, name, n) == 0 && (flag[n] == '=' || flag[n] == '\0'))
            return flag[n] == '=' ? flag + n + 1 : flag + n;
    }
    return NULL;
}

static int no_memory(struct cay_error *err) {
    return error_sys(err, ENOMEM, "reading the Dockerfile");
}

static int refuse_form(struct cay_error *err, const struct instruction *in, const char *why) {
    int r = dockerfile_refuse(err, in->line, "%s %s", ops[in->op].name, why);
    (void)error_remedy(err, "write it like: %s", ops[in->op].example);
    return r;
}

/* ---- words ---- */

static int words_result(int r, const struct instruction *in, struct cay_error *err) {
    if (r == -E2BIG)
        return dockerfile_refuse(err, in->line, "more than %d words", DOCKERFILE_WORDS_MAX);
    return r < 0 ? no_memory(err) : 0;
}

/* Strings of a JSON array; 0 if rest is none, so that it has another meaning. */
static int parse_exec(const char *rest, struct instruction *in, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    if (rest[0] != '[' || json_parse("array", rest, strlen(rest), &doc, NULL) < 0)
        return 0;
    struct json root = json_root(doc, ""), item;
    for (size_t i = 0; json_item(&root, i, &item); i++) {
        const char *text;
        if (json_as_string(&item, &text, NULL) < 0) {
            strv_free(&in->words);
            return 0;
        }
        if (in->words.len >= DOCKERFILE_WORDS_MAX)
            return words_result(-E2BIG, in, err);
        if (strv_push(&in->words, text) < 0)
            return no_memory(err);
    }
    in->exec = true;
    return 0;
}

static int push_pair(struct instruction *in, const char *word, const char *equals,
                     struct cay_error *err) {
    if (equals == word)
        return refuse_form(err, in, "has a value without a name");
    if (strv_pushf(&in->words, "%.*s", (int)(equals - word), word) < 0 ||
        strv_push(&in->words, equals + 1) < 0)
        return no_memory(err);
    return 0;
}

/* NAME=VALUE NAME=VALUE, or the old form, NAME and the rest of the line. */
static int parse_pairs(const char *rest, char escape, struct instruction *in,
                       struct cay_error *err) {
    _cleanup_(strv_free) struct strv words = {0};
    int r = words_result(words_split(rest, escape, DOCKERFILE_WORDS_MAX, &words), in, err);
    if (r < 0 || words.len == 0)
        return r;
    if (strchr(words.v[0], '=') == NULL) {
        const char *value = rest + strlen(words.v[0]);
        value += strspn(value, " \t\v\f\r");
        if (*value == '\0')
            return refuse_form(err, in, "has a name without a value");
        if (strv_push(&in->words, words.v[0]) < 0 || strv_push(&in->words, value) < 0)
            return no_memory(err);
        return 0;
    }
    for (size_t i = 0; i < words.len; i++) {
        const char *equals = strchr(words.v[i], '=');
        if (equals == NULL)
            return refuse_form(err, in, "has a name without '='");
        r = push_pair(in, words.v[i], equals, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_words(const char *rest, char escape, struct instruction *in,
                       struct cay_error *err) {
    enum syntax syntax = ops[in->op].syntax;
    if (syntax == SYNTAX_PAIRS)
        return parse_pairs(rest, escape, in, err);
    if (syntax == SYNTAX_QUOTED)
        return words_result(words_split(rest, escape, DOCKERFILE_WORDS_MAX, &in->words), in, err);
    if (syntax == SYNTAX_EXEC || syntax == SYNTAX_EXEC_OR_LINE || syntax == SYNTAX_EXEC_OR_WORDS) {
        int r = parse_exec(rest, in, err);
        if (r < 0 || in->exec)
            return r;
    }
    if (syntax == SYNTAX_EXEC)
        return refuse_form(err, in, "takes a JSON array of strings only");
    if (syntax == SYNTAX_EXEC_OR_WORDS || syntax == SYNTAX_WORDS)
        return words_result(words_split_blanks(rest, DOCKERFILE_WORDS_MAX, &in->words), in, err);
    return rest[0] != '\0' && strv_push(&in->words, rest) < 0 ? no_memory(err) : 0;
}

/* ---- flags ---- */

static int check_flag(const struct instruction *in, const char *flag, struct cay_error *err) {
    _cleanup_(strv_free) struct strv known = {0};
    size_t n = strcspn(flag, "=");
    if (words_split_blanks(ops[in->op].flags, DOCKERFILE_WORDS_MAX, &known) < 0)
        return no_memory(err);
    for (size_t i = 0; i < known.len; i++)
        if (strlen(known.v[i]) == n && strncmp(known.v[i], flag, n) == 0)
            return 0;
    char shown[80], name[80];
    (void)snprintf(name, sizeof name, "%.*s", (int)MIN(n, sizeof name - 1), flag);
    int r = dockerfile_refuse(err, in->line, "%s has no flag --%s", ops[in->op].name,
                              str_escape(shown, sizeof shown, name));
    const char *near = str_nearest(name, (const char *const *)known.v, known.len);
    (void)(near != NULL ? error_remedy(err, "did you mean --%s?", near)
                        : error_remedy(err, "remove it: cay does not know it"));
    return r;
}

/* Takes --NAME=VALUE off the front of *rest. */
static int parse_flags(const char **rest, struct instruction *in, struct cay_error *err) {
    while (str_starts(*rest, "--")) {
        size_t n = strcspn(*rest, " \t\v\f\r\n");
        const char *flag = *rest + 2;
        size_t len = n - 2;
        *rest += n;
        *rest += strspn(*rest, " \t\v\f\r\n");
        if (len == 0)
            return 0;
        if (in->flags.len >= DOCKERFILE_WORDS_MAX)
            return words_result(-E2BIG, in, err);
        if (strv_pushf(&in->flags, "%.*s", (int)len, flag) < 0)
            return no_memory(err);
        int r = check_flag(in, in->flags.v[in->flags.len - 1], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- instructions ---- */

static int find_op(const char *word, size_t len, unsigned line, enum dockerfile_op *ret,
                   struct cay_error *err) {
    const char *names[DOCKERFILE_OP_COUNT];
    char upper[32], shown[80];
    for (size_t i = 0; i < DOCKERFILE_OP_COUNT; i++) {
        names[i] = ops[i].name;
        if (strlen(names[i]) == len && strncasecmp(names[i], word, len) == 0) {
            *ret = (enum dockerfile_op)i;
            return 0;
        }
    }
    (void)snprintf(upper, sizeof upper, "%.*s", (int)MIN(len, sizeof upper - 1), word);
    int r = dockerfile_refuse(err, line, "unknown instruction '%s'",
                              str_escape(shown, sizeof shown, upper));
    for (char *p = upper; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    const char *near = str_nearest(upper, names, DOCKERFILE_OP_COUNT);
    (void)(near != NULL
               ? error_remedy(err, "did you mean %s?", near)
               : error_remedy(err, "a line starts with an instruction such as FROM, RUN or "
                                   "COPY; end the line above with a \\ to continue it"));
    return r;
}

static int check_from(const struct instruction *in, struct cay_error *err) {
    if (in->words.len != 1 && (in->words.len != 3 || strcasecmp(in->words.v[1], "AS") != 0))
        return refuse_form(err, in, "takes an image and, after AS, a name");
    if (in->words.len == 1)
        return 0;
    const char *name = in->words.v[2];
    if (!isalpha((unsigned char)name[0]))
        return refuse_form(err, in, "AS takes a name that starts with a letter");
    for (const char *p = name; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("-_.", *p) == NULL)
            return refuse_form(err, in, "AS takes a name of letters, digits, '-', '_' and '.'");
    return 0;
}

static int check_count(const struct instruction *in, struct cay_error *err) {
    if (in->op == DOCKERFILE_FROM && in->words.len > 0)
        return check_from(in, err);
    if (in->words.len < ops[in->op].min_words || (in->words.len == 0 && !in->exec))
        return refuse_form(err, in,
                           ops[in->op].min_words > 1 ? "needs more words" : "says nothing");
    return 0;
}

static int parse_instruction(struct dockerfile_reader *r, const struct buf *text,
                             struct instruction *in) {
    const char *word = buf_text(text);
    size_t len = strcspn(word, " \t\v\f\r\n");
    int e = find_op(word, len, in->line, &in->op, r->err);
    if (e < 0)
        return e;
    in->text = strdup(word);
    if (in->text == NULL)
        return no_memory(r->err);
    const char *rest = word + len;
    rest += strspn(rest, " \t\v\f\r\n");
    e = parse_flags(&rest, in, r->err);
    if (e == 0)
        e = parse_words(rest, r->escape, in, r->err);
    if (e < 0)
        return e;
    bool may_have =
        in->op == DOCKERFILE_RUN || in->op == DOCKERFILE_COPY || in->op == DOCKERFILE_ADD;
    if (may_have && !in->exec)
        e = dockerfile_read_heredocs(r, rest, in);
    return e < 0 ? e : check_count(in, r->err);
}

static struct instruction *add_instruction(struct dockerfile *file) {
    struct instruction *list = file->list;
    if ((file->count & (file->count - 1)) == 0) { /* full at every power of two */
        size_t room = file->count == 0 ? 1 : 2 * file->count;
        list = realloc(file->list, room * sizeof *list);
        if (list == NULL)
            return NULL;
        file->list = list;
    }
    list[file->count] = (struct instruction){0};
    return &list[file->count++];
}

static int parse_all(struct dockerfile_reader *r, struct dockerfile *file, bool whole) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(DOCKERFILE_TEXT_MAX + 1);
    bool in_stage = !whole;
    unsigned line = 0;
    for (;;) {
        int e = dockerfile_read_line(r, &text, &line);
        if (e <= 0)
            return e;
        if (file->count >= DOCKERFILE_INSTRUCTIONS_MAX)
            return dockerfile_refuse(r->err, line, "more than %d instructions",
                                     DOCKERFILE_INSTRUCTIONS_MAX);
        struct instruction *in = add_instruction(file);
        if (in == NULL)
            return no_memory(r->err);
        in->line = line;
        e = parse_instruction(r, &text, in);
        if (e < 0)
            return e;
        in_stage = in_stage || in->op == DOCKERFILE_FROM;
        if (in_stage || in->op == DOCKERFILE_ARG)
            continue;
        e = dockerfile_refuse(r->err, line, "%s stands before the first FROM", ops[in->op].name);
        (void)error_remedy(r->err, "begin with FROM; only ARG may stand before it");
        return e;
    }
}

static bool has_from(const struct dockerfile *file) {
    for (size_t i = 0; i < file->count; i++)
        if (file->list[i].op == DOCKERFILE_FROM)
            return true;
    return false;
}

static int parse(const char *text, size_t len, bool whole, struct dockerfile **ret,
                 struct cay_error *err) {
    _cleanup_(dockerfile_freep) struct dockerfile *file = calloc(1, sizeof *file);
    if (file == NULL)
        return no_memory(err);
    if (len > DOCKERFILE_TEXT_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "the Dockerfile is larger than %d bytes",
                         DOCKERFILE_TEXT_MAX);
    if (memchr(text, '\0', len) != NULL)
        return error_set(err, CAY_INVALID_ARGUMENT,
                         "the Dockerfile holds a NUL byte: it is no text");
    file->escape = '\\';
    struct dockerfile_reader r = {
        .at = text, .end = text + len, .line = 1, .escape = '\\', .err = err};
    int e = whole ? dockerfile_read_directives(&r, file) : 0;
    if (e == 0)
        e = parse_all(&r, file, whole);
    if (e < 0)
        return e;
    if (whole && !has_from(file)) {
        e = dockerfile_refuse(err, r.line, "there is no FROM");
        (void)error_remedy(err, "begin with FROM IMAGE, or FROM scratch");
        return e;
    }
    *ret = TAKE_PTR(file);
    return 0;
}

int dockerfile_parse(const char *text, size_t len, struct dockerfile **ret, struct cay_error *err) {
    return parse(text, len, true, ret, err);
}

int dockerfile_parse_changes(const char *text, size_t len, struct dockerfile **ret,
                             struct cay_error *err) {
    return parse(text, len, false, ret, err);
}

void dockerfile_free(struct dockerfile *file) {
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->count; i++) {
        struct instruction *in = &file->list[i];
        for (size_t k = 0; k < in->heredoc_count; k++) {
            free(in->heredocs[k].name);
            free(in->heredocs[k].content);
        }
        free(in->heredocs);
        free(in->text);
        strv_free(&in->flags);
        strv_free(&in->words);
    }
    free(file->list);
    free(file->syntax);
    free(file);
}

void dockerfile_freep(struct dockerfile **file) {
    dockerfile_free(*file);
}
