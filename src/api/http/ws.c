#include "api/http/ws.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wslay/wslay.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"

enum { KEY_LEN = 24, GOODBYE_MS = 1000, RESTARTS = 1012 };

/* A message that has come and was not asked for yet: one read may bring several. */
struct waiting {
    struct waiting *next;
    enum ws_kind kind;
    size_t len;
    char data[];
};

struct ws {
    wslay_event_context_ptr context;
    int fd;
    bool ended;        /* the other side is gone */
    bool was_reported; /* that the daemon restarts */
    enum ws_stage stage;
    int failure;
    char *early;
    size_t early_len, early_at;
    struct waiting *first, **last, *current;
};

/* ---- the end of all ---- */

/* Pipes that become readable and stay so, for all who wait: made by the first WebSocket. */
static int ends[WS_STAGES][2] = {{-1, -1}, {-1, -1}};
static pthread_once_t ends_once = PTHREAD_ONCE_INIT;
static atomic_bool has_come[WS_STAGES];

static void make_ends(void) {
    for (int i = 0; i < WS_STAGES; i++)
        if (pipe2(ends[i], O_CLOEXEC) < 0)
            ends[i][0] = ends[i][1] = -1; /* no descriptors: they end with the process */
}

void ws_end_all(enum ws_stage stage) {
    (void)pthread_once(&ends_once, make_ends);
    if (!atomic_exchange(&has_come[stage], true) && ends[stage][1] >= 0)
        (void)!write(ends[stage][1], "", 1); /* never read */
}

void ws_outlast(struct ws *w) {
    w->stage = WS_RUNS;
}

static int end_fd(const struct ws *w) {
    return w->was_reported ? -1 : ends[w->stage][0];
}

static bool must_end(const struct ws *w) {
    return !w->was_reported && atomic_load(&has_come[w->stage]);
}

/* ---- the handshake ---- */

int ws_accept(const char *key, char out[static WS_ACCEPT_SIZE]) {
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    struct base64_decode_ctx decode;
    uint8_t raw[BASE64_DECODE_LENGTH(KEY_LEN)], digest[SHA1_DIGEST_SIZE];
    size_t len = sizeof raw;
    base64_decode_init(&decode);
    if (strlen(key) != KEY_LEN || base64_decode_update(&decode, &len, raw, KEY_LEN, key) != 1 ||
        base64_decode_final(&decode) != 1 || len != 16)
        return -EINVAL;
    struct sha1_ctx sha;
    sha1_init(&sha);
    sha1_update(&sha, KEY_LEN, (const uint8_t *)key);
    sha1_update(&sha, sizeof magic - 1, (const uint8_t *)magic);
    sha1_digest(&sha, sizeof digest, digest);
    base64_encode_raw(out, sizeof digest, digest);
    out[WS_ACCEPT_SIZE - 1] = '\0';
    return 0;
}

bool ws_is_acceptable(const char *version, const char *key) {
    char accept[WS_ACCEPT_SIZE];
    return version != NULL && strcmp(version, "13") == 0 && key != NULL &&
           ws_accept(key, accept) == 0;
}

/* ---- what the library calls ---- */

static ssize_t take_early(struct ws *w, uint8_t *data, size_t len) {
    size_t n = MIN(len, w->early_len - w->early_at);
    memcpy(data, w->early + w->early_at, n);
    w->early_at += n;
    return (ssize_t)n;
}

