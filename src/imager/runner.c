/* Requests are the frames of the sandbox protocol (wire.h) with our own operations; a descriptor
 * comes with the byte before a request. */
#include "imager/runner.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "imager/registry/credentials.h"
#include "imager/runner_ops.h"
#include "imager/verbs/runner_serve.h"
#include "wire/wire.h"

struct runner {
    int sock;
};

struct runner *runner_new(int sock) {
    struct runner *r = malloc(sizeof *r);
    if (r != NULL)
        r->sock = sock;
    return r;
}

void runner_free(struct runner *r) {
    if (r != NULL)
        fd_close(&r->sock);
    free(r);
}

static int gone(struct cay_error *err, int r) {
    return error_sys(err, r == 0 ? EPIPE : -r, "talking to cay-image's own parent process");
}

static int send_request(struct runner *r, int fd, const struct buf *b, struct cay_error *err) {
    static const char mark = RUNNER_MARK;
    int code = fd_send(r->sock, &mark, 1, &fd, fd >= 0 ? 1 : 0);
    if (code == 0)
        code = wire_send(r->sock, WIRE_REQUEST, b);
    return code < 0 ? gone(err, code) : 0;
}

/* Fills m from the answer, which lives in the reader. */
static int receive_answer(struct runner *r, struct wire_reader *in, struct wire_message *m,
                          struct cay_error *err) {
    struct wire_frame f;
    int code = wire_receive(in, r->sock, &f);
    if (code <= 0)
        return gone(err, code);
    if (wire_parse(f.data, f.len, m) < 0)
        return gone(err, -EPROTO);
    return f.type == WIRE_ERROR ? wire_take_error(m, err) : 0;
}

static void put_strings(struct buf *b, enum wire_tag tag, const char *const *v) {
    for (; v != NULL && *v != NULL; v++)
        wire_put_string(b, tag, *v);
}

int runner_run(struct runner *r, const struct runner_command *c, int *exit_code,
               struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT;
    wire_put_number(&b, WIRE_TAG_OP, RUNNER_RUN);
    put_strings(&b, WIRE_TAG_ARG, c->argv);
    put_strings(&b, WIRE_TAG_ENV, c->env);
    for (size_t i = 0; i < c->below_count; i++)
        wire_put_string(&b, WIRE_TAG_PATHS, c->below[i].chain);
    wire_put_string(&b, WIRE_TAG_TARGET, c->work);
    wire_put_string(&b, WIRE_TAG_CWD, c->cwd);
    wire_put_string(&b, WIRE_TAG_USER, c->user);
    wire_put_string(&b, WIRE_TAG_TEXT, c->network);
    wire_put_number(&b, WIRE_TAG_SIZE, c->memory_bytes);
    wire_put_number(&b, WIRE_TAG_LIMIT, c->disk_bytes);
    wire_put_number(&b, WIRE_TAG_COUNT, (uint64_t)(c->cpus * RUNNER_CPU_SCALE));
    wire_put_number(&b, WIRE_TAG_TIMEOUT_MS, (uint64_t)c->timeout_ms);
    struct wire_message m;
    int code = send_request(r, c->output, &b, err);
    if (code == 0)
        code = receive_answer(r, &in, &m, err);
    if (code == 0)
        *exit_code = (int)(m.number[WIRE_TAG_EXIT] & 0xff);
    return code;
}

static char *copy(const char *text) {
    return text == NULL ? NULL : strdup(text);
}

int runner_find_credential(struct runner *r, const char *registry, struct credential *ret,
                           struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT;
    wire_put_number(&b, WIRE_TAG_OP, RUNNER_CREDENTIAL);
    wire_put_string(&b, WIRE_TAG_TEXT, registry);
    struct wire_message m;
    int code = send_request(r, -1, &b, err);
    if (code == 0)
        code = receive_answer(r, &in, &m, err);
    if (code < 0)
        return code;
    *ret = (struct credential){
        .user = copy(m.string[WIRE_TAG_USER]),
        .secret = copy(m.string[WIRE_TAG_TEXT]),
        .identity_token = copy(m.string[WIRE_TAG_TARGET]),
    };
    if (in.in.data != NULL)
        explicit_bzero(in.in.data, in.in.cap);
    return 0;
}
