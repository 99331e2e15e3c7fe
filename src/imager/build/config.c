#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "imager/build/state.h"
#include "imager/transfer/change.h"

/* ---- lists of "K=V" ---- */

static ssize_t find(const struct strv *list, const char *name, size_t len) {
    for (size_t i = 0; i < list->len; i++)
        if (strncmp(list->v[i], name, len) == 0 && list->v[i][len] == '=')
            return (ssize_t)i;
    return -1;
}

const char *build_get(const struct strv *list, const char *name) {
    size_t len = strlen(name);
    ssize_t at = find(list, name, len);
    return at < 0 ? NULL : list->v[at] + len + 1;
}

int build_set(struct strv *list, const char *name, const char *value) {
    ssize_t at = find(list, name, strlen(name));
    if (at < 0)
        return strv_pushf(list, "%s=%s", name, value);
    char *text = NULL;
    if (asprintf(&text, "%s=%s", name, value) < 0)
        return -ENOMEM;
    free(list->v[at]);
    list->v[at] = text;
    return 0;
}

static bool list_has(const struct strv *list, const char *text) {
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->v[i], text) == 0)
            return true;
    return false;
}

/* ---- variables ---- */

static const char *lookup_stage(void *user, const char *name) {
    const struct build_stage *s = user;
    const char *value = build_get(&s->record->env, name);
    return value != NULL ? value : build_get(&s->args, name);
}

static const char *lookup_global(void *user, const char *name) {
    const struct build *b = user;
    return build_get(&b->globals, name);
}

struct word_scope build_scope(const struct build *b, struct build_stage *s) {
    return (struct word_scope){.lookup = lookup_stage, .user = s, .escape = b->file->escape};
}

struct word_scope build_global_scope(struct build *b) {
    return (struct word_scope){.lookup = lookup_global, .user = b, .escape = b->file->escape};
}

/* ---- ARG ---- */

/* The value of --build-arg, which is used then. */
static const char *given_arg(struct build *b, const char *name) {
    const char *value = build_get(&b->options->args, name);
    if (value != NULL && !list_has(&b->used_args, name))
        (void)strv_push(&b->used_args, name); /* only for the notice at the end */
    return value;
}

