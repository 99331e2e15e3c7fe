#include "cmd/opt.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

enum { SHOWN = 80, NAMES_MAX = 128 };

struct parser {
    const struct opt_command *cmd;
    const struct opt *common;
    int argc;
    char **argv;
    int at; /* the next word */
    void *values;
    bool help;
    struct cay_error *err;
};

/* ---- tables ---- */

bool opt_takes_value(const struct opt *o) {
    return o->kind == OPT_CALL ? o->arg != NULL : o->kind != OPT_FLAG;
}

static const struct opt *find_name(const struct opt *table, const char *name, size_t len) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++)
        if (strncmp(o->name, name, len) == 0 && o->name[len] == '\0')
            return o;
    return NULL;
}

static const struct opt *find_letter(const struct opt *table, char letter) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++)
        if (o->letter == letter && letter != '\0')
            return o;
    return NULL;
}

bool opt_has_name(const struct opt *table, const char *name) {
    return find_name(table, name, strlen(name)) != NULL;
}

bool opt_has_letter(const struct opt *table, char letter) {
    return find_letter(table, letter) != NULL;
}

bool opt_is_shown(const struct opt *o, const struct opt *over) {
    return !o->hidden && !opt_has_name(over, o->name);
}

static const struct opt *known_name(const struct parser *p, const char *name, size_t len) {
    const struct opt *o = find_name(p->cmd->options, name, len);
    return o != NULL ? o : find_name(p->common, name, len);
}

static const struct opt *known_letter(const struct parser *p, char letter) {
    const struct opt *o = find_letter(p->cmd->options, letter);
    return o != NULL ? o : find_letter(p->common, letter);
}

/* ---- refusals ---- */

static int see_help(const struct parser *p) {
    return error_remedy(p->err, "see '%s --help'", p->cmd->path);
}

/* The names that people can have meant. */
static size_t collect_names(const struct parser *p, const char **names) {
    const struct opt *const tables[] = {p->cmd->options, p->common};
    size_t n = 0;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const struct opt *o = tables[t]; o != NULL && o->name != NULL; o++)
            if (!o->hidden && n < NAMES_MAX - 1)
                names[n++] = o->name;
    names[n++] = "help";
    return n;
}

/* The remedy where the word is the beginning of one or more names. */
static bool suggest_prefix(const struct parser *p, const char *name, const char **names, size_t n) {
    char list[160] = "";
    size_t matches = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        if (name[0] == '\0' || !str_starts(names[i], name))
            continue;
        int len =
            snprintf(list + at, sizeof list - at, "%s--%s", matches > 0 ? " or " : "", names[i]);
        if (len < 0 || (size_t)len >= sizeof list - at)
            list[at] = '\0';
        else
            at += (size_t)len;
        matches++;
    }
    if (matches > 0)
        error_remedy(p->err, "did you mean %s? See '%s --help'", list, p->cmd->path);
    return matches > 0;
}

static const char *find_habit(const struct opt_habit *habits, const char *typed) {
    for (const struct opt_habit *h = habits; h != NULL && h->typed != NULL; h++)
        if (strcmp(h->typed, typed) == 0)
            return h->answer;
    return NULL;
}

static int unknown_name(const struct parser *p, const char *name, size_t len) {
    char text[SHOWN], shown[SHOWN], typed[SHOWN + 2];
    (void)snprintf(text, sizeof text, "%.*s", (int)MIN(len, sizeof text), name);
    int r = error_set(p->err, CAY_INVALID_ARGUMENT, "unknown option '--%s'",
                      str_escape(shown, sizeof shown, text));
    (void)snprintf(typed, sizeof typed, "--%s", text);
    const char *answer = find_habit(p->cmd->habits, typed);
    if (answer != NULL)
        return error_remedy(p->err, "%s", answer);
    const char *names[NAMES_MAX];
    size_t n = collect_names(p, names);
    if (suggest_prefix(p, text, names, n))
        return r;
    const char *nearest = str_nearest(text, names, n);
    if (nearest == NULL)
        return see_help(p);
    error_remedy(p->err, "did you mean --%s? See '%s --help'", nearest, p->cmd->path);
    return r;
}

