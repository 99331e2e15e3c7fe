/* The child is made with vfork(): it shares memory with its parent, which stands still until the
 * child executes. So the child makes system calls only, and leaves its error where the parent can
 * read it. */
#include "init/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/files/tree.h"
#include "init/user.h"

enum stage { STAGE_SESSION, STAGE_USER, STAGE_CWD, STAGE_EXEC };

enum { STREAMS = 4, REPORT = 3, PROGRAM = 4, PROGRAM_ASIDE = 64 };

struct streams {
    int child[STREAMS]; /* what becomes 0, 1, 2 and 3 */
    int parent[STREAMS];
};

static void streams_close(struct streams *s) {
    for (int i = 0; i < STREAMS; i++) {
        fd_close(&s->child[i]);
        fd_close(&s->parent[i]);
    }
}

void spawned_close(struct spawned *s) {
    fd_close(&s->in);
    fd_close(&s->out);
    fd_close(&s->err);
    fd_close(&s->report);
}

static int open_pipe(int *ret_read, int *ret_write) {
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = p[0];
    *ret_write = p[1];
    return 0;
}

static int open_pipes(bool want_stdin, bool merge, struct streams *s) {
    int r;
    if (want_stdin) {
        r = open_pipe(&s->child[0], &s->parent[0]);
    } else {
        s->child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r = s->child[0] < 0 ? -errno : 0;
    }
    for (int i = 1; i <= (merge ? 1 : 2) && r == 0; i++)
        r = open_pipe(&s->parent[i], &s->child[i]);
    if (r < 0 || !merge)
        return r;
    s->child[2] = fcntl(s->child[1], F_DUPFD_CLOEXEC, 3);
    return s->child[2] < 0 ? -errno : 0;
}

static int open_terminal(const struct spawn_request *req, struct streams *s) {
    int unlock = 0;
    s->parent[1] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->parent[1] < 0)
        return -errno;
    struct winsize size = {.ws_row = req->rows, .ws_col = req->cols};
    if (ioctl(s->parent[1], TIOCSPTLCK, &unlock) < 0)
        return -errno;
    if (req->rows > 0 && ioctl(s->parent[1], TIOCSWINSZ, &size) < 0)
        return -errno;
    /* By descriptor, not by name: the name is the sandbox's to play with. */
    s->child[0] = ioctl(s->parent[1], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->child[0] < 0)
        return -errno;
    s->child[1] = fcntl(s->child[0], F_DUPFD_CLOEXEC, 3);
    s->child[2] = fcntl(s->child[0], F_DUPFD_CLOEXEC, 3);
    s->parent[0] = fcntl(s->parent[1], F_DUPFD_CLOEXEC, 3);
    return s->child[1] < 0 || s->child[2] < 0 || s->parent[0] < 0 ? -errno : 0;
}

/* Pipes and terminals belong to the file system user of who makes them. The command's user must be
 * able to open them again by name: /dev/stdout, /dev/tty. */
static int open_streams(const struct spawn_request *req, struct streams *s) {
    (void)setfsgid(req->user->gid);
    (void)setfsuid(req->user->uid);
    int r = req->tty ? open_terminal(req, s) : open_pipes(req->want_stdin, req->merge, s);
    if (r == 0 && req->want_report)
        r = open_pipe(&s->parent[REPORT], &s->child[REPORT]);
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
    return r;
}

/* mkdir -p; whether it mattered shows when the folder is entered. */
static void make_directories(const char *cwd, uid_t uid, gid_t gid) {
    char path[PATH_MAX];
    size_t len = strlen(cwd);
    if (len >= sizeof path)
        return;
    memcpy(path, cwd, len + 1);
    (void)setfsgid(gid);
    (void)setfsuid(uid);
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(path, 0755);
        *p = '/';
    }
    (void)mkdir(path, 0755);
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
}

/* A work folder that is missing belongs to the user if he may make it, else to root inside, as an
 * image's does. */
static void make_work_folder(const struct spawn_request *req) {
    if (access(req->cwd, F_OK) == 0 || errno != ENOENT)
        return;
    make_directories(req->cwd, req->user->uid, req->user->gid);
    if (access(req->cwd, F_OK) < 0 && errno == ENOENT)
        make_directories(req->cwd, 0, 0);
}

