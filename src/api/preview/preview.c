/* The proxy. A request is sent on as it comes, its answer read up to the end of its head; the rest
 * goes through as a stream, or both ways if it was an upgrade. The application inside is hostile:
 * it may stall, lie about lengths, or talk before it is asked. */
#include "api/preview/preview.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "api/call.h"
#include "api/preview/head.h"
#include "api/preview/token.h"
#include "api/toolbox/toolbox.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "client/http_answer.h"
#include "wire/client_files.h"

enum {
    STALL_MS = 5 * 60 * 1000,      /* a body that nobody takes */
    ANSWERED_MS = 30 * 1000,       /* the same, from who has begun to answer */
    EARLY_MAX = 1024 * 1024,       /* of an answer that comes while the body is sent */
    REQUEST_MAX = 2 * 1024 * 1024, /* a head */
    CHUNK = 64 * 1024,
    INTERIM_MAX = 32, /* heads before that of the answer */
    STATUS_BAD_GATEWAY = 502,
    STATUS_TIMEOUT = 504,
};

enum framing { UNTIL_END, SIZED, CHUNKED };

struct passage {
    struct sink sink;     /* of the request's body */
    struct stream stream; /* of the answer's */
    unsigned references;  /* of these two; both are used by one thread */
    struct call *call;    /* not to be used by the stream */
    struct toolbox t;
    int client;      /* its connection, to notice that it hung up */
    bool is_chunked; /* the request's body */
    bool wants_upgrade;
    bool is_deaf;   /* the application takes nothing more */
    bool has_ended; /* it says nothing more */
    struct buf in;  /* what it said and was not used yet */
    enum framing framing;
    uint64_t left; /* if SIZED */
    struct http_chunks chunks;
};

static void put_passage(struct passage *p) {
    if (--p->references > 0)
        return;
    toolbox_end(&p->t);
    buf_free(&p->in);
    free(p);
}

static int fail(struct call *c, struct cay_error *err, unsigned status, const char *what) {
    error_set(err, status == STATUS_TIMEOUT ? CAY_TIMEOUT : CAY_UNAVAILABLE,
              "port %u of the sandbox %s", c->preview.port, what);
    (void)error_remedy(err, "look at what listens there, and at what it logs");
    return toolbox_fault(c, NULL, status, err);
}

/* ---- to the application ---- */

static void take_early(struct passage *p) {
    char *room = buf_reserve(&p->in, CHUNK);
    ssize_t n = room == NULL ? 0 : recv(p->t.wire.fd, room, CHUNK, MSG_DONTWAIT);
    if (n > 0)
        buf_commit(&p->in, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        p->has_ended = p->is_deaf = true;
}

/* Sends as much as goes; what the application says meanwhile is kept, or both would wait for each
 * other. 0, or -ETIMEDOUT. */
static int send_some(struct passage *p, const char **data, size_t *len) {
    bool has_room = !p->wants_upgrade && !p->has_ended && p->in.len < EARLY_MAX;
    struct pollfd fd = {.fd = p->t.wire.fd, .events = (short)(POLLOUT | (has_room ? POLLIN : 0))};
    int n = poll(&fd, 1, p->in.len > 0 ? ANSWERED_MS : STALL_MS);
    if (n == 0)
        return -ETIMEDOUT;
    if (has_room && (fd.revents & (POLLIN | POLLHUP)) != 0)
        take_early(p);
    if ((fd.revents & (POLLOUT | POLLERR | POLLHUP)) == 0)
        return 0;
    ssize_t sent = send(p->t.wire.fd, *data, *len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
        *data += sent;
        *len -= (size_t)sent;
    } else if (errno != EAGAIN && errno != EINTR) {
        p->is_deaf = true;
    }
    return 0;
}

/* Who does not listen to the end may have answered already. */
static int send_all(struct passage *p, const char *data, size_t len, struct cay_error *err) {
    while (len > 0 && !p->is_deaf) {
        if (send_some(p, &data, &len) == 0)
            continue;
        if (p->in.len == 0)
            return fail(p->call, err, STATUS_TIMEOUT, "takes no more of the request");
        if (p->in.len >= EARLY_MAX)
            return fail(p->call, err, STATUS_BAD_GATEWAY,
                        "answers at length before it has read the request");
        p->is_deaf = true;
    }
    return 0;
}

static int write_body(struct sink *s, const char *data, size_t len, struct cay_error *err) {
    struct passage *p = (struct passage *)s; /* its first member */
    char size[24];
    int r = 0;
    if (p->is_chunked) {
        (void)snprintf(size, sizeof size, "%zx\r\n", len);
        r = send_all(p, size, strlen(size), err);
    }
    if (r == 0)
        r = send_all(p, data, len, err);
    if (r == 0 && p->is_chunked)
        r = send_all(p, "\r\n", 2, err);
    return r;
}

static void close_sink(struct sink *s) {
    put_passage((struct passage *)s);
}

/* ---- from the application ---- */

/* Waits until it says something: 0, or -ECANCELED if the client has gone. */
static int await(const struct passage *p) {
    for (;;) {
        struct pollfd fds[] = {{.fd = p->t.wire.fd, .events = POLLIN},
                               {.fd = p->client, .events = POLLRDHUP}};
        int n = poll(fds, ARRAY_LEN(fds), -1);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0 && fds[0].revents != 0)
            return 0;
        if (n > 0 && fds[1].revents != 0)
            return -ECANCELED;
    }
}

