#include "remote/stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "remote/rest.h"

enum { FLOW_SIZE = 64 * 1024 };

/* ---- connecting ---- */

int stream_open(const struct world *w, const char *url, struct stream *ret, struct cay_error *err) {
    char detail[CURL_ERROR_SIZE] = "";
    *ret = (struct stream){.curl = curl_easy_init()};
    if (ret->curl == NULL)
        return error_sys(err, ENOMEM, "connecting to %s", w->host);
    world_prepare(w, ret->curl);
    (void)curl_easy_setopt(ret->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(ret->curl, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl_easy_setopt(ret->curl, CURLOPT_HTTPPROXYTUNNEL, 1L);
    (void)curl_easy_setopt(ret->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(ret->curl, CURLOPT_ERRORBUFFER, detail);
    CURLcode code = curl_easy_perform(ret->curl);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(ret->curl, CURLINFO_ACTIVESOCKET, &ret->socket);
    (void)curl_easy_setopt(ret->curl, CURLOPT_ERRORBUFFER, NULL);
    if (code == CURLE_OK)
        return 0;
    stream_close(ret);
    return rest_explain(w, code, detail, err);
}

void stream_close(struct stream *s) {
    curl_easy_cleanup(s->curl); /* NULL is fine */
    *s = (struct stream){0};
}

/* ---- carrying ---- */

/* Bytes on their way in one direction. */
struct flow {
    char data[FLOW_SIZE];
    size_t at, len;
    bool ended; /* nothing more comes */
};

struct relay {
    struct stream *stream;
    int fd;
    struct flow up, down;
    bool broken;
    bool moved; /* in this turn */
};

static void read_near(struct relay *r) {
    if (r->up.ended || r->up.at < r->up.len)
        return;
    ssize_t n = recv(r->fd, r->up.data, sizeof r->up.data, 0);
    r->up.ended = n == 0;
    r->broken |= n < 0 && errno != EAGAIN && errno != EINTR;
    r->up.at = 0;
    r->up.len = n > 0 ? (size_t)n : 0;
    r->moved |= n >= 0;
}

static void write_near(struct relay *r) {
    if (r->down.at == r->down.len)
        return;
    ssize_t n = send(r->fd, r->down.data + r->down.at, r->down.len - r->down.at, MSG_NOSIGNAL);
    r->broken |= n < 0 && errno != EAGAIN && errno != EINTR;
    r->down.at += n > 0 ? (size_t)n : 0;
    r->moved |= n > 0;
}

static void read_far(struct relay *r) {
    size_t n = 0;
    if (r->down.ended || r->down.at < r->down.len)
        return;
    CURLcode code = curl_easy_recv(r->stream->curl, r->down.data, sizeof r->down.data, &n);
    if (code == CURLE_AGAIN)
        return;
    r->down.ended = code != CURLE_OK || n == 0;
    r->down.at = 0;
    r->down.len = code == CURLE_OK ? n : 0;
    r->moved = true;
}

/* A far end that takes nothing more may have said its last words: those are still read. */
static void write_far(struct relay *r) {
    size_t n = 0;
    if (r->up.at == r->up.len)
        return;
    CURLcode code =
        curl_easy_send(r->stream->curl, r->up.data + r->up.at, r->up.len - r->up.at, &n);
    bool refused = code != CURLE_OK && code != CURLE_AGAIN;
    r->up.at = refused ? r->up.len : r->up.at + n;
    r->up.ended |= refused;
    r->moved |= refused || n > 0;
}

/* That the near end is gone is heard also when nothing is read from it. */
static void wait_for(struct relay *r) {
    bool up = r->up.at < r->up.len, down = r->down.at < r->down.len;
    struct pollfd fds[] = {
        {.fd = r->fd, .events = (short)((up || r->up.ended ? 0 : POLLIN) | (down ? POLLOUT : 0))},
        {.fd = down ? -1 : r->stream->socket, .events = (short)(POLLIN | (up ? POLLOUT : 0))},
    };
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
        r->broken = true;
    if ((fds[0].revents & (POLLHUP | POLLERR)) != 0 && r->up.ended)
        r->broken = true;
}

void stream_relay(struct stream *s, int fd) {
    struct relay *r = calloc(1, sizeof *r);
    if (r == NULL || fd_set_nonblocking(fd, true) < 0) {
        free(r);
        return;
    }
    r->stream = s;
    r->fd = fd;
    while (!r->broken && !(r->down.ended && r->down.at == r->down.len)) {
        r->moved = false;
        read_near(r);
        write_far(r);
        read_far(r);
        write_near(r);
        if (!r->moved && !r->broken)
            wait_for(r);
    }
    free(r);
}

/* ---- as a descriptor ---- */

struct carrier {
    struct stream stream;
    int fd;
};

static void *carry(void *arg) {
    struct carrier *c = arg;
    stream_relay(&c->stream, c->fd);
    stream_close(&c->stream);
    (void)close(c->fd);
    free(c);
    return NULL;
}

int stream_to_fd(struct stream *s, struct cay_error *err) {
    int pair[2];
    pthread_t thread;
    struct carrier *c = calloc(1, sizeof *c);
    if (c == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        free(c);
        stream_close(s);
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory, or no descriptors");
    }
    *c = (struct carrier){.stream = *s, .fd = pair[1]};
    *s = (struct stream){0};
    int r = pthread_create(&thread, NULL, carry, c);
    if (r == 0) {
        (void)pthread_detach(thread);
        return pair[0];
    }
    stream_close(&c->stream);
    free(c);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return error_sys(err, r, "starting a thread");
}
