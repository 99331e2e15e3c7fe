/* A connection to the init of a sandbox, for which a Daytona's toolbox does the work. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "client/daemon.h"
#include "remote/gate.h"
#include "remote/op.h"

/* ---- what operations share ---- */

const char *op_text(const struct op *o, enum wire_tag tag) {
    const char *text = o->message.string[tag];
    return text != NULL ? text : "";
}

uint64_t op_number(const struct op *o, enum wire_tag tag) {
    return o->message.number[tag];
}

int op_send(struct op *o, enum wire_type type, const struct buf *fields, struct cay_error *err) {
    int r = wire_send(o->fd, type, fields);
    return r < 0 ? error_sys(err, -r, "answering") : 0;
}

int op_done(struct op *o, struct cay_error *err) {
    return op_send(o, WIRE_DONE, NULL, err);
}

int op_next(struct op *o, struct wire_frame *f, struct cay_error *err) {
    int r = wire_receive(&o->reader, o->fd, f);
    return r < 0 ? error_sys(err, -r, "reading a request") : r;
}

bool op_has_frame(struct op *o) {
    struct pollfd p = {.fd = o->fd, .events = POLLIN};
    return o->reader.in.len > o->reader.used || poll(&p, 1, 0) > 0;
}

bool op_is_own_env(const struct op *o, const char *entry) {
    if (str_starts(entry, "HOSTNAME="))
        return !str_equal(entry + 9, o->toolbox.name);
    return !str_equal(entry, "LANG=C.UTF-8") &&
           !str_equal(entry, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

int op_make_name(char out[static 32], struct cay_error *err) {
    char id[ID_SIZE];
    int r = id_new(id, err);
    (void)snprintf(out, 32, "cay-%s", id);
    return r;
}

/* ---- which one ---- */

static const struct {
    enum wire_op op;
    op_fn *run;
} operations[] = {
    {WIRE_OP_PING, op_done},
    {WIRE_OP_EXEC, op_exec},
    {WIRE_OP_STAT, op_stat},
    {WIRE_OP_READ, op_read},
    {WIRE_OP_WRITE, op_write},
    {WIRE_OP_TAR_IN, op_tar_in},
    {WIRE_OP_TAR_OUT, op_tar_out},
    {WIRE_OP_SESSION_CREATE, op_session_create},
    {WIRE_OP_SESSION_LIST, op_session_list},
    {WIRE_OP_SESSION_DELETE, op_session_delete},
    {WIRE_OP_SESSION_EXEC, op_session_exec},
    {WIRE_OP_SESSION_STATUS, op_session_status},
    {WIRE_OP_SESSION_LOGS, op_session_logs},
    {WIRE_OP_SESSION_INPUT, op_session_input},
    {WIRE_OP_TERMINAL_CREATE, op_terminal_create},
    {WIRE_OP_TERMINAL_LIST, op_terminal_list},
    {WIRE_OP_TERMINAL_ATTACH, op_terminal_attach},
    {WIRE_OP_TERMINAL_RESIZE, op_terminal_resize},
    {WIRE_OP_TERMINAL_KILL, op_terminal_kill},
    {WIRE_OP_TERMINAL_DELETE, op_terminal_delete},
};

static int run_operation(struct op *o, struct cay_error *err) {
    if (op_text(o, WIRE_TAG_USER)[0] != '\0')
        return gate_unsupported(err, "does everything as the sandbox's own user",
                                "leave --user away");
    if (op_number(o, WIRE_TAG_KIND) != WIRE_SESSION_SHELL)
        return gate_unsupported(err, "keeps no contexts for this client",
                                "use its own interface for them, or a session");
    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        if (operations[i].op == op_number(o, WIRE_TAG_OP))
            return operations[i].run(o, err);
    return gate_unsupported(err, "has nothing like it", "use a daemon of cay");
}

/* The request is kept while frames behind it are read. */
static void serve(struct op *o) {
    struct cay_error err = {0};
    struct wire_frame f;
    _cleanup_(buf_free) struct buf kept = BUF_INIT(WIRE_MESSAGE_MAX + 1);
    if (op_next(o, &f, &err) <= 0)
        return;
    int r = f.type != WIRE_REQUEST || buf_append(&kept, f.data, f.len) < 0 ? -EPROTO : 0;
    if (r == 0)
        r = wire_parse(kept.data, kept.len, &o->message);
    if (r < 0)
        r = error_sys(&err, -r, "reading a request");
    else
        r = run_operation(o, &err);
    if (r < 0)
        (void)wire_send_error(o->fd, &err); /* who has gone does not hear it */
}

static int agree(const struct gate *g, const struct toolbox *t, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(16 * 1024);
    (void)buf_puts(&b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                       "Upgrade: cay-init\r\nX-Cay-Work-Dir: ");
    daemon_put_escaped(&b, t->work_dir);
    (void)buf_puts(&b, "\r\nX-Cay-Name: ");
    daemon_put_escaped(&b, t->name);
    (void)buf_puts(&b, "\r\n\r\n");
    int r = b.failed ? -ENOBUFS : fd_write_all(g->request->fd, b.data, b.len);
    return r < 0 ? error_sys(err, -r, "answering") : 0;
}

int gate_connect(struct gate *g, struct cay_error *err) {
    struct op o = {.fd = g->request->fd, .reader = WIRE_READER_INIT};
    int r = toolbox_open(g->world, g->who, &o.toolbox, err);
    if (r == 0)
        r = toolbox_find_work_dir(&o.toolbox, err);
    o.toolbox.name[NAME_MAX_LEN] = '\0'; /* cay has no longer ones */
    if (r == 0)
        r = agree(g, &o.toolbox, err);
    if (r < 0)
        return r;
    g->is_over = true;
    serve(&o);
    wire_reader_free(&o.reader);
    return 0;
}
