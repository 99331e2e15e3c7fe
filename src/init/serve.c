#include "init/serve.h"

#include <errno.h>

#include "base/error.h"
#include "base/fd.h"
#include "init/op.h"
#include "init/user.h"

OP_ROOM char serve_room[WIRE_DATA_MAX + 4096]; /* for the first bytes: most often all of them */

static const struct op ops[] = {
    {WIRE_OP_PING, "ping", op_ping, false},
    {WIRE_OP_EXEC, "exec", op_exec, true},
    {WIRE_OP_STAT, "stat", op_stat, false},
    {WIRE_OP_LIST, "list", op_list, false},
    {WIRE_OP_READ, "read", op_read, false},
    {WIRE_OP_WRITE, "write", op_write, false},
    {WIRE_OP_MKDIR, "mkdir", op_mkdir, false},
    {WIRE_OP_MOVE, "move", op_move, false},
    {WIRE_OP_REMOVE, "remove", op_remove, false},
    {WIRE_OP_CHMOD, "chmod", op_chmod, false},
    {WIRE_OP_CHOWN, "chown", op_chown, false},
    {WIRE_OP_FIND, "find", op_find_names, false},
    {WIRE_OP_SEARCH, "search", op_search, false},
    {WIRE_OP_REPLACE, "replace", op_replace, false},
    {WIRE_OP_TAR_IN, "tar-in", op_tar_in, false},
    {WIRE_OP_TAR_OUT, "tar-out", op_tar_out, false},
    {WIRE_OP_DIAL, "dial", op_dial, false},
    {WIRE_OP_SHUTDOWN, "shutdown", op_shutdown, true},
    {WIRE_OP_SESSION_CREATE, "session-create", op_session_create, true},
    {WIRE_OP_SESSION_LIST, "session-list", op_session_list, true},
    {WIRE_OP_SESSION_DELETE, "session-delete", op_session_ask, true},
    {WIRE_OP_SESSION_EXEC, "session-exec", op_session_ask, true},
    {WIRE_OP_SESSION_STATUS, "session-status", op_session_ask, true},
    {WIRE_OP_SESSION_LOGS, "session-logs", op_session_ask, true},
    {WIRE_OP_SESSION_INPUT, "session-input", op_session_ask, true},
    {WIRE_OP_TERMINAL_CREATE, "terminal-create", op_terminal_create, true},
    {WIRE_OP_TERMINAL_LIST, "terminal-list", op_terminal_list, true},
    {WIRE_OP_TERMINAL_ATTACH, "terminal-attach", op_terminal_ask, true},
    {WIRE_OP_TERMINAL_RESIZE, "terminal-resize", op_terminal_ask, true},
    {WIRE_OP_TERMINAL_KILL, "terminal-kill", op_terminal_ask, true},
    {WIRE_OP_TERMINAL_DELETE, "terminal-delete", op_terminal_ask, true},
    {WIRE_OP_ACTIVITY, "activity", op_activity, true},
    {WIRE_OP_SESSION_SIGNAL, "session-signal", op_session_ask, true},
    {WIRE_OP_LISTEN, "listen", op_listen, true},
};

const struct op *op_find(uint64_t number) {
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if ((uint64_t)ops[i].number == number)
            return &ops[i];
    return NULL;
}

int op_ping(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    (void)request;
    int r = wire_send(c->fd, WIRE_DONE, NULL);
    return r < 0 ? error_sys(err, -r, "answering") : 0;
}

static int check_version(const struct wire_message *request, struct cay_error *err) {
    uint64_t version = request->number[WIRE_TAG_VERSION];
    if (version == WIRE_VERSION)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "protocol version %llu, this sandbox speaks %d",
              (unsigned long long)version, WIRE_VERSION);
    return error_remedy(err, "restart the sandbox with the installed version of cay");
}

static int serve(struct op_conn *c, struct user *user, const struct wire_frame *frame,
                 struct cay_error *err) {
    struct wire_message request;
    int r = frame->type != WIRE_REQUEST ? -EPROTO : wire_parse(frame->data, frame->len, &request);
    if (r < 0)
        return r == -ENOTSUP ? wire_refuse_foreign(err)
                             : error_set(err, CAY_INVALID_ARGUMENT, "malformed request");
    r = check_version(&request, err);
    if (r < 0)
        return r;
    const struct op *op = op_find(request.number[WIRE_TAG_OP]);
    if (op == NULL)
        return wire_refuse_foreign(err);
    const char *name = request.string[WIRE_TAG_USER];
    r = name != NULL ? user_lookup(name, user, err) : 0;
    if (r < 0)
        return r;
    c->uid = user->uid;
    c->gid = user->gid;
    c->home = user->home;
    c->user = user;
    if (!op->stay_init) {
        int sys = user_become(user);
        if (sys < 0)
            return error_sys(err, -sys, "becoming user %u", user->uid);
    }
    return op->run(c, &request, err);
}

int serve_connection(int fd, int tell, unsigned proxy_port) {
    struct wire_reader reader = WIRE_READER_INIT;
    reader.in = BUF_OVER(serve_room, reader.in.max);
    struct op_conn c = {
        .fd = fd, .reader = &reader, .came = {-1, -1}, .tell = tell, .proxy_port = proxy_port};
    struct user user = {.home = "/root"}; /* root, who needs no looking up */
    struct wire_frame frame;
    struct cay_error err = {0};
    /* Only what comes with the first bytes of a request may be a descriptor. */
    if (wire_reader_fill_with(&reader, fd, c.came) <= 0 || wire_receive(&reader, fd, &frame) <= 0)
        return 1;
    if (serve(&c, &user, &frame, &err) >= 0)
        return 0;
    (void)wire_send_error(fd, &err); /* the host is gone: nobody is left to tell */
    return 1;
}
