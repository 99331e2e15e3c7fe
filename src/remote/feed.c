#include "remote/feed.h"

#include <nettle/base64.h>
#include <string.h>

#include "base/error.h"
#include "wire/client_files.h"

enum {
    COMMAND_MAX = 256 * 1024,
    INLINE_MAX = 32 * 1024, /* what goes with the command that keeps it */
    PIECE_MAX = 1024 * 1024,
};

/* ---- pieces ---- */

static int run(const struct feed *f, const struct buf *command, struct cay_error *err) {
    int r = command->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory")
                            : toolbox_execute(&f->op->toolbox, buf_text(command), NULL, err);
    if (r <= 0)
        return r;
    error_set(err, CAY_UNAVAILABLE, "the sandbox does not take input (exit code %d)", r);
    return error_remedy(err, "it needs base64 and a /tmp that can be written to");
}

static void put_inline(const struct feed *f, struct buf *b) {
    size_t len = BASE64_ENCODE_RAW_LENGTH(f->pending.len);
    (void)buf_printf(b, "mkdir -p %s && printf %%s '", f->folder);
    char *to = buf_reserve(b, len);
    if (to != NULL) {
        base64_encode_raw(to, f->pending.len, (const uint8_t *)f->pending.data);
        buf_commit(b, len);
    }
    (void)buf_printf(b, "' | base64 -d > %s/part && ", f->folder);
}

static int upload(const struct feed *f, struct cay_error *err) {
    struct wire_memory memory = {.data = f->pending.data, .len = f->pending.len};
    char path[sizeof f->folder + 8];
    (void)snprintf(path, sizeof path, "%s/part", f->folder);
    return toolbox_upload(&f->op->toolbox, path, wire_source_memory, &memory, err);
}

/* A piece appears whole: it is renamed when it is written. */
int feed_flush(struct feed *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(COMMAND_MAX);
    int r = 0;
    if (f->pending.len == 0)
        return 0;
    if (f->pending.len <= INLINE_MAX)
        put_inline(f, &b);
    else
        r = upload(f, err);
    (void)buf_printf(&b, "mv %s/part %s/%u", f->folder, f->folder, f->count++);
    buf_clear(&f->pending);
    return r < 0 ? r : run(f, &b, err);
}

static int put_end(struct feed *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    f->ended = true;
    (void)buf_printf(&b, "mkdir -p %s && : > %s/end", f->folder, f->folder);
    return run(f, &b, err);
}

static int give_credit(struct feed *f, size_t len, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_COUNT, len);
    return op_send(f->op, WIRE_CREDIT, &b, err);
}

int feed_take(struct feed *f, const struct wire_frame *frame, struct cay_error *err) {
    if (f->folder[0] == '\0' || f->ended)
        return 0;
    if (frame->type == WIRE_INPUT_END) {
        int r = feed_flush(f, err);
        return r < 0 ? r : put_end(f, err);
    }
    if (buf_append(&f->pending, frame->data, frame->len) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    int r = give_credit(f, frame->len, err);
    return r < 0 || f->pending.len < PIECE_MAX ? r : feed_flush(f, err);
}

/* ---- the beginning and the end ---- */

/* An input that has ended already without a byte costs nothing. */
int feed_begin(struct feed *f, struct op *o, struct cay_error *err) {
    char name[32];
    struct wire_frame frame;
    *f = (struct feed){.op = o, .pending = BUF_INIT(PIECE_MAX + WIRE_DATA_MAX), .ended = true};
    if (op_number(o, WIRE_TAG_STDIN) == 0)
        return 0;
    bool early = op_has_frame(o);
    int r = early ? op_next(o, &frame, err) : 0;
    if (r < 0 || (r > 0 && frame.type == WIRE_INPUT_END))
        return MIN(r, 0);
    bool has_input = r > 0 && frame.type == WIRE_INPUT;
    r = op_make_name(name, err);
    if (r < 0)
        return r;
    f->ended = false;
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/.%s", name);
    return has_input ? feed_take(f, &frame, err) : 0;
}

/* A piece may come between the look for it and the look for the end. */
void feed_put_loop(const struct feed *f, struct buf *script) {
    (void)buf_printf(script,
                     "n=0; while :; do if [ -e %s/$n ]; then cat %s/$n; rm -f %s/$n; n=$((n+1)); "
                     "elif [ -e %s/end ] || [ ! -d %s ]; then [ -e %s/$n ] || break; "
                     "else sleep 0.05 2>/dev/null || sleep 1; fi; done",
                     f->folder, f->folder, f->folder, f->folder, f->folder, f->folder);
}

void feed_free(struct feed *f) {
    buf_free(&f->pending);
}

void feed_remove(const struct feed *f) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    struct cay_error ignored;
    if (f->count == 0)
        return;
    (void)buf_printf(&b, "rm -rf %s", f->folder);
    (void)run(f, &b, &ignored); /* the sandbox may be gone */
}