/* Reads no byte behind the head: the connection may become a stream of its own. */
static int read_piece_of_head(struct passage *p) {
    size_t before = p->in.len;
    char *room = buf_reserve(&p->in, CHUNK);
    if (room == NULL)
        return -ENOBUFS;
    ssize_t n = recv(p->t.wire.fd, room, CHUNK, MSG_PEEK);
    if (n <= 0)
        return n < 0 && errno == EINTR ? 0 : -EPIPE;
    buf_commit(&p->in, (size_t)n);
    size_t end = http_head_end(p->in.data, p->in.len, before);
    size_t used = end > 0 ? end - before : (size_t)n;
    p->in.len = before + used;
    return recv(p->t.wire.fd, p->in.data + before, used, 0) == (ssize_t)used ? 0 : -EPIPE;
}

/* The head of its answer, taken off `in`. */
static int read_head(struct passage *p, struct http_head *ret, struct cay_error *err) {
    size_t end, from = 0;
    while ((end = http_head_end(p->in.data, p->in.len, from)) == 0) {
        from = p->in.len;
        int r = p->has_ended || p->in.len > HTTP_HEAD_MAX ? -EPIPE : await(p);
        if (r == 0)
            r = read_piece_of_head(p);
        if (r < 0)
            return fail(p->call, err, STATUS_BAD_GATEWAY,
                        p->in.len > 0 ? "did not answer in HTTP" : "hung up without an answer");
    }
    if (str_starts(p->in.data, "HTTP/1.0 "))
        p->in.data[7] = '1'; /* the same to us */
    int r = http_head_parse(p->in.data, end, ret);
    if (r < 0)
        return fail(p->call, err, STATUS_BAD_GATEWAY, "answered in broken HTTP");
    buf_consume(&p->in, end);
    return 0;
}

/* Without those that only say that there is more to come. */
static int read_last_head(struct passage *p, struct http_head *ret, struct cay_error *err) {
    for (unsigned i = 0; i < INTERIM_MAX; i++) {
        *ret = (struct http_head){0};
        int r = read_head(p, ret, err);
        if (r < 0 || ret->status >= 200 || ret->status == 101)
            return r;
        http_head_free(ret);
    }
    return fail(p->call, err, STATUS_BAD_GATEWAY, "promises an answer without end");
}