static bool is_name(const char *text, size_t len) {
    if (len == 0 || len > 255 || isdigit((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-' && text[i] != '.')
            return false;
    return true;
}

/* One word of ARG; inherited is what it has if neither the user nor the word gives a value. */
static int take_arg(struct build *b, const struct instruction *in, const struct word_scope *scope,
                    const char *word, const struct strv *inherited, struct strv *to,
                    struct cay_error *err) {
    char name[256];
    size_t len = strcspn(word, "=");
    if (!is_name(word, len))
        return build_refuse(in, err, "ARG takes NAME or NAME=VALUE");
    memcpy(name, word, len);
    name[len] = '\0';
    _cleanup_(freep) char *own = NULL;
    const char *value = given_arg(b, name);
    if (value == NULL && word[len] == '=') {
        own = word_expanded(scope, word + len + 1, err);
        if (own == NULL)
            return error_prefix(err, "Dockerfile:%u", in->line);
        value = own;
    }
    if (value == NULL && inherited != NULL)
        value = build_get(inherited, name);
    if (value != NULL && build_set(to, name, value) < 0)
        return build_no_memory(err);
    return 0;
}

int build_global_arg(struct build *b, const struct instruction *in, struct cay_error *err) {
    struct word_scope scope = build_global_scope(b);
    for (size_t i = 0; i < in->words.len; i++) {
        int r = take_arg(b, in, &scope, in->words.v[i], NULL, &b->globals, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int apply_arg(struct build *b, struct build_stage *s, const struct instruction *in,
                     struct cay_error *err) {
    struct word_scope scope = build_scope(b, s);
    for (size_t i = 0; i < in->words.len; i++) {
        int r = take_arg(b, in, &scope, in->words.v[i], &b->globals, &s->args, err);
        if (r < 0)
            return r;
    }
    return 0;
}

void build_report_unused(const struct build *b) {
    for (size_t i = 0; i < b->options->args.len; i++) {
        char name[256], shown[300];
        const char *arg = b->options->args.v[i];
        (void)snprintf(name, sizeof name, "%.*s", (int)MIN(strcspn(arg, "="), sizeof name - 1),
                       arg);
        if (!list_has(&b->used_args, name) && !str_ends(name, "_PROXY") &&
            !str_ends(name, "_proxy"))
            build_log(b, "notice: --build-arg %s is not used by any ARG",
                      str_escape(shown, sizeof shown, name));
    }
}

/* ---- paths ---- */

int build_path(const struct build_stage *s, const char *path, char *out, size_t size) {
    const char *parts[2] = {path[0] == '/' ? "" : s->record->working_dir, path};
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        for (const char *p = parts[i]; *p != '\0';) {
            p += strspn(p, "/");
            size_t len = strcspn(p, "/");
            if (len == 2 && memcmp(p, "..", 2) == 0) {
                while (at > 0 && out[--at] != '/')
                    ;
            } else if (len > 0 && !(len == 1 && *p == '.')) {
                if (at + len + 2 > size)
                    return -ENAMETOOLONG;
                out[at++] = '/';
                memcpy(out + at, p, len);
                at += len;
            }
            p += len;
        }
    }
    if (at == 0)
        out[at++] = '/';
    out[at] = '\0';
    return 0;
}

/* ---- the rest of the configuration ---- */

struct applied {
    struct build_stage *s;
    const struct instruction *in;
    struct word_scope scope;
    struct cay_error *err;
};

/* The word, expanded; NULL with err filled. */
static char *expanded(struct applied *a, const char *word) {
    char *text = word_expanded(&a->scope, word, a->err);
    if (text == NULL)
        (void)error_prefix(a->err, "Dockerfile:%u", a->in->line);
    return text;
}

/* ENV and LABEL: all of one instruction see the values from before it. */
static int apply_pairs(struct applied *a, struct strv *list) {
    _cleanup_(strv_free) struct strv done = {0};
    for (size_t i = 0; i < a->in->words.len; i++) {
        _cleanup_(freep) char *text = expanded(a, a->in->words.v[i]);
        if (text == NULL)
            return -CAY_INVALID_ARGUMENT;
        if (i % 2 == 0 && (text[0] == '\0' || strchr(text, '=') != NULL))
            return build_refuse(a->in, a->err, "a name is empty, or holds '='");
        if (strv_push(&done, text) < 0)
            return build_no_memory(a->err);
    }
    for (size_t i = 0; i + 1 < done.len; i += 2)
        if (build_set(list, done.v[i], done.v[i + 1]) < 0)
            return build_no_memory(a->err);
    return 0;
}

static int apply_text(struct applied *a, char *to, size_t size) {
    _cleanup_(freep) char *text = expanded(a, a->in->words.v[0]);
    if (text == NULL)
        return -CAY_INVALID_ARGUMENT;
    if (text[0] == '\0')
        return build_refuse(a->in, a->err, "%s is empty after its variables were put in",
                            dockerfile_op_name(a->in->op));
    return str_copy(to, size, text) < 0 ? build_refuse(a->in, a->err, "this is too long") : 0;
}

/* One port or range of EXPOSE. */
static int add_ports(struct applied *a, char *text) {
    uint64_t first, last;
    char standard[] = "tcp", *protocol = strchr(text, '/');
    if (protocol != NULL)
        *protocol++ = '\0';
    else
        protocol = standard;
    for (char *p = protocol; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    char *dash = strchr(text, '-');
    if (dash != NULL)
        *dash++ = '\0';
    bool known =
        str_equal(protocol, "tcp") || str_equal(protocol, "udp") || str_equal(protocol, "sctp");
    if (!known || str_to_u64(text, 65535, &first) < 0 ||
        str_to_u64(dash != NULL ? dash : text, 65535, &last) < 0 || last < first) {
        (void)build_refuse(a->in, a->err, "'%.40s' is no port", text);
        return error_remedy(a->err, "write 8080, 8080/udp or 8000-8010");
    }
    for (; first <= last; first++) {
        char port[32];
        (void)snprintf(port, sizeof port, "%u/%s", (unsigned)first, protocol);
        if (!list_has(&a->s->record->ports, port) && strv_push(&a->s->record->ports, port) < 0)
            return build_no_memory(a->err);
    }
    return 0;
}

static int apply_expose(struct applied *a) {
    for (size_t i = 0; i < a->in->words.len; i++) {
        _cleanup_(strv_free) struct strv ports = {0};
        _cleanup_(freep) char *text = expanded(a, a->in->words.v[i]);
        if (text == NULL)
            return -CAY_INVALID_ARGUMENT;
        if (words_split_blanks(text, DOCKERFILE_WORDS_MAX, &ports) < 0)
            return build_no_memory(a->err);
        for (size_t k = 0; k < ports.len; k++) {
            int r = add_ports(a, ports.v[k]);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int apply_volumes(struct applied *a) {
    for (size_t i = 0; i < a->in->words.len; i++) {
        _cleanup_(freep) char *text = expanded(a, a->in->words.v[i]);
        if (text == NULL)
            return -CAY_INVALID_ARGUMENT;
        if (text[0] == '\0')
            return build_refuse(a->in, a->err, "the name of a volume is empty");
        struct strv *volumes = &a->s->record->volumes;
        if (!list_has(volumes, text) && strv_push(volumes, text) < 0)
            return build_no_memory(a->err);
    }
    return 0;
}

/* CMD, ENTRYPOINT: the shell form becomes an argument of the shell. Never expanded. */
static int apply_command(struct applied *a, struct strv *to) {
    static const char *const standard[] = {"/bin/sh", "-c"};
    const struct strv *words = &a->in->words, *shell = &a->s->shell;
    strv_free(to);
    for (size_t i = 0; !a->in->exec && i < (shell->len > 0 ? shell->len : 2); i++)
        if (strv_push(to, shell->len > 0 ? shell->v[i] : standard[i]) < 0)
            return build_no_memory(a->err);
    for (size_t i = 0; i < words->len; i++)
        if (strv_push(to, words->v[i]) < 0)
            return build_no_memory(a->err);
    return 0;
}

static int apply_shell(struct applied *a) {
    strv_free(&a->s->shell);
    for (size_t i = 0; i < a->in->words.len; i++)
        if (strv_push(&a->s->shell, a->in->words.v[i]) < 0)
            return build_no_memory(a->err);
    return 0;
}

static int apply_entrypoint(struct applied *a) {
    if (!a->s->cmd_set) /* the base's arguments are not for this program */
        strv_free(&a->s->record->cmd);
    return apply_command(a, &a->s->record->entrypoint);
}

static int apply_maintainer(struct applied *a) {
    return build_set(&a->s->record->labels, "maintainer", a->in->words.v[0]) < 0
               ? build_no_memory(a->err)
               : 0;
}

static int apply_workdir(struct applied *a) {
    _cleanup_(freep) char *text = expanded(a, a->in->words.v[0]);
    struct image_record *record = a->s->record;
    char path[sizeof record->working_dir];
    if (text == NULL)
        return -CAY_INVALID_ARGUMENT;
    if (text[0] == '\0')
        return build_refuse(a->in, a->err, "WORKDIR is empty after its variables were put in");
    if (build_path(a->s, text, path, sizeof path) < 0)
        return build_refuse(a->in, a->err, "the path is too long");
    return str_copy(record->working_dir, sizeof record->working_dir, path);
}

static int apply(struct applied *a) {
    struct image_record *record = a->s->record;
    switch (a->in->op) {
    case DOCKERFILE_CMD:
        a->s->cmd_set = true;
        return apply_command(a, &record->cmd);
    case DOCKERFILE_ENTRYPOINT:
        return apply_entrypoint(a);
    case DOCKERFILE_ENV:
        return apply_pairs(a, &record->env);
    case DOCKERFILE_EXPOSE:
        return apply_expose(a);
    case DOCKERFILE_LABEL:
        return apply_pairs(a, &record->labels);
    case DOCKERFILE_MAINTAINER:
        return apply_maintainer(a);
    case DOCKERFILE_SHELL:
        return apply_shell(a);
    case DOCKERFILE_STOPSIGNAL:
        return apply_text(a, record->stop_signal, sizeof record->stop_signal);
    case DOCKERFILE_USER:
        return apply_text(a, record->user, sizeof record->user);
    case DOCKERFILE_VOLUME:
        return apply_volumes(a);
    case DOCKERFILE_WORKDIR:
        return apply_workdir(a);
    default:
        return build_refuse(a->in, a->err, "%s is not possible here",
                            dockerfile_op_name(a->in->op));
    }
}

int build_apply(struct build *b, struct build_stage *s, const struct instruction *in,
                struct cay_error *err) {
    struct applied a = {.s = s, .in = in, .scope = build_scope(b, s), .err = err};
    switch (in->op) {
    case DOCKERFILE_ARG:
        return apply_arg(b, s, in, err);
    case DOCKERFILE_HEALTHCHECK:
        build_log(b, " notice: HEALTHCHECK is ignored: cay does not check the health of sandboxes");
        return 0;
    case DOCKERFILE_ONBUILD:
        build_log(b, " notice: ONBUILD is ignored: cay keeps no triggers in images");
        return 0;
    case DOCKERFILE_MAINTAINER:
        build_log(b, " notice: MAINTAINER is deprecated; the label 'maintainer' is set");
        return apply(&a);
    default:
        return apply(&a);
    }
}

int build_change(struct image_record *record, const char *text, struct cay_error *err) {
    _cleanup_(dockerfile_freep) struct dockerfile *file = NULL;
    struct build_stage s = {.record = record, .cmd_set = true};
    int r = dockerfile_parse_changes(text, strlen(text), &file, err);
    for (size_t i = 0; r == 0 && i < file->count; i++) {
        struct applied a = {
            .s = &s,
            .in = &file->list[i],
            .scope = {.lookup = lookup_stage, .user = &s, .escape = file->escape},
            .err = err,
        };
        r = apply(&a);
    }
    strv_free(&s.shell);
    return r;
}
