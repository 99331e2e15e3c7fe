/* Sessions as a connection sees them: making one, and listing them. */
#include "init/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/files/files.h"
#include "init/spawn.h"
#include "init/user.h"

static const struct place_kind *kind_of(const struct wire_message *m) {
    return m->number[WIRE_TAG_KIND] == WIRE_SESSION_CONTEXT ? &place_context : &place_session;
}

int op_session_ask(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    return place_hand_over(kind_of(request), c, request, err);
}

/* ---- listing ---- */

struct listing {
    const struct op_conn *conn;
    uint64_t count;
    struct cay_error *err;
};

static int report_name(void *arg, const char *name, int keeper) {
    (void)keeper;
    struct listing *l = arg;
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    wire_put_string(&b, WIRE_TAG_NAME, name);
    l->count++;
    return files_send(l->conn, WIRE_ENTRY, &b, l->err);
}

/* What its keeper says of itself. */
static int report_context(void *arg, const char *name, const struct wire_message *m) {
    static const enum wire_tag numbers[] = {WIRE_TAG_MTIME_MS, WIRE_TAG_RUNNING, WIRE_TAG_BUSY};
    static const enum wire_tag strings[] = {WIRE_TAG_TEXT, WIRE_TAG_CWD};
    struct listing *l = arg;
    _cleanup_(buf_free) struct buf b = BUF_INIT(16 * 1024);
    wire_put_string(&b, WIRE_TAG_NAME, name);
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        if (m->string[strings[i]] != NULL)
            wire_put_string(&b, strings[i], m->string[strings[i]]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        wire_put_number(&b, numbers[i], m->number[numbers[i]]);
    l->count++;
    return files_send(l->conn, WIRE_ENTRY, &b, l->err);
}

int op_session_list(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    enum { ANSWER_MS = 30000 }; /* all together; at once, unless the machine stands still */
    struct listing l = {.conn = c, .err = err};
    int r = kind_of(request) == &place_session
                ? place_each(&place_session, report_name, &l)
                : place_ask_all(&place_context, WIRE_OP_SESSION_LIST, clock_ms() + ANSWER_MS,
                                report_context, &l, err);
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
    s->io = place_make_folder(s->io_place, s->io_prefix, s->at.name, s->user);
    if (s->io < 0) {
        fd_close(&s->io_place);
        return s->io;
    }
    return str_format(s->io_path, sizeof s->io_path, "%s/%s%s", path, s->io_prefix, s->at.name);
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
    error_sys(err, -r, "making the folder of %s '%s'", s->at.kind->word, s->at.name);
    return error_remedy(err, "/dev/shm, /run or /tmp must be writable in the sandbox");
}

/* PROGRAM says how many arguments, the last ones, are those of the program that came along. Where
 * none could come, what is left is started. */
static int take_program(const struct op_conn *c, const struct wire_message *m,
                        struct op_strings *driver, struct session_start *s, struct cay_error *err) {
    uint64_t count = m->number[WIRE_TAG_PROGRAM], all = m->count[WIRE_TAG_ARG];
    if (count == 0)
        return 0;
    if (count >= all || count > SESSION_WOKEN_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "a program without a driver in its place");
    memcpy(s->woken, driver->v + all - count, (size_t)count * sizeof *s->woken);
    driver->v[all - count] = NULL;
    s->program = MAX(c->came[0], 0);
    return 0;
}

/* The keeper is a child of this process only until that ends; then it is PID 1's. */
int op_session_create(struct op_conn *c, const struct wire_message *m, struct cay_error *err) {
    const struct place_kind *kind = kind_of(m);
    struct session_start s = {.at = PLACE_INIT(kind),
                              .io_place = -1,
                              .io_prefix = kind == &place_session ? SESSION_IO : CONTEXT_IO,
                              .io = -1,
                              .user = c->user,
                              .label = m->string[WIRE_TAG_TEXT]};
    int r = place_take_name(&s.at, m, err);
    if (r < 0)
        return r;
    _cleanup_(op_strings_free) struct op_strings env = {0}, driver = {0};
    if (op_environment(c, m, &env) < 0 || op_arguments(m, &driver) < 0)
        return error_sys(err, ENOMEM, "making a session");
    s.env = env.v;
    s.driver = m->count[WIRE_TAG_ARG] > 0 ? driver.v : NULL;
    s.cwd = m->string[WIRE_TAG_CWD] != NULL ? m->string[WIRE_TAG_CWD] : c->home;
    s.shell = m->string[WIRE_TAG_PATH];
    r = take_program(c, m, &driver, &s, err);
    if (r == 0)
        r = make_session(&s, err);
    if (r < 0)
        return r;
    pid_t pid = spawn_fork();
    if (pid < 0) {
        r = spawn_fail(errno, err);
        place_remove_folder(s.io_place, s.io_prefix, s.at.name, s.user);
        place_remove(&s.at);
        return r;
    }
    if (pid > 0)
        return 0;
    fd_close(&c->tell);
    _exit(keeper_run(&s, c->fd));
}