/* More bytes from the application into `in`: false at their end. */
static bool read_more(struct passage *p) {
    char *room = NULL;
    if (p->has_ended || await(p) < 0 || (room = buf_reserve(&p->in, CHUNK)) == NULL)
        return false;
    ssize_t n = recv(p->t.wire.fd, room, CHUNK, 0);
    if (n > 0)
        buf_commit(&p->in, (size_t)n);
    return n > 0;
}

/* One piece of content at the front of `in`: HTTP_CHUNKS_PIECE, _MORE or _END, or -EPROTO. */
static int next_piece(struct passage *p, size_t max, const char **ret, size_t *ret_len) {
    const char *data = p->in.data;
    size_t len = p->in.len;
    if (p->framing == CHUNKED) {
        len = MIN(len, max);
        int r = http_chunks_next(&p->chunks, &data, &len, ret, ret_len);
        return r;
    }
    if (p->framing == SIZED && p->left == 0)
        return HTTP_CHUNKS_END;
    *ret = data;
    *ret_len = MIN(len, max);
    if (p->framing == SIZED)
        *ret_len = (size_t)MIN((uint64_t)*ret_len, p->left);
    return *ret_len > 0 ? HTTP_CHUNKS_PIECE : HTTP_CHUNKS_MORE;
}

static size_t read_body(struct stream *s, char *data, size_t size) {
    struct passage *p = (struct passage *)(void *)((char *)s - offsetof(struct passage, stream));
    for (;;) {
        const char *piece = NULL;
        size_t len = 0, before = MIN(p->in.len, size);
        int r = next_piece(p, size, &piece, &len);
        if (r == HTTP_CHUNKS_PIECE) {
            memcpy(data, piece, len);
            if (p->framing == SIZED)
                p->left -= len;
            buf_consume(&p->in, (size_t)(piece + len - p->in.data));
            return len;
        }
        if (r == HTTP_CHUNKS_END)
            return 0;
        if (r == HTTP_CHUNKS_MORE && p->framing == CHUNKED)
            buf_consume(&p->in, before);
        if (r < 0 || (p->in.len == 0 && !read_more(p))) {
            s->failed = r < 0 || p->framing != UNTIL_END;
            return 0;
        }
    }
}

static void close_stream(struct stream *s) {
    put_passage((struct passage *)(void *)((char *)s - offsetof(struct passage, stream)));
}

/* ---- the answer ---- */

static int pass_cookie(struct call *c, const char *value, struct cay_error *err) {
    _cleanup_(buf_free) struct buf cookie = BUF_INIT(HTTP_HEAD_MAX + TARGET_SIZE);
    bool by_host = c->preview.by_host;
    size_t path_len =
        by_host ? 0 : (size_t)(c->preview.rest + 1 - c->uri); /* "/" behind the port */
    preview_put_set_cookie(&cookie, value, by_host ? NULL : c->uri, path_len);
    return call_add_header(c, "Set-Cookie", buf_text(&cookie), err);
}

static int pass_field(struct call *c, const char *name, const char *value, struct cay_error *err) {
    if (strcasecmp(name, "Set-Cookie") == 0)
        return pass_cookie(c, value, err);
    return call_add_header(c, name, value, err);
}

