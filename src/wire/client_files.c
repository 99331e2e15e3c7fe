#include "wire/client_files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

enum { ANSWER_MAX = 32 * 1024 }; /* no answer of these operations comes near */

#define REQUEST_INIT BUF_INIT(WIRE_MESSAGE_MAX)

static int broken(struct cay_error *err, const char *what) {
    (void)wire_call_broken(err, what); /* fills err with this class */
    return -CAY_INTERNAL;
}

/* ---- sources and sinks ---- */

ssize_t wire_source_fd(void *arg, char *data, size_t size, struct cay_error *err) {
    const int *fd = arg;
    ssize_t n;
    do
        n = read(*fd, data, size);
    while (n < 0 && errno == EINTR);
    return n < 0 ? error_errno(err, "reading what is to be sent") : n;
}

int wire_sink_fd(void *arg, const char *data, size_t len, struct cay_error *err) {
    const int *fd = arg;
    int r = fd_write_all(*fd, data, len);
    return r < 0 ? error_sys(err, -r, "writing what was received") : 0;
}

ssize_t wire_source_memory(void *arg, char *data, size_t size, struct cay_error *err) {
    (void)err;
    struct wire_memory *m = arg;
    size_t n = MIN(size, m->len);
    if (n > 0)
        memcpy(data, m->data, n);
    m->data += n;
    m->len -= n;
    return (ssize_t)n;
}

int wire_sink_buf(void *arg, const char *data, size_t len, struct cay_error *err) {
    if (buf_append(arg, data, len) == 0)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "the content is too large to be held in memory");
    return error_remedy(err, "read it in parts");
}

/* ---- the shapes of an exchange ---- */

/* Takes an entry or a piece of content. */
typedef int frame_fn(void *arg, const struct wire_frame *f, struct cay_error *err);

/* Receives frames of `type` until WIRE_DONE, whose fields go to m (valid as long as r). */
static int receive_all(const struct wire_call *c, struct wire_reader *r, enum wire_type type,
                       frame_fn *fn, void *arg, struct wire_message *m, struct cay_error *err) {
    struct wire_frame f;
    for (;;) {
        int n = wire_call_receive(c, r, &f, err);
        if (n < 0)
            return n;
        if (f.type == WIRE_DONE)
            return wire_call_parse(&f, ANSWER_MAX, m, err);
        if (fn == NULL || f.type != type)
            return broken(err, "an unexpected kind of frame");
        n = fn(arg, &f, err);
        if (n < 0)
            return n;
    }
}

/* A request that is answered by WIRE_DONE alone. */
static int simple(const struct wire_call *c, const struct buf *request, struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, request, err);
    return n < 0 ? n : receive_all(c, &r, WIRE_DONE, NULL, NULL, &m, err);
}

static int send_input(const struct wire_call *c, wire_source_fn *source, void *arg,
                      struct cay_error *err) {
    _cleanup_(freep) char *data = malloc(WIRE_DATA_MAX);
    if (data == NULL)
        return error_sys(err, ENOMEM, "sending to the sandbox");
    for (;;) {
        ssize_t n = source(arg, data, WIRE_DATA_MAX, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            return wire_call_send(c, WIRE_INPUT_END, NULL, err);
        int r = wire_call_send_data(c, data, (size_t)n, err);
        if (r < 0)
            return r;
    }
}

/* Content on its way out of the sandbox. */
struct inflow {
    wire_sink_fn *sink;
    void *arg;
    uint64_t max;
    uint64_t size;
};

static int take_content(void *arg, const struct wire_frame *f, struct cay_error *err) {
    struct inflow *in = arg;
    if (f->len == 0)
        return broken(err, "an empty piece of content");
    if (f->len > in->max - in->size) {
        error_set(err, CAY_LIMIT_REACHED, "more than %llu bytes came out of the sandbox",
                  (unsigned long long)in->max);
        return error_remedy(err, "fetch less at once, or raise the limit");
    }
    in->size += f->len;
    return in->sink(in->arg, f->data, f->len, err);
}

/* ---- content ---- */

int wire_read(const struct wire_call *c, const char *path, const struct wire_range *range,
              wire_sink_fn *sink, void *arg, uint64_t *ret_size, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_READ, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_OFFSET, range->offset);
    wire_put_number(&b, WIRE_TAG_LIMIT, range->limit);
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct inflow in = {.sink = sink, .arg = arg, .max = range->max_bytes};
    if (range->limit != 0)
        in.max = MIN(range->limit, range->max_bytes);
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (n == 0)
        n = receive_all(c, &r, WIRE_STDOUT, take_content, &in, &m, err);
    if (n == 0 && m.number[WIRE_TAG_SIZE] != in.size)
        n = broken(err, "the content has another size than announced");
    *ret_size = in.size;
    return n;
}

