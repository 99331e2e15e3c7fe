#include "daemon/helpers/archives.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/helpers/imager.h"
#include "image/answer.h"
#include "image/archives.h"

enum {
    ANSWER_MAX = 8192,
    STALL_MS = 10 * 60 * 1000, /* without a line, also while much is brought to the disk */
};

/* ---- the supervisor's side ---- */

/* Who asks anew for a sandbox has given up what was under way for it, or has its answer already: it
 * may have ended, and not be reaped yet. */
static void end_earlier(const struct archive_jobs *jobs, const char *id) {
    for (size_t i = 0; i < ARCHIVE_JOBS_MAX; i++)
        if (jobs->job[i].pid != 0 && str_equal(jobs->job[i].id, id))
            (void)kill(jobs->job[i].pid, SIGKILL);
}

static enum archive_kind kind_of(const struct control_message *m) {
    return str_equal(m->other, "backup") ? ARCHIVE_BACKUP : ARCHIVE_WHOLE;
}

static struct archive_job *free_job(struct archive_jobs *jobs) {
    for (size_t i = 0; i < ARCHIVE_JOBS_MAX; i++)
        if (jobs->job[i].pid == 0)
            return &jobs->job[i];
    return NULL;
}

static int start(struct archive_jobs *jobs, const struct settings *s,
                 const struct control_message *m, int answer, int progress, struct cay_error *err) {
    char size[32];
    struct archive_job *job = free_job(jobs);
    if (job == NULL) {
        error_set(err, CAY_UNAVAILABLE, "%d sandboxes are being archived or restored",
                  ARCHIVE_JOBS_MAX);
        return error_remedy(err, "try again later");
    }
    const char *argv[10] = {"cay-image", m->op == CONTROL_ARCHIVE ? "archive" : "restore",
                            "--state-dir", s->state_dir};
    size_t n = 4;
    if (kind_of(m) == ARCHIVE_BACKUP)
        argv[n++] = "--backup";
    if (progress < 0)
        argv[n++] = "--quiet";
    if (m->number > 0) {
        (void)snprintf(size, sizeof size, "%" PRIu64, m->number);
        argv[n++] = m->op == CONTROL_RESTORE ? "--disk" : "--max";
        argv[n++] = size;
    }
    argv[n] = m->name;
    memcpy(job->id, m->name, ID_SIZE);
    return imager_spawn(argv, &(struct imager_streams){answer, progress, -1, -1}, &job->pid, err);
}

