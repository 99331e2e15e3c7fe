#include "init_harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/str.h"
#include "init/op.h"
#include "init/user.h"

extern char **environ;

static op_run_fn *const ops[] = {
    [WIRE_OP_STAT] = op_stat,       [WIRE_OP_LIST] = op_list,       [WIRE_OP_READ] = op_read,
    [WIRE_OP_WRITE] = op_write,     [WIRE_OP_MKDIR] = op_mkdir,     [WIRE_OP_MOVE] = op_move,
    [WIRE_OP_REMOVE] = op_remove,   [WIRE_OP_CHMOD] = op_chmod,     [WIRE_OP_CHOWN] = op_chown,
    [WIRE_OP_FIND] = op_find_names, [WIRE_OP_SEARCH] = op_search,   [WIRE_OP_REPLACE] = op_replace,
    [WIRE_OP_TAR_IN] = op_tar_in,   [WIRE_OP_TAR_OUT] = op_tar_out, [WIRE_OP_DIAL] = op_dial,
    [WIRE_OP_EXEC] = op_exec,
};

static void serve(int fd) {
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT;
    const struct user user = {.uid = getuid(), .gid = getgid(), .home = "/"};
    struct op_conn c = {.fd = fd,
                        .reader = &reader,
                        .uid = user.uid,
                        .gid = user.gid,
                        .home = user.home,
                        .user = &user,
                        .came = {-1, -1},
                        .tell = -1};
    struct wire_frame f;
    struct wire_message m;
    struct cay_error err = {0};
    if (wire_receive(&reader, fd, &f) <= 0)
        return; /* a test that sends nothing */
    if (f.type != WIRE_REQUEST || wire_parse(f.data, f.len, &m) < 0)
        exit(90);
    uint64_t op = m.number[WIRE_TAG_OP];
    if (op >= ARRAY_LEN(ops) || ops[op] == NULL)
        exit(91);
    if (ops[op](&c, &m, &err) < 0) {
        if (err.code == CAY_OK || err.message[0] == '\0')
            exit(92);
        (void)wire_send_error(fd, &err);
    }
}

static void become(uid_t uid) {
    if (uid != 0 && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
        exit(93);
}

void harness_open(struct harness *h, uid_t uid) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *h = (struct harness){.call = {.fd = pair[0], .deadline_ms = clock_deadline(60000)}};
    (void)fflush(NULL);
    h->pid = fork();
    assert_true(h->pid >= 0);
    if (h->pid == 0) {
        (void)close(pair[0]);
        become(uid);
        serve(pair[1]);
        exit(0); /* not _exit: a sanitizer looks for leaks here */
    }
    (void)close(pair[1]);
}

void harness_close(struct harness *h) {
    int status;
    fd_close(&h->call.fd);
    assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int folder_setup(void **state) {
    /* in memory where that is possible: a disk with a journal takes a minute for 100,000 files */
    static const char *const templates[] = {"/dev/shm/cay-init-XXXXXX", "/tmp/cay-init-XXXXXX"};
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        char *path = strdup(templates[i]);
        if (path != NULL && mkdtemp(path) != NULL && chmod(path, 0777) == 0) {
            *state = path;
            return 0;
        }
        free(path);
    }
    return -1;
}

/* Samples hold folders without the right to write, which only root removes as they are. */
static int open_up(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)where;
    return kind == FTW_D || kind == FTW_DNR ? chmod(path, st->st_mode | 0700) : 0;
}

int folder_teardown(void **state) {
    enum { DESCRIPTORS = 16 };
    (void)nftw(*state, open_up, DESCRIPTORS, FTW_PHYS); /* the removal tells */
    char *path = *state, *name = strrchr(path, '/') + 1;
    name[-1] = '\0';
    _cleanup_(closep) int parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = path_remove_tree(parent, name);
    free(path);
    return r;
}

const char *at(void **state, const char *name) {
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *out = paths[next++ % ARRAY_LEN(paths)];
    assert_int_equal(path_join(out, PATH_MAX, *state, name), 0);
    return out;
}

void put_file(const char *path, const char *content, mode_t mode) {
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    assert_int_equal(fchmod(fd, mode), 0);
}

const char *get_file(const char *path) {
    static char content[65536];
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, content, sizeof content - 1);
    assert_true(n >= 0);
    content[n] = '\0';
    return content;
}

int write_text(const struct wire_call *c, const char *path, const char *text, int mode,
               bool parents, struct cay_error *err) {
    struct wire_memory m = {.data = text, .len = strlen(text)};
    return wire_write(c, path, mode, parents, wire_source_memory, &m, err);
}

mode_t mode_of(const char *path) {
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

bool is_missing(const char *path) {
    struct stat st;
    return lstat(path, &st) < 0 && errno == ENOENT;
}

int count_names(const char *path) {
    _cleanup_(closedirp) DIR *d = opendir(path);
    assert_non_null(d);
    int n = -2;
    while (readdir(d) != NULL)
        n++;
    return n;
}

int run_program(const char *const argv[]) {
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        return -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
