#include "daemon/helpers/pulls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/images.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/control.h"
#include "daemon/helpers/imager.h"
#include "engine/engines.h"
#include "image/answer.h"
#include "manager/manager.h"

enum { ANSWER_MAX = 8192 };

/* ---- the supervisor's side ---- */

static int check_name(const char *name, struct cay_error *err) {
    struct reference ref;
    return reference_is_id(name) ? 0 : reference_parse(name, &ref, err);
}

/* A verb, and where state and configuration are; returns how many words that is. */
static size_t put_place(const struct settings *s, const char *verb, const char **argv) {
    size_t n = 0;
    argv[n++] = verb;
    argv[n++] = "--state-dir";
    argv[n++] = s->state_dir;
    if (s->config_file != NULL) {
        argv[n++] = "--config";
        argv[n++] = s->config_file;
    }
    return n;
}

/* For whom, if it is not for whoever sees all; returns how many words that is. */
static size_t put_owner(const struct control_message *m, const char **argv) {
    static char room[32]; /* one is started at a time */
    size_t n = 0;
    if (m->owner[0] == '\0')
        return 0;
    argv[n++] = "--owner";
    argv[n++] = m->owner;
    if (m->made_by[0] != '\0') {
        argv[n++] = "--made-by";
        argv[n++] = m->made_by;
    }
    if (m->room > 0) {
        (void)snprintf(room, sizeof room, "%llu", (unsigned long long)m->room);
        argv[n++] = "--room";
        argv[n++] = room;
    }
    return n;
}

/* What the owner may not know is not looked for in the engine; the front has asked cay's store. */
static void put_ensure(const struct settings *s, const struct control_message *m, bool is_quiet,
                       const char **argv) {
    if (m->number >= PULL_BY_ENGINE) {
        const char *policy = m->owner[0] == '\0' ? s->config->images.pull : "never";
        engine_ensure_words((enum engine_kind)(m->number - PULL_BY_ENGINE), s->state_dir,
                            s->config_file, policy, is_quiet, m->owner, m->name, argv);
        return;
    }
    argv[0] = "cay-image";
    size_t n = put_place(s, "ensure", argv + 1) + 1;
    argv[n++] = "--pull";
    argv[n++] = m->number == PULL_NOT ? "never" : s->config->images.pull;
    n += put_owner(m, argv + n);
    if (is_quiet)
        argv[n++] = "--quiet";
    argv[n++] = "--";
    argv[n] = m->name;
}

/* The Dockerfile comes on standard input; what it copies, if anything, as tars by a socket. */
static void put_build(const struct settings *s, const struct control_message *m, bool has_contexts,
                      const char **argv) {
    size_t n = put_place(s, "make", argv);
    n += put_owner(m, argv + n);
    if (m->name[0] != '\0') {
        argv[n++] = "--tag";
        argv[n++] = m->name;
    }
    argv[n++] = "--";
    argv[n] = has_contexts ? ":contexts" : "-";
}

static const struct {
    const char *word;
    bool has_sandbox; /* the first name is one's id */
    size_t names;
} store_verbs[] = {
    [STORE_LIST] = {"list", false, 0},     [STORE_NAME] = {"name", false, 2},
    [STORE_UNNAME] = {"unname", false, 1}, [STORE_KEEP] = {"keep", true, 2},
    [STORE_ADOPT] = {"adopt", false, 2},   [STORE_USAGE] = {"usage", false, 0},
};

static int check_store(const struct control_message *m, struct cay_error *err) {
    if (m->number >= ARRAY_LEN(store_verbs))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is nothing to do with the store");
    if (store_verbs[m->number].has_sandbox && !id_is_valid(m->name))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    size_t names = store_verbs[m->number].names;
    int r = names == 0 || store_verbs[m->number].has_sandbox ? 0 : check_name(m->name, err);
    return r < 0 || names < 2 ? r : check_name(m->other, err);
}

static void put_store(const struct settings *s, const struct control_message *m,
                      const char **argv) {
    size_t n = put_place(s, "store", argv);
    n += put_owner(m, argv + n);
    argv[n++] = "--";
    argv[n++] = store_verbs[m->number].word;
    if (store_verbs[m->number].names > 0)
        argv[n++] = m->name;
    if (store_verbs[m->number].names > 1)
        argv[n] = m->other;
}

