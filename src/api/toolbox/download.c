/* Files out of a sandbox, one or several, as they are read: nothing is kept here but a piece. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/http/range.h"
#include "api/toolbox/files.h"
#include "base/error.h"
#include "base/id.h"
#include "base/json/json.h"
#include "wire/client_content.h"

enum {
    PATHS_MAX = 10 * 1000,
    WAITING_MAX = 64 * 1024, /* heads of parts, and errors */
    TAG_SIZE = 48,
    RANGE_SIZE = 80,
};

/* ---- one file ---- */

/* A file that is being read, one piece ahead. */
struct reading {
    struct toolbox toolbox;
    struct wire_read_stream stream;
    char path[PATH_MAX];
    uint64_t size; /* of the file; 0: not known */
    int64_t mtime_ms;
    uint64_t wanted; /* bytes; 0: all that come */
    const char *piece;
    size_t left; /* of the piece */
};

static void reading_end(struct reading *r) {
    wire_read_free(&r->stream);
    toolbox_end(&r->toolbox);
    *r = (struct reading){.toolbox = TOOLBOX_INIT};
}

/* 1 if there is a piece, 0 at the end. */
static int reading_fill(struct reading *r, struct cay_error *err) {
    toolbox_hurry(&r->toolbox);
    int n = wire_read_next(&r->stream, &r->piece, &r->left, err);
    if (n == 0 && r->wanted != 0 && r->stream.size != r->wanted)
        return error_set(err, CAY_UNAVAILABLE, "the file became shorter while it was read");
    return n;
}

static int look(const struct call *c, struct reading *at, struct cay_error *err) {
    char target[PATH_MAX];
    struct wire_file f = {0};
    struct toolbox t;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r == 0)
        r = wire_stat(&t.wire, at->path, true, &f, target, err);
    toolbox_end(&t);
    if (r == 0 && S_ISDIR(f.mode)) {
        error_set(err, CAY_CONFLICT, "'%.256s' is a folder", at->path);
        return error_remedy(err, "name a file");
    }
    if (r < 0)
        return r;
    at->size = f.size;
    at->mtime_ms = f.mtime_ms;
    return 0;
}

/* Finds a file. *ret_inside: the sandbox was there, and what failed is about the file. */
static int reading_find(const struct call *c, const char *path, struct reading *ret,
                        bool *ret_inside, struct cay_error *err) {
    *ret = (struct reading){.toolbox = TOOLBOX_INIT};
    *ret_inside = false;
    int r = toolbox_begin(c, &ret->toolbox, err);
    if (r == 0)
        r = toolbox_absolute(&ret->toolbox, path, ret->path, err);
    if (r < 0)
        return r;
    *ret_inside = true;
    return look(c, ret, err);
}

/* Reads the first piece, so that what is wrong with it is known: 1, 0 if there is none. */
static int reading_open(struct reading *r, const struct range *range, struct cay_error *err) {
    r->wanted = range->length;
    toolbox_hurry(&r->toolbox);
    int n =
        wire_read_begin(&r->toolbox.wire, r->path, range->first, range->length, &r->stream, err);
    return n < 0 ? n : reading_fill(r, err);
}

/* Puts what there is into data; 0 at the end, negative. */
static ssize_t reading_take(struct reading *r, char *data, size_t size, struct cay_error *err) {
    if (r->left == 0) {
        int n = reading_fill(r, err);
        if (n <= 0)
            return n;
    }
    size_t len = MIN(size, r->left);
    memcpy(data, r->piece, len);
    r->piece += len;
    r->left -= len;
    return (ssize_t)len;
}

/* ---- names in headers ---- */

/* In quotes, and besides percent-encoded if it has bytes that a header cannot carry. */
static void put_filename(struct buf *out, const char *name) {
    bool is_plain = true;
    (void)buf_puts(out, "; filename=\"");
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        is_plain = is_plain && c >= ' ' && c < 0x7f;
        if (c == '"' || c == '\\')
            (void)buf_putc(out, '\\');
        (void)buf_putc(out, c < ' ' || c == 0x7f ? '_' : *p);
    }
    (void)buf_putc(out, '"');
    if (is_plain)
        return;
    (void)buf_puts(out, "; filename*=utf-8''");
    target_encode(out, name);
}

/* ---- a single one ---- */

struct download {
    struct stream stream; /* first */
    struct reading reading;
};

static size_t read_download(struct stream *s, char *data, size_t size) {
    struct download *d = (struct download *)s;
    ssize_t n = reading_take(&d->reading, data, size, NULL);
    s->failed = n < 0;
    return n < 0 ? 0 : (size_t)n;
}

static void close_download(struct stream *s) {
    struct download *d = (struct download *)s;
    reading_end(&d->reading);
    free(d);
}

