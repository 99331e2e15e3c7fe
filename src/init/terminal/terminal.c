/* Terminals as a connection sees them: making one, and listing them. */
#include "init/terminal/terminal.h"

#include <errno.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/files/files.h"
#include "init/user.h"

/* The first: for all together; at once, unless the machine stands still. */
enum { ANSWER_MS = 30000, ROWS = 24, COLS = 80 };

int op_terminal_ask(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    return place_hand_over(&place_terminal, c, request, err);
}

/* ---- listing ---- */

struct listing {
    const struct op_conn *conn;
    uint64_t count;
    struct cay_error *err;
};

/* The keeper's answer goes on as it is. */
static int report(void *arg, const char *name, const struct wire_message *m) {
    struct listing *l = arg;
    (void)name;
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_DATA_MAX);
    (void)buf_append(&b, m->data, m->len);
    l->count++;
    return files_send(l->conn, WIRE_ENTRY, &b, l->err);
}

int op_terminal_list(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    (void)request;
    struct listing l = {.conn = c, .err = err};
    int r = place_ask_all(&place_terminal, WIRE_OP_TERMINAL_LIST, clock_ms() + ANSWER_MS, report,
                          &l, err);
    if (r < 0)
        return r;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_COUNT, l.count);
    return files_send(c, WIRE_DONE, &b, err);
}

/* ---- making one ---- */

static unsigned short size_of(uint64_t wish, unsigned short otherwise) {
    return wish == 0 || wish > TERMINAL_SIZE_MAX ? otherwise : (unsigned short)wish;
}

static int start_keeper(struct op_conn *c, struct terminal_start *s, struct cay_error *err) {
    int r = place_make(&s->at, err);
    if (r < 0)
        return r;
    pid_t pid = spawn_fork();
    if (pid < 0) {
        r = spawn_fail(errno, err);
        place_remove(&s->at);
        return r;
    }
    if (pid > 0)
        return 0;
    fd_close(&c->tell);
    _exit(terminal_run(s, c->fd));
}

int op_terminal_create(struct op_conn *c, const struct wire_message *m, struct cay_error *err) {
    static const char *const shell[] = {
        "sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l", NULL};
    struct terminal_start s = {.at = PLACE_INIT(&place_terminal)};
    int r = place_take_name(&s.at, m, err);
    if (r < 0)
        return r;
    _cleanup_(op_strings_free) struct op_strings argv = {0}, env = {0};
    if (op_arguments(m, &argv) < 0 || op_environment(c, m, &env) < 0)
        return error_sys(err, ENOMEM, "making a terminal");
    s.is_shell = argv.v[0] == NULL;
    s.is_lazy = m->number[WIRE_TAG_LAZY] != 0;
    s.program = (struct spawn_request){
        .argv = s.is_shell ? shell : argv.v,
        .env = env.v,
        .cwd = m->string[WIRE_TAG_CWD] != NULL ? m->string[WIRE_TAG_CWD] : c->home,
        .user = c->user,
        .tty = true,
        .rows = size_of(m->number[WIRE_TAG_ROWS], ROWS),
        .cols = size_of(m->number[WIRE_TAG_COLS], COLS),
    };
    return start_keeper(c, &s, err);
}
