/* `cay logs`: what became of a sandbox, and what the commands of its sessions printed. */
#include <cay.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"
#include "cli/session/session.h"
#include "wire/client_exec.h"

enum { FOLLOW_MS = 300, ALL = -1, CAPTURED_MAX = 16 * 1024 * 1024 };

struct logs_options {
    struct verb_common common;
    bool follow;
    int64_t tail;
};

static const struct opt options[] = {
    {.letter = 'f',
     .name = "follow",
     OPT_TO_FLAG(struct logs_options, follow),
     .help = "go on with what comes, until Ctrl-C or the end of the command"},
    {.letter = 'n',
     .name = "tail",
     OPT_TO_INTEGER(struct logs_options, tail),
     .arg = "N",
     .min = 0,
     .max = 1e9,
     .help = "only the last N lines"},
    {0},
};

/* ---- what became of it ---- */

static int ask_events(struct sandbox_verb *v, const char *who, uint64_t after, struct reply *ret) {
    char query[64];
    (void)snprintf(query, sizeof query, "/events?after=%llu", (unsigned long long)after);
    const struct sandbox_request req = {
        .method = "GET", .before = "/api/cay/sandbox/", .who = who, .after = query};
    return sandbox_query_list(v, &req, ret);
}

/* One line for each; JSON has one object for each line, as what is followed has no end. */
static int print_events(const struct sandbox_verb *v, struct reply *t, size_t from) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    for (size_t i = from; i < t->rows; i++) {
        if (v->common->output == OUTPUT_JSON) {
            struct jsonw w = JSONW_INIT(&b);
            jsonw_begin_object(&w);
            jsonw_put_unsigned(&w, "number", reply_unsigned(t, i, "number"));
            jsonw_put_string(&w, "time", reply_string(t, i, "time"));
            jsonw_put_string(&w, "state", reply_string(t, i, "state"));
            jsonw_put_string(&w, "text", reply_string(t, i, "text"));
            jsonw_end_object(&w);
            (void)buf_putc(&b, '\n');
        } else {
            const char *text = reply_text(t, i, "text");
            (void)buf_printf(&b, "%s  %s%s%s\n", reply_text(t, i, "time"),
                             reply_text(t, i, "state"), text[0] != '\0' ? ": " : "", text);
        }
    }
    return verb_print(&b);
}

/* Prints what is behind *after and moves it on. */
static int show_events(struct sandbox_verb *v, const char *who, int64_t tail, uint64_t *after) {
    _cleanup_(reply_free) struct reply t = {0};
    if (ask_events(v, who, *after, &t) < 0)
        return -1;
    size_t from = tail >= 0 && t.rows > (size_t)tail ? t.rows - (size_t)tail : 0;
    if (t.rows > 0)
        *after = reply_unsigned(&t, t.rows - 1, "number");
    return print_events(v, &t, from);
}

static int run_events(const struct logs_options *o, const char *who) {
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    uint64_t after = 0;
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    int code = show_events(&v, who, o->tail, &after);
    bool shown = code == 0;
    while (code == 0 && o->follow) {
        (void)poll(NULL, 0, FOLLOW_MS);
        code = show_events(&v, who, ALL, &after);
    }
    if (code >= 0)
        return code;
    /* that it was removed is the last that there is to follow */
    return shown && v.err.code == CAY_NOT_FOUND ? 0 : verb_fail(&v.err);
}

/* ---- what commands printed ---- */

struct printed {
    const struct logs_options *o;
    const char *sandbox;
    char session[WIRE_NAME_MAX + 1];
    uint64_t number; /* 0: all */
    uint64_t *numbers;
    size_t count;
};

/* "SESSION" or "SESSION/NUMBER". */
static int parse_session(const char *text, struct printed *ret, struct cay_error *err) {
    size_t len = strcspn(text, "/");
    if (len > WIRE_NAME_MAX)
        return error_set(err, CAY_NOT_FOUND, "no session has a name as long as '%.60s…'", text);
    memcpy(ret->session, text, len);
    ret->session[len] = '\0';
    if (text[len] == '\0' ||
        (str_to_u64(text + len + 1, UINT64_MAX, &ret->number) == 0 && ret->number > 0))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "'%.32s' is not the number of a command", text + len + 1);
    return error_remedy(err, "see 'cay session status'");
}

