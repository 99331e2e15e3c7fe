#include "api/toolbox/toolbox.h"

#include "api/call.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"

int toolbox_begin(const struct call *c, struct toolbox *ret, struct cay_error *err) {
    *ret = TOOLBOX_INIT;
    ret->manager = c->manager;
    /* A command that waited for its turn may be about to begin. */
    int r = manager_key_check(c->manager, c->caller.id, err);
    if (r < 0)
        return r;
    int fd = manager_begin(c->manager, c->who, &ret->operation, &ret->record, err);
    if (fd < 0)
        return fd;
    ret->wire.fd = fd;
    if (ret->record.user[0] != '\0')
        ret->wire.user = ret->record.user;
    if (ret->record.work_dir[0] != '\0')
        ret->wire.cwd = ret->record.work_dir;
    return 0;
}

void toolbox_end(struct toolbox *t) {
    fd_close(&t->wire.fd);
    if (t->operation != NULL)
        manager_end(t->manager, TAKE_PTR(t->operation));
    sandbox_record_free(&t->record);
    t->record = (struct sandbox_record){0};
}

void toolbox_hurry(struct toolbox *t) {
    t->wire.deadline_ms = clock_deadline(TOOLBOX_WAIT_MS);
}

bool toolbox_is_asked(const struct call *c) {
    return c->target.segments > 0 && str_equal(c->target.segment[0], "toolbox");
}

int toolbox_fault(struct call *c, const char *code, unsigned status, const struct cay_error *err) {
    c->fault = code;
    c->fault_status = status;
    return -(int)err->code;
}

const char *toolbox_code_of(unsigned status) {
    static const struct {
        unsigned status;
        const char *code;
    } rows[] = {
        {400, "BAD_REQUEST"},
        {401, "UNAUTHORIZED"},
        {403, "FORBIDDEN"},
        {404, "NOT_FOUND"},
        {408, "REQUEST_TIMEOUT"},
        {504, "REQUEST_TIMEOUT"},
        {409, "CONFLICT"},
        {410, "GONE"},
        {413, "INVALID_REQUEST_BODY"},
        {422, "UNPROCESSABLE_ENTITY"},
        {429, "TOO_MANY_REQUESTS"},
        {501, "NOT_IMPLEMENTED"},
        {503, "SERVICE_UNAVAILABLE"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return status < 500 ? "BAD_REQUEST" : "INTERNAL_SERVER_ERROR";
}

void toolbox_write_path(struct jsonw *w, const struct target *t) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(TARGET_SIZE);
    for (size_t i = 0; i < t->segments; i++)
        (void)buf_printf(&path, "/%s", t->segment[i]);
    jsonw_put_string(w, "path", path.len > 0 ? buf_text(&path) : "/");
}

void toolbox_write_message(struct jsonw *w, const struct cay_error *shown) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(sizeof shown->message + sizeof shown->remedy);
    (void)buf_puts(&text, shown->message);
    if (shown->remedy[0] != '\0')
        (void)buf_printf(&text, "; %s", shown->remedy);
    jsonw_put_string(w, "message", buf_text(&text));
    jsonw_put_string(w, "remedy", shown->remedy);
}

static void put_list(struct jsonw *w, const struct buf *list) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct cay_error ignored; /* we wrote it */
    if (list->len == 0 || json_parse("errors", list->data, list->len, &doc, &ignored) < 0)
        return;
    struct json all = json_root(doc, "");
    jsonw_key(w, "errors");
    json_write(&all, w);
}

void toolbox_put_output_file(struct jsonw *w, const char *file) {
    jsonw_put_bool(w, "outputTruncated", true);
    jsonw_put_string(w, "outputFile", file[0] != '\0' ? file : NULL);
}

void toolbox_write_error(struct buf *out, const struct call *c, const struct cay_error *err,
                         const char *code, unsigned status) {
    char now[32];
    struct cay_error shown = *err;
    struct jsonw w = JSONW_INIT(out);
    error_sanitize(&shown);
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "statusCode", status);
    toolbox_write_message(&w, &shown);
    jsonw_put_string(&w, "code", code != NULL ? code : toolbox_code_of(status));
    jsonw_put_string(&w, "source", "DAYTONA_DAEMON");
    jsonw_put_string(&w, "timestamp", clock_iso8601(clock_wall_ms(), now));
    toolbox_write_path(&w, &c->target);
    jsonw_put_string(&w, "method", c->method);
    put_list(&w, &c->fault_list);
    if (c->fault_output.len > 0) {
        jsonw_key(&w, "result");
        jsonw_bytes(&w, c->fault_output.data, c->fault_output.len);
    }
    if (c->fault_is_cut)
        toolbox_put_output_file(&w, c->fault_file);
    jsonw_end_object(&w);
}