static int pass_fields(struct call *c, const struct http_head *h, struct cay_error *err) {
    const char *connection = http_head_get(h, "Connection", NULL);
    int r = 0;
    for (size_t i = 0; r == 0 && i < h->field_count; i++) {
        char *value = (char *)(uintptr_t)h->fields[i].value; /* in h->text, which is ours */
        for (char *tab = value; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' '; /* the library for HTTP takes none */
        if (value[0] != '\0' &&
            preview_passes_back(h->fields[i].name, value, connection, c->preview.by_host))
            r = pass_field(c, h->fields[i].name, value, err);
    }
    return r;
}

/* Pages of a sandbox that share our host must not act as ours: they get an origin of their own,
 * and may then read what they have the path of. */
static int fence(struct call *c, const struct http_head *h, struct cay_error *err) {
    static const char rules[] = "sandbox allow-scripts allow-forms allow-popups allow-modals "
                                "allow-downloads";
    int r = call_add_header(c, "Content-Security-Policy", rules, err);
    if (r == 0 && http_head_get(h, "Access-Control-Allow-Origin", NULL) == NULL)
        r = call_add_header(c, "Access-Control-Allow-Origin", "*", err);
    return r;
}

/* A token in the query is kept by the browser, so that what a page loads has it too. */
static int keep_token(struct call *c, struct cay_error *err) {
    char cookie[512];
    size_t len = 0;
    const char *token = preview_query(c->uri, &len);
    if (token == NULL || !preview_token_fits(c->manager, c->who, PREVIEW_PORTS, token, len))
        return 0;
    (void)snprintf(cookie, sizeof cookie, "%s%s=%.*s; Path=/; HttpOnly; SameSite=Lax%s",
                   PREVIEW_COOKIE, c->who, (int)len, token, c->is_tls ? "; Secure" : "");
    return call_add_header(c, "Set-Cookie", cookie, err);
}

static int pass_head(struct call *c, const struct http_head *h, struct cay_error *err) {
    int r = pass_fields(c, h, err);
    if (r == 0)
        r = c->preview.by_host ? keep_token(c, err) : fence(c, h, err);
    c->answer.status = (unsigned)h->status;
    c->answer.is_foreign = true;
    return r;
}

/* The connection is the client's from now on. */
static int switch_protocols(struct passage *p, const struct http_head *h, struct cay_error *err) {
    struct call *c = p->call;
    const char *upgrade = http_head_get(h, "Upgrade", NULL);
    if (!p->wants_upgrade || upgrade == NULL || p->in.len > 0)
        return fail(c, err, STATUS_BAD_GATEWAY, "changed the protocol unasked");
    int r = pass_head(c, h, err);
    if (r == 0)
        r = call_add_header(c, "Upgrade", upgrade, err);
    c->answer.status = 200; /* which becomes 101 with what follows */
    c->answer.connection = TAKE_FD(p->t.wire.fd);
    c->answer.operation = TAKE_PTR(p->t.operation);
    return r;
}

static int pass_answer(struct passage *p, const struct http_head *h, struct cay_error *err) {
    struct call *c = p->call;
    bool is_head = str_equal(c->method, "HEAD");
    bool is_empty = h->status == 204 || h->status == 304 || h->length == 0;
    int r = pass_head(c, h, err);
    if (r < 0 || is_empty || (is_head && h->length < 0))
        return r;
    p->framing = h->chunked ? CHUNKED : h->length >= 0 ? SIZED : UNTIL_END;
    p->left = h->length >= 0 ? (uint64_t)h->length : 0;
    p->stream.read = read_body;
    p->stream.close = close_stream;
    p->references++;
    c->answer.stream = &p->stream;
    c->answer.stream_bytes = p->left;
    return 0;
}

static int handle(struct call *c, struct cay_error *err) {
    struct passage *p = (struct passage *)c->sink;
    struct http_head head = {0};
    if (p == NULL)
        return 0; /* answered by open */
    int r = p->is_chunked ? send_all(p, "0\r\n\r\n", 5, err) : 0;
    if (r == 0)
        r = read_last_head(p, &head, err);
    if (r < 0)
        return r;
    r = head.status == 101 ? switch_protocols(p, &head, err) : pass_answer(p, &head, err);
    http_head_free(&head);
    return r;
}

/* ---- the request ---- */

struct head_writer {
    struct buf out;
    struct preview_head head;
};

static void put_field(void *user, const char *name, const char *value) {
    struct head_writer *w = user;
    preview_put_field(&w->out, &w->head, name, value);
}

/* A path for the application must be one line of it. */
static int check_rest(const struct call *c, struct cay_error *err) {
    for (const char *p = c->preview.rest; *p != '\0'; p++) {
        if ((unsigned char)*p > ' ' && *p != 0x7f)
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "the path has a space or a control character");
        return error_remedy(err, "encode it as %%XX");
    }
    return 0;
}