/* A request with content behind it, answered by WIRE_DONE. */
static int send_with_input(const struct wire_call *c, const struct buf *request,
                           wire_source_fn *source, void *arg, struct wire_reader *r,
                           struct wire_message *m, struct cay_error *err) {
    int n = wire_call_send(c, WIRE_REQUEST, request, err);
    if (n == 0)
        n = send_input(c, source, arg, err);
    return n < 0 ? n : receive_all(c, r, WIRE_DONE, NULL, NULL, m, err);
}

int wire_write(const struct wire_call *c, const char *path, int mode, bool parents,
               wire_source_fn *source, void *arg, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_WRITE, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, parents);
    if (mode >= 0)
        wire_put_number(&b, WIRE_TAG_MODE, (uint64_t)mode);
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m = {0};
    return send_with_input(c, &b, source, arg, &r, &m, err);
}

/* ---- names and attributes ---- */

/* The fields of a file, checked; the name is the caller's to judge. */
static int take_file(const struct wire_message *m, struct wire_file *ret, struct cay_error *err) {
    static const enum wire_tag needed[] = {WIRE_TAG_MODE, WIRE_TAG_SIZE, WIRE_TAG_MTIME_MS,
                                           WIRE_TAG_UID, WIRE_TAG_GID};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!m->present[needed[i]])
            return broken(err, "a file without all of its fields");
    if (m->string[WIRE_TAG_PATH] == NULL)
        return broken(err, "a file without a name");
    if (m->number[WIRE_TAG_MODE] > 0177777 || m->number[WIRE_TAG_SIZE] > INT64_MAX ||
        m->number[WIRE_TAG_UID] > UINT32_MAX || m->number[WIRE_TAG_GID] > UINT32_MAX)
        return broken(err, "a file with an impossible field");
    *ret = (struct wire_file){
        .path = m->string[WIRE_TAG_PATH],
        .target = m->string[WIRE_TAG_TARGET],
        .mode = (uint32_t)m->number[WIRE_TAG_MODE],
        .uid = (uint32_t)m->number[WIRE_TAG_UID],
        .gid = (uint32_t)m->number[WIRE_TAG_GID],
        .size = m->number[WIRE_TAG_SIZE],
        .mtime_ms = (int64_t)m->number[WIRE_TAG_MTIME_MS],
    };
    return 0;
}

int wire_stat(const struct wire_call *c, const char *path, bool follow, struct wire_file *ret,
              char target[static PATH_MAX], struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_STAT, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_FOLLOW, follow);
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (n == 0)
        n = receive_all(c, &r, WIRE_DONE, NULL, NULL, &m, err);
    if (n == 0)
        n = take_file(&m, ret, err);
    if (n < 0)
        return n;
    ret->path = path;
    if (ret->target == NULL)
        return 0;
    if (str_copy(target, PATH_MAX, ret->target) < 0)
        return broken(err, "a link target is too long");
    ret->target = target;
    return 0;
}

int wire_check_folder(const struct wire_call *c, const char *path, struct cay_error *err) {
    char inside[PATH_MAX + sizeof "/."], target[PATH_MAX], shown[128];
    struct wire_file f = {0};
    (void)snprintf(inside, sizeof inside, "%s/.", path); /* which only who may enter it can see */
    int r = wire_stat(c, inside, true, &f, target, err);
    if (r == 0 || (r != -CAY_NOT_FOUND && r != -CAY_INVALID_ARGUMENT && r != -CAY_FORBIDDEN))
        return r;
    error_set(err, CAY_INVALID_ARGUMENT,
              r == -CAY_FORBIDDEN ? "'%s' is closed to the user"
                                  : "'%s' is no folder, and none can be made there",
              str_escape(shown, sizeof shown, path));
    return error_remedy(err, "choose a folder that the user may make or enter");
}

/* Entries on their way to the caller. */
struct entries {
    const char *root; /* what every path must lie below; NULL: names without a folder */
    uint64_t left;
    wire_file_fn *file;
    wire_match_fn *match;
    wire_replaced_fn *replaced;
    void *arg;
};

static bool is_name(const char *text) {
    return text[0] != '\0' && strchr(text, '/') == NULL && strcmp(text, ".") != 0 &&
           strcmp(text, "..") != 0;
}