static int unknown_letter(const struct parser *p, const char *word, char letter) {
    char shown[SHOWN];
    (void)str_escape(shown, sizeof shown, word);
    if (letter > ' ' && letter < 0x7f && word[2] != '\0')
        error_set(p->err, CAY_INVALID_ARGUMENT, "unknown option '-%c' in '%s'", letter, shown);
    else
        error_set(p->err, CAY_INVALID_ARGUMENT, "unknown option '%s'", shown);
    const char typed[] = {'-', letter, '\0'};
    const char *answer = find_habit(p->cmd->habits, typed);
    return answer != NULL ? error_remedy(p->err, "%s", answer) : see_help(p);
}

/* ---- values ---- */

static bool in_bounds(const struct opt *o, double v) {
    return o->min == o->max || (v >= o->min && v <= o->max);
}

static int refuse_bounds(const struct parser *p, const struct opt *o, const char *text) {
    char shown[SHOWN];
    int r = error_set(p->err, CAY_INVALID_ARGUMENT, "--%s: '%s' is out of range", o->name,
                      str_escape(shown, sizeof shown, text));
    char low[32], high[32];
    if (o->kind == OPT_SIZE)
        error_remedy(p->err, "use %s to %s", str_bytes((uint64_t)o->min, low),
                     str_bytes((uint64_t)o->max, high));
    else if (o->kind == OPT_DURATION)
        error_remedy(p->err, "use %gs to %gs", o->min / 1000, o->max / 1000);
    else
        error_remedy(p->err, "use a number from %.15g to %.15g", o->min, o->max);
    return r;
}

static int refuse_number(const struct parser *p, const struct opt *o, const char *text) {
    char shown[SHOWN];
    bool whole = o->kind == OPT_INTEGER;
    int r = error_set(p->err, CAY_INVALID_ARGUMENT, "--%s: '%s' is not a %snumber", o->name,
                      str_escape(shown, sizeof shown, text), whole ? "whole " : "");
    error_remedy(p->err, "use a number such as %s", whole ? "10" : "1.5");
    return r;
}

static int store_integer(const struct parser *p, const struct opt *o, const char *text,
                         int64_t *place) {
    int64_t v;
    int r = str_to_i64(text, INT64_MIN, INT64_MAX, &v);
    if (r == -EINVAL)
        return refuse_number(p, o, text);
    if (r < 0 || !in_bounds(o, (double)v))
        return refuse_bounds(p, o, text);
    *place = v;
    return 0;
}

static int store_number(const struct parser *p, const struct opt *o, const char *text,
                        double *place) {
    double v;
    if (str_to_double(text, &v) < 0)
        return refuse_number(p, o, text);
    if (!in_bounds(o, v))
        return refuse_bounds(p, o, text);
    *place = v;
    return 0;
}

static int store_size(const struct parser *p, const struct opt *o, const char *what,
                      const char *text, uint64_t *place) {
    uint64_t v;
    int r = str_to_size(what, text, &v, p->err);
    if (r < 0)
        return r;
    if (!in_bounds(o, (double)v))
        return refuse_bounds(p, o, text);
    *place = v;
    return 0;
}

static int store_duration(const struct parser *p, const struct opt *o, const char *what,
                          const char *text, int64_t *place) {
    int64_t v;
    int r = str_to_duration(what, text, &v, p->err);
    if (r < 0)
        return r;
    if (!in_bounds(o, (double)v))
        return refuse_bounds(p, o, text);
    *place = v;
    return 0;
}

static int store_choice(const struct parser *p, const struct opt *o, const char *text, int *place) {
    char list[160] = "", shown[SHOWN];
    size_t at = 0;
    for (int i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *place = i;
            return 0;
        }
        int n = snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", o->choices[i]);
        at = MIN(at + (size_t)MAX(n, 0), sizeof list - 1);
    }
    error_set(p->err, CAY_INVALID_ARGUMENT, "--%s: '%s' is not one of its values", o->name,
              str_escape(shown, sizeof shown, text));
    return error_remedy(p->err, "use one of: %s", list);
}

static int store_call(const struct parser *p, const struct opt *o, const char *text) {
    int r = o->call(o, text, p->values, p->err);
    return r < 0 ? r : 0;
}