static bool is_way(uint64_t how) {
    return how < PULL_BY_ENGINE ||
           (how - PULL_BY_ENGINE < ENGINE_KINDS &&
            engine_can((enum engine_kind)(how - PULL_BY_ENGINE), ENGINE_HAS_IMAGES));
}

static int check(const struct control_message *m, const int *fds, struct cay_error *err) {
    struct reference ref;
    if (!image_owner_is_valid(m->owner) || !image_owner_is_valid(m->made_by))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not an owner of images");
    if (m->op == CONTROL_STORE)
        return check_store(m, err);
    if (m->op == CONTROL_PULL && !is_way(m->number))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is no way to get an image");
    if (m->op == CONTROL_PULL)
        return check_name(m->name, err);
    if (fds[1] < 0 || fds[2] < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "a build without a log or a Dockerfile");
    return m->name[0] == '\0' ? 0 : reference_parse(m->name, &ref, err);
}

static int start(const struct settings *s, const struct control_message *m, const int *fds,
                 pid_t *ret, struct cay_error *err) {
    const char *argv[24] = {"cay-image"};
    int r = check(m, fds, err);
    if (r < 0)
        return r;
    if (m->op == CONTROL_STORE)
        put_store(s, m, argv + 1);
    else if (m->op == CONTROL_BUILD)
        put_build(s, m, fds[3] >= 0, argv + 1);
    else
        put_ensure(s, m, fds[1] < 0, argv);
    return imager_spawn(argv, &(struct imager_streams){fds[0], fds[1], fds[2], fds[3]}, ret, err);
}

/* Our end of the answer tells when nobody reads it any more. */
static int start_watched(struct pulls *p, size_t slot, const struct settings *s,
                         const struct control_message *m, const int *fds, struct cay_error *err) {
    _cleanup_(closep) int ours = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
    if (ours < 0)
        return error_errno(err, "keeping the way of an answer");
    int r = start(s, m, fds, &p->pid[slot], err);
    if (r < 0)
        return r;
    p->answer[slot] = TAKE_FD(ours);
    memcpy(p->owner[slot], m->owner, sizeof m->owner);
    return 0;
}

/* Nothing but the store is looked at, or a name in it is changed. */
static bool is_short(const struct control_message *m) {
    return (m->op == CONTROL_STORE && m->number != STORE_KEEP) ||
           (m->op == CONTROL_PULL && m->number == PULL_NOT);
}

/* A free place among those of its kind. */
static int find_place(const struct pulls *p, const struct control_message *m, size_t *ret,
                      struct cay_error *err) {
    bool is_quick = is_short(m);
    size_t from = is_quick ? PULLS_LONG : 0, to = is_quick ? PULLS_MAX : PULLS_LONG;
    size_t share = is_quick ? PULLS_SHORT_SHARE : PULLS_LONG_SHARE, own = 0, place = to;
    for (size_t i = from; i < to; i++) {
        own += p->pid[i] != 0 && str_equal(p->owner[i], m->owner);
        if (p->pid[i] == 0 && place == to)
            place = i;
    }
    *ret = place;
    if (m->owner[0] != '\0' && own >= share) {
        error_set(err, CAY_LIMIT_REACHED,
                  is_quick ? "%zu images are being looked up for this key already"
                           : "%zu images are being fetched, built or made for this key already",
                  own);
        return error_remedy(err, "try again when one of them is done");
    }
    if (place < to)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "%zu images are being %s already", to - from,
              is_quick ? "looked up" : "fetched or built");
    return error_remedy(err, "try again later");
}