static int send_head(struct passage *p, struct cay_error *err) {
    struct call *c = p->call;
    const char *upgrade = call_header(c, "Upgrade"), *host = call_header(c, "Host");
    struct head_writer w = {
        .out = BUF_INIT(REQUEST_MAX),
        .head =
            {
                .place = &c->preview,
                .method = c->method,
                .host = host != NULL ? host : "localhost",
                .connection = call_header(c, "Connection"),
                .length = call_header(c, "Content-Length"),
                .upgrade = c->wants_websocket ? upgrade : NULL,
                .is_chunked = call_header(c, "Transfer-Encoding") != NULL,
                .is_tls = c->is_tls,
                .hides_key = c->has_key,
            },
    };
    p->is_chunked = w.head.is_chunked;
    p->wants_upgrade = w.head.upgrade != NULL;
    preview_put_request(&w.out, &w.head);
    call_each_header(c, put_field, &w);
    preview_put_end(&w.out);
    int r = w.out.failed ? error_set(err, CAY_INVALID_ARGUMENT, "the request's head is too long")
                         : send_all(p, w.out.data, w.out.len, err);
    buf_free(&w.out);
    return r;
}

/* Visitors may look at what runs; whether something runs is for those who may use the sandbox. */
static int wake_if_asked(struct call *c, struct cay_error *err) {
    const char *asked = call_header(c, PREVIEW_START);
    if (asked == NULL || !str_equal(asked, "true") || c->is_visitor)
        return 0;
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    bool runs = r.state == SANDBOX_STARTED;
    sandbox_record_free(&r);
    return code < 0 || runs ? code : manager_wake(c->manager, c->who, err);
}

static int dial(struct passage *p, struct cay_error *err) {
    struct call *c = p->call;
    int r = wake_if_asked(c, err);
    if (r == 0)
        r = toolbox_begin(c, &p->t, err);
    if (r < 0)
        return r;
    toolbox_hurry(&p->t);
    r = wire_dial_port(&p->t.wire, c->preview.port, err);
    if (r == 0)
        return 0;
    (void)error_remedy(err, "start a server on port %u inside; it may listen on 127.0.0.1",
                       c->preview.port);
    return toolbox_fault(c, NULL, STATUS_BAD_GATEWAY, err);
}

/* Relative links of a page need the slash. */
static int redirect(struct call *c, struct cay_error *err) {
    char to[TARGET_SIZE + 8];
    size_t len = strcspn(c->uri, "?");
    if (str_format(to, sizeof to, "%.*s/%s", (int)len, c->uri, c->uri + len) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the path is too long");
    c->answer.status = 308;
    return call_add_header(c, "Location", to, err);
}

static int open_passage(struct call *c, struct cay_error *err) {
    c->is_noted = true; /* the audit has what is done to sandboxes, not what is looked at inside */
    if (!c->preview.is_one) {
        error_set(err, CAY_INVALID_ARGUMENT, "this names no port of a sandbox");
        return error_remedy(err, "use /preview/ID/PORT/, with a port from 1 to 65535");
    }
    if (c->preview.rest[0] == '\0')
        return redirect(c, err);
    int r = check_rest(c, err);
    if (r < 0)
        return r;
    struct passage *p = calloc(1, sizeof *p);
    if (p == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    p->references = 1;
    p->call = c;
    p->t = TOOLBOX_INIT;
    p->client = call_socket(c);
    p->in = BUF_INIT(HTTP_HEAD_MAX + EARLY_MAX + (size_t)2 * CHUNK);
    r = dial(p, err);
    if (r == 0)
        r = send_head(p, err);
    if (r < 0) {
        put_passage(p);
        return r;
    }
    p->sink = (struct sink){write_body, close_sink};
    c->sink = &p->sink;
    return 0;
}

static const struct route routes[] = {
    {"*", "/preview/{who}/{port}", handle, NEED_USE, open_passage},
};
const struct route_table preview_routes = {routes, ARRAY_LEN(routes)};