void archive_jobs_handle(struct archive_jobs *jobs, const struct settings *s,
                         const struct control_message *m, int answer, int progress) {
    struct cay_error err = {.code = CAY_OK};
    if (!id_is_valid(m->name))
        error_set(&err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    else
        end_earlier(jobs, m->name);
    if (err.code == CAY_OK && m->op == CONTROL_UNARCHIVE && m->number != 0)
        archives_remove_making(s->state_dir, kind_of(m), m->name);
    else if (err.code == CAY_OK && m->op == CONTROL_UNARCHIVE)
        (void)archives_remove(s->state_dir, kind_of(m), m->name, &err);
    else if (err.code == CAY_OK && start(jobs, s, m, answer, progress, &err) == 0)
        return; /* it answers by itself */
    imager_answer(answer, &err);
}

bool archive_jobs_ended(struct archive_jobs *jobs, pid_t pid) {
    for (size_t i = 0; i < ARCHIVE_JOBS_MAX; i++) {
        if (jobs->job[i].pid == pid) {
            jobs->job[i].pid = 0;
            return true;
        }
    }
    return false;
}

bool archive_jobs_are_busy(const struct archive_jobs *jobs) {
    for (size_t i = 0; i < ARCHIVE_JOBS_MAX; i++)
        if (jobs->job[i].pid != 0)
            return true;
    return false;
}

void archive_jobs_kill(const struct archive_jobs *jobs) {
    for (size_t i = 0; i < ARCHIVE_JOBS_MAX; i++)
        if (jobs->job[i].pid != 0)
            (void)kill(jobs->job[i].pid, SIGKILL);
}

/* ---- the front's side ---- */

/* What comes of a job: an answer, and lines meanwhile. */
struct waiting {
    int answer, lines; /* read ends */
    int progress;      /* where the lines go; -1: nowhere */
    struct buf text;
};

static void waiting_free(struct waiting *w) {
    fd_close(&w->answer);
    fd_close(&w->lines);
    buf_free(&w->text);
}

static int send_request(int control, const struct control_message *m, struct waiting *w,
                        struct cay_error *err) {
    int answer[2], lines[2];
    if (pipe2(answer, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    if (pipe2(lines, O_CLOEXEC) < 0) {
        (void)close(answer[0]);
        (void)close(answer[1]);
        return error_errno(err, "making a pipe");
    }
    w->answer = answer[0];
    w->lines = lines[0];
    int r = control_send(control, m, (const int[]){answer[1], lines[1]}, 2);
    (void)close(answer[1]);
    (void)close(lines[1]);
    return r < 0 ? error_sys(err, -r, "asking the supervisor") : 0;
}

/* Lines are passed on as they come. A reader that is slow or gone must not hold up the work. */
static void take_lines(struct waiting *w) {
    char data[512];
    ssize_t n = read(w->lines, data, sizeof data);
    if (n <= 0 && !(n < 0 && errno == EINTR))
        fd_close(&w->lines);
    if (n > 0 && w->progress >= 0) {
        ssize_t ignored = write(w->progress, data, (size_t)n);
        (void)ignored;
    }
}

/* True at the end of the answer. */
static bool take_answer(struct waiting *w) {
    char data[512];
    ssize_t n = read(w->answer, data, sizeof data);
    if (n > 0)
        return buf_append(&w->text, data, (size_t)n) < 0;
    return !(n < 0 && errno == EINTR);
}

static int wait_for(struct waiting *w, struct cay_error *err) {
    for (;;) {
        struct pollfd p[2] = {{.fd = w->answer, .events = POLLIN},
                              {.fd = w->lines, .events = POLLIN}};
        int n = poll(p, ARRAY_LEN(p), STALL_MS);
        if (n == 0) {
            error_set(err, CAY_TIMEOUT, "nothing has moved for %d minutes", STALL_MS / 60000);
            return error_remedy(err, "see whether the disk of the state folder is well");
        }
        if (n > 0 && p[1].revents != 0)
            take_lines(w);
        if (n > 0 && p[0].revents != 0 && take_answer(w))
            return 0;
    }
}

static int ask(int control, const struct control_message *m, int progress, struct waiting *w,
               struct cay_error *err) {
    *w = (struct waiting){
        .answer = -1, .lines = -1, .progress = progress, .text = BUF_INIT(ANSWER_MAX)};
    int r = send_request(control, m, w, err);
    if (r == 0)
        r = wait_for(w, err);
    if (r < 0)
        return r;
    (void)buf_putc(&w->text, '\n');
    return w->text.data == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static struct control_message message(enum control_op op, enum archive_kind kind, const char *id) {
    struct control_message m = {.op = op};
    memcpy(m.name, id, ID_SIZE);
    if (kind == ARCHIVE_BACKUP)
        memcpy(m.other, "backup", sizeof "backup");
    return m;
}

/* The first line is a digest, the second the size of the archive. */
static int read_size(struct waiting *w, uint64_t *ret_bytes, struct cay_error *err) {
    char digest[HEX_SIZE];
    int code = image_answer(w->text.data, digest, err);
    if (code == 0 && str_to_u64(w->text.data + HEX_SIZE, INT64_MAX, ret_bytes) < 0)
        code = error_set(err, CAY_INTERNAL, "cay-image did not say how large the archive is");
    return code;
}

static int ask_write(int control, const struct control_message *m, int progress,
                     uint64_t *ret_bytes, struct cay_error *err) {
    _cleanup_(waiting_free) struct waiting w;
    int code = ask(control, m, progress, &w, err);
    return code < 0 ? code : read_size(&w, ret_bytes, err);
}

int archives_ask_write(int control, const struct sandbox_record *r, int progress,
                       uint64_t *ret_bytes, struct cay_error *err) {
    struct control_message m = message(CONTROL_ARCHIVE, ARCHIVE_WHOLE, r->id);
    return ask_write(control, &m, progress, ret_bytes, err);
}

int archives_ask_backup(int control, const struct sandbox_record *r, uint64_t max_bytes,
                        uint64_t *ret_bytes, struct cay_error *err) {
    struct control_message m = message(CONTROL_ARCHIVE, ARCHIVE_BACKUP, r->id);
    m.number = max_bytes < INT64_MAX ? max_bytes : 0;
    return ask_write(control, &m, -1, ret_bytes, err);
}

int archives_ask_restore(int control, enum archive_kind kind, const struct sandbox_record *r,
                         int progress, bool *ret, struct cay_error *err) {
    struct control_message m = message(CONTROL_RESTORE, kind, r->id);
    _cleanup_(waiting_free) struct waiting w;
    uint64_t bytes = 0;
    m.number = r->disk_bytes;
    int code = ask(control, &m, progress, &w, err);
    if (code == 0)
        code = read_size(&w, &bytes, err);
    *ret = code == 0 && bytes > 0;
    return code;
}

int archives_ask_remove(int control, enum archive_kind kind, const char *id, bool unfinished,
                        struct cay_error *err) {
    struct control_message m = message(CONTROL_UNARCHIVE, kind, id);
    _cleanup_(waiting_free) struct waiting w;
    char digest[HEX_SIZE];
    m.number = unfinished;
    int code = ask(control, &m, -1, &w, err);
    if (code < 0 || strncmp(w.text.data, "ok\n", 3) == 0)
        return code;
    return image_answer(w.text.data, digest, err);
}