void pulls_start(struct pulls *p, const struct settings *s, const struct control_message *m,
                 const int *fds) {
    struct cay_error err;
    size_t slot;
    int r = find_place(p, m, &slot, &err);
    if (r == 0)
        r = start_watched(p, slot, s, m, fds, &err);
    if (r == 0)
        return;
    imager_answer(fds[0], &err);
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

/* What goes along with a message, and how long to wait for its answer. */
struct question {
    int progress, input, more; /* -1: none; each but after those before it */
    int cancel;                /* the wait ends when it is readable; -1: it does not */
    int client;                /* the same when its other end hangs up */
    int64_t deadline;          /* 0: never */
};

/* False if it was given up, or takes too long. What is cut short is no answer. */
static bool read_answer(int in, const struct question *q, struct buf *text) {
    struct pollfd p[3] = {{.fd = in, .events = POLLIN},
                          {.fd = q->cancel, .events = POLLIN},
                          {.fd = q->client, .events = POLLRDHUP}};
    for (;;) {
        char chunk[1024];
        if (poll(p, ARRAY_LEN(p), clock_poll_timeout(q->deadline)) < 0 && errno != EINTR)
            return true;
        if (p[1].revents != 0 || p[2].revents != 0 || clock_expired(q->deadline))
            return false;
        if (p[0].revents == 0)
            continue;
        ssize_t n = TEMP_FAILURE_RETRY(read(in, chunk, sizeof chunk));
        if (n <= 0 || buf_append(text, chunk, (size_t)n) < 0)
            return true;
    }
}

static int ask(int control, const struct control_message *m, const struct question *q,
               struct buf *text, struct cay_error *err) {
    int answer[2];
    if (pipe2(answer, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    _cleanup_(closep) int in = answer[0];
    int fds[CONTROL_FDS_MAX] = {answer[1], q->progress, q->input, q->more};
    unsigned count = 1;
    while (count < CONTROL_FDS_MAX && fds[count] >= 0)
        count++;
    int r = control_send(control, m, fds, count);
    (void)close(answer[1]);
    if (r < 0)
        return error_sys(err, -r, "asking for image '%s'", m->name);
    if (!read_answer(in, q, text)) {
        if (q->deadline != 0 && clock_expired(q->deadline))
            return error_set(err, CAY_TIMEOUT, "it took too long");
        return error_set(err, CAY_CONFLICT, "nobody wants image '%s' any more", m->name);
    }
    (void)buf_putc(text, '\n');
    return text->data == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

/* The answer's id, or its error. A limit of the owner ends by itself. */
static int read_id(struct buf *text, char id[static HEX_SIZE], struct cay_error *err) {
    char hidden[600];
    if (image_answer_hidden(text->data, hidden, sizeof hidden)[0] != '\0')
        log_event(LOG_LEVEL_WARN, "an image could not be fetched for a key", "why", "%s", hidden);
    int r = image_answer(text->data, id, err);
    if (r == -CAY_LIMIT_REACHED)
        error_try_later(err);
    return r;
}

int pulls_ask(int control, const struct image_wish *wish, enum pull_how how, int64_t timeout_ms,
              char id[static HEX_SIZE], struct cay_error *err) {
    struct control_message m = {.op = CONTROL_PULL, .number = how};
    struct question q = {.progress = wish->progress_fd,
                         .input = -1,
                         .more = -1,
                         .cancel = wish->cancel_fd,
                         .client = wish->client_fd,
                         .deadline = clock_deadline(timeout_ms)};
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    if (str_copy(m.name, sizeof m.name, wish->name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name is too long");
    memcpy(m.owner, wish->owner, sizeof m.owner);
    memcpy(m.made_by, wish->made_by, sizeof m.made_by);
    m.room = wish->room;
    int r = ask(control, &m, &q, &text, err);
    if (r == -CAY_TIMEOUT)
        (void)error_remedy(err, "try again, or raise [images] pull_timeout");
    return r < 0 ? r : read_id(&text, id, err);
}

int pulls_ask_build(int control, const struct image_build_order *order, int64_t timeout_ms,
                    char id[static HEX_SIZE], struct cay_error *err) {
    struct control_message m = {.op = CONTROL_BUILD, .room = order->room};
    struct question q = {.progress = order->log,
                         .input = order->dockerfile,
                         .more = order->contexts,
                         .cancel = order->cancel,
                         .client = -1,
                         .deadline = clock_deadline(timeout_ms)};
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    if (str_copy(m.name, sizeof m.name, order->name) < 0 ||
        str_copy(m.owner, sizeof m.owner, order->owner) < 0 ||
        str_copy(m.made_by, sizeof m.made_by, order->made_by) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name is too long");
    int r = ask(control, &m, &q, &text, err);
    if (r == -CAY_TIMEOUT && clock_expired(q.deadline))
        (void)error_remedy(err, "make the build shorter, or raise [images] build_timeout");
    return r < 0 ? r : read_id(&text, id, err);
}

/* What is neither "ok" nor an id is an error. */
int pulls_ask_store(int control, const struct control_message *m, struct buf *text,
                    struct cay_error *err) {
    char id[HEX_SIZE];
    int r = ask(control, m, &(struct question){-1, -1, -1, -1, -1, 0}, text, err);
    if (r == 0 && text->failed)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "the store's answer is too long");
    if (r < 0 || str_starts(text->data, "ok\n"))
        return r;
    return read_id(text, id, err);
}