static const char *path_of(const char *const *env) {
    for (; *env != NULL; env++)
        if (str_starts(*env, "PATH="))
            return *env + strlen("PATH=");
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

static int try_exec(const char *file, const struct spawn_request *req) {
    (void)syscall(SYS_execve, file, req->argv, req->env);
    return -errno;
}

/* execvpe, but never a shell for what the kernel does not know how to run. */
static int exec_search(const struct spawn_request *req) {
    const char *name = req->argv[0];
    if (strchr(name, '/') != NULL)
        return try_exec(name, req);
    size_t name_len = strlen(name);
    if (name_len == 0 || name_len > NAME_MAX)
        return -ENOENT;
    int result = -ENOENT;
    for (const char *p = path_of(req->env); *p != '\0';) {
        size_t len = strcspn(p, ":");
        char file[PATH_MAX];
        if (len > 0 && len + 1 + name_len < sizeof file) {
            memcpy(file, p, len);
            file[len] = '/';
            memcpy(file + len + 1, name, name_len + 1);
            int r = try_exec(file, req);
            if (r != -ENOENT && r != -ENOTDIR)
                result = r;
            if (result != -ENOENT && result != -EACCES)
                return result;
        }
        p += len + (p[len] == ':');
    }
    return result;
}

/* The command starts with default dispositions and nothing blocked; SIGPIPE is the only one that
 * the serving process changed. */
static void reset_signals(void) {
    (void)signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Makes fd the descriptor `as` of the command. */
static int pass_on(int fd, int as) {
    if (fd == as) /* then dup2 would leave it close-on-exec */
        return fcntl(as, F_SETFD, 0) < 0 ? -errno : 0;
    return dup2(fd, as) < 0 ? -errno : 0;
}

/* What to execute comes first, since its number may be one that a stream is to have. */
static int take_program(const struct spawn_request *req) {
    if (req->program <= 0)
        return 0;
    int fd = fcntl(req->program, F_DUPFD_CLOEXEC, PROGRAM_ASIDE);
    return fd < 0 ? -errno : fd;
}

static int join_session(const struct spawn_request *req, const struct streams *s) {
    if (setsid() < 0)
        return -errno;
    for (int i = 0; i < 3; i++)
        if (dup2(s->child[i], i) < 0)
            return -errno;
    if (req->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return -errno;
    return s->child[REPORT] >= 0 ? pass_on(s->child[REPORT], REPORT) : 0;
}

/* When memory runs out, commands go before whoever serves them: a sandbox that lost its first
 * process or the keeper of a session is lost for all. Best effort, since a caller may have set it
 * higher than can be added to. Below 300, which Chromium gives its pages, so that they go before
 * their browser. The file belongs to root inside, as long as we cannot be traced. */
static void offer_to_oom_killer(void) {
    enum { MORE = 250, MOST = 1000 };
    char text[16] = "";
    (void)setfsuid(0);
    _cleanup_(closep) int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    (void)setfsuid(geteuid());
    int64_t score;
    if (fd < 0 || fd_read_again(fd, text, sizeof text) <= 0 ||
        str_to_i64(text, -MOST, MOST, &score) < 0)
        return;
    score = score + MORE < MOST ? score + MORE : MOST;
    int len = snprintf(text, sizeof text, "%d", (int)score);
    (void)!write(fd, text, (size_t)len);
}

/* Runs in the child; returns only when something failed. */
static int child(const struct spawn_request *req, const struct streams *s, enum stage *stage) {
    *stage = STAGE_SESSION;
    int program = take_program(req);
    int r = program < 0 ? program : join_session(req, s);
    if (r < 0)
        return r;
    make_work_folder(req);
    offer_to_oom_killer();
    *stage = STAGE_USER;
    r = user_become(req->user);
    if (r < 0)
        return r;
    reset_signals();
    *stage = STAGE_CWD;
    r = chdir(req->cwd) < 0 ? -errno : 0;
    if (r < 0)
        return r;
    *stage = STAGE_EXEC;
    if (program == 0)
        return exec_search(req);
    r = pass_on(program, PROGRAM);
    if (r == 0)
        (void)syscall(SYS_execveat, PROGRAM, "", req->argv, req->env, AT_EMPTY_PATH);
    return r < 0 ? r : -errno;
}

static int failure(const struct spawn_request *req, enum stage stage, int sys, int *ret_exit,
                   struct cay_error *err) {
    char name[128];
    (void)str_escape(name, sizeof name, stage == STAGE_CWD ? req->cwd : req->argv[0]);
    *ret_exit = 125;
    switch (stage) {
    case STAGE_SESSION:
        return error_sys(err, sys, "preparing the streams of the command");
    case STAGE_USER:
        error_sys(err, sys, "becoming user %u", (unsigned)req->user->uid);
        return error_remedy(err, "this sandbox has no such id; leave --user away");
    case STAGE_CWD:
        error_sys(err, sys, "entering work folder '%s'", name);
        return error_remedy(err, "choose a folder that the user of the command may make or enter");
    case STAGE_EXEC:
        break;
    }
    if (sys == ENOENT && strchr(req->argv[0], '/') == NULL) {
        *ret_exit = 127;
        error_set(err, CAY_NOT_FOUND, "'%s': command not found in the sandbox", name);
        return error_remedy(err, "check the name, or the image that the sandbox runs");
    }
    *ret_exit = sys == ENOENT || sys == ENOTDIR ? 127 : 126;
    error_sys(err, sys, "'%s' cannot be executed", name);
    if (sys == ENOEXEC)
        return error_remedy(err, "it has no '#!' line; name its interpreter, as in: sh %s", name);
    if (sys == E2BIG)
        return error_remedy(err, "arguments and environment are too long; pass them in a file");
    return error_remedy(err, sys == EACCES ? "make it executable (chmod +x)"
                                           : "check the file inside the sandbox");
}

struct patience {
    struct clock_patience time;
    bool was_last;
};

enum { PATIENCE_MS = 3000 };

/* Whether to try again: as long as some process is about to go, and once more when none is, since
 * the last may just have gone. */
static bool try_again(struct patience *p, int sys) {
    if ((sys != EAGAIN && sys != ENOMEM) || p->was_last)
        return false;
    if (p->time.at_ms == 0)
        p->time = clock_patience_of(PATIENCE_MS);
    if (clock_patience_ends(&p->time))
        return false;
    p->was_last = !tree_makes_room();
    if (!p->was_last)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return true;
}

pid_t spawn_fork(void) {
    struct patience patience = {0};
    pid_t pid;
    do
        pid = fork();
    while (pid < 0 && try_again(&patience, errno));
    return pid;
}

int spawn_fail(int sys, struct cay_error *err) {
    if (sys == EAGAIN)
        error_set(err, CAY_RESOURCE_EXHAUSTED,
                  "as many processes run in the sandbox as it may have");
    else
        error_sys(err, sys, "starting a process in the sandbox");
    return error_remedy(err, "end some of its commands, or give it more (--pids, --memory)");
}

int spawn_command(const struct spawn_request *req, struct spawned *ret, int *ret_exit,
                  struct cay_error *err) {
    _cleanup_(streams_close) struct streams s = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
    *ret_exit = 125;
    int r = open_streams(req, &s);
    if (r < 0)
        return error_sys(err, -r, "opening the streams of the command");
    volatile int child_error = 0;
    volatile enum stage stage = STAGE_SESSION;
    struct patience patience = {0};
    pid_t pid;
    do
        pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): see the top */
    while (pid < 0 && try_again(&patience, errno));
    if (pid == 0) {
        enum stage at;
        child_error = child(req, &s, &at);
        stage = at;
        _exit(127);
    }
    if (pid < 0)
        return spawn_fail(errno, err);
    if (child_error < 0)
        return failure(req, stage, -child_error, ret_exit, err);
    *ret = (struct spawned){pid, TAKE_FD(s.parent[0]), TAKE_FD(s.parent[1]), TAKE_FD(s.parent[2]),
                            TAKE_FD(s.parent[REPORT])};
    return 0;
}
