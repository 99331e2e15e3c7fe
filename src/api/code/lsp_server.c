#include "api/code/lsp_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/code/lsp_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "wire/client_command.h"

enum {
    OUT_MAX = 16 * 1024 * 1024, /* said, not yet taken: a document and answers */
    COMPLAINT_MAX = 300,
    NOT_FOUND_EXIT = 127,
    METHOD_NOT_FOUND = -32601,
};

struct lsp_server {
    struct lsp_place place;
    struct lsp_server *next; /* in the table; its lock: */
    bool is_listed;
    int users;

    pthread_mutex_t lock; /* one conversation at a time: of what follows */
    bool is_started, has_ended;
    int fd, exit_code;
    struct wire_reader wire;
    struct lsp_reader reader;
    struct buf out;
    uint64_t credit, last_id;
    struct strv documents;
    struct buf complaint; /* the last that it wrote to stderr */
};

/* ---- the table ---- */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lsp_server *table;

static bool is_at(const struct lsp_server *s, const struct lsp_place *p) {
    return str_equal(s->place.sandbox, p->sandbox) && str_equal(s->place.language, p->language) &&
           str_equal(s->place.project, p->project);
}

static void unlist(struct lsp_server *s) {
    struct lsp_server **at = &table;
    while (*at != NULL && *at != s)
        at = &(*at)->next;
    if (*at == s)
        *at = s->next;
    s->is_listed = false;
}

static void server_free(struct lsp_server *s) {
    fd_close(&s->fd);
    wire_reader_free(&s->wire);
    lsp_reader_free(&s->reader);
    buf_free(&s->out);
    buf_free(&s->complaint);
    strv_free(&s->documents);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Its connection has ended, since its sandbox has, or the program. */
static bool is_dead(const struct lsp_server *s) {
    struct pollfd p = {.fd = s->fd, .events = POLLRDHUP};
    return s->has_ended || !s->is_started || poll(&p, 1, 0) > 0;
}

/* What nobody uses and nobody can use is forgotten. */
static void sweep(void) {
    struct lsp_server *next;
    for (struct lsp_server *s = table; s != NULL; s = next) {
        next = s->next;
        if (s->users > 0 || !is_dead(s))
            continue;
        unlist(s);
        server_free(s);
    }
}

static int check_room(const char *sandbox, struct cay_error *err) {
    size_t all = 0, here = 0;
    for (const struct lsp_server *s = table; s != NULL; s = s->next) {
        all++;
        here += str_equal(s->place.sandbox, sandbox);
    }
    if (all < LSP_SERVERS_MAX && here < LSP_OF_SANDBOX_MAX)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "%d language servers run already",
              here == LSP_OF_SANDBOX_MAX ? LSP_OF_SANDBOX_MAX : LSP_SERVERS_MAX);
    return error_remedy(err, "stop some of them");
}

static struct lsp_server *add(const struct lsp_place *place) {
    struct lsp_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->place = *place;
    s->fd = -1;
    s->wire = WIRE_READER_INIT;
    s->reader = LSP_READER_INIT;
    s->out = BUF_INIT(OUT_MAX);
    s->complaint = BUF_INIT(COMPLAINT_MAX);
    s->credit = WIRE_INPUT_CREDIT;
    (void)pthread_mutex_init(&s->lock, NULL);
    s->next = table;
    s->is_listed = true;
    return table = s;
}

