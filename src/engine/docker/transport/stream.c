#include "engine/docker/transport/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/docker/curl.h"
#include "engine/docker/internal.h"
#include "engine/docker/spec.h"
#include "engine/docker/transport/relay.h"

enum { RAW_SIZE = 16 * 1024, HEAD_MAX = 8 * 1024, OPEN_MS = 60 * 1000, SWITCHING = 101 };

struct docker_stream {
    CURL *curl;
    curl_socket_t fd;
    struct demux demux;
    unsigned char raw[RAW_SIZE]; /* what came and was not asked for yet */
    size_t at, end;
    char message[CURL_ERROR_SIZE];
};

void docker_stream_close(struct docker_stream *s) {
    if (s == NULL)
        return;
    if (s->curl != NULL)
        curl_easy_cleanup(s->curl);
    free(s);
}

int docker_stream_fd(const struct docker_stream *s) {
    return s->fd;
}

/* ---- bytes ---- */

ssize_t docker_stream_send(struct docker_stream *s, const void *data, size_t len) {
    size_t n = 0;
    CURLcode code = curl_easy_send(s->curl, data, len, &n);
    if (code == CURLE_AGAIN)
        return -EAGAIN;
    return code == CURLE_OK ? (ssize_t)n : -EPIPE;
}

/* 1 with something in raw, 0 at the end, or -errno. */
static int fill(struct docker_stream *s) {
    size_t n = 0;
    if (s->at == s->end)
        s->at = s->end = 0;
    if (s->end == sizeof s->raw)
        return -ENOBUFS;
    CURLcode code = curl_easy_recv(s->curl, s->raw + s->end, sizeof s->raw - s->end, &n);
    if (code == CURLE_AGAIN)
        return -EAGAIN;
    s->end += n;
    return code == CURLE_OK && n > 0 ? 1 : 0; /* a broken connection is an end */
}

ssize_t docker_stream_receive(struct docker_stream *s, enum demux_stream *ret_which, void *out,
                              size_t size) {
    for (;;) {
        int r = s->at < s->end ? 1 : fill(s);
        if (r <= 0)
            return r;
        size_t used, len;
        r = demux_take(&s->demux, s->raw + s->at, MIN(s->end - s->at, size), &used, ret_which,
                       &len);
        if (r < 0)
            return r;
        if (len > 0)
            memcpy(out, s->raw + s->at + used - len, len);
        s->at += used;
        if (len > 0)
            return (ssize_t)len;
    }
}

