#include "client/daemon.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "client/progress.h"
#include "client/reply.h"
#include "client/start.h"

/* Where nobody listens although somebody should, a daemon is started first. */
int daemon_dial(const struct daemon *d, struct cay_error *err) {
    if (d->remote.kind != REMOTE_NONE)
        return remote_dial(&d->remote, err);
    int fd = http_connect(&d->address, err);
    if (fd >= 0 || !d->start || (err->sys != ENOENT && err->sys != ECONNREFUSED))
        return fd;
    const struct daemon_choice choice = {.config = d->config};
    int r = daemon_start(&choice, d->state_dir, err);
    return r < 0 ? r : http_connect(&d->address, err);
}

/* ---- a daemon that restarts ---- */

enum { RESTART_MS = 30 * 1000, RETRY_US = 100 * 1000 };

/* A request that was refused before anything was done, because the daemon is stopping or being
 * replaced, is made again for a while; where nobody is left, dialling starts a daemon. */
static bool must_try_again(const struct http_head *head, int64_t deadline) {
    if (head->status != 503 || http_head_get(head, "retry-after", NULL) == NULL ||
        clock_expired(deadline))
        return false;
    (void)usleep(RETRY_US);
    return true;
}

/* ---- asking ---- */

void daemon_put_escaped(struct buf *path, const char *text) {
    for (const char *p = text; *p != '\0'; p++) {
        if (isalnum((unsigned char)*p) || strchr("-._~", *p) != NULL)
            (void)buf_putc(path, *p);
        else
            (void)buf_printf(path, "%%%02X", (unsigned char)*p);
    }
}

static enum cay_code class_of(int status) {
    static const struct {
        enum cay_code code;
        int status;
    } rows[] = {
#define ROW(id, number, name, http, exit) {id, http},
        CAY_ERROR_TABLE(ROW)
#undef ROW
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status && rows[i].code != CAY_OK)
            return rows[i].code;
    return CAY_INTERNAL;
}

/* The error object of docs/api.md; what another server says is known by its status only. */
static int take_refusal(int status, const struct buf *body, struct cay_error *err) {
    _cleanup_(reply_free) struct reply error = {0};
    struct cay_error ignored;
    const char *message = "";
    if (reply_parse(body, &error, &ignored) == 0)
        message = reply_string(&error, 0, "message");
    if (message[0] == '\0')
        return error_set(err, class_of(status), "the daemon refused it (HTTP status %d)", status);
    enum cay_code code = error_code_from_name(reply_string(&error, 0, "code"));
    error_set(err, code == CAY_OK ? class_of(status) : code, "%s", message);
    (void)error_remedy(err, "%s", reply_string(&error, 0, "remedy"));
    error_sanitize(err);
    return -(int)err->code;
}

static int take_body(void *arg, const char *data, size_t len, struct cay_error *err) {
    return buf_append(arg, data, len) < 0 ? error_sys(err, ENOMEM, "reading an answer") : 0;
}

/* The answer itself, or lines of progress that end with it. */
static int take_answer(int fd, const struct http_head *head, const struct daemon_request *req,
                       struct buf *body, struct cay_error *err) {
    if (req->progress == NULL || head->status >= 400) {
        int r = http_receive_body(fd, head, body->max, take_body, body, err);
        if (r < 0)
            return r;
        bool is_done = head->status >= 200 && head->status < 300;
        return is_done ? 0 : take_refusal(head->status, body, err);
    }
    struct progress p = {.tell = req->progress, .arg = req->progress_arg, .answer = body};
    int r = http_receive_body(fd, head, body->max, progress_take, &p, err);
    if (r == 0)
        r = progress_end(&p, err);
    progress_free(&p);
    return r <= 0 ? r : take_refusal(p.status, body, err);
}

/* Sends it and reads the head of the answer. Returns the connection. */
static int ask(const struct daemon *d, const struct http_request *http, struct http_head *ret,
               struct cay_error *err) {
    int64_t deadline = clock_deadline(RESTART_MS);
    for (;;) {
        _cleanup_(closep) int fd = daemon_dial(d, err);
        int r = fd < 0 ? fd : http_send(fd, &d->address, http, err);
        if (r == 0)
            r = http_receive_head(fd, ret, err);
        if (r < 0)
            return r;
        if (!must_try_again(ret, deadline))
            return TAKE_FD(fd);
        http_head_free(ret);
    }
}

