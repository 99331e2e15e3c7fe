/* Sessions as a connection sees them: making one, and listing them. */
#include "init/session.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/files.h"
#include "init/spawn.h"
#include "init/user.h"

int op_session_ask(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    return place_hand_over(&place_session, c, request, err);
}

/* ---- listing ---- */

struct listing {
    const struct op_conn *conn;
    uint64_t count;
    struct cay_error *err;
};

static int tell_name(void *arg, const char *name, int keeper) {
    (void)keeper;
    struct listing *l = arg;
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    wire_put_string(&b, WIRE_TAG_NAME, name);
    l->count++;
    return files_send(l->conn, WIRE_ENTRY, &b, l->err);
}

int op_session_list(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    (void)request;
    struct listing l = {.conn = c, .err = err};
    int r = place_each(&place_session, tell_name, &l);
    if (r < 0)
        return r;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_COUNT, l.count);
    return files_send(c, WIRE_DONE, &b, err);
}

/* ---- making one ---- */

static int make_io_in(const char *path, struct session_start *s) {
    s->io_place = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->io_place < 0)
        return -errno;
    s->io = place_make_folder(s->io_place, SESSION_IO, s->at.name, s->user);
    if (s->io < 0) {
        fd_close(&s->io_place);
        return s->io;
    }
    return str_format(s->io_path, sizeof s->io_path, "%s/" SESSION_IO "%s", path, s->at.name);
}

static int make_session(struct session_start *s, struct cay_error *err) {
    int r = place_make(&s->at, err);
    if (r < 0)
        return r;
    r = make_io_in(SESSION_MEMORY, s);
    if (r < 0)
        r = make_io_in(s->at.path, s);
    if (r == 0)
        return 0;
    place_remove(&s->at);
    error_sys(err, -r, "making the folder of session '%s'", s->at.name);
    return error_remedy(err, "/dev/shm, /run or /tmp must be writable in the sandbox");
}

/* The keeper is a child of this process only until that ends; then it is PID 1's. */
int op_session_create(struct op_conn *c, const struct wire_message *m, struct cay_error *err) {
    struct session_start s = {
        .at = PLACE_INIT(&place_session), .io_place = -1, .io = -1, .user = c->user};
    int r = place_take_name(&s.at, m, err);
    if (r < 0)
        return r;
    _cleanup_(freep) const char **env = op_environment(c, m);
    if (env == NULL)
        return error_sys(err, ENOMEM, "making a session");
    s.env = env;
    s.cwd = m->string[WIRE_TAG_CWD] != NULL ? m->string[WIRE_TAG_CWD] : c->home;
    s.shell = m->string[WIRE_TAG_PATH];
    r = make_session(&s, err);
    if (r < 0)
        return r;
    pid_t pid = fork();
    if (pid < 0) {
        r = spawn_fail(errno, err);
        place_remove_folder(s.io_place, SESSION_IO, s.at.name, s.user);
        place_remove(&s.at);
        return r;
    }
    if (pid > 0)
        return 0;
    fd_close(&c->stop);
    _exit(keeper_run(&s, c->fd));
}