static int wait_for(const struct docker_stream *s, short events, int64_t deadline) {
    struct pollfd p = {.fd = s->fd, .events = events};
    int n;
    do
        n = poll(&p, 1, clock_poll_timeout(deadline));
    while (n < 0 && errno == EINTR);
    return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

int docker_stream_send_all(struct docker_stream *s, const void *data, size_t len,
                           int64_t deadline) {
    for (size_t done = 0; done < len;) {
        ssize_t n = docker_stream_send(s, (const char *)data + done, len - done);
        if (n == -EAGAIN)
            n = wait_for(s, POLLOUT, deadline);
        if (n < 0)
            return (int)n;
        done += (size_t)n;
    }
    return 0;
}

ssize_t docker_stream_await(struct docker_stream *s, enum demux_stream *ret_which, void *out,
                            size_t size, int64_t deadline) {
    ssize_t n;
    while ((n = docker_stream_receive(s, ret_which, out, size)) == -EAGAIN) {
        int r = wait_for(s, POLLIN, deadline);
        if (r < 0)
            return r;
    }
    return n;
}

/* ---- the upgrade ---- */

static int connect_to(struct docker_api *api, struct docker_stream *s, struct cay_error *err) {
    const struct docker_host *host = docker_api_host(api);
    s->curl = curl_easy_init();
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (s->curl != NULL && docker_curl_set_host(s->curl, host, host->url, s->message) &&
        curl_easy_setopt(s->curl, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK)
        code = curl_easy_perform(s->curl);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(s->curl, CURLINFO_ACTIVESOCKET, &s->fd);
    return code == CURLE_OK ? 0 : docker_unreachable(host, code, s->message, err);
}

/* Reads the head of the answer; what came behind it stays, and is the stream already. */
static int read_head(struct docker_stream *s, char head[static HEAD_MAX], int64_t deadline) {
    for (;;) {
        int r = fill(s);
        if (r == -EAGAIN)
            r = wait_for(s, POLLIN, deadline);
        else if (r == 0)
            r = -ECONNRESET;
        if (r < 0)
            return r;
        const unsigned char *end = memmem(s->raw, s->end, "\r\n\r\n", 4);
        size_t len = end != NULL ? (size_t)(end - s->raw) + 4 : s->end;
        if (len >= HEAD_MAX)
            return -EPROTO;
        if (end == NULL)
            continue;
        memcpy(head, s->raw, len);
        head[len] = '\0';
        s->at = len;
        return 0;
    }
}

static int status_of(const char *head) {
    const char *space = str_starts(head, "HTTP/1.") ? strchr(head, ' ') : NULL;
    return space != NULL ? (int)strtol(space + 1, NULL, 10) : 0;
}

/* Why there is no stream: the body, as far as it comes. */
static int refused(struct docker_stream *s, int status, int64_t deadline, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    a.status = status;
    while (s->at == s->end || memchr(s->raw + s->at, '\n', s->end - s->at) == NULL) {
        int r = fill(s);
        if (r == 0 || r == -ENOBUFS || (r == -EAGAIN && wait_for(s, POLLIN, deadline) < 0))
            break;
    }
    (void)buf_append(&a.body, s->raw + s->at, s->end - s->at);
    return docker_refused(&a, "starting a process in the container", err);
}

static int upgrade(struct docker_api *api, struct docker_stream *s, const char *exec,
                   int64_t deadline, struct cay_error *err) {
    static const char body[] = "{\"Detach\":false,\"Tty\":false}";
    char request[DOCKER_PATH_SIZE + 1024], head[HEAD_MAX], version[DOCKER_API_SIZE];
    const char *host = strstr(docker_api_host(api)->url, "://") + 3;
    int r = docker_api_version(api, version, err);
    if (r < 0)
        return r;
    if (str_format(request, sizeof request,
                   "POST /v%s/exec/%s/start HTTP/1.1\r\nHost: %s\r\nContent-Type: "
                   "application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   version, exec, host, sizeof body - 1, body) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "a request to Docker is too long");
    r = docker_stream_send_all(s, request, strlen(request), deadline);
    if (r == 0)
        r = read_head(s, head, deadline);
    if (r < 0)
        return error_sys(err, -r, "asking Docker for a stream");
    int status = status_of(head);
    return status == SWITCHING || status == 200 ? 0 : refused(s, status, deadline, err);
}

/* ---- the process ---- */

static int make_exec(struct docker_api *api, const char *id, char out[static DOCKER_EXEC_SIZE],
                     struct cay_error *err) {
    static const char body[] =
        "{\"AttachStdin\":true,\"AttachStdout\":true,\"AttachStderr\":true,\"Tty\":false,"
        "\"User\":\"" DOCKER_INIT_USER "\",\"WorkingDir\":\"/\","
        "\"Cmd\":[\"" DOCKER_DOOR_INSIDE "/enter\",\"relay\"]}";
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    int r = docker_path(path, id, "/exec", err);
    if (r < 0)
        return r;
    struct docker_call call = {
        .method = "POST", .path = path, .body = body, .body_len = sizeof body - 1};
    r = docker_ask(api, &call, &a, err);
    if (r == 0 && a.status >= 400)
        r = docker_refused(&a, "entering the container", err);
    return r < 0 ? r : docker_parse_exec(buf_text(&a.body), a.body.len, out, err);
}

/* Else it is Docker that writes, and says why there is no process. */
static int await_ready(struct docker_stream *s, int64_t deadline, struct cay_error *err) {
    char text[DOCKER_TEXT_SIZE] = "", shown[DOCKER_TEXT_SIZE];
    enum demux_stream which = DEMUX_STDOUT;
    ssize_t n = docker_stream_await(s, &which, text, 1, deadline);
    if (n == 1 && which == DEMUX_STDOUT && text[0] == RELAY_READY)
        return 0;
    if (n == 1)
        (void)docker_stream_await(s, &which, text + 1, sizeof text - 2, deadline);
    error_set(err, CAY_UNAVAILABLE, "no process can be started in the container: %s",
              n == 0  ? "it ended at once"
              : n < 0 ? "Docker says nothing"
                      : str_escape(shown, sizeof shown, text));
    return error_remedy(err, "look at the state of the sandbox; it may have ended, or have as many "
                             "processes as it may");
}

int docker_stream_open(struct docker_api *api, const char *id, struct docker_stream **ret,
                       struct cay_error *err) {
    char exec[DOCKER_EXEC_SIZE];
    int64_t deadline = clock_deadline(OPEN_MS);
    int r = make_exec(api, id, exec, err);
    if (r < 0)
        return r;
    _cleanup_(docker_stream_closep) struct docker_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r = connect_to(api, s, err);
    if (r == 0)
        r = upgrade(api, s, exec, deadline, err);
    if (r == 0)
        r = await_ready(s, deadline, err);
    if (r == 0)
        *ret = TAKE_PTR(s);
    return r;
}