static int add_disposition(struct call *c, const char *path, struct cay_error *err) {
    _cleanup_(buf_free) struct buf value = BUF_INIT(WAITING_MAX);
    const char *slash = strrchr(path, '/');
    (void)buf_puts(&value, "attachment");
    put_filename(&value, slash != NULL ? slash + 1 : path);
    return call_add_header(c, "Content-Disposition", buf_text(&value), err);
}

/* What the file is now: another size or time is another content. */
static const char *tag_of(const struct reading *r, char tag[static TAG_SIZE]) {
    (void)snprintf(tag, TAG_SIZE, "\"%llx-%llx\"", (unsigned long long)r->mtime_ms,
                   (unsigned long long)r->size);
    return tag;
}

static int refuse_range(struct call *c, uint64_t size, struct cay_error *err) {
    char value[RANGE_SIZE];
    (void)snprintf(value, sizeof value, "bytes */%llu", (unsigned long long)size);
    (void)call_add_header(c, "Content-Range", value, NULL);
    error_set(err, CAY_INVALID_ARGUMENT, "nothing of the range is there: the file has %llu bytes",
              (unsigned long long)size);
    (void)error_remedy(err, "ask for bytes within it");
    return toolbox_fault(c, NULL, 416, err);
}

/* Which part is wanted; who knows another content as this one gets it all. */
static int choose_part(struct call *c, const struct reading *r, const char *tag, struct range *ret,
                       struct cay_error *err) {
    char value[RANGE_SIZE];
    const char *known = call_header(c, "If-Range");
    const char *wish = known == NULL || str_equal(known, tag) ? call_header(c, "Range") : NULL;
    switch (range_read(wish, r->size, ret)) {
    case RANGE_OUTSIDE:
        return refuse_range(c, r->size, err);
    case RANGE_PART:
        c->answer.status = 206;
        (void)snprintf(value, sizeof value, "bytes %llu-%llu/%llu", (unsigned long long)ret->first,
                       (unsigned long long)(ret->first + ret->length - 1),
                       (unsigned long long)r->size);
        return call_add_header(c, "Content-Range", value, err);
    default:
        return 0;
    }
}

/* 1 if there is content to be sent. */
static int open_part(struct call *c, const char *path, struct reading *r, struct cay_error *err) {
    char tag[TAG_SIZE];
    struct range part = {0, 0};
    if (r->size != 0) { /* one that says it is empty may be something else */
        int n = call_add_header(c, "ETag", tag_of(r, tag), err);
        if (n == 0)
            n = call_add_header(c, "Accept-Ranges", "bytes", err);
        if (n == 0 && range_has_tag(call_header(c, "If-None-Match"), tag)) {
            c->answer.status = 304;
            return 0;
        }
        if (n == 0)
            n = choose_part(c, r, tag, &part, err);
        if (n < 0)
            return n;
    }
    int n = add_disposition(c, path, err);
    return n < 0 ? n : toolbox_file_result(c, reading_open(r, &part, err), err);
}

static int start(struct call *c, const char *path, struct download *d, struct cay_error *err) {
    bool inside;
    int r = reading_find(c, path, &d->reading, &inside, err);
    if (r < 0)
        return inside ? toolbox_file_result(c, r, err) : r;
    r = open_part(c, path, &d->reading, err);
    if (r <= 0)
        return r;
    c->answer.stream = &d->stream;
    c->answer.stream_bytes = d->reading.wanted;
    return 0;
}

