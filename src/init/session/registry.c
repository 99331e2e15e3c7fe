#include "init/session/registry.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/user.h"

enum {
    HANDED_MAX = WIRE_HEADER_SIZE + WIRE_MESSAGE_MAX + WIRE_DATA_MAX,
    TERMINALS_MAX = 32,
    CONTEXTS_MAX = 64
};

static const char *const paths[] = {"/run/cay-session", "/tmp/.cay-session"};

const struct place_kind place_session = {.prefix = "s-", .word = "session"};
const struct place_kind place_context = {.prefix = "c-", .word = "context", .max = CONTEXTS_MAX};
const struct place_kind place_terminal = {.prefix = "t-", .word = "terminal", .max = TERMINALS_MAX};

void place_act_as(const struct user *u) {
    (void)setfsgid(u != NULL ? u->gid : getegid());
    (void)setfsuid(u != NULL ? u->uid : geteuid());
}

/* ---- names ---- */

static bool is_name_char(char c, bool first) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return plain || (!first && c != '\0' && strchr("._-", c) != NULL);
}

int place_take_name(struct place *p, const struct wire_message *m, struct cay_error *err) {
    const char *text = m->string[WIRE_TAG_NAME];
    bool good = text != NULL && text[0] != '\0' && str_copy(p->name, sizeof p->name, text) == 0;
    for (size_t i = 0; good && text[i] != '\0'; i++)
        good = is_name_char(text[i], i == 0);
    if (good)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "that is no name of a %s", p->kind->word);
    return error_remedy(err,
                        "use up to %d letters, digits, '.', '_' and '-', a letter or digit first",
                        PLACE_NAME_MAX);
}

/* ---- finding a keeper ---- */

/* Others in the sandbox may make sockets of that name; a connection is not for them. */
static bool is_ours(int fd) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

static int socket_address(const char *path, const struct place_kind *kind, const char *name,
                          struct sockaddr_un *a) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    return str_format(a->sun_path, sizeof a->sun_path, "%s/%s%s/socket", path, kind->prefix, name);
}

/* A connection to the keeper, or -errno. */
static int connect_keeper(const char *path, const struct place_kind *kind, const char *name) {
    struct sockaddr_un a;
    if (socket_address(path, kind, name, &a) < 0)
        return -ENAMETOOLONG;
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof a) < 0)
        return -errno;
    return is_ours(fd) ? TAKE_FD(fd) : -EPERM;
}

static int find_keeper(const struct place_kind *kind, const char *name) {
    int fd = -ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(paths) && fd < 0; i++)
        fd = connect_keeper(paths[i], kind, name);
    return fd;
}

static int each_in(const char *path, const struct place_kind *kind, place_fn *each, void *arg) {
    _cleanup_(closedirp) DIR *d = opendir(path);
    const struct dirent *e;
    size_t skip = strlen(kind->prefix);
    int r = 0;
    while (d != NULL && r >= 0 && (e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (!str_starts(e->d_name, kind->prefix) || strlen(e->d_name) > PLACE_NAME_MAX + skip)
            continue;
        _cleanup_(closep) int keeper = connect_keeper(path, kind, e->d_name + skip);
        if (keeper >= 0)
            r = each(arg, e->d_name + skip, keeper);
    }
    return r;
}

int place_each(const struct place_kind *kind, place_fn *each, void *arg) {
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(paths) && r >= 0; i++)
        r = each_in(paths[i], kind, each, arg);
    return r;
}

/* ---- making one ---- */