static int find(const struct lsp_place *place, bool make, struct lsp_server **ret, bool *ret_new,
                struct cay_error *err) {
    sweep();
    struct lsp_server *s = table;
    while (s != NULL && !is_at(s, place))
        s = s->next;
    *ret_new = s == NULL && make;
    if (*ret_new) {
        int r = check_room(place->sandbox, err);
        if (r < 0)
            return r;
        s = add(place);
        if (s == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    if (s != NULL)
        s->users++;
    *ret = s;
    return 0;
}

/* One that ended while it was waited for is none. */
int lsp_server_take(const struct lsp_place *place, bool make, struct lsp_server **ret,
                    struct cay_error *err) {
    for (;;) {
        bool is_new = false;
        *ret = NULL;
        (void)pthread_mutex_lock(&table_lock);
        int r = find(place, make, ret, &is_new, err);
        (void)pthread_mutex_unlock(&table_lock);
        if (*ret == NULL)
            return r;
        (void)pthread_mutex_lock(&(*ret)->lock);
        if (is_new || lsp_server_is_started(*ret))
            return 0;
        lsp_server_put(*ret);
    }
}

void lsp_server_put(struct lsp_server *s) {
    if (s == NULL)
        return;
    bool is_over = s->has_ended || !s->is_started;
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_mutex_lock(&table_lock);
    if (is_over && s->is_listed)
        unlist(s);
    bool is_last = --s->users == 0 && !s->is_listed;
    (void)pthread_mutex_unlock(&table_lock);
    if (is_last)
        server_free(s);
}

/* ---- its life ---- */

bool lsp_server_is_started(const struct lsp_server *s) {
    return s->is_started && !s->has_ended;
}

void lsp_server_begin(struct lsp_server *s, int fd) {
    s->fd = fd;
    s->is_started = true;
}

void lsp_server_end(struct lsp_server *s) {
    fd_close(&s->fd); /* cay-init ends its whole tree */
    s->has_ended = true;
}

bool lsp_server_has_document(const struct lsp_server *s, const char *uri) {
    return strv_has(&s->documents, uri);
}

int lsp_server_add_document(struct lsp_server *s, const char *uri, struct cay_error *err) {
    if (s->documents.len == LSP_DOCUMENTS_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "%d documents are open already", LSP_DOCUMENTS_MAX);
        return error_remedy(err, "close some of them");
    }
    return strv_push(&s->documents, uri) < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory")
                                             : 0;
}

void lsp_server_drop_document(struct lsp_server *s, const char *uri) {
    strv_drop(&s->documents, uri);
}

/* ---- messages ---- */

static void begin_text(struct buf *text, struct jsonw *w) {
    *text = BUF_INIT(OUT_MAX);
    *w = JSONW_INIT(text);
    jsonw_begin_object(w);
    jsonw_put_string(w, "jsonrpc", "2.0");
}

void lsp_message_begin(struct lsp_server *s, const char *method, bool wants_answer,
                       struct lsp_message *m) {
    begin_text(&m->text, &m->w);
    m->id = wants_answer ? ++s->last_id : 0;
    if (wants_answer)
        jsonw_put_unsigned(&m->w, "id", m->id);
    jsonw_put_string(&m->w, "method", method);
    jsonw_key(&m->w, "params");
}

void lsp_message_free(struct lsp_message *m) {
    buf_free(&m->text);
}

static int queue(struct lsp_server *s, const struct buf *text, const struct jsonw *w,
                 struct cay_error *err) {
    if (jsonw_finish(w) == 0)
        lsp_put_message(&s->out, text);
    if (jsonw_finish(w) == 0 && !s->out.failed)
        return 0;
    lsp_server_end(s); /* half a message may be in there */
    error_set(err, CAY_RESOURCE_EXHAUSTED, "there is too much to say to the language server");
    return error_remedy(err, "start it again, and open smaller documents");
}

/* Servers ask whether they may do something, and for settings: there are none. */
static int answer(struct lsp_server *s, const struct json *id, struct cay_error *err) {
    struct buf text;
    struct jsonw w;
    begin_text(&text, &w);
    jsonw_key(&w, "id");
    json_write(id, &w);
    jsonw_key(&w, "result");
    jsonw_null(&w);
    jsonw_end_object(&w);
    int r = queue(s, &text, &w, err);
    buf_free(&text);
    return r;
}

/* ---- what comes ---- */

/* An answer that is waited for. */
struct awaited {
    uint64_t id;
    struct json_document *doc;
    bool is_given_up; /* by us: the server may be well */
};

static bool is_answer(const struct json *id, const struct awaited *a) {
    int64_t number;
    struct cay_error ignored;
    return a->id != 0 && a->doc == NULL &&
           json_as_integer(id, 1, INT64_MAX, &number, &ignored) == 0 && (uint64_t)number == a->id;
}

/* Notifications are dropped, and so are answers that nobody waits for any more. */
static int take_message(struct lsp_server *s, const char *text, size_t len, struct awaited *a,
                        struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json id, method;
    int r = json_parse("message of the language server", text, len, &doc, err);
    if (r < 0) {
        err->code = CAY_UNAVAILABLE; /* it is not the client's text */
        return error_remedy(err, "start the language server again");
    }
    struct json root = json_root(doc, "");
    if (!json_child(&root, "id", &id))
        return 0;
    if (json_child(&root, "method", &method))
        return answer(s, &id, err);
    if (is_answer(&id, a))
        a->doc = TAKE_PTR(doc);
    return 0;
}

static int take_output(struct lsp_server *s, const struct wire_command_event *e, struct awaited *a,
                       struct cay_error *err) {
    const char *text;
    size_t len;
    int r = lsp_reader_append(&s->reader, e->data, e->len, err);
    while (r == 0 && (r = lsp_reader_next(&s->reader, &text, &len, err)) > 0)
        r = take_message(s, text, len, a, err);
    return r;
}

/* The end of it says most; in one line. */
static void take_complaint(struct lsp_server *s, const struct wire_command_event *e) {
    struct buf *b = &s->complaint;
    size_t len = MIN(e->len, b->max);
    buf_consume(b, b->len - MIN(b->len, b->max - len));
    for (const char *p = e->data + e->len - len; p < e->data + e->len; p++) {
        bool is_space = *p == '\0' || strchr(" \r\n\t", *p) != NULL;
        if (!is_space || (b->len > 0 && b->data[b->len - 1] != ' '))
            (void)buf_putc(b, is_space ? ' ' : *p);
    }
}

static int take_event(struct lsp_server *s, const struct wire_command_event *e, struct awaited *a,
                      struct cay_error *err) {
    switch (e->kind) {
    case WIRE_COMMAND_OUTPUT:
        if (!e->is_stderr)
            return take_output(s, e, a, err);
        take_complaint(s, e);
        return 0;
    case WIRE_COMMAND_CREDITS:
        s->credit = MIN(s->credit + e->credits, (uint64_t)WIRE_INPUT_CREDIT);
        return 0;
    case WIRE_COMMAND_ENDED:
        s->exit_code = e->outcome.exit_code;
        s->has_ended = true;
        return 0;
    default:
        return 0;
    }
}

static int explain_end(const struct lsp_server *s, struct cay_error *err) {
    if (s->exit_code == NOT_FOUND_EXIT) {
        error_set(err, CAY_UNSUPPORTED, "this sandbox's image has no language server for %s",
                  s->place.language);
        return error_remedy(err, str_equal(s->place.language, "python")
                                     ? "install python-lsp-server or pyright there"
                                     : "install typescript-language-server and typescript there");
    }
    error_set(err, CAY_UNAVAILABLE, "the language server has ended with exit code %d%s%s",
              s->exit_code, s->complaint.len > 0 ? ": " : "", buf_text(&s->complaint));
    return error_remedy(err, "start it again");
}

static int read_more(struct lsp_server *s, struct awaited *a, struct cay_error *err) {
    struct wire_command_event e;
    int n = wire_reader_fill(&s->wire, s->fd);
    if (n <= 0) {
        s->has_ended = true;
        error_set(err, CAY_UNAVAILABLE, "the sandbox has ended, and the language server with it");
        return error_remedy(err, "start both again");
    }
    while ((n = wire_command_next(&s->wire, &e, err)) > 0) {
        int r = take_event(s, &e, a, err);
        if (r < 0)
            return r;
        if (s->has_ended)
            return explain_end(s, err);
    }
    return n;
}

/* ---- talking ---- */

/* As much as the other side has room for. What goes wrong is told by the other direction. */
static void feed(struct lsp_server *s) {
    size_t len = MIN(s->out.len, (size_t)s->credit);
    if (len == 0)
        return;
    (void)wire_send_data(s->fd, WIRE_INPUT, s->out.data, len);
    buf_consume(&s->out, len);
    s->credit -= len;
    if (s->out.len == 0)
        buf_free(&s->out);
}

static int wait_for_more(const struct call *c, struct lsp_server *s, int64_t deadline_ms,
                         struct awaited *a, struct cay_error *err) {
    struct pollfd fds[] = {{.fd = s->fd, .events = POLLIN},
                           {.fd = call_socket(c), .events = POLLRDHUP}};
    int n = poll(fds, ARRAY_LEN(fds), clock_poll_timeout(deadline_ms));
    if (n < 0)
        return errno == EINTR ? 0 : error_errno(err, "waiting for the language server");
    if (fds[0].revents != 0)
        return read_more(s, a, err);
    a->is_given_up = fds[1].revents != 0 || clock_expired(deadline_ms);
    if (fds[1].revents != 0)
        return error_set(err, CAY_UNAVAILABLE, "the client hung up before the answer came");
    if (!a->is_given_up)
        return 0;
    error_set(err, CAY_TIMEOUT, "the language server does not answer");
    return error_remedy(err, "ask again, or stop it and start it anew");
}

/* A server that breaks the protocol is of no use any more. */
static int converse(const struct call *c, struct lsp_server *s, int64_t deadline_ms,
                    struct awaited *a, struct cay_error *err) {
    int r = 0;
    feed(s);
    while (r == 0 && (s->out.len > 0 || (a->id != 0 && a->doc == NULL))) {
        r = wait_for_more(c, s, deadline_ms, a, err);
        if (r == 0)
            feed(s);
    }
    if (r < 0 && !a->is_given_up)
        lsp_server_end(s);
    return r;
}

static int judge(const struct lsp_server *s, const struct json_document *doc,
                 struct cay_error *err) {
    struct json root = json_root(doc, ""), fault;
    const char *message = "it does not say why";
    int64_t code = 0;
    if (!json_child(&root, "error", &fault))
        return 0;
    struct cay_error ignored;
    (void)json_get_string(&fault, "message", JSON_OPTIONAL, &message, &ignored);
    (void)json_get_integer(&fault, "code", JSON_OPTIONAL, INT32_MIN, INT32_MAX, &code, &ignored);
    if (code == METHOD_NOT_FOUND) {
        error_set(err, CAY_UNSUPPORTED, "this language server for %s cannot do that",
                  s->place.language);
        return error_remedy(err, "use another one");
    }
    error_set(err, CAY_INVALID_ARGUMENT, "the language server refuses: %.300s", message);
    return error_remedy(err, "see whether the document is open, and the position in it");
}

int lsp_server_say(const struct call *c, struct lsp_server *s, struct lsp_message *m,
                   int64_t deadline_ms, struct json_document **ret, struct cay_error *err) {
    struct awaited a = {.id = m->id};
    jsonw_end_object(&m->w);
    int r = queue(s, &m->text, &m->w, err);
    if (r == 0)
        r = converse(c, s, deadline_ms, &a, err);
    if (r == 0 && a.doc != NULL)
        r = judge(s, a.doc, err);
    if (r < 0 || ret == NULL)
        json_free(a.doc);
    else
        *ret = a.doc;
    return r;
}