int daemon_call(const struct daemon *d, const struct daemon_request *req, struct buf *body,
                struct cay_error *err) {
    static const char *const progress[] = {"X-Cay-Progress: lines", NULL};
    struct http_request http = {
        .method = req->method,
        .path = req->path,
        .accept = "application/json",
        .key = d->key,
        .headers = req->progress != NULL ? progress : NULL,
        .body = req->body != NULL ? buf_text(req->body) : NULL,
        .body_len = req->body != NULL ? req->body->len : 0,
    };
    buf_clear(body);
    _cleanup_(http_head_free) struct http_head head = {0};
    _cleanup_(closep) int fd = ask(d, &http, &head, err);
    return fd < 0 ? fd : take_answer(fd, &head, req, body, err);
}

/* ---- an operation of cay-init ---- */

static int broken_defaults(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the daemon sent broken defaults of the sandbox");
    return error_remedy(err, "update cay and its daemon to one version");
}

/* Decodes the fields that say defaults where they stand: the head's text is ours. */
static int unescape_defaults(struct http_head *h) {
    for (size_t i = 0; i < h->field_count; i++) {
        const struct http_field *f = &h->fields[i];
        if (strncasecmp(f->name, "x-cay-", 6) == 0 &&
            http_unescape(h->text + (f->value - h->text)) < 0)
            return -EPROTO;
    }
    return 0;
}

/* NULL if it is absent or empty. */
static const char *default_of(const struct daemon_connection *c, const char *name) {
    const char *value = http_head_get(&c->head, name, NULL);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int take_defaults(struct daemon_connection *c, struct cay_error *err) {
    const char *value = NULL;
    size_t n = 0;
    if (unescape_defaults(&c->head) < 0)
        return broken_defaults(err);
    c->user = default_of(c, "x-cay-user");
    c->work_dir = default_of(c, "x-cay-work-dir");
    c->name = default_of(c, "x-cay-name");
    c->python = default_of(c, "x-cay-python");
    if (c->work_dir == NULL || c->name == NULL || strlen(c->name) > NAME_MAX_LEN)
        return broken_defaults(err);
    c->env = calloc(c->head.field_count + 1, sizeof *c->env);
    if (c->env == NULL)
        return error_sys(err, ENOMEM, "connecting to the sandbox");
    while ((value = http_head_get(&c->head, "x-cay-env", value)) != NULL)
        c->env[n++] = value;
    return 0;
}

/* The connection is a raw stream, or says why not. */
static int take_upgrade(struct daemon_connection *c, struct cay_error *err) {
    if (c->head.status == 101)
        return take_defaults(c, err);
    _cleanup_(buf_free) struct buf body = BUF_INIT(HTTP_HEAD_MAX);
    int r = http_receive_body(c->fd, &c->head, body.max, take_body, &body, err);
    return r < 0 ? r : take_refusal(c->head.status, &body, err);
}

int daemon_check_name(const char *who, struct cay_error *err) {
    if (who[0] != '\0')
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the name of the sandbox is empty");
    return error_remedy(err, "see 'cay ls -a' for names");
}

static int connect_with(const struct daemon *d, const char *who, const char *header,
                        struct daemon_connection *ret, struct cay_error *err) {
    const char *const upgrade[] = {"Connection: Upgrade", "Upgrade: cay-init", header, NULL};
    *ret = DAEMON_CONNECTION_INIT;
    int r = daemon_check_name(who, err);
    if (r < 0)
        return r;
    _cleanup_(buf_free) struct buf path = BUF_INIT(8192);
    (void)buf_puts(&path, "/api/cay/sandbox/");
    daemon_put_escaped(&path, who);
    (void)buf_puts(&path, "/connect");
    if (path.failed)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name is longer than any sandbox's");
    struct http_request http = {.method = "GET",
                                .path = buf_text(&path),
                                .accept = "application/json",
                                .key = d->key,
                                .headers = upgrade};
    ret->fd = ask(d, &http, &ret->head, err);
    r = ret->fd < 0 ? ret->fd : take_upgrade(ret, err);
    if (r < 0)
        daemon_disconnect(ret);
    return r;
}

int daemon_connect(const struct daemon *d, const char *who, struct daemon_connection *ret,
                   struct cay_error *err) {
    return connect_with(d, who, NULL, ret, err);
}

int daemon_connect_python(const struct daemon *d, const char *who, bool is_changed,
                          struct daemon_connection *ret, struct cay_error *err) {
    return connect_with(d, who, is_changed ? "X-Cay-Python: changed" : "X-Cay-Python: warm", ret,
                        err);
}

void daemon_disconnect(struct daemon_connection *c) {
    fd_close(&c->fd);
    free(c->env);
    http_head_free(&c->head);
    *c = DAEMON_CONNECTION_INIT;
}
