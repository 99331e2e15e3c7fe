/* Sessions as a connection sees them: making one, finding them, and handing a connection over to
 * the keeper. */
#include "init/session.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files.h"
#include "init/user.h"

static const char *const places[] = SESSION_PLACES;

void session_act_as(const struct user *u) {
    (void)setfsgid(u != NULL ? u->gid : getegid());
    (void)setfsuid(u != NULL ? u->uid : geteuid());
}

/* ---- names ---- */

static bool is_name_char(char c, bool first) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return plain || (!first && c != '\0' && strchr("._-", c) != NULL);
}

static int take_name(const struct wire_message *m, char name[static SESSION_NAME_MAX + 1],
                     struct cay_error *err) {
    const char *text = m->string[WIRE_TAG_NAME];
    bool good = text != NULL && text[0] != '\0' && str_copy(name, SESSION_NAME_MAX + 1, text) == 0;
    for (size_t i = 0; good && text[i] != '\0'; i++)
        good = is_name_char(text[i], i == 0);
    if (good)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "that is no name of a session");
    return error_remedy(err,
                        "use up to %d letters, digits, '.', '_' and '-', a letter or digit first",
                        SESSION_NAME_MAX);
}

static int no_session(const char *name, struct cay_error *err) {
    error_set(err, CAY_NOT_FOUND, "there is no session '%s' in the sandbox", name);
    return error_remedy(err, "see 'cay session ls'; sessions end when the sandbox stops");
}

/* ---- finding a keeper ---- */

/* Others in the sandbox may make sockets of that name; a connection is not for them. */
static bool is_keeper(int fd) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

/* A connection to the keeper of s-NAME, or -errno. */
static int connect_keeper(const char *place, const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (str_format(a.sun_path, sizeof a.sun_path, "%s/s-%s/" SESSION_SOCKET, place, name) < 0)
        return -ENAMETOOLONG;
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof a) < 0)
        return -errno;
    return is_keeper(fd) ? TAKE_FD(fd) : -EPERM;
}

static int find_keeper(const char *name) {
    int fd = -ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(places) && fd < 0; i++)
        fd = connect_keeper(places[i], name);
    return fd;
}

/* Everything that came on the connection so far goes along, the request first. */
int op_session_ask(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char name[SESSION_NAME_MAX + 1];
    int r = take_name(request, name, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int keeper = find_keeper(name);
    if (keeper < 0)
        return no_session(name, err);
    uint32_t len = htole32((uint32_t)c->reader->in.len);
    r = fd_send(keeper, &len, sizeof len, &c->fd, 1);
    if (r == 0)
        r = fd_write_all(keeper, c->reader->in.data, c->reader->in.len);
    return r < 0 ? error_sys(err, -r, "handing over to the session '%s'", name) : 0;
}

/* ---- listing ---- */

static int list_place(const struct op_conn *c, const char *place, uint64_t *count,
                      struct cay_error *err) {
    _cleanup_(closedirp) DIR *d = opendir(place);
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (!str_starts(e->d_name, "s-") || strlen(e->d_name) > SESSION_NAME_MAX + 2)
            continue;
        _cleanup_(closep) int keeper = connect_keeper(place, e->d_name + 2);
        if (keeper < 0)
            continue;
        _cleanup_(buf_free) struct buf b = BUF_INIT(256);
        wire_put_string(&b, WIRE_TAG_NAME, e->d_name + 2);
        int r = files_send(c, WIRE_ENTRY, &b, err);
        if (r < 0)
            return r;
        ++*count;
    }
    return 0;
}

int op_session_list(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    (void)request;
    uint64_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int r = list_place(c, places[i], &count, err);
        if (r < 0)
            return r;
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_COUNT, count);
    return files_send(c, WIRE_DONE, &b, err);
}

/* ---- making one ---- */

/* Everybody may make folders there, as in /tmp: cay-init has no right over root's. */
static int open_place(const char *path) {
    static const struct user root;
    session_act_as(&root);
    if (mkdir(path, 0700) == 0)
        (void)chmod(path, 01777); /* what is missing then shows in the next step */
    session_act_as(NULL);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Makes a folder in the place for u, without what a session that ended with the sandbox left. */
static int make_folder(int place, const char *prefix, const char *name, const struct user *u) {
    char path[SESSION_PATH_MAX];
    if (str_format(path, sizeof path, "%s%s", prefix, name) < 0)
        return -ENAMETOOLONG;
    session_act_as(u);
    int fd = path_remove_tree(place, path);
    if (fd == 0)
        fd = mkdirat(place, path, 0700) < 0 ? -errno : 0;
    if (fd == 0) {
        fd = openat(place, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    session_act_as(NULL);
    return fd;
}

static int make_io_in(const char *path, struct session_start *s) {
    s->io_place = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->io_place < 0)
        return -errno;
    s->io = make_folder(s->io_place, SESSION_IO, s->name, s->user);
    if (s->io < 0) {
        fd_close(&s->io_place);
        return s->io;
    }
    return str_format(s->io_path, sizeof s->io_path, "%s/" SESSION_IO "%s", path, s->name);
}

/* One at a time: what looks like a leftover may be somebody's beginning. */
static int make_in(const char *place, struct session_start *s) {
    s->place = open_place(place);
    if (s->place < 0)
        return s->place;
    if (flock(s->place, LOCK_EX) < 0)
        return -errno;
    _cleanup_(closep) int existing = find_keeper(s->name);
    if (existing >= 0)
        return -EEXIST;
    s->folder = make_folder(s->place, "s-", s->name, NULL);
    if (s->folder < 0)
        return s->folder;
    int r = make_io_in(SESSION_MEMORY, s);
    return r < 0 ? make_io_in(place, s) : 0;
}

static int listen_in(const char *place, struct session_start *s) {
    enum { BACKLOG = 64 };
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (str_format(a.sun_path, sizeof a.sun_path, "%s/s-%s/" SESSION_SOCKET, place, s->name) < 0)
        return -ENAMETOOLONG;
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0 || bind(s->listener, (const struct sockaddr *)&a, sizeof a) < 0 ||
        listen(s->listener, BACKLOG) < 0)
        return -errno;
    return 0;
}

static int make_session(struct session_start *s, struct cay_error *err) {
    int r = -ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(places) && r < 0 && r != -EEXIST; i++) {
        r = make_in(places[i], s);
        if (r == 0)
            r = listen_in(places[i], s);
        if (s->place >= 0)
            (void)flock(s->place, LOCK_UN); /* the keeper has it open for all its life */
    }
    if (r == 0)
        return 0;
    if (r == -EEXIST) {
        error_set(err, CAY_CONFLICT, "there is a session '%s' already", s->name);
        return error_remedy(err, "choose another name, or delete it with 'cay session rm'");
    }
    error_sys(err, -r, "making the folder of session '%s'", s->name);
    return error_remedy(err, "/run or /tmp must be writable in the sandbox, with room left");
}

/* The keeper is a child of this process only until that ends; then it is PID 1's. */
int op_session_create(struct op_conn *c, const struct wire_message *m, struct cay_error *err) {
    struct session_start s = {
        .place = -1, .io_place = -1, .folder = -1, .io = -1, .listener = -1, .user = c->user};
    int r = take_name(m, s.name, err);
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
    if (pid < 0)
        return error_errno(err, "starting the keeper of a session");
    if (pid > 0)
        return 0;
    fd_close(&c->stop);
    _exit(keeper_run(&s, c->fd));
}
