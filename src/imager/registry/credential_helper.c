#include "imager/registry/credential_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/json.h"
#include "base/str.h"
#include "imager/registry/credentials.h"
#include "imager/registry/secret.h"

enum { OUTPUT_MAX = 64 * 1024, TIMEOUT_MS = 60 * 1000 };

/* Whatever its configuration says, it is no path and no option. */
static bool name_is_valid(const char *name) {
    static const char chars[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-";
    return name[0] != '\0' && strspn(name, chars) == strlen(name);
}

/* ---- the process ---- */

/* The question as a file: nobody has to wait until it is read. */
static int make_input(const char *server) {
    _cleanup_(closep) int fd = memfd_create("server", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, server, strlen(server));
    if (r == 0)
        r = fd_write_all(fd, "\n", 1);
    if (r < 0)
        return r;
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : TAKE_FD(fd);
}

/* A process group of its own, so that it can be ended with all that it started. */
static int spawn_with(const char *program, int in, int out, pid_t *ret) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "get", NULL};
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int e = posix_spawn_file_actions_init(&actions);
    if (e != 0)
        return -e;
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    e = posix_spawnp(ret, program, &actions, &attributes, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return -e;
}

/* All that is there now. 1 at the end of it, 0 if more may come. */
static int drain(int fd, struct buf *output) {
    for (;;) {
        char block[4096];
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0)
            return errno == EAGAIN ? 0 : errno == EINTR ? 0 : -errno;
        if (n == 0)
            return 1;
        int r = buf_append(output, block, (size_t)n);
        explicit_bzero(block, (size_t)n);
        if (r < 0)
            return r;
    }
}

/* Reads until the process ends, whoever else holds its output open. */
static int read_until_end(int pidfd, int fd, int64_t deadline, struct buf *output) {
    struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    for (;;) {
        int n = poll(p, ARRAY_LEN(p), clock_poll_timeout(deadline));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -ETIMEDOUT;
        bool ended = n > 0 && p[0].revents != 0;
        int r = p[1].fd >= 0 ? drain(fd, output) : 0;
        if (r < 0 || ended)
            return MIN(r, 0);
        if (r == 1)
            p[1].fd = -1;
    }
}

/* Its output, and *ret_status as waitpid gives it. */
static int run(const char *program, const char *server, int64_t timeout_ms, struct buf *output,
               int *ret_status) {
    int ends[2];
    _cleanup_(closep) int in = make_input(server);
    if (in < 0)
        return in;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_(closep) int from = ends[0];
    _cleanup_(closep) int to = ends[1];
    pid_t pid = 0;
    int r = fd_set_nonblocking(from, true);
    if (r == 0)
        r = spawn_with(program, in, to, &pid);
    if (r < 0)
        return r;
    fd_close(&to);
    _cleanup_(closep) int pidfd = pidfd_open(pid, 0);
    r = pidfd < 0 ? -errno : read_until_end(pidfd, from, clock_deadline(timeout_ms), output);
    if (r < 0 && pid > 0)
        (void)kill(-pid, SIGKILL);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        continue;
    return r;
}

/* ---- its answer ---- */

static int parse_answer(const char *program, const struct buf *output, struct credential *ret,
                        struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *user = NULL, *secret = NULL;
    /* the parser's own words could show a part of a secret */
    if (json_parse("answer", buf_text(output), output->len, &doc, NULL) == 0) {
        struct json root = json_root(doc, "");
        (void)json_get_string(&root, "Username", JSON_OPTIONAL, &user, NULL);
        (void)json_get_string(&root, "Secret", JSON_OPTIONAL, &secret, NULL);
    }
    if (user == NULL || secret == NULL)
        return error_set(err, CAY_UNAVAILABLE, "%s: its answer holds no credentials", program);
    bool is_token = str_equal(user, "<token>");
    ret->identity_token = is_token ? strdup(secret) : NULL;
    ret->user = is_token ? NULL : strdup(user);
    ret->secret = is_token ? NULL : strdup(secret);
    if (ret->identity_token == NULL && (ret->user == NULL || ret->secret == NULL)) {
        credential_clear(ret);
        return error_sys(err, ENOMEM, "%s", program);
    }
    return 0;
}

/* A helper says in words that it has nothing. */
static bool has_nothing(const struct buf *output) {
    return strcasestr(buf_text(output), "credentials not found") != NULL;
}

/* What it said, unless that looks like an answer. */
static int refuse(const char *program, int status, const struct buf *output,
                  struct cay_error *err) {
    char said[120], line[120] = "";
    const char *text = buf_text(output);
    if (text[0] != '{')
        (void)snprintf(line, sizeof line, "%.*s", (int)MIN(strcspn(text, "\r\n"), sizeof line - 1),
                       text);
    (void)str_escape(said, sizeof said, line);
    (void)error_set(err, CAY_UNAVAILABLE, "the credential helper %s failed (%s %d)%s%s", program,
                    WIFSIGNALED(status) ? "signal" : "exit code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                    said[0] != '\0' ? ": " : "", said);
    return error_remedy(err, "try it by hand: echo REGISTRY | %s get", program);
}

static int refuse_run(const char *program, int r, struct cay_error *err) {
    if (r == -ENOENT) {
        (void)error_set(err, CAY_NOT_FOUND, "the credential helper %s is not installed", program);
        return error_remedy(err, "install it, or remove it from Docker's config.json");
    }
    if (r == -ENOBUFS)
        return error_set(err, CAY_UNAVAILABLE, "the credential helper %s says more than %d bytes",
                         program, OUTPUT_MAX);
    return error_sys(err, -r, "the credential helper %s", program);
}

int credential_helper_get(const char *name, const char *server, int64_t timeout_ms,
                          struct credential *ret, struct cay_error *err) {
    char program[192], shown[80];
    *ret = CREDENTIAL_NONE;
    if (!name_is_valid(name) ||
        str_format(program, sizeof program, "docker-credential-%s", name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "'%s' is no name of a credential helper",
                         str_escape(shown, sizeof shown, name));
    _cleanup_(secret_buf_free) struct buf output = BUF_INIT(OUTPUT_MAX);
    if (buf_reserve(&output, OUTPUT_MAX) == NULL) /* it never moves: no copies stay behind */
        return error_sys(err, ENOMEM, "the credential helper %s", program);
    (void)buf_append(&output, "", 0);
    int status = 0;
    int r = run(program, server, timeout_ms > 0 ? timeout_ms : TIMEOUT_MS, &output, &status);
    if (r < 0)
        return refuse_run(program, r, err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return parse_answer(program, &output, ret, err);
    return has_nothing(&output) ? 0 : refuse(program, status, &output, err);
}
