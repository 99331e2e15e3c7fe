#include "client/http.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"

enum { PIECE = 16 * 1024 };

static const char default_port[] = "3986";

/* ---- addresses ---- */

static int bad_address(const char *url, struct cay_error *err) {
    char shown[128];
    error_set(err, CAY_INVALID_ARGUMENT, "'%s' is no address of a daemon",
              str_escape(shown, sizeof shown, url));
    return error_remedy(err, "write unix://PATH, http://HOST:PORT or https://HOST");
}

/* What follows the host: "", "/", "/cay", "/cay/api", "/api/". */
static int parse_prefix(const char *text, struct http_address *ret) {
    if (str_copy(ret->prefix, sizeof ret->prefix, text) < 0)
        return -EINVAL;
    for (const char *p = text; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("-._~/", *p) == NULL)
            return -EINVAL;
    size_t len = strlen(ret->prefix);
    while (len > 0 && ret->prefix[len - 1] == '/')
        ret->prefix[--len] = '\0';
    ret->is_api = str_ends(ret->prefix, "/api");
    if (ret->is_api)
        ret->prefix[len - 4] = '\0';
    return 0;
}

static const char *usual_port(const struct http_address *a) {
    return a->tls ? "443" : a->is_api || a->prefix[0] != '\0' ? "80" : default_port;
}

/* HOST, HOST:PORT, [V6], [V6]:PORT, and a path */
static int parse_tcp(const char *text, struct http_address *ret) {
    uint64_t port = 0;
    char whole[sizeof ret->host];
    size_t len = strcspn(text, "/");
    if (len >= sizeof whole || parse_prefix(text + len, ret) < 0)
        return -EINVAL;
    memcpy(whole, text, len);
    whole[len] = '\0';
    char *host = whole, *end = NULL;
    if (whole[0] == '[') {
        host++;
        end = strchr(host, ']');
        if (end == NULL)
            return -EINVAL;
        *end++ = '\0';
    } else {
        end = host + strcspn(host, ":");
    }
    const char *given = *end == ':' ? end + 1 : usual_port(ret);
    if ((*end != ':' && *end != '\0') || str_to_u64(given, 65535, &port) < 0 || port == 0)
        return -EINVAL;
    *end = '\0';
    for (const char *p = host; *p != '\0'; p++)
        if (*p <= ' ' || *p == 0x7f || *p == '@')
            return -EINVAL;
    if (host[0] == '\0' || str_copy(ret->port, sizeof ret->port, given) < 0)
        return -EINVAL;
    return str_copy(ret->host, sizeof ret->host, host);
}

int http_address_parse(const char *url, struct http_address *ret, struct cay_error *err) {
    *ret = (struct http_address){0};
    if (str_starts(url, "unix://")) {
        bool ok = url[7] == '/' && str_copy(ret->path, sizeof ret->path, url + 7) == 0;
        return ok ? 0 : bad_address(url, err);
    }
    ret->tcp = true;
    ret->tls = str_starts(url, "https://");
    bool ok = (ret->tls || str_starts(url, "http://")) && parse_tcp(url + 7 + ret->tls, ret) == 0;
    return ok ? 0 : bad_address(url, err);
}

/* ---- connecting ---- */

static int refused(const char *where, int sys, struct cay_error *err) {
    if (sys == EACCES || sys == EPERM) {
        (void)error_sys(err, sys, "connecting to the daemon at %.200s", where);
        return error_remedy(err, "it belongs to another user: become that user, or use a daemon of "
                                 "your own (--state-dir)");
    }
    (void)error_sys(err, sys, "the daemon is not running: connecting to %.200s", where);
    err->code = CAY_UNAVAILABLE;
    return error_remedy(err, "start it with 'cay serve', or correct --host and CAY_HOST");
}