static int download(struct call *c, struct cay_error *err) {
    const char *path;
    int r = toolbox_need_query(c, "path", &path, err);
    if (r < 0)
        return r;
    (void)str_escape(c->detail, sizeof c->detail, path);
    struct download *d = calloc(1, sizeof *d);
    if (d == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    d->stream = (struct stream){.read = read_download, .close = close_download};
    r = start(c, path, d, err);
    if (r == 0)
        c->answer.type = "application/octet-stream";
    if (c->answer.stream == NULL)
        close_download(&d->stream);
    return r;
}

/* ---- several ---- */

struct bulk {
    struct stream stream; /* first */
    const struct call *call;
    struct strv paths;
    size_t next;
    char boundary[2 * ID_LEN + 1];
    char type[64 + 2 * ID_LEN];
    struct reading reading;
    bool is_reading, is_ended;
    struct buf waiting; /* what goes out before more is read */
};

static void put_head(struct bulk *b, const char *name, const char *path, const char *more) {
    struct buf *out = &b->waiting;
    (void)buf_printf(out, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", b->boundary, name);
    put_filename(out, path);
    (void)buf_printf(out, "\r\nContent-Type: %s\r\n", more);
}

/* The others are sent all the same. */
static void put_error(struct bulk *b, const char *path, bool inside, const struct cay_error *err) {
    unsigned status = (unsigned)cay_code_http(err->code);
    const char *code = inside ? toolbox_file_code(err, &status) : NULL;
    put_head(b, "error", path, "application/json");
    (void)buf_puts(&b->waiting, "\r\n");
    toolbox_write_error(&b->waiting, b->call, err, code, status);
    (void)buf_puts(&b->waiting, "\r\n");
}

static void open_next(struct bulk *b) {
    struct cay_error err;
    bool inside;
    if (b->next == b->paths.len) {
        (void)buf_printf(&b->waiting, "--%s--\r\n", b->boundary);
        b->is_ended = true;
        return;
    }
    const char *path = b->paths.v[b->next++];
    int r = reading_find(b->call, path, &b->reading, &inside, &err);
    if (r == 0)
        r = reading_open(&b->reading, &(struct range){0, b->reading.size}, &err);
    if (r < 0) {
        reading_end(&b->reading);
        put_error(b, path, inside, &err);
        return;
    }
    put_head(b, "file", path, "application/octet-stream");
    if (b->reading.size != 0)
        (void)buf_printf(&b->waiting, "Content-Length: %llu\r\n",
                         (unsigned long long)b->reading.size);
    (void)buf_puts(&b->waiting, r > 0 ? "\r\n" : "\r\n\r\n");
    b->is_reading = r > 0;
    if (r == 0)
        reading_end(&b->reading);
}

static size_t take_waiting(struct bulk *b, char *data, size_t size) {
    size_t len = MIN(size, b->waiting.len);
    memcpy(data, b->waiting.data, len);
    buf_consume(&b->waiting, len);
    return len;
}

/* A file that breaks off in the middle ends it all: clients see that the closing boundary is
 * missing. */
static size_t read_bulk(struct stream *s, char *data, size_t size) {
    struct bulk *b = (struct bulk *)s;
    for (;;) {
        s->failed = s->failed || b->waiting.failed;
        if (s->failed)
            return 0;
        if (b->waiting.len > 0)
            return take_waiting(b, data, size);
        if (b->is_ended)
            return 0;
        if (!b->is_reading) {
            open_next(b);
            continue;
        }
        ssize_t n = reading_take(&b->reading, data, size, NULL);
        if (n > 0)
            return (size_t)n;
        s->failed = n < 0;
        reading_end(&b->reading);
        b->is_reading = false;
        (void)buf_puts(&b->waiting, "\r\n");
    }
}

static void close_bulk(struct stream *s) {
    struct bulk *b = (struct bulk *)s;
    reading_end(&b->reading);
    strv_free(&b->paths);
    buf_free(&b->waiting);
    free(b);
}

static int read_paths(const struct buf *body, struct strv *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json paths, item;
    int r = json_parse("request body", buf_text(body), body->len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_array(&root, "paths", JSON_REQUIRED, &paths, err);
    if (r == 0 && (json_count(&paths) == 0 || json_count(&paths) > PATHS_MAX))
        r = json_refuse(&paths, err, "expected 1 to %d paths", PATHS_MAX);
    for (size_t i = 0; r == 0 && json_item(&paths, i, &item); i++) {
        const char *path = "";
        r = json_as_string(&item, &path, err);
        if (r == 0 && *path == '\0')
            r = json_refuse(&item, err, "expected a path");
        if (r == 0 && strv_push(ret, path) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

/* Random, so that no file can contain it on purpose. */
static int make_boundary(struct bulk *b, struct cay_error *err) {
    int r = id_new(b->boundary, err);
    if (r == 0)
        r = id_new(b->boundary + ID_LEN, err);
    (void)snprintf(b->type, sizeof b->type, "multipart/form-data; boundary=%s", b->boundary);
    return r;
}

/* A sandbox that is not there is the answer to all of them. */
static int check_sandbox(const struct call *c, struct cay_error *err) {
    struct toolbox t;
    int r = toolbox_begin(c, &t, err);
    toolbox_end(&t);
    return r;
}

static int download_many(struct call *c, struct cay_error *err) {
    struct bulk *b = calloc(1, sizeof *b);
    if (b == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    b->stream = (struct stream){.read = read_bulk, .close = close_bulk};
    b->call = c;
    b->reading.toolbox = TOOLBOX_INIT;
    b->waiting = BUF_INIT(WAITING_MAX);
    int r = read_paths(&c->body, &b->paths, err);
    if (r == 0)
        r = make_boundary(b, err);
    if (r == 0)
        r = check_sandbox(c, err);
    if (r < 0) {
        close_bulk(&b->stream);
        return r;
    }
    (void)snprintf(c->detail, sizeof c->detail, "%zu files", b->paths.len);
    c->answer.stream = &b->stream;
    c->answer.type = b->type; /* lives as long as the stream, which the head is sent before */
    return 0;
}

static const struct route routes[] = {
    {"GET", "/toolbox/{who}/files/download", download, NEED_USE},
    {"POST", "/toolbox/{who}/files/bulk-download", download_many},
};

const struct route_table toolbox_download_routes = {routes, ARRAY_LEN(routes)};