/* True for root itself and for names below it without any "..". */
static bool lies_below(const char *root, const char *path) {
    size_t len = strlen(root);
    while (len > 0 && root[len - 1] == '/')
        len--;
    if (strncmp(root, path, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return false;
    for (const char *p = path + len; *p != '\0';) {
        p += *p == '/';
        size_t n = strcspn(p, "/");
        if (n == 0 || n > NAME_MAX || (n == 2 && memcmp(p, "..", 2) == 0))
            return false;
        p += n;
    }
    return true;
}

/* Counts the entry and parses it. */
static int open_entry(struct entries *e, const struct wire_frame *f, struct wire_message *m,
                      struct cay_error *err) {
    if (e->left == 0)
        return broken(err, "more entries than were asked for");
    e->left--;
    int r = wire_call_parse(f, ANSWER_MAX, m, err);
    if (r == 0 && m->string[WIRE_TAG_PATH] == NULL)
        r = broken(err, "an entry without a name");
    return r;
}

static int take_file_entry(void *arg, const struct wire_frame *f, struct cay_error *err) {
    struct entries *e = arg;
    struct wire_message m = {0};
    struct wire_file file = {0};
    int r = open_entry(e, f, &m, err);
    if (r == 0)
        r = take_file(&m, &file, err);
    if (r != 0)
        return r;
    if (e->root == NULL ? !is_name(file.path) : !lies_below(e->root, file.path))
        return broken(err, "a name outside of the folder");
    return e->file(e->arg, &file, err);
}

static int take_match_entry(void *arg, const struct wire_frame *f, struct cay_error *err) {
    struct entries *e = arg;
    struct wire_message m = {0};
    int r = open_entry(e, f, &m, err);
    if (r < 0)
        return r;
    struct wire_match match = {.path = m.string[WIRE_TAG_PATH],
                               .text = m.string[WIRE_TAG_TEXT],
                               .line = m.number[WIRE_TAG_LINE]};
    if (match.text == NULL || match.line == 0 || !lies_below(e->root, match.path))
        return broken(err, "a match outside of the folder, or without its line");
    return e->match(e->arg, &match, err);
}

/* Sends the request, passes each entry on, and says whether there were more. */
static int exchange_entries(const struct wire_call *c, struct buf *request, frame_fn *take,
                            struct entries *e, bool *ret_truncated, struct cay_error *err) {
    wire_put_number(request, WIRE_TAG_LIMIT, e->left);
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, request, err);
    if (n == 0)
        n = receive_all(c, &r, WIRE_ENTRY, take, e, &m, err);
    if (n == 0)
        *ret_truncated = m.number[WIRE_TAG_TRUNCATED] != 0;
    return n;
}

int wire_list(const struct wire_call *c, const char *path, uint64_t max_entries, wire_file_fn *fn,
              void *arg, bool *ret_truncated, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_LIST, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    struct entries e = {.left = max_entries, .file = fn, .arg = arg};
    return exchange_entries(c, &b, take_file_entry, &e, ret_truncated, err);
}

int wire_mkdir(const struct wire_call *c, const char *path, int mode, bool parents,
               struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_MKDIR, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, parents);
    if (mode >= 0)
        wire_put_number(&b, WIRE_TAG_MODE, (uint64_t)mode);
    return simple(c, &b, err);
}

int wire_move(const struct wire_call *c, const char *from, const char *to, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_MOVE, &b);
    wire_put_string(&b, WIRE_TAG_PATH, from);
    wire_put_string(&b, WIRE_TAG_TARGET, to);
    return simple(c, &b, err);
}

int wire_remove(const struct wire_call *c, const char *path, bool recursive,
                struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_REMOVE, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, recursive);
    return simple(c, &b, err);
}

int wire_chmod(const struct wire_call *c, const char *path, uint32_t mode, bool recursive,
               struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_CHMOD, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_MODE, mode);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, recursive);
    return simple(c, &b, err);
}

int wire_chown(const struct wire_call *c, const char *path, const char *owner, bool recursive,
               struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_CHOWN, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_string(&b, WIRE_TAG_TARGET, owner);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, recursive);
    return simple(c, &b, err);
}

/* ---- search ---- */

static void put_query(struct buf *b, const struct wire_query *q) {
    wire_put_string(b, WIRE_TAG_PATH, q->path);
    wire_put_string(b, WIRE_TAG_PATTERN, q->pattern);
}

int wire_find(const struct wire_call *c, const struct wire_query *q, wire_file_fn *fn, void *arg,
              bool *ret_truncated, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_FIND, &b);
    put_query(&b, q);
    struct entries e = {.root = q->path, .left = q->max_entries, .file = fn, .arg = arg};
    return exchange_entries(c, &b, take_file_entry, &e, ret_truncated, err);
}

int wire_search(const struct wire_call *c, const struct wire_query *q, wire_match_fn *fn, void *arg,
                bool *ret_truncated, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_SEARCH, &b);
    put_query(&b, q);
    wire_put_number(&b, WIRE_TAG_REGEX, (q->flags & WIRE_SEARCH_REGEX) != 0);
    wire_put_number(&b, WIRE_TAG_IGNORE_CASE, (q->flags & WIRE_SEARCH_IGNORE_CASE) != 0);
    struct entries e = {.root = q->path, .left = q->max_entries, .match = fn, .arg = arg};
    return exchange_entries(c, &b, take_match_entry, &e, ret_truncated, err);
}