/* The address of a socket holds 107 bytes; its folder's descriptor stands for a longer path. */
static int unix_address(const char *path, struct sockaddr_un *sa, int *ret_folder) {
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (str_copy(sa->sun_path, sizeof sa->sun_path, path) == 0)
        return 0;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    memcpy(folder, path, (size_t)(slash - path) + 1);
    folder[slash - path + 1] = '\0';
    *ret_folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret_folder < 0)
        return -errno;
    return str_format(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d%s", *ret_folder, slash);
}

static int connect_unix(const char *path, struct cay_error *err) {
    struct sockaddr_un sa;
    _cleanup_(closep) int folder = -1;
    int r = unix_address(path, &sa, &folder);
    if (r < 0)
        return refused(path, -r, err);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_errno(err, "making a socket");
    if (connect(fd, (const struct sockaddr *)&sa, sizeof sa) < 0)
        return refused(path, errno, err);
    return TAKE_FD(fd);
}

static int connect_tcp(const struct http_address *a, struct cay_error *err) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char where[300];
    (void)snprintf(where, sizeof where, "%s port %s", a->host, a->port);
    int r = getaddrinfo(a->host, a->port, &hints, &list);
    if (r != 0) {
        error_set(err, CAY_UNAVAILABLE, "no host '%.200s': %s", a->host, gai_strerror(r));
        return error_remedy(err, "correct --host or CAY_HOST");
    }
    int fd = -1, sys = 0;
    for (const struct addrinfo *i = list; i != NULL && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, i->ai_socktype | SOCK_CLOEXEC, i->ai_protocol);
        if (fd >= 0 && connect(fd, i->ai_addr, i->ai_addrlen) == 0)
            break;
        sys = errno;
        fd_close(&fd);
    }
    freeaddrinfo(list);
    const int on = 1;
    if (fd >= 0) /* input goes in small pieces, each of which somebody waits for */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd < 0 ? refused(where, sys, err) : fd;
}

int http_connect(const struct http_address *a, struct cay_error *err) {
    return a->tcp ? connect_tcp(a, err) : connect_unix(a->path, err);
}

/* ---- asking ---- */

static void put_head(struct buf *b, const struct http_address *a, const struct http_request *req) {
    (void)buf_printf(b, "%s %s%s HTTP/1.1\r\n", req->method, a->prefix, req->path);
    if (!a->tcp)
        (void)buf_puts(b, "Host: localhost\r\n");
    else if (strchr(a->host, ':') != NULL)
        (void)buf_printf(b, "Host: [%s]:%s\r\n", a->host, a->port);
    else
        (void)buf_printf(b, "Host: %s:%s\r\n", a->host, a->port);
    if (req->accept != NULL)
        (void)buf_printf(b, "Accept: %s\r\n", req->accept);
    if (req->key != NULL && req->key[0] != '\0')
        (void)buf_printf(b, "Authorization: Bearer %s\r\n", req->key);
    for (const char *const *h = req->headers; h != NULL && *h != NULL; h++)
        (void)buf_printf(b, "%s\r\n", *h);
    if (req->body != NULL)
        (void)buf_printf(b, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                         req->body_len);
    else if (strcmp(req->method, "GET") != 0)
        (void)buf_puts(b, "Content-Length: 0\r\n");
    (void)buf_puts(b, "\r\n");
}

/* An answer may be there already although sending failed: a refusal of the whole request. */
static int send_all(int fd, const char *data, size_t len, struct cay_error *err) {
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EPIPE || errno == ECONNRESET ? 0
                                                         : error_errno(err, "asking the daemon");
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int http_send(int fd, const struct http_address *a, const struct http_request *req,
              struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)64 * 1024 * 1024);
    put_head(&b, a, req);
    if (req->body != NULL)
        (void)buf_append(&b, req->body, req->body_len);
    if (b.failed) {
        error_set(err, CAY_INVALID_ARGUMENT, "the request is too large");
        return error_remedy(err, "say less: fewer and shorter labels and variables");
    }
    return send_all(fd, b.data, b.len, err);
}

/* ---- the answer ---- */