static int store(const struct parser *p, const struct opt *o, const char *text) {
    char what[SHOWN];
    (void)snprintf(what, sizeof what, "--%s", o->name);
    void *place = (char *)p->values + o->offset;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)place = true;
        return 0;
    case OPT_STRING:
        *(const char **)place = text;
        return 0;
    case OPT_INTEGER:
        return store_integer(p, o, text, place);
    case OPT_NUMBER:
        return store_number(p, o, text, place);
    case OPT_SIZE:
        return store_size(p, o, what, text, place);
    case OPT_DURATION:
        return store_duration(p, o, what, text, place);
    case OPT_CHOICE:
        return store_choice(p, o, text, place);
    case OPT_STRINGS:
        return strv_push(place, text) < 0 ? error_sys(p->err, ENOMEM, "%s", what) : 0;
    case OPT_CALL:
        return store_call(p, o, text);
    }
    return error_set(p->err, CAY_INTERNAL, "%s: no such kind of option", what);
}

/* ---- words ---- */

/* "--image --rm" forgot the image rather than asking for one of that name. */
static bool looks_like_option(const struct parser *p, const char *word) {
    if (word[0] != '-' || word[1] != '-')
        return false;
    size_t len = strcspn(word + 2, "=");
    return word[2] == '\0' || strcmp(word, "--help") == 0 || known_name(p, word + 2, len) != NULL;
}

/* The value of o from the next word. */
static int store_next(struct parser *p, const struct opt *o) {
    if (p->at < p->argc && !looks_like_option(p, p->argv[p->at]))
        return store(p, o, p->argv[p->at++]);
    int r = error_set(p->err, CAY_INVALID_ARGUMENT, "option '--%s' needs a value", o->name);
    error_remedy(p->err, "write --%s=%s; see '%s --help'", o->name,
                 o->arg != NULL ? o->arg : "VALUE", p->cmd->path);
    return r;
}

/* Clears the flag that "--no-NAME" names; false if there is none. */
static bool negate(const struct parser *p, const char *name, size_t len) {
    if (len <= 3 || memcmp(name, "no-", 3) != 0)
        return false;
    const struct opt *o = known_name(p, name + 3, len - 3);
    if (o == NULL || o->kind != OPT_FLAG)
        return false;
    *(bool *)((char *)p->values + o->offset) = false;
    return true;
}

static int refuse_value(const struct parser *p, const char *name, size_t len) {
    error_set(p->err, CAY_INVALID_ARGUMENT, "option '--%.*s' takes no value",
              (int)MIN(len, (size_t)SHOWN), name);
    return see_help(p);
}

static int parse_name(struct parser *p, const char *word) {
    const char *name = word + 2;
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    const struct opt *o = known_name(p, name, len);
    if (o != NULL && opt_takes_value(o))
        return value != NULL ? store(p, o, value) : store_next(p, o);
    bool is_help = o == NULL && len == 4 && memcmp(name, "help", 4) == 0;
    if (value != NULL && (o != NULL || is_help))
        return refuse_value(p, name, len);
    if (o != NULL)
        return store(p, o, NULL);
    if (is_help) {
        p->help = true;
        return 0;
    }
    if (!negate(p, name, len))
        return unknown_name(p, name, len);
    return value != NULL ? refuse_value(p, name, len) : 0;
}