/* Replacements come in the order of the request. */
struct replacements {
    struct entries entries;
    const char *const *paths; /* the next one expected */
};

static int take_replaced_entry(void *arg, const struct wire_frame *f, struct cay_error *err) {
    struct replacements *s = arg;
    struct wire_message m = {0};
    struct cay_error failure = {0};
    int r = open_entry(&s->entries, f, &m, err);
    if (r < 0)
        return r;
    if (strcmp(m.string[WIRE_TAG_PATH], *s->paths) != 0)
        return broken(err, "a replacement in another file");
    struct wire_replaced done = {.path = *s->paths++, .count = m.number[WIRE_TAG_COUNT]};
    if (m.number[WIRE_TAG_CODE] != CAY_OK) {
        (void)wire_take_error(&m, &failure);
        done.failure = &failure;
    }
    return s->entries.replaced(s->entries.arg, &done, err);
}

int wire_replace(const struct wire_call *c, const char *const *paths, size_t count,
                 const char *pattern, const char *text, wire_replaced_fn *fn, void *arg,
                 struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_REPLACE, &b);
    wire_put_string(&b, WIRE_TAG_PATTERN, pattern);
    wire_put_string(&b, WIRE_TAG_TEXT, text);
    for (size_t i = 0; i < count; i++)
        wire_put_string(&b, WIRE_TAG_PATHS, paths[i]);
    struct replacements s = {.entries = {.left = count, .replaced = fn, .arg = arg}};
    s.paths = paths;
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (n == 0)
        n = receive_all(c, &r, WIRE_ENTRY, take_replaced_entry, &s, &m, err);
    if (n == 0 && s.entries.left != 0)
        n = broken(err, "not every file was answered for");
    return n;
}

/* ---- archives ---- */

static void take_totals(const struct wire_message *m, struct wire_tar_totals *ret) {
    *ret = (struct wire_tar_totals){
        .members = m->number[WIRE_TAG_COUNT],
        .bytes = m->number[WIRE_TAG_SIZE],
    };
    if (m->string[WIRE_TAG_MESSAGE] != NULL)
        (void)str_escape(ret->note, sizeof ret->note, m->string[WIRE_TAG_MESSAGE]);
}

int wire_tar_in(const struct wire_call *c, const char *path, bool make, uint64_t max_bytes,
                wire_source_fn *source, void *arg, struct wire_tar_totals *ret,
                struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_TAR_IN, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_RECURSIVE, make);
    wire_put_number(&b, WIRE_TAG_LIMIT, max_bytes);
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m = {0};
    int n = send_with_input(c, &b, source, arg, &r, &m, err);
    if (n == 0)
        take_totals(&m, ret);
    return n;
}

int wire_tar_out(const struct wire_call *c, const char *path, uint64_t max_bytes,
                 wire_sink_fn *sink, void *arg, struct wire_tar_totals *ret,
                 struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_TAR_OUT, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    wire_put_number(&b, WIRE_TAG_LIMIT, max_bytes);
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct inflow in = {.sink = sink, .arg = arg, .max = max_bytes};
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, &b, err);
    if (n == 0)
        n = receive_all(c, &r, WIRE_STDOUT, take_content, &in, &m, err);
    if (n == 0 && m.number[WIRE_TAG_SIZE] != in.size)
        n = broken(err, "the archive has another size than announced");
    if (n == 0)
        take_totals(&m, ret);
    return n;
}

/* ---- streams ---- */

/* Takes the answer without reading a byte beyond it: those belong to the stream. */
static int dial(const struct wire_call *c, const struct buf *request, struct cay_error *err) {
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f = {0};
    struct wire_message m = {0};
    int n = wire_call_send(c, WIRE_REQUEST, request, err);
    if (n == 0)
        n = wire_call_receive_exactly(c, &r, &f, err);
    if (n < 0)
        return n;
    if (f.type != WIRE_DONE)
        return broken(err, "an unexpected kind of frame");
    return wire_call_parse(&f, ANSWER_MAX, &m, err);
}

int wire_dial_port(const struct wire_call *c, uint16_t port, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_DIAL, &b);
    wire_put_number(&b, WIRE_TAG_PORT, port);
    return dial(c, &b, err);
}

int wire_dial_path(const struct wire_call *c, const char *path, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = REQUEST_INIT;
    wire_call_begin(c, WIRE_OP_DIAL, &b);
    wire_put_string(&b, WIRE_TAG_PATH, path);
    return dial(c, &b, err);
}
