/* Messages of a run: output, errors, results. Those that Daytona's clients know are as they know
 * them; they pass over the others. */
#include <string.h>

#include "api/http/ws.h"
#include "api/toolbox/interpreter.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "lib/python/context.h"

enum { SEND_MS = 60 * 1000, MESSAGE_MAX = 64 * 1024 * 1024, PART_MAX = 4 };

void interpreter_writer_init(struct interpreter_writer *t, struct ws *ws) {
    *t = (struct interpreter_writer){
        .ws = ws,
        .message = BUF_INIT(MESSAGE_MAX),
        .part = {BUF_INIT(WIRE_DATA_MAX + PART_MAX), BUF_INIT(WIRE_DATA_MAX + PART_MAX)}};
}

void interpreter_writer_free(struct interpreter_writer *t) {
    buf_free(&t->message);
    buf_free(&t->part[0]);
    buf_free(&t->part[1]);
}

static struct jsonw begin(struct interpreter_writer *t, const char *type) {
    buf_free(&t->message);
    t->message = BUF_INIT(MESSAGE_MAX);
    struct jsonw w = JSONW_INIT(&t->message);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "type", type);
    return w;
}

static void put_text(struct jsonw *w, const char *key, const char *data, size_t len) {
    jsonw_key(w, key);
    jsonw_bytes(w, data, len);
}

/* One that cannot be written is left out; it is too long, or there is no memory. */
static void send(struct interpreter_writer *t, struct jsonw *w) {
    jsonw_end_object(w);
    if (jsonw_finish(w) < 0 || t->gone)
        return;
    if (ws_send(t->ws, WS_TEXT, t->message.data, t->message.len, clock_deadline(SEND_MS)) < 0)
        t->gone = true;
}

/* ---- output ---- */

/* How many bytes at the end begin a character that is not whole. */
static size_t open_end(const char *data, size_t len) {
    for (size_t back = 1; back < PART_MAX && back <= len; back++) {
        unsigned char c = (unsigned char)data[len - back];
        if (c >= 0xf0)
            return back < 4 ? back : 0;
        if (c >= 0xe0)
            return back < 3 ? back : 0;
        if (c >= 0xc0)
            return back < 2 ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

static void report_text(struct interpreter_writer *t, bool is_stderr, const char *data,
                        size_t len) {
    if (len == 0)
        return;
    struct jsonw w = begin(t, is_stderr ? "stderr" : "stdout");
    put_text(&w, "text", data, len);
    send(t, &w);
}

void interpreter_report_output(struct interpreter_writer *t, bool is_stderr, const char *data,
                               size_t len) {
    struct buf *part = &t->part[is_stderr];
    if (buf_append(part, data, len) < 0)
        return; /* frames are not that long */
    size_t whole = part->len - open_end(part->data, part->len);
    report_text(t, is_stderr, part->data, whole);
    buf_consume(part, whole);
}

void interpreter_report_rest(struct interpreter_writer *t) {
    for (int i = 0; i < 2; i++) {
        report_text(t, i == 1, t->part[i].data, t->part[i].len);
        buf_clear(&t->part[i]);
    }
}

/* ---- what else there is ---- */

void interpreter_report_error(struct interpreter_writer *t, const char *name, const char *value,
                              const char *traceback) {
    struct jsonw w = begin(t, "error");
    put_text(&w, "name", name, strlen(name));
    put_text(&w, "value", value, strlen(value));
    put_text(&w, "traceback", traceback, strlen(traceback));
    send(t, &w);
    t->has_error = true;
}

/* The data of a chart, if it is JSON. */
static void put_chart(struct jsonw *w, const struct context_item *item) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct cay_error ignored; /* then there is none */
    if (json_parse("chart", item->data, item->len, &doc, &ignored) < 0)
        return;
    struct json root = json_root(doc, "");
    jsonw_key(w, "chart");
    json_write(&root, w);
}

static void report_result(struct interpreter_writer *t, const struct context_record *r) {
    struct jsonw w = begin(t, "result");
    jsonw_put_bool(&w, "isLast", r->is_last);
    jsonw_key(&w, "data");
    jsonw_begin_object(&w);
    const struct context_item *chart = NULL;
    for (size_t i = 0; i < r->count; i++) {
        const struct context_item *item = &r->items[i];
        if (str_equal(item->type, CONTEXT_CHART)) {
            chart = item;
            continue;
        }
        if (context_is_repeated(r, i))
            continue;
        jsonw_key(&w, item->type);
        if (context_is_text(item))
            jsonw_bytes(&w, item->data, item->len);
        else
            jsonw_base64(&w, item->data, item->len);
    }
    jsonw_end_object(&w);
    if (chart != NULL)
        put_chart(&w, chart);
    send(t, &w);
}

void interpreter_report_record(struct interpreter_writer *t, const struct context_record *record) {
    if (record->kind == CONTEXT_ERROR) {
        interpreter_report_error(t, record->name, record->value, record->traceback);
    } else if (record->kind == CONTEXT_RESULT) {
        report_result(t, record);
    } else {
        struct jsonw w = begin(t, "notice");
        put_text(&w, "text", record->text, strlen(record->text));
        send(t, &w);
    }
}

void interpreter_report_file(struct interpreter_writer *t, bool is_stderr, const char *path) {
    const char *stream = is_stderr ? "stderr" : "stdout";
    char text[192], shown[EXEC_FILE_SIZE];
    (void)snprintf(text, sizeof text,
                   "%s is longer than what is told; all of it is in %s, or as much as there was "
                   "room for",
                   stream, str_escape(shown, sizeof shown, path));
    struct jsonw w = begin(t, "notice");
    jsonw_put_string(&w, "text", text);
    jsonw_put_string(&w, "stream", stream);
    jsonw_put_string(&w, "file", path);
    send(t, &w);
}

void interpreter_report_restart(struct interpreter_writer *t) {
    struct jsonw w = begin(t, "control");
    jsonw_put_string(&w, "text", "restarted");
    send(t, &w);
}

void interpreter_report_end(struct interpreter_writer *t, const char *text, int exit_code,
                            bool is_oom, const char *python) {
    struct jsonw w = begin(t, "control");
    jsonw_put_string(&w, "text", text);
    jsonw_put_integer(&w, "exitCode", exit_code);
    if (is_oom)
        jsonw_put_bool(&w, "oomKilled", true);
    if (python[0] != '\0')
        jsonw_put_string(&w, "python", python);
    send(t, &w);
}