static int add_number(void *arg, const struct wire_session_command *c, struct cay_error *err) {
    struct printed *x = arg;
    uint64_t *more = reallocarray(x->numbers, x->count + 1, sizeof *more);
    if (more == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    x->numbers = more;
    if (x->number == 0 || x->number == c->number)
        more[x->count++] = c->number;
    return 0;
}

static int find_commands(struct printed *x, struct session_verb *v) {
    int r = session_open(v, x->sandbox);
    if (r == 0)
        r = wire_session_status(&v->call, x->session, add_number, x, &v->err);
    if (r < 0 || x->count > 0 || x->number == 0)
        return r;
    error_set(&v->err, CAY_NOT_FOUND, "session '%s' has kept no command %llu", x->session,
              (unsigned long long)x->number);
    return error_remedy(&v->err, "see 'cay session status %.60s %s'", x->sandbox, x->session);
}

/* Each is an operation of its own, and so a connection. */
static int carry(const struct printed *x, uint64_t number, bool follow,
                 struct exec_streams *streams, struct session_verb *v) {
    struct exec_outcome outcome;
    session_close(v);
    int r = session_open(v, x->sandbox);
    if (r == 0)
        r = wire_session_logs(&v->call, x->session, number, 0, 0, follow, &v->err);
    const struct follow f = session_follow(v, x->sandbox, x->session);
    memset(streams->written, 0, sizeof streams->written); /* of this command */
    if (r < 0 || !follow)
        return r < 0 ? r : exec_carry(v->call.fd, streams, 0, &outcome, &v->err);
    return follow_command(&f, streams, &outcome, &v->err);
}

static int stream_all(const struct printed *x, struct session_verb *v) {
    struct exec_streams streams = {.in = -1, .out = {STDOUT_FILENO, STDERR_FILENO}, .signals = -1};
    int r = 0;
    for (size_t i = 0; r == 0 && i < x->count; i++)
        r = carry(x, x->numbers[i], x->o->follow, &streams, v);
    return r;
}

/* The last lines of what was captured; an unfinished one is a line too. */
static int print_tail(const struct buf *b, int64_t lines, int fd) {
    size_t at = b->len;
    if (at > 0 && b->data[at - 1] == '\n')
        at--;
    while (at > 0 && !(b->data[at - 1] == '\n' && --lines == 0))
        at--;
    return b->len > 0 ? fd_write_all(fd, b->data + at, b->len - at) : 0;
}

/* From the last command backwards would need their ends first: all of it is looked at. */
static int print_tails(const struct printed *x, struct session_verb *v) {
    struct exec_streams streams = {.in = -1,
                                   .out = {-1, -1},
                                   .captured = {BUF_INIT(CAPTURED_MAX), BUF_INIT(CAPTURED_MAX)},
                                   .signals = -1};
    int r = 0;
    for (size_t i = 0; r == 0 && i < x->count; i++)
        r = carry(x, x->numbers[i], false, &streams, v);
    if (r == 0 && x->o->tail > 0) {
        (void)print_tail(&streams.captured[0], x->o->tail, STDOUT_FILENO);
        (void)print_tail(&streams.captured[1], x->o->tail, STDERR_FILENO);
    }
    buf_free(&streams.captured[0]);
    buf_free(&streams.captured[1]);
    return r;
}

static int check(const struct logs_options *o, struct cay_error *err) {
    if (o->follow && o->tail != ALL) {
        error_set(err, CAY_INVALID_ARGUMENT, "--tail and --follow together are for sandboxes only");
        return error_remedy(err, "leave one of them away for the output of a session");
    }
    if (o->common.output != OUTPUT_JSON)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the output of commands is bytes, not JSON");
    return error_remedy(err, "leave '-o json' away, or see 'cay session status -o json'");
}

static int run_output(const struct logs_options *o, const char *sandbox, const char *session) {
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    struct printed x = {.o = o, .sandbox = sandbox};
    int r = check(o, &v.err);
    if (r == 0)
        r = parse_session(session, &x, &v.err);
    if (r == 0)
        r = find_commands(&x, &v);
    if (r == 0)
        r = o->tail == ALL ? stream_all(&x, &v) : print_tails(&x, &v);
    free(x.numbers);
    return r < 0 ? session_fail(&v, 0) : 0;
}

/* ---- the verb ---- */

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return argc > 1 ? run_output(values, argv[0], argv[1]) : run_events(values, argv[0]);
}

static const struct logs_options defaults = {.tail = ALL};

const struct opt_command cli_logs = {
    .name = "logs",
    .path = "cay logs",
    .synopsis = "[OPTIONS] SANDBOX [SESSION[/COMMAND]]",
    .summary = "show what became of a sandbox, or what its sessions printed",
    .help = "Of a sandbox: a line for each state that it came into, and why: created, started, "
            "stopped because nobody used it, out of memory. The last 200 are kept. As JSON each "
            "line is an object.\n\n"
            "Of a session: what its commands have printed, oldest first, standard output and "
            "standard error to ours; or of one command, by its number. --tail counts the lines of "
            "each stream.",
    .examples = "cay logs lab\n"
                "cay logs -f lab\n"
                "cay logs --tail 20 lab build\n"
                "cay logs -f lab build/3\n",
    .group = CLI_SANDBOXES,
    .options = options,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = 2,
    .values_size = sizeof(struct logs_options),
    .defaults = &defaults,
    .run = run,
};