static int nonsense(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "what answers is no daemon of cay: it does not speak HTTP/1.1");
    return error_remedy(err, "correct --host or CAY_HOST");
}

static int broke_off(int sys, struct cay_error *err) {
    (void)error_sys(err, sys != 0 ? sys : ECONNRESET, "the daemon broke off");
    err->code = CAY_UNAVAILABLE;
    return error_remedy(err, "look at its log, and try again");
}

static ssize_t receive(int fd, void *data, size_t len, int flags) {
    ssize_t n;
    do
        n = recv(fd, data, len, flags);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Looks before it takes, so that what follows the head stays in the socket. 1 when b holds the
 * head. */
static int take_head_bytes(int fd, struct buf *b, struct cay_error *err) {
    size_t before = b->len;
    char *to = buf_reserve(b, PIECE);
    if (to == NULL)
        return nonsense(err); /* a head that never ends */
    ssize_t n = receive(fd, to, PIECE, MSG_PEEK);
    if (n <= 0)
        return broke_off(n < 0 ? errno : 0, err);
    buf_commit(b, (size_t)n);
    size_t end = http_head_end(b->data, b->len, before);
    size_t take = end > 0 ? end - before : (size_t)n;
    if (receive(fd, b->data + before, take, MSG_WAITALL) != (ssize_t)take)
        return broke_off(errno, err);
    b->len = before + take;
    return end > 0;
}

int http_receive_head(int fd, struct http_head *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(HTTP_HEAD_MAX + PIECE);
    *ret = (struct http_head){.length = -1};
    int r;
    do
        r = take_head_bytes(fd, &b, err);
    while (r == 0);
    if (r < 0)
        return r;
    r = http_head_parse(b.data, b.len, ret);
    return r == 0 ? 0 : r == -ENOMEM ? error_sys(err, ENOMEM, "reading an answer") : nonsense(err);
}

/* A body on its way to its taker. */
struct body {
    http_sink_fn *sink;
    void *arg;
    size_t left; /* of what the caller takes */
    struct http_chunks chunks;
};

static int pass(struct body *b, const char *data, size_t len, struct cay_error *err) {
    if (len > b->left) {
        error_set(err, CAY_UNAVAILABLE, "the daemon's answer is too long");
        return error_remedy(err, "ask for less, or update cay and its daemon to one version");
    }
    b->left -= len;
    return b->sink(b->arg, data, len, err);
}

/* 0: more is to come; 1: that was the end. */
static int pass_chunks(struct body *b, const char *data, size_t len, struct cay_error *err) {
    const char *piece;
    size_t piece_len;
    for (;;) {
        int r = http_chunks_next(&b->chunks, &data, &len, &piece, &piece_len);
        if (r != HTTP_CHUNKS_PIECE)
            return r < 0 ? nonsense(err) : r == HTTP_CHUNKS_END;
        r = pass(b, piece, piece_len, err);
        if (r < 0)
            return r;
    }
}

/* As chunks say, as Content-Length says, or until the end of the connection. */
int http_receive_body(int fd, const struct http_head *head, size_t max, http_sink_fn *sink,
                      void *arg, struct cay_error *err) {
    char data[PIECE];
    struct body b = {.sink = sink, .arg = arg, .left = max};
    if (head->status == 204 || head->status == 304)
        return 0;
    int64_t left = head->length;
    while (left != 0) {
        size_t want = left > 0 && left < PIECE ? (size_t)left : PIECE;
        ssize_t n = receive(fd, data, want, 0);
        if (n == 0 && left < 0 && !head->chunked)
            return 0;
        if (n <= 0)
            return broke_off(n < 0 ? errno : 0, err);
        int r =
            head->chunked ? pass_chunks(&b, data, (size_t)n, err) : pass(&b, data, (size_t)n, err);
        if (r != 0)
            return MIN(r, 0);
        left -= left > 0 ? n : 0;
    }
    return 0;
}
