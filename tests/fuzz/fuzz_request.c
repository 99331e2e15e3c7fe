/* Requests as the HTTP library hands them on, to the handlers of every route, over a manager whose
 * engine only pretends; what a sandbox answers is hostile too. An input is up to REQUESTS_MAX
 * requests, one behind the other:
 *
 *     METHOD URI, lines "Name: value", an empty line, the body,
 *     and after each 0xfd what the sandbox says on the next connection: type, length, payload of
 *     frames after 'F', anything after 'R'
 *
 * with 0xfc between them. "lab" is a sandbox that is there whatever the requests before did. */
#include "../unit/manager_env.h"

#include <cay.h>

#include "api/builds.h"
#include "api/call.h"
#include "api/daytona_era.h"
#include "api/images.h"
#include "api/preview.h"
#include "api/ws.h"
#include "base/json.h"
#include "wire/wire.h"

enum { REQUESTS_MAX = 8, HEADERS_MAX = 16, PEERS_MAX = 32, STREAM_MAX = 1 << 20, BOXES_MAX = 20 };

static const char request_end = (char)0xfc, answer_begin = (char)0xfd;

static struct {
    struct world *world;
    struct builds *builds;
    const char *name[HEADERS_MAX], *value[HEADERS_MAX];
    size_t headers;
    char *answers; /* of the sandbox */
    size_t answers_len;
    int peers[PEERS_MAX]; /* its ends of connections */
    size_t peer_count;
} stage;

static void require(bool ok) {
    if (!ok)
        abort();
}

/* ---- what libcay would, which holds a cay-init ---- */

const char *cay_version(void) {
    return "0";
}

void cay_result_free(struct cay_result *result) {
    free(result->out);
    free(result->err);
    *result = (struct cay_result){0};
}

/* ---- what http.c would say of a request ---- */

const char *call_header(const struct call *c, const char *name) {
    (void)c;
    for (size_t i = 0; i < stage.headers; i++)
        if (strcasecmp(stage.name[i], name) == 0)
            return stage.value[i];
    /* so that inputs get to what speaks WebSocket */
    if (strcasecmp(name, "Sec-WebSocket-Version") == 0)
        return "13";
    return strcasecmp(name, "Sec-WebSocket-Key") == 0 ? "dGhlIHNhbXBsZSBub25jZQ==" : NULL;
}

void call_each_header(const struct call *c, call_header_fn fn, void *user) {
    (void)c;
    for (size_t i = 0; i < stage.headers; i++)
        fn(user, stage.name[i], stage.value[i]);
}

int call_socket(const struct call *c) {
    (void)c;
    return -1;
}

void call_load(const struct call *c, struct call_load *ret) {
    (void)c;
    *ret = (struct call_load){.requests = 1};
}

bool call_identify(const struct call *c, const char *text, struct key *ret) {
    (void)c;
    *ret = (struct key){.name = "admin", .scopes = SCOPE_ADMIN};
    return str_equal(text, "key");
}

int call_claim(const struct call *c, const struct key *k, struct cay_error *err) {
    (void)c, (void)k, (void)err;
    return 0;
}

void call_forget_key(struct call *c) {
    (void)c;
}

/* ---- a sandbox that says what the input has ---- */

static void put_frames(int fd, const char *data, size_t len) {
    while (len >= 2) {
        size_t payload = MIN((size_t)(unsigned char)data[1], len - 2);
        const unsigned char head[WIRE_HEADER_SIZE] = {(unsigned char)payload, 0, 0, 0,
                                                      (unsigned char)data[0]};
        (void)send(fd, head, sizeof head, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)send(fd, data + 2, payload, MSG_DONTWAIT | MSG_NOSIGNAL);
        data += 2 + payload;
        len -= 2 + payload;
    }
}

