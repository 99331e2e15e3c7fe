#include "api/http/recv.h"

#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { FDS_MAX = 64 * 1024, DRAIN_MAX = 256 * 1024, DRAIN_PIECE = 4096 };

/* By descriptor. Each is used by the thread of its connection only. */
static _Atomic(struct framing *) plain[FDS_MAX], encrypted[FDS_MAX];

bool http_recv_check(int fd, struct framing *f, bool is_tls) {
    if (fd < 0 || fd >= FDS_MAX)
        return false;
    atomic_store(is_tls ? &encrypted[fd] : &plain[fd], f);
    return true;
}

void http_recv_forget(int fd) {
    if (fd < 0 || fd >= FDS_MAX)
        return;
    atomic_store(&plain[fd], NULL);
    atomic_store(&encrypted[fd], NULL);
}

static struct framing *find(_Atomic(struct framing *) *table, int fd) {
    return fd < 0 || fd >= FDS_MAX ? NULL : atomic_load(&table[fd]);
}

void http_recv_release(int fd) {
    struct framing *f = find(plain, fd);
    if (f == NULL)
        f = find(encrypted, fd);
    if (f != NULL)
        f->is_off = true;
}

/* ---- what is refused ---- */

static size_t put_refusal(char *out, size_t size) {
    static const char body[] =
        "{\"statusCode\":400,\"error\":\"Bad Request\",\"message\":\"the body of the request is "
        "not "
        "clear: a line of its chunks is malformed or does not end in CR LF\",\"remedy\":\"end each "
        "line of a chunk with CR LF, and send no long "
        "extensions\",\"code\":\"invalid_argument\"}\n";
    int n = snprintf(out, size,
                     "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nCache-Control: "
                     "no-store\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                     sizeof body - 1, body);
    return n < 0 ? 0 : (size_t)n;
}

/* A connection that is closed with unread bytes is reset, and the answer may be lost. */
static void drain(int fd) {
    char ignored[DRAIN_PIECE];
    for (size_t i = 0; i < DRAIN_MAX / sizeof ignored; i++)
        if (recvfrom(fd, ignored, sizeof ignored, MSG_DONTWAIT, NULL, NULL) <= 0)
            return;
}

/* The library asks for more only when it has answered everything before, so nothing of ours is
 * between. It sees the end of the connection next. */
static void refuse(int fd, gnutls_session_t session) {
    char text[1024];
    size_t len = put_refusal(text, sizeof text);
    if (session == NULL)
        (void)send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL); /* gone already is fine */
    else if (gnutls_record_send(session, text, len) > 0)
        (void)gnutls_bye(session, GNUTLS_SHUT_WR);
    (void)shutdown(fd, SHUT_WR);
    drain(fd);
}

/* What of n bytes that were read is passed on; 0 ends the connection. */
static ssize_t check(struct framing *f, int fd, gnutls_session_t session, const void *data,
                     ssize_t n) {
    size_t clear = framing_take(f, data, (size_t)n);
    if (clear == 0)
        refuse(fd, session);
    else if (f->is_bad)
        (void)shutdown(fd, SHUT_RD); /* so that the library comes back when it wants more */
    return (ssize_t)clear;
}

/* ---- in place of the libraries' own ---- */

ssize_t recv(int fd, void *data, size_t size, int flags) {
    struct framing *f = find(plain, fd);
    bool is_checked = f != NULL && !f->is_off && flags == 0; /* the library's are */
    if (is_checked && f->is_bad) {
        refuse(fd, NULL);
        return 0;
    }
    ssize_t n = recvfrom(fd, data, size, flags, NULL, NULL);
    return is_checked && n > 0 ? check(f, fd, NULL, data, n) : n;
}

ssize_t gnutls_record_recv(gnutls_session_t session, void *data, size_t size) {
    unsigned char number[8];
    int fd = gnutls_transport_get_int(session);
    struct framing *f = find(encrypted, fd);
    bool is_checked = f != NULL && !f->is_off;
    if (is_checked && f->is_bad) {
        refuse(fd, session);
        return 0;
    }
    ssize_t n = gnutls_record_recv_seq(session, data, size, number);
    return is_checked && n > 0 ? check(f, fd, session, data, n) : n;
}
