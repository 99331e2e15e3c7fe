/* One request as the HTTP library hands it on, to the handlers of every route, and what its client
 * gets to see. Each program includes it once. */
#pragma once

#include "request_stage.h"

/* As run() and take_body() in http.c, in pieces of a size that the first byte decides. */
static int give_body(struct call *c, const char *body, size_t len, struct cay_error *err) {
    size_t step = len > 0 ? (size_t)(unsigned char)body[0] + 1 : 1;
    if (c->sink == NULL)
        return buf_append(&c->body, body, len) < 0 ? -CAY_INVALID_ARGUMENT : 0;
    for (size_t at = 0; at < len; at += step) {
        int r = c->sink->write(c->sink, body + at, MIN(step, len - at), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void read_stream(struct stream *s, struct buf *seen) {
    static char data[64 * 1024];
    for (size_t total = 0, n; total < STREAM_MAX && (n = s->read(s, data, sizeof data)) > 0;
         total += n) {
        require(n <= sizeof data);
        (void)buf_append(seen, data, n);
    }
}

static void talk(struct call *c, const char *body, size_t len, struct buf *seen) {
    char said[4096];
    int pair[2];
    struct ws *w = NULL;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    (void)shutdown(pair[1], SHUT_WR);
    if (ws_new(pair[0], body, len, 1 << 16, &w) == 0)
        c->answer.talk(c, w);
    ws_free(w);
    for (ssize_t n; (n = recv(pair[1], said, sizeof said, MSG_DONTWAIT)) > 0;)
        (void)buf_append(seen, said, (size_t)n);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void check_answer(const struct call *c) {
    const struct answer *a = &c->answer;
    struct json_document *document = NULL;
    require(a->status >= 200 && a->status <= 599);
    if (a->status < 400 || a->body.len == 0 || a->is_foreign || a->type != NULL)
        return;
    require(json_parse("answer", a->body.data, a->body.len, &document, NULL) == 0);
    json_free(document);
}

/* What the client gets to see is appended to seen. */
static void finish(struct call *c, const char *body, size_t len, struct buf *seen) {
    check_answer(c);
    (void)buf_append(seen, c->answer.body.data, c->answer.body.len);
    for (size_t i = 0; i < c->answer.headers.len; i++)
        (void)buf_puts(seen, c->answer.headers.v[i]);
    if (c->answer.stream != NULL && !target_query(&c->target, "follow"))
        read_stream(c->answer.stream, seen);
    if (c->answer.talk != NULL && c->answer.status == 200)
        talk(c, body, len, seen);
}

/* Does what http.c would with a request of stage.caller; the answer's status. */
static unsigned ask(const char *method, const char *uri, const char *body, size_t len,
                    struct buf *seen) {
    struct cay_error err = {0};
    struct call c = {0};
    call_init(&c, stage.world->m);
    c.images = stage.images;
    c.builds = stage.builds;
    c.contexts = stage.contexts;
    c.outputs = stage.outputs;
    c.public_url = "";
    c.method = method;
    c.uri = strdup(uri);
    c.has_key = true;
    c.caller = stage.caller;
    c.wants_upgrade = c.wants_websocket = call_header(&c, "Upgrade") != NULL;
    int r = target_parse(uri, &c.target, &err);
    preview_read_place(call_header(&c, "Host"), c.uri, &c.preview);
    if (c.preview.is_one)
        r = preview_rewrite(&c, &err);
    if (r == 0 && call_begin(&c, method) == 0) {
        r = give_body(&c, body, len, &err);
        if (r == 0)
            call_run(&c);
        else
            call_fail(&c, &err, 0);
    }
    finish(&c, body, len, seen);
    unsigned status = c.answer.status;
    call_free(&c);
    close_peers();
    return status;
}

/* Sets what the sandbox will say: what follows each 0xfd of a request. Returns the length of what
 * is before. *ret_copy is to be released after the request. */
static size_t take_answers(char *text, size_t len, char **ret_copy) {
    char *answers = memchr(text, answer_begin, len);
    *ret_copy = stage.answers = NULL;
    stage.answers_len = 0;
    if (answers == NULL)
        return len;
    stage.answers_len = (size_t)(text + len - answers);
    *ret_copy = stage.answers = malloc(stage.answers_len);
    require(stage.answers != NULL);
    memcpy(stage.answers, answers, stage.answers_len);
    *answers = '\0'; /* ends the body */
    return (size_t)(answers - text);
}