/* The next answer; the last one again if there are no more. */
static void put_answer(int fd) {
    if (stage.answers_len == 0)
        return;
    const char *end = memchr(stage.answers + 1, answer_begin, stage.answers_len - 1);
    size_t len = end == NULL ? stage.answers_len : (size_t)(end - stage.answers);
    if (len > 2 && stage.answers[1] == 'F')
        put_frames(fd, stage.answers + 2, len - 2);
    else if (len > 2)
        (void)send(fd, stage.answers + 2, len - 2, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (end != NULL) {
        stage.answers += len;
        stage.answers_len -= len;
    }
}

int __wrap_socket_connect(const char *id, int64_t timeout_ms, struct cay_error *err);
int __wrap_socket_connect(const char *id, int64_t timeout_ms, struct cay_error *err) {
    (void)id, (void)timeout_ms;
    int pair[2];
    if (stage.peer_count == PEERS_MAX)
        return error_set(err, CAY_UNAVAILABLE, "too many connections");
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    put_answer(pair[1]);
    (void)shutdown(pair[1], SHUT_WR);
    stage.peers[stage.peer_count++] = pair[1];
    return pair[0];
}

static void close_peers(void) {
    while (stage.peer_count > 0)
        fd_close(&stage.peers[--stage.peer_count]);
}

/* ---- images that only pretend ---- */

static int list_images(void *user, const char *owner, struct buf *text, struct cay_error *err) {
    (void)user, (void)owner, (void)err;
    return buf_puts(text, "ok\na:1\tAA\t1073741824\t2026-01-02T03:04:05Z\t\n\n");
}

static int change_image(void *user, const char *owner, const char *made_by, const char *from,
                        const char *name, struct cay_error *err) {
    (void)user, (void)owner, (void)made_by, (void)from;
    return str_equal(name, "taken") ? error_set(err, CAY_CONFLICT, "it is there") : 0;
}

static int forget_image(void *user, const char *owner, const char *name, struct cay_error *err) {
    (void)user, (void)owner;
    return str_equal(name, "a:1") ? 0 : error_set(err, CAY_NOT_FOUND, "no image '%s'", name);
}

/* Fails at once: what is not built has the longer way through the handlers. */
static int build_image(void *user, const struct image_build_order *order, char id[static HEX_SIZE],
                       struct cay_error *err) {
    (void)user, (void)id;
    (void)fd_write_all(order->log, "step 1\n", 7);
    return error_set(err, CAY_CONFLICT, "it cannot be built");
}

static const struct image_ops images = {list_images,  change_image, forget_image,
                                        change_image, build_image,  NULL};

/* ---- one request ---- */

/* Cuts off a part that ends in any of `ends`; the end is kept in *ret_end. */
static char *cut(char **text, const char *ends, char *ret_end) {
    char *part = *text;
    size_t len = strcspn(part, ends);
    *ret_end = part[len];
    *text = part + len + (part[len] != '\0');
    part[len] = '\0';
    return part;
}

static void read_headers(char **text) {
    char end = '\0';
    stage.headers = 0;
    while (**text != '\0') {
        char *line = cut(text, "\n", &end), *value = strstr(line, ": ");
        if (line[0] == '\0')
            return;
        if (value == NULL || stage.headers == HEADERS_MAX)
            continue;
        *value = '\0';
        stage.name[stage.headers] = line;
        stage.value[stage.headers++] = value + 2;
    }
}

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

static void read_stream(struct stream *s) {
    static char data[64 * 1024];
    for (size_t total = 0, n; total < STREAM_MAX && (n = s->read(s, data, sizeof data)) > 0;
         total += n)
        require(n <= sizeof data);
}

static void talk(struct call *c, const char *body, size_t len) {
    int pair[2];
    struct ws *w = NULL;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    (void)shutdown(pair[1], SHUT_WR);
    if (ws_new(pair[0], body, len, 1 << 16, &w) == 0)
        c->answer.talk(c, w);
    ws_free(w);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void check_answer(const struct call *c) {
    const struct answer *a = &c->answer;
    struct json_document *document = NULL;
    require(a->status >= 200 && a->status <= 599);
    if (a->status < 400 || a->body.len == 0 || a->is_foreign || c->wants_tsv)
        return;
    require(json_parse("answer", a->body.data, a->body.len, &document, NULL) == 0);
    json_free(document);
}

static void finish(struct call *c, const char *body, size_t len) {
    check_answer(c);
    if (c->answer.stream != NULL && !target_query(&c->target, "follow"))
        read_stream(c->answer.stream);
    if (c->answer.talk != NULL && c->answer.status == 200)
        talk(c, body, len);
}

static void ask(const char *method, const char *uri, const char *body, size_t len) {
    struct cay_error err = {0};
    struct call c = {0};
    call_init(&c, stage.world->m);
    c.images = &images;
    c.builds = stage.builds;
    c.public_url = "";
    c.method = method;
    c.uri = strdup(uri);
    c.caller = (struct key){.name = "admin", .scopes = SCOPE_ADMIN};
    c.wants_tsv = call_header(&c, "Accept") != NULL;
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
    finish(&c, body, len);
    call_free(&c);
    close_peers();
}

static void take_request(char *text, size_t len) {
    char *answers = memchr(text, answer_begin, len), end = '\0', *rest = text;
    stage.answers_len = answers == NULL ? 0 : (size_t)(text + len - answers);
    stage.answers = answers;
    if (answers != NULL) { /* a zero ends the body, and the answers stay */
        char *copy = malloc(stage.answers_len);
        require(copy != NULL);
        memcpy(copy, answers, stage.answers_len);
        *answers = '\0';
        stage.answers = copy;
        len = (size_t)(answers - text);
    }
    char *begin = stage.answers;
    const char *method = cut(&rest, " \n", &end);
    const char *uri = end == ' ' ? cut(&rest, "\n", &end) : "";
    read_headers(&rest);
    if (rest <= text + len)
        ask(method, uri, rest, (size_t)(text + len - rest));
    free(begin);
}

/* ---- the world ---- */

static void tidy(struct world *w) {
    struct sandbox_record *all = NULL;
    size_t count = 0;
    require(manager_list(w->m, &all, &count, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        if (count > BOXES_MAX)
            (void)manager_remove(w->m, all[i].id, true, NULL);
        sandbox_record_free(&all[i]);
    }
    free(all);
}

static void need_box(struct world *w) {
    struct sandbox_record r = {0};
    int code = manager_get(w->m, "lab", &r, NULL);
    bool runs = code == 0 && r.state == SANDBOX_STARTED;
    sandbox_record_free(&r);
    if (runs)
        return;
    if (code == 0)
        (void)manager_remove(w->m, "lab", true, NULL);
    (void)make_box(w, "lab");
}

static void *user_state;

static void end_world(void) {
    builds_free(stage.builds);
    (void)teardown(&user_state);
}

static void begin_world(void) {
    (void)setup(&user_state);
    stage.world = user_state;
    stage.world->options.limits.stop_grace_ms = 0;
    open_manager(stage.world);
    require(builds_new(&images, &stage.builds, NULL) == 0);
    (void)atexit(end_world);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char *text = malloc(size + 1), *at = text;
    require(text != NULL);
    if (size > 0)
        memcpy(text, input, size);
    text[size] = '\0';
    if (stage.world == NULL)
        begin_world();
    tidy(stage.world);
    for (int i = 0; i < REQUESTS_MAX && at < text + size; i++) {
        char *end = memchr(at, request_end, (size_t)(text + size - at));
        size_t len = end == NULL ? (size_t)(text + size - at) : (size_t)(end - at);
        at[len] = '\0';
        need_box(stage.world);
        take_request(at, len);
        at += len + 1;
    }
    free(text);
    return 0;
}