static ssize_t fail(struct ws *w, wslay_event_context_ptr context, int error) {
    bool later = error == EAGAIN || error == EINTR;
    if (!later) {
        w->ended = true;
        w->failure = error;
    }
    wslay_event_set_error(context, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_receive(wslay_event_context_ptr context, uint8_t *data, size_t len, int flags,
                          void *user) {
    (void)flags;
    struct ws *w = user;
    if (w->early_at < w->early_len)
        return take_early(w, data, len);
    ssize_t n = recv(w->fd, data, len, 0);
    return n > 0 ? n : fail(w, context, n == 0 ? EPIPE : errno);
}

static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *data, size_t len, int flags,
                       void *user) {
    (void)flags;
    struct ws *w = user;
    ssize_t n = send(w->fd, data, len, MSG_NOSIGNAL);
    return n >= 0 ? n : fail(w, context, errno);
}

static void on_message(wslay_event_context_ptr context,
                       const struct wslay_event_on_msg_recv_arg *arg, void *user) {
    struct ws *w = user;
    if (arg->opcode != WSLAY_TEXT_FRAME && arg->opcode != WSLAY_BINARY_FRAME)
        return;
    struct waiting *m = malloc(sizeof *m + arg->msg_length + 1);
    if (m == NULL) {
        (void)fail(w, context, ENOMEM);
        return;
    }
    *m = (struct waiting){.kind = arg->opcode == WSLAY_TEXT_FRAME ? WS_TEXT : WS_BINARY,
                          .len = arg->msg_length};
    if (arg->msg_length > 0)
        memcpy(m->data, arg->msg, arg->msg_length);
    m->data[m->len] = '\0';
    *w->last = m;
    w->last = &m->next;
}

/* ---- its life ---- */

/* A client hides what it sends from proxies that would take it for something else. */
static int on_mask(wslay_event_context_ptr context, uint8_t *data, size_t len, void *user) {
    (void)context, (void)user;
    return id_random(data, len) == 0 ? 0 : -1;
}

static int make(int fd, const char *early, size_t early_len, size_t message_max, bool is_client,
                struct ws **ret) {
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_receive,
        .send_callback = on_send,
        .genmask_callback = on_mask,
        .on_msg_recv_callback = on_message,
    };
    int (*init)(wslay_event_context_ptr *, const struct wslay_event_callbacks *, void *) =
        is_client ? wslay_event_context_client_init : wslay_event_context_server_init;
    _cleanup_(ws_freep) struct ws *w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    (void)pthread_once(&ends_once, make_ends);
    w->fd = fd;
    w->last = &w->first;
    w->early = malloc(early_len + 1);
    if (w->early == NULL || init(&w->context, &callbacks, w) != 0)
        return -ENOMEM;
    if (early_len > 0)
        memcpy(w->early, early, early_len);
    w->early_len = early_len;
    wslay_event_config_set_max_recv_msg_length(w->context, message_max);
    int r = fd_set_nonblocking(fd, true);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(w);
    return 0;
}

int ws_new(int fd, const char *early, size_t early_len, size_t message_max, struct ws **ret) {
    return make(fd, early, early_len, message_max, false, ret);
}

int ws_new_client(int fd, size_t message_max, struct ws **ret) {
    return make(fd, NULL, 0, message_max, true, ret);
}

int ws_fd(const struct ws *w) {
    return w->fd;
}

void ws_set_message_max(struct ws *w, size_t message_max) {
    wslay_event_config_set_max_recv_msg_length(w->context, message_max);
}

void ws_free(struct ws *w) {
    if (w == NULL)
        return;
    if (w->context != NULL)
        wslay_event_context_free(w->context);
    while (w->first != NULL) {
        struct waiting *next = w->first->next;
        free(w->first);
        w->first = next;
    }
    free(w->current);
    free(w->early);
    free(w);
}

void ws_freep(struct ws **w) {
    ws_free(*w);
}

/* ---- waiting ---- */

static bool take_message(struct ws *w, struct ws_message *ret) {
    struct waiting *m = w->first;
    free(w->current);
    w->current = m;
    if (m == NULL)
        return false;
    w->first = m->next;
    if (w->first == NULL)
        w->last = &w->first;
    *ret = (struct ws_message){m->kind, m->data, m->len};
    return true;
}

static int time_left(int64_t deadline_ms) {
    if (deadline_ms == 0)
        return -1;
    int64_t left = deadline_ms - clock_ms();
    return left <= 0 ? 0 : (int)MIN(left, (int64_t)60 * 60 * 1000);
}