/* "-it", "-m512m", "-m 512m", "-itm 512m". */
static int parse_letters(struct parser *p, const char *word) {
    for (const char *c = word + 1; *c != '\0'; c++) {
        const struct opt *o = known_letter(p, *c);
        if (o == NULL && *c == 'h') {
            p->help = true;
            return 0;
        }
        if (o == NULL)
            return unknown_letter(p, word, *c);
        if (opt_takes_value(o))
            return c[1] != '\0' ? store(p, o, c + 1) : store_next(p, o);
        int r = store(p, o, NULL);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_operands(const struct parser *p, const struct opt_rest *rest) {
    const struct opt_command *cmd = p->cmd;
    if (rest->argc < cmd->min_operands) {
        error_set(p->err, CAY_INVALID_ARGUMENT, "'%s' needs %s%d argument%s", cmd->path,
                  cmd->max_operands == cmd->min_operands ? "" : "at least ", cmd->min_operands,
                  cmd->min_operands == 1 ? "" : "s");
    } else if (cmd->max_operands >= 0 && rest->argc > cmd->max_operands) {
        char shown[SHOWN];
        error_set(p->err, CAY_INVALID_ARGUMENT, "unexpected argument '%s'",
                  str_escape(shown, sizeof shown, rest->argv[cmd->max_operands]));
    } else {
        return 0;
    }
    return error_remedy(p->err, "usage: %s %s", cmd->path,
                        cmd->synopsis != NULL ? cmd->synopsis : "");
}

/* Moves the remaining words behind the operands found so far. */
static void take_operands(struct parser *p, struct opt_rest *rest) {
    while (p->at < p->argc)
        rest->argv[rest->argc++] = p->argv[p->at++];
}

int opt_parse(const struct opt_command *cmd, const struct opt *common, int argc, char **argv,
              void *values, struct opt_rest *rest, struct cay_error *err) {
    struct parser p = {
        .cmd = cmd, .common = common, .argc = argc, .argv = argv, .values = values, .err = err};
    *rest = (struct opt_rest){.argv = argv};
    while (p.at < argc) {
        char *word = argv[p.at++];
        int r = 0;
        if (word[0] != '-' || word[1] == '\0') {
            rest->argv[rest->argc++] = word;
            if (cmd->stop_at_operand)
                take_operands(&p, rest);
        } else if (strcmp(word, "--") == 0) {
            take_operands(&p, rest);
        } else {
            r = word[1] == '-' ? parse_name(&p, word) : parse_letters(&p, word);
        }
        if (r < 0)
            return r;
        if (p.help)
            return 1;
    }
    rest->argv[rest->argc] = NULL;
    return check_operands(&p, rest);
}

/* ---- values and commands ---- */

void *opt_values_new(const struct opt_command *cmd) {
    void *values = calloc(1, MAX(cmd->values_size, (size_t)1));
    if (values != NULL && cmd->defaults != NULL)
        memcpy(values, cmd->defaults, cmd->values_size);
    return values;
}

static void free_lists(const struct opt *table, void *values) {
    for (const struct opt *o = table; o != NULL && o->name != NULL; o++)
        if (o->kind == OPT_STRINGS)
            strv_free((struct strv *)(void *)((char *)values + o->offset));
}

void opt_values_free(const struct opt_command *cmd, const struct opt *common, void *values) {
    if (values == NULL)
        return;
    free_lists(cmd->options, values);
    free_lists(common, values);
    free(values);
}

size_t opt_count_commands(const struct opt_command *const *table) {
    size_t n = 0;
    while (table != NULL && table[n] != NULL)
        n++;
    return n;
}

static bool answers_to(const struct opt_command *cmd, const char *name) {
    if (strcmp(cmd->name, name) == 0)
        return true;
    for (const char *const *a = cmd->aliases; a != NULL && *a != NULL; a++)
        if (strcmp(*a, name) == 0)
            return true;
    return false;
}

const struct opt_command *opt_find_command(const struct opt_command *const *table, size_t count,
                                           const char *name) {
    for (size_t i = 0; i < count; i++)
        if (answers_to(table[i], name))
            return table[i];
    return NULL;
}

int opt_unknown_command(const char *path, const struct opt_command *const *table, size_t count,
                        const struct opt_habit *habits, const char *name, struct cay_error *err) {
    const char *names[NAMES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count && n < NAMES_MAX; i++)
        if (!table[i]->hidden && !table[i]->is_destructive)
            names[n++] = table[i]->name;
    char shown[SHOWN];
    error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not a command of %s",
              str_escape(shown, sizeof shown, name), path);
    const char *answer = find_habit(habits, name);
    if (answer != NULL)
        return error_remedy(err, "%s", answer);
    const char *nearest = str_nearest(name, names, n);
    if (nearest == NULL)
        return error_remedy(err, "see '%s --help'", path);
    return error_remedy(err, "did you mean '%s %s'? See '%s --help'", path, nearest, path);
}
