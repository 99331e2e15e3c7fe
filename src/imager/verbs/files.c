/* The caller's files: archives to read and to write, and what he types. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "imager/transfer/expose_folder.h"
#include "imager/verbs/verbs.h"

/* ---- reading ---- */

static int open_standard_input(struct cay_error *err) {
    if (isatty(STDIN_FILENO)) {
        error_set(err, CAY_INVALID_ARGUMENT, "standard input is a terminal, not an archive");
        return error_remedy(err, "name a file, or pipe the archive in");
    }
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? error_errno(err, "opening standard input") : fd;
}

int input_open(const char *path, bool folders, struct cay_error *err) {
    if (path == NULL || strcmp(path, "-") == 0)
        return open_standard_input(err);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)error_errno(err, "opening '%s'", path);
        return error_remedy(err, "name a file that exists and that you may read");
    }
    if (S_ISDIR(st.st_mode) && !folders) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%s' is a folder, not an archive", path);
        return error_remedy(err, "name a file, or pipe a tar of it in");
    }
    return S_ISDIR(st.st_mode) ? folder_offer(fd, err) : TAKE_FD(fd);
}

/* ---- writing ---- */

static int open_standard_output(struct output_file *ret, struct cay_error *err) {
    if (isatty(STDOUT_FILENO)) {
        error_set(err, CAY_INVALID_ARGUMENT, "an archive would go to the terminal");
        return error_remedy(err, "name a file with -f, or pipe it to another program");
    }
    ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return ret->fd < 0 ? error_errno(err, "opening standard output") : 0;
}

static int fail_open(const char *path, struct cay_error *err) {
    (void)error_errno(err, "writing '%s'", path);
    return error_remedy(err, "name a file in a folder that you may write to");
}

/* A device or a pipe has no content that could be half: it is written as it comes. */
static int open_special(const char *path, struct output_file *ret, struct cay_error *err) {
    ret->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return ret->fd < 0 ? fail_open(path, err) : 0;
}

static int open_temporary(const char *path, struct output_file *ret, struct cay_error *err) {
    char id[ID_SIZE], name[PATH_MAX];
    int r = id_new(id, err);
    if (r < 0)
        return r;
    if (str_format(name, sizeof name, "%s.%s", path, id) < 0)
        return error_sys(err, ENAMETOOLONG, "writing '%.64s…'", path);
    ret->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (ret->fd < 0)
        return fail_open(path, err);
    ret->temporary = strdup(name);
    if (ret->temporary != NULL)
        return 0;
    (void)unlink(name);
    return error_sys(err, ENOMEM, "writing '%s'", path);
}

int output_open(const char *path, struct output_file *ret, struct cay_error *err) {
    struct stat st;
    ret->path = path;
    if (path == NULL)
        return open_standard_output(ret, err);
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%s' is a folder", path);
        return error_remedy(err, "name a file to write");
    }
    return exists && !S_ISREG(st.st_mode) ? open_special(path, ret, err)
                                          : open_temporary(path, ret, err);
}

int output_commit(struct output_file *out, struct cay_error *err) {
    if (out->temporary == NULL)
        return 0;
    if (fsync(out->fd) < 0 || rename(out->temporary, out->path) < 0)
        return fail_open(out->path, err);
    free(TAKE_PTR(out->temporary));
    return 0;
}

void output_close(struct output_file *out) {
    if (out->temporary != NULL)
        (void)unlink(out->temporary);
    free(TAKE_PTR(out->temporary));
    fd_close(&out->fd);
}

/* ---- asking ---- */

static volatile sig_atomic_t interrupted;

static void note_signal(int sig) {
    interrupted = sig;
}

static const int interrupting[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* Reads up to the end of the line; a signal ends it. The length or -errno. */
static ssize_t read_line(char *out, size_t size) {
    size_t len = 0;
    for (char c = '\0'; len < size;) {
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0)
            return -errno;
        if (n == 0 || c == '\n') {
            out[len] = '\0';
            return (ssize_t)len;
        }
        out[len++] = c;
    }
    return -ENOBUFS;
}

/* With the terminal as it was before, whatever happens. */
static ssize_t ask(const char *question, bool echo, char *out, size_t size) {
    struct sigaction act = {.sa_handler = note_signal}, saved[ARRAY_LEN(interrupting)];
    struct termios before, silent;
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return -errno;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    interrupted = 0;
    for (size_t i = 0; i < ARRAY_LEN(interrupting); i++)
        (void)sigaction(interrupting[i], &act, &saved[i]);
    if (!echo)
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    (void)fd_write_all(STDERR_FILENO, question, strlen(question));
    ssize_t len = read_line(out, size);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    if (!echo || len < 0)
        (void)fd_write_all(STDERR_FILENO, "\n", 1);
    for (size_t i = 0; i < ARRAY_LEN(interrupting); i++)
        (void)sigaction(interrupting[i], &saved[i], NULL);
    if (interrupted != 0)
        (void)raise(interrupted);
    return len;
}

int prompt(const char *question, bool echo, char *out, size_t size, struct cay_error *err) {
    ssize_t len = ask(question, echo, out, size);
    if (len < 0)
        return error_sys(err, (int)-len, "reading the answer");
    if (len > 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the answer is empty");
    return error_remedy(err, "type it, or use -u and --password-stdin");
}
