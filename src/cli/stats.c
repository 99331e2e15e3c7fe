/* `cay stats`: what sandboxes use. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

enum { COLUMNS = 7, INTERVAL_MS = 1000 };

struct stats_options {
    struct verb_common common;
    bool watch, once;
};

static const struct opt options[] = {
    {.name = "watch",
     OPT_TO_FLAG(struct stats_options, watch),
     .help = "show them again every second, until Ctrl-C (done on a terminal)"},
    {.name = "once",
     OPT_TO_FLAG(struct stats_options, once),
     .help = "show them once (done where the output is no terminal)"},
    {0},
};

/* One sandbox, and what it had used when it was looked at last. */
struct subject {
    char name[NAME_MAX_LEN + 1];
    uint64_t cpu_us;
    int64_t at_us; /* 0: never */
    char text[COLUMNS - 1][80];
};

struct subjects {
    struct subject *v;
    size_t len;
};

static int add_subject(struct subjects *s, const char *name, struct cay_error *err) {
    struct subject *more = reallocarray(s->v, s->len + 1, sizeof *more);
    if (more == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    s->v = more;
    more[s->len] = (struct subject){0};
    if (str_copy(more[s->len].name, sizeof more->name, name) < 0)
        return error_set(err, CAY_NOT_FOUND, "no sandbox has a name as long as '%.80s…'", name);
    s->len++;
    return 0;
}

/* Those that are named, or all that run. */
static int find_subjects(struct sandbox_verb *v, int argc, char **argv, struct subjects *ret) {
    int r = 0;
    for (int i = 0; r == 0 && i < argc; i++)
        r = add_subject(ret, argv[i], &v->err);
    if (r < 0 || argc > 0)
        return r;
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox"};
    _cleanup_(reply_free) struct reply t = {0};
    r = sandbox_query_list(v, &req, &t);
    for (size_t i = 0; r == 0 && i < t.rows; i++) {
        const char *state = reply_text(&t, i, "state");
        if (strcmp(state, "started") == 0 || strcmp(state, "paused") == 0)
            r = add_subject(ret, reply_text(&t, i, "name"), &v->err);
    }
    return r;
}

/* The share of one processor since the last look, or the time altogether. */
static void put_cpu(struct subject *s, uint64_t cpu_us, char *text, size_t size) {
    int64_t now = clock_us();
    if (s->at_us != 0 && now > s->at_us && cpu_us >= s->cpu_us)
        (void)snprintf(text, size, "%.1f %%",
                       (double)(cpu_us - s->cpu_us) * 100 / (double)(now - s->at_us));
    else
        (void)snprintf(text, size, "%.2f s", (double)cpu_us / 1e6);
    s->cpu_us = cpu_us;
    s->at_us = now;
}

static int look(struct sandbox_verb *v, struct subject *s) {
    const struct sandbox_request req = {
        .method = "GET", .before = "/api/cay/sandbox/", .who = s->name, .after = "/stats"};
    _cleanup_(reply_free) struct reply t = {0};
    char a[32], b[32];
    int r = sandbox_query(v, &req, &t);
    if (r < 0)
        return r;
    size_t size = sizeof s->text[0];
    put_cpu(s, reply_unsigned(&t, 0, "cpuMicros"), s->text[0], size);
    uint64_t limit = reply_unsigned(&t, 0, "memoryLimit");
    (void)snprintf(s->text[1], size, "%s / %s", str_bytes(reply_unsigned(&t, 0, "memoryBytes"), a),
                   limit == 0 ? "no limit" : str_bytes(limit, b));
    (void)snprintf(s->text[2], size, "%s", str_bytes(reply_unsigned(&t, 0, "memoryPeak"), a));
    limit = reply_unsigned(&t, 0, "diskLimit");
    (void)snprintf(s->text[3], size, "%s / %s", str_bytes(reply_unsigned(&t, 0, "diskBytes"), a),
                   limit == 0 ? "no limit" : str_bytes(limit, b));
    (void)snprintf(s->text[4], size, "%s", reply_text(&t, 0, "pids"));
    (void)snprintf(s->text[5], size, "%s", reply_text(&t, 0, "oomKills"));
    return 0;
}

static int print_table(const struct subjects *all, bool clear, struct cay_error *err) {
    static const char *const titles[COLUMNS] = {"NAME",         "CPU",  "MEMORY / LIMIT", "PEAK",
                                                "DISK / LIMIT", "PIDS", "OOM KILLS"};
    _cleanup_(freep) const char **cell = calloc((all->len + 1) * COLUMNS, sizeof *cell);
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    if (cell == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(err);
    }
    memcpy(cell, titles, sizeof titles);
    for (size_t i = 0; i < all->len; i++) {
        cell[(i + 1) * COLUMNS] = all->v[i].name;
        for (size_t j = 1; j < COLUMNS; j++)
            cell[(i + 1) * COLUMNS + j] = all->v[i].text[j - 1];
    }
    if (clear)
        (void)buf_puts(&b, "\033[H\033[J");
    sandbox_put_columns(&b, cell, all->len + 1, COLUMNS);
    return verb_print(&b);
}

/* Takes out one that has ended meanwhile. */
static void drop(struct subjects *all, size_t at) {
    memmove(&all->v[at], &all->v[at + 1], (all->len - at - 1) * sizeof *all->v);
    all->len--;
}

/* Where nobody named them, one that ends between two looks is no failure. */
static int show_once(struct sandbox_verb *v, struct subjects *all, bool named, bool clear) {
    int code = 0;
    for (size_t i = 0; i < all->len;) {
        if (look(v, &all->v[i]) == 0) {
            i++;
            continue;
        }
        bool ended = v->err.code == CAY_NOT_FOUND || v->err.code == CAY_CONFLICT;
        int r = ended && !named ? 0 : sandbox_fail(v);
        code = code != 0 ? code : r;
        drop(all, i);
    }
    return code != 0 ? code : print_table(all, clear, &v->err);
}

/* What was known of those that are still there: the share of a processor is since then. */
static void remember(struct subjects *now, const struct subjects *before) {
    for (size_t i = 0; i < now->len; i++)
        for (size_t j = 0; j < before->len; j++)
            if (strcmp(now->v[i].name, before->v[j].name) == 0)
                now->v[i] = before->v[j];
}

/* Those that run now; named ones stay as they are. */
static int find_again(struct sandbox_verb *v, struct subjects *all, bool named) {
    struct subjects now = {0};
    if (named)
        return 0;
    int r = find_subjects(v, 0, NULL, &now);
    if (r < 0) {
        free(now.v);
        return r;
    }
    remember(&now, all);
    free(all->v);
    *all = now;
    return 0;
}

static int show_json(struct sandbox_verb *v, const struct subjects *all) {
    int code = 0;
    for (size_t i = 0; i < all->len; i++) {
        const struct sandbox_request req = {.method = "GET",
                                            .before = "/api/cay/sandbox/",
                                            .who = all->v[i].name,
                                            .after = "/stats"};
        int r = sandbox_ask(v, &req) < 0 ? sandbox_fail(v) : verb_print(&v->answer);
        code = code != 0 ? code : r;
    }
    return code;
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct stats_options *o = values;
    struct subjects all = {0};
    int code;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    if (sandbox_verb_open(&v) < 0 || find_subjects(&v, argc, argv, &all) < 0) {
        free(all.v);
        return verb_fail(&v.err);
    }
    bool terminal = isatty(STDOUT_FILENO), json = o->common.output == OUTPUT_JSON;
    bool live = o->watch || (terminal && !json && !o->once);
    for (;;) {
        code = json ? show_json(&v, &all) : show_once(&v, &all, argc > 0, live && terminal);
        if (code != 0 || !live)
            break;
        (void)poll(NULL, 0, INTERVAL_MS);
        if (find_again(&v, &all, argc > 0) < 0) {
            code = verb_fail(&v.err);
            break;
        }
    }
    free(all.v);
    return code;
}

const struct opt_command cli_stats = {
    .name = "stats",
    .path = "cay stats",
    .synopsis = "[OPTIONS] [SANDBOX...]",
    .summary = "show what sandboxes use",
    .help = "Of all that run if none is named. On a terminal they are shown again every second, "
            "until Ctrl-C; else once. CPU is the time since the start, then the share of one "
            "processor since the look before. JSON has one object for each.",
    .group = CLI_SANDBOXES,
    .options = options,
    .candidates = CLI_CANDIDATES,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct stats_options),
    .run = run,
};
