#include "daemon/pulls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "daemon/control.h"
#include "daemon/imager.h"
#include "image/answer.h"

enum { ANSWER_MAX = 8192 };

/* ---- the supervisor's side ---- */

static int check_name(const char *name, struct cay_error *err) {
    struct reference ref;
    return reference_is_id(name) ? 0 : reference_parse(name, &ref, err);
}

static int start(const struct settings *s, const char *name, int answer, int progress, pid_t *ret,
                 struct cay_error *err) {
    int r = check_name(name, err);
    if (r < 0)
        return r;
    const char *argv[12] = {"cay-image",  "ensure", "--state-dir",
                            s->state_dir, "--pull", s->config->images.pull};
    size_t n = 6;
    if (s->config_file != NULL) {
        argv[n++] = "--config";
        argv[n++] = s->config_file;
    }
    if (progress < 0)
        argv[n++] = "--quiet";
    argv[n++] = "--";
    argv[n] = name;
    return imager_spawn(argv, answer, progress, ret, err);
}

/* Our end of the answer tells when nobody reads it any more. */
static int start_watched(struct pulls *p, size_t slot, const struct settings *s, const char *name,
                         int answer, int progress, struct cay_error *err) {
    _cleanup_(closep) int ours = fcntl(answer, F_DUPFD_CLOEXEC, 3);
    if (ours < 0)
        return error_errno(err, "keeping the way of an answer");
    int r = start(s, name, answer, progress, &p->pid[slot], err);
    if (r == 0)
        p->answer[slot] = TAKE_FD(ours);
    return r;
}

void pulls_start(struct pulls *p, const struct settings *s, const char *name, int answer,
                 int progress) {
    struct cay_error err;
    size_t slot = 0;
    while (slot < PULLS_MAX && p->pid[slot] != 0)
        slot++;
    int r = 0;
    if (slot == PULLS_MAX) {
        r = error_set(&err, CAY_UNAVAILABLE, "%d images are being fetched already", PULLS_MAX);
        (void)error_remedy(&err, "try again later");
    }
    if (r == 0)
        r = start_watched(p, slot, s, name, answer, progress, &err);
    if (r == 0)
        return;
    imager_answer(answer, &err);
}

bool pulls_ended(struct pulls *p, pid_t pid) {
    for (size_t i = 0; i < PULLS_MAX; i++) {
        if (p->pid[i] == pid) {
            p->pid[i] = 0;
            fd_close(&p->answer[i]);
            return true;
        }
    }
    return false;
}

void pulls_watch(const struct pulls *p, struct pollfd fds[static PULLS_MAX]) {
    for (size_t i = 0; i < PULLS_MAX; i++)
        fds[i] = (struct pollfd){.fd = p->pid[i] != 0 ? p->answer[i] : -1};
}

void pulls_tend(const struct pulls *p, const struct pollfd fds[static PULLS_MAX]) {
    for (size_t i = 0; i < PULLS_MAX; i++)
        if (p->pid[i] != 0 && fds[i].fd >= 0 && fds[i].revents != 0)
            (void)kill(p->pid[i], SIGTERM);
}

void pulls_cancel(const struct pulls *p) {
    for (size_t i = 0; i < PULLS_MAX; i++)
        if (p->pid[i] != 0)
            (void)kill(p->pid[i], SIGTERM);
}

/* ---- the front's side ---- */

/* False if it was given up. What is cut short is no answer. */
static bool read_answer(int in, int cancel, struct buf *text) {
    struct pollfd p[2] = {{.fd = in, .events = POLLIN}, {.fd = cancel, .events = POLLIN}};
    for (;;) {
        char chunk[1024];
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            return true;
        if (p[1].revents != 0)
            return false;
        if (p[0].revents == 0)
            continue;
        ssize_t n = TEMP_FAILURE_RETRY(read(in, chunk, sizeof chunk));
        if (n <= 0 || buf_append(text, chunk, (size_t)n) < 0)
            return true;
    }
}

int pulls_ask(int control, const char *name, int progress, int cancel, char id[static HEX_SIZE],
              struct cay_error *err) {
    struct control_message m = {.op = CONTROL_PULL};
    int answer[2];
    if (str_copy(m.name, sizeof m.name, name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name is too long");
    if (pipe2(answer, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    _cleanup_(closep) int in = answer[0];
    int fds[2] = {answer[1], progress};
    int r = control_send(control, &m, fds, progress >= 0 ? 2 : 1);
    (void)close(answer[1]);
    if (r < 0)
        return error_sys(err, -r, "asking for image '%s'", name);
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    if (!read_answer(in, cancel, &text))
        return error_set(err, CAY_CONFLICT, "nobody wants image '%s' any more", name);
    (void)buf_putc(&text, '\n');
    return text.data == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory")
                             : image_answer(text.data, id, err);
}