/* Both fail only by what the other side did, or its going, which `ended` and want_* tell. */
static void move_bytes(struct ws *w, short events) {
    if (wslay_event_want_write(w->context) && (events & (POLLOUT | POLLERR | POLLHUP)) != 0 &&
        wslay_event_send(w->context) != 0)
        w->ended = true;
    if (!w->ended && wslay_event_want_read(w->context) &&
        (events & (POLLIN | POLLERR | POLLHUP)) != 0 && wslay_event_recv(w->context) != 0)
        w->ended = true;
}

static bool is_over(const struct ws *w) {
    return w->ended || (!wslay_event_want_read(w->context) && !wslay_event_want_write(w->context));
}

/* One poll: 1 if `other` can be read from, 0 if something else happened, or -errno. */
static int step(struct ws *w, int other, int64_t deadline_ms) {
    short events = 0;
    if (wslay_event_want_read(w->context))
        events |= POLLIN;
    if (wslay_event_want_write(w->context))
        events |= POLLOUT;
    struct pollfd p[] = {{.fd = w->fd, .events = events},
                         {.fd = other, .events = POLLIN},
                         {.fd = end_fd(w), .events = POLLIN}};
    int n = poll(p, ARRAY_LEN(p), time_left(deadline_ms));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0)
        return clock_expired(deadline_ms) ? -ETIMEDOUT : 0;
    move_bytes(w, p[0].revents);
    return p[1].revents != 0;
}

int ws_wait(struct ws *w, int other, int64_t deadline_ms, struct ws_message *ret) {
    if (w->early_at < w->early_len)
        move_bytes(w, POLLIN);
    for (;;) {
        if (take_message(w, ret))
            return WS_MESSAGE;
        if (is_over(w))
            return WS_CLOSED;
        if (must_end(w)) {
            w->was_reported = true;
            ws_close(w, RESTARTS, "the daemon restarts");
            return WS_CLOSED;
        }
        int r = step(w, other, deadline_ms);
        if (r < 0)
            return r;
        if (r == 1 && w->first == NULL && !w->ended)
            return WS_OTHER;
    }
}

/* ---- sending ---- */

static int flush(struct ws *w, int64_t deadline_ms) {
    while (!w->ended && wslay_event_want_write(w->context)) {
        struct pollfd p[] = {{.fd = w->fd, .events = POLLOUT}, {.fd = end_fd(w), .events = POLLIN}};
        if (wslay_event_send(w->context) != 0)
            w->ended = true;
        if (w->ended || !wslay_event_want_write(w->context))
            break;
        if (must_end(w)) /* it takes nothing, so it cannot be told either */
            return -EPIPE;
        int n = poll(p, ARRAY_LEN(p), time_left(deadline_ms));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 && clock_expired(deadline_ms))
            return -ETIMEDOUT;
    }
    return w->ended ? -EPIPE : 0;
}

int ws_send(struct ws *w, enum ws_kind kind, const void *data, size_t len, int64_t deadline_ms) {
    struct wslay_event_msg message = {
        .opcode = kind == WS_TEXT ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
        .msg = data,
        .msg_length = len,
    };
    if (w->ended)
        return -EPIPE;
    int r = wslay_event_queue_msg(w->context, &message);
    if (r != 0)
        return r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE; /* after a close nothing follows */
    return flush(w, deadline_ms);
}

void ws_close(struct ws *w, uint16_t code, const char *reason) {
    int64_t deadline = clock_deadline(GOODBYE_MS);
    size_t len = MIN(strlen(reason), (size_t)WS_REASON_MAX);
    if (w->ended || wslay_event_queue_close(w->context, code, (const uint8_t *)reason, len) != 0 ||
        flush(w, deadline) < 0)
        return;
    struct ws_message ignored;
    while (ws_wait(w, -1, deadline, &ignored) > 0)
        ;
}
