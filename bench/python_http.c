#include "python_http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "base/str.h"

enum { ANSWER_MAX = 65536, WARM_TRIES = 200 };

/* The daemon is ours: its answers have a length. */
static bool is_whole(struct buf *answer) {
    static const char name[] = "Content-Length: ";
    const char *text = buf_text(answer), *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, name);
    if (end == NULL || length == NULL)
        return false;
    char digits[24] = "";
    uint64_t wanted = 0;
    length += sizeof name - 1;
    memcpy(digits, length, MIN(strspn(length, "0123456789"), sizeof digits - 1));
    return str_to_u64(digits, ANSWER_MAX, &wanted) == 0 &&
           answer->len >= (size_t)(end + 4 - text) + wanted;
}

static int ask(struct python_http *h, const char *code, bool on_demand, struct buf *answer,
               struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(ANSWER_MAX), out = BUF_INIT(ANSWER_MAX);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "code", code);
    if (on_demand)
        jsonw_put_string(&w, "cwd", "/tmp");
    jsonw_end_object(&w);
    (void)buf_printf(&out,
                     "POST /api/cay/python HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     body.len);
    (void)buf_append(&out, body.data, body.len);
    if (fd_write_all(h->fd, out.data, out.len) < 0)
        return error_set(err, CAY_UNAVAILABLE, "the daemon hung up");
    while (!is_whole(answer)) {
        char part[4096];
        ssize_t n = read(h->fd, part, sizeof part);
        if (n <= 0 || buf_append(answer, part, (size_t)n) < 0)
            return error_set(err, CAY_UNAVAILABLE, "the daemon hung up");
    }
    return 0;
}

int python_http_run(struct python_http *h, const char *code, bool on_demand, int64_t *ret_us,
                    struct cay_error *err) {
    _cleanup_(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    int64_t begin = clock_us();
    int r = ask(h, code, on_demand, &answer, err);
    *ret_us = clock_us() - begin;
    if (r == 0 && strstr(buf_text(&answer), "\"exit_code\":0") == NULL)
        return error_set(err, CAY_INTERNAL, "the daemon answered: %.100s", buf_text(&answer));
    return r;
}

static int await_warm(struct python_http *h, struct cay_error *err) {
    for (int i = 0; i < WARM_TRIES; i++) {
        _cleanup_(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
        int r = ask(h, "pass", false, &answer, err);
        if (r < 0 || strstr(buf_text(&answer), "\"warm\":true") != NULL)
            return r;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return error_set(err, CAY_TIMEOUT, "the daemon has no warm interpreter");
}

int python_http_open(struct python_http *h, const char *path, struct cay_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_copy(address.sun_path, sizeof address.sun_path, path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the socket's name is too long");
    h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (h->fd < 0 || connect(h->fd, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(err, "connecting to '%s'", path);
    return await_warm(h, err);
}