/* Everybody may make folders there, as in /tmp: cay-init has no right over root's. */
static int open_all(const char *path) {
    static const struct user root;
    place_act_as(&root);
    if (mkdir(path, 0700) == 0)
        (void)chmod(path, 01777); /* what is missing then shows in the next step */
    place_act_as(NULL);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int place_make_folder(int in, const char *prefix, const char *name, const struct user *u) {
    char path[PLACE_PATH_MAX];
    if (str_format(path, sizeof path, "%s%s", prefix, name) < 0)
        return -ENAMETOOLONG;
    place_act_as(u);
    int fd = path_remove_tree(in, path);
    if (fd == 0)
        fd = mkdirat(in, path, 0700) < 0 ? -errno : 0;
    if (fd == 0) {
        fd = openat(in, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    place_act_as(NULL);
    return fd;
}

void place_remove_folder(int in, const char *prefix, const char *name, const struct user *u) {
    char path[PLACE_PATH_MAX];
    if (str_format(path, sizeof path, "%s%s", prefix, name) < 0)
        return;
    place_act_as(u);
    (void)path_remove_tree(in, path); /* the sandbox may have done so itself */
    place_act_as(NULL);
}

void place_remove(const struct place *p) {
    place_remove_folder(p->all, p->kind->prefix, p->name, NULL);
}

static int listen_in(struct place *p) {
    enum { BACKLOG = 64 };
    struct sockaddr_un a;
    if (socket_address(p->path, p->kind, p->name, &a) < 0)
        return -ENAMETOOLONG;
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->listener < 0 || bind(p->listener, (const struct sockaddr *)&a, sizeof a) < 0 ||
        listen(p->listener, BACKLOG) < 0)
        return -errno;
    return 0;
}

static int count_one(void *arg, const char *name, int keeper) {
    (void)name, (void)keeper;
    ++*(unsigned *)arg;
    return 0;
}

static int check_free(const struct place *p) {
    _cleanup_(closep) int existing = find_keeper(p->kind, p->name);
    unsigned count = 0;
    if (existing >= 0)
        return -EEXIST;
    if (p->kind->max != 0)
        (void)place_each(p->kind, count_one, &count);
    return p->kind->max != 0 && count >= p->kind->max ? -EUSERS : 0;
}

/* One at a time: what looks like a leftover may be somebody's beginning. */
static int make_in(const char *path, struct place *p) {
    fd_close(&p->all);
    p->path = path;
    p->all = open_all(path);
    if (p->all < 0)
        return p->all;
    if (flock(p->all, LOCK_EX) < 0)
        return -errno;
    int r = check_free(p);
    if (r == 0) {
        p->folder = place_make_folder(p->all, p->kind->prefix, p->name, NULL);
        r = p->folder < 0 ? p->folder : listen_in(p);
    }
    (void)flock(p->all, LOCK_UN); /* the keeper has it open for all its life */
    return r;
}

int place_make(struct place *p, struct cay_error *err) {
    const char *word = p->kind->word;
    int r = -ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(paths) && r < 0 && r != -EEXIST && r != -EUSERS; i++)
        r = make_in(paths[i], p);
    if (r == 0)
        return 0;
    if (r == -EEXIST) {
        error_set(err, CAY_CONFLICT, "there is a %s '%s' already", word, p->name);
        return error_remedy(err, "choose another name, or delete it with 'cay %s rm'", word);
    }
    if (r == -EUSERS) {
        error_set(err, CAY_LIMIT_REACHED, "the sandbox has %u of %ss already", p->kind->max, word);
        return error_remedy(err, "remove some with 'cay %s rm'", word);
    }
    error_sys(err, -r, "making the folder of %s '%s'", word, p->name);
    return error_remedy(err, "/run or /tmp must be writable in the sandbox, with room left");
}

/* ---- the hand-over ---- */

static int give(int keeper, int fd, const void *data, size_t size) {
    uint32_t len = htole32((uint32_t)size);
    int r = fd_send(keeper, &len, sizeof len, &fd, 1);
    return r < 0 ? r : fd_write_all(keeper, data, size);
}

int place_hand_over(const struct place_kind *kind, struct op_conn *c, const struct wire_message *m,
                    struct cay_error *err) {
    struct place p = PLACE_INIT(kind);
    int r = place_take_name(&p, m, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int keeper = find_keeper(kind, p.name);
    if (keeper < 0) {
        error_set(err, CAY_NOT_FOUND, "there is no %s '%s' in the sandbox", kind->word, p.name);
        return error_remedy(err, "see 'cay %s ls'; %ss end when the sandbox stops", kind->word,
                            kind->word);
    }
    r = give(keeper, c->fd, c->reader->in.data, c->reader->in.len);
    return r < 0 ? error_sys(err, -r, "handing over to the %s '%s'", kind->word, p.name) : 0;
}

/* The connection, and what came on it so far. */
static int receive(int from, int *ret_fd, struct wire_reader *ret) {
    uint32_t len = 0;
    size_t count = 0;
    ssize_t n = fd_receive(from, &len, sizeof len, ret_fd, 1, &count);
    len = le32toh(len);
    if (n != (ssize_t)sizeof len || count != 1 || len == 0 || len > HANDED_MAX)
        return -EPROTO;
    char *to = buf_reserve(&ret->in, len);
    int r = to == NULL ? -ENOMEM : fd_read_all(from, to, len);
    if (r > 0)
        buf_commit(&ret->in, len);
    return r > 0 ? 0 : -EPROTO;
}

/* Only cay-init's own processes may. They send at once, or end, which shows too: the time is for a
 * machine that stands still meanwhile. */
int place_accept(int listener, int *ret_fd, struct wire_reader *ret) {
    const struct timeval patience = {.tv_sec = 60};
    _cleanup_(closep) int from = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (from < 0)
        return -errno;
    if (!is_ours(from) || setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
        return -EPERM;
    return receive(from, ret_fd, ret);
}

/* ---- asking all ---- */

struct question {
    struct buf request; /* the frame */
    int64_t deadline_ms;
    place_answer_fn *each;
    void *arg;
    bool is_unanswered;
};

/* One frame before the deadline: 1, 0 or negative if there is none. */
static int receive_in_time(int fd, int64_t deadline_ms, struct wire_reader *r,
                           struct wire_frame *f) {
    int n;
    while ((n = wire_reader_next(r, f)) == 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, clock_poll_timeout(deadline_ms));
        if (ready == 0)
            return -ETIMEDOUT;
        if (ready < 0 || wire_reader_fill(r, fd) <= 0)
            return 0;
    }
    return n;
}

static int ask_one(void *arg, const char *name, int keeper) {
    struct question *q = arg;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        q->is_unanswered = true;
        return 0;
    }
    _cleanup_(closep) int own = pair[0];
    _cleanup_(closep) int other = pair[1];
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    struct wire_message m;
    if (give(keeper, other, q->request.data, q->request.len) < 0)
        return 0;
    fd_close(&other);
    int n = receive_in_time(own, q->deadline_ms, &r, &f);
    if (n == -ETIMEDOUT)
        q->is_unanswered = true;
    if (n <= 0 || (f.type != WIRE_ENTRY && f.type != WIRE_DONE) ||
        wire_parse(f.data, f.len, &m) < 0)
        return 0;
    return q->each(q->arg, name, &m);
}

int place_ask_all(const struct place_kind *kind, enum wire_op op, int64_t deadline_ms,
                  place_answer_fn *each, void *arg, struct cay_error *err) {
    _cleanup_(buf_free) struct buf fields = BUF_INIT(256);
    wire_put_number(&fields, WIRE_TAG_VERSION, WIRE_VERSION);
    wire_put_number(&fields, WIRE_TAG_OP, (uint64_t)op);
    struct question q = {
        .request = BUF_INIT(512), .deadline_ms = deadline_ms, .each = each, .arg = arg};
    wire_put_frame(&q.request, WIRE_REQUEST, fields.data, fields.len);
    int r = fields.failed || q.request.failed
                ? error_sys(err, ENOMEM, "asking every %s", kind->word)
                : place_each(kind, ask_one, &q);
    buf_free(&q.request);
    if (r < 0 || !q.is_unanswered)
        return r;
    error_set(err, CAY_TIMEOUT, "not every %s of the sandbox answered in time", kind->word);
    return error_remedy(err, "the sandbox or its host is very busy: try again");
}
