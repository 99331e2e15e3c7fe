/* EXEC: a session of its own for each command, which ends with it. */
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "remote/follow.h"
#include "remote/op_session.h"

enum { SCRIPT_MAX = 8 * 1024 * 1024 };

/* ---- what the shell reads ---- */

static void put_words(const struct op *o, enum wire_tag tag, struct buf *b) {
    for (const char *p = NULL; (p = wire_next_string(&o->message, tag, p)) != NULL;) {
        if (tag == WIRE_TAG_ENV && !op_is_own_env(o, p))
            continue;
        (void)buf_putc(b, ' ');
        toolbox_put_quoted(b, p);
    }
}

/* In the folder, with the environment; the process that runs says its number before it becomes the
 * command. */
static void put_command(const struct op *o, const char *pid_file, struct buf *b) {
    const char *cwd = op_text(o, WIRE_TAG_CWD);
    if (cwd[0] != '\0') {
        (void)buf_puts(b, "mkdir -p -- ");
        toolbox_put_quoted(b, cwd);
        (void)buf_puts(b, " 2>/dev/null; cd -- ");
        toolbox_put_quoted(b, cwd);
        (void)buf_puts(b, " || exit 125; ");
    }
    (void)buf_puts(b, "exec env");
    put_words(o, WIRE_TAG_ENV, b);
    (void)buf_printf(b, " sh -c 'echo $$ > \"$1\"; shift; exec \"$@\"' sh %s", pid_file);
    put_words(o, WIRE_TAG_ARG, b);
}

static void put_script(const struct op *o, const struct feed *feed, const char *pid_file,
                       struct buf *b) {
    if (feed->folder[0] == '\0') {
        (void)buf_puts(b, "( ");
        put_command(o, pid_file, b);
        (void)buf_puts(b, " ) </dev/null; ");
    } else {
        (void)buf_printf(b, "mkdir -p %s; { ", feed->folder);
        feed_put_loop(feed, b);
        (void)buf_puts(b, "; } 2>/dev/null | ( ( ");
        put_command(o, pid_file, b);
        (void)buf_printf(b, " ); c=$?; : > %s/end; exit $c ); ", feed->folder);
    }
    (void)buf_printf(b, "c=$?; rm -rf %s %s; (exit $c)", pid_file, feed->folder);
}

/* ---- doing it ---- */

static int start(struct follow *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf script = BUF_INIT(SCRIPT_MAX);
    put_script(f->op, f->feed, f->pid_file, &script);
    if (script.failed)
        return error_set(err, CAY_INVALID_ARGUMENT, "the command is too long");
    int r = follow_start(f, buf_text(&script), err);
    return r < 0 ? r : op_send(f->op, WIRE_STARTED, NULL, err);
}

/* What a command that was cut off could not remove itself. */
static void remove_traces(const struct follow *f) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    struct cay_error ignored;
    (void)buf_printf(&b, "rm -rf %s %s", f->pid_file, f->feed->folder);
    (void)toolbox_execute(&f->op->toolbox, buf_text(&b), NULL, &ignored); /* it may be gone */
}

int op_exec(struct op *o, struct cay_error *err) {
    struct cay_error ignored;
    char name[32], pid_file[64];
    struct feed feed;
    if (op_number(o, WIRE_TAG_TTY) != 0)
        return op_exec_tty(o, err);
    int r = op_make_name(name, err);
    if (r == 0)
        r = session_make(o, name, err);
    if (r < 0)
        return r;
    (void)snprintf(pid_file, sizeof pid_file, "/tmp/.%s.pid", name);
    struct follow f = {.op = o,
                       .session = name,
                       .feed = &feed,
                       .pid_file = pid_file,
                       .timeout_ms = (int64_t)MIN(op_number(o, WIRE_TAG_TIMEOUT_MS), INT64_MAX / 2),
                       .quiet_ms = (int64_t)MIN(op_number(o, WIRE_TAG_QUIET_MS), INT64_MAX / 2),
                       .output_max = op_number(o, WIRE_TAG_OUTPUT_MAX)};
    r = feed_begin(&feed, o, err);
    if (r == 0)
        r = start(&f, err);
    if (r == 0)
        r = follow_run(&f, err);
    /* input may have come after the command had removed its folder */
    bool cut = r < 0 || f.hung_up || f.reason != WIRE_REASON_EXIT || feed.count > 0;
    (void)session_end(o, name, &ignored); /* with what is left of the command */
    if (cut)
        remove_traces(&f);
    feed_free(&feed);
    return r < 0 ? r : follow_report(&f, err);
}
