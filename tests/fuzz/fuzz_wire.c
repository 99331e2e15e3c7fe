/* Any bytes through the protocol's reader and parser, and fields made of any bytes through the
 * encoder and back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "wire/client_command.h"
#include "wire/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static const enum wire_kind kinds[WIRE_TAG_COUNT_] = {
#define ROW(id, number, kind) [number] = (kind),
    WIRE_TAG_TABLE(ROW)
#undef ROW
};

/* ---- hostile bytes ---- */

static void check_strings(const struct wire_message *m, enum wire_tag tag) {
    const char **v = wire_string_array(m, tag);
    require(v != NULL);
    size_t n = 0;
    for (; v[n] != NULL; n++)
        require(v[n] >= m->data && v[n] + strlen(v[n]) < m->data + m->len);
    require(n == m->count[tag]);
    free((void *)v);
}

static void check_message(const void *payload, size_t len) {
    struct wire_message m;
    if (wire_parse(payload, len, &m) < 0)
        return;
    for (unsigned tag = 1; tag < WIRE_TAG_COUNT_; tag++) {
        require(m.present[tag] == (m.count[tag] > 0));
        if (kinds[tag] == WIRE_KIND_STRINGS)
            check_strings(&m, (enum wire_tag)tag);
        else
            require(m.count[tag] <= 1);
    }
    struct cay_error err = {0};
    require(wire_take_error(&m, &err) < 0);
    require(err.code != CAY_OK && memchr(err.message, '\0', sizeof err.message) != NULL);
}

/* The stream arrives in two parts, cut where the first byte says. */
static void check_stream(const uint8_t *data, size_t size) {
    struct wire_reader r = WIRE_READER_INIT;
    size_t cut = size > 0 ? data[0] % (size + 1) : 0;
    const struct {
        const uint8_t *data;
        size_t len;
    } parts[] = {{data, cut}, {data + cut, size - cut}};
    int result = 0;
    for (size_t i = 0; i < 2 && result >= 0; i++) {
        if (buf_append(&r.in, parts[i].data, parts[i].len) < 0)
            break;
        struct wire_frame f;
        while ((result = wire_reader_next(&r, &f)) == 1) {
            require(f.len <= WIRE_MESSAGE_MAX && r.used <= r.in.len);
            check_message(f.data, f.len);
        }
    }
    wire_reader_free(&r);
}

/* The same as what comes back for a command. */
static void check_events(const uint8_t *data, size_t size) {
    struct wire_reader r = WIRE_READER_INIT;
    struct wire_command_event e;
    struct cay_error err;
    int result = buf_append(&r.in, data, size);
    while (result >= 0 && (result = wire_command_next(&r, &e, &err)) == 1) {
        require(e.kind != WIRE_COMMAND_OUTPUT || e.len <= WIRE_DATA_MAX);
        require(e.kind != WIRE_COMMAND_ENDED || e.outcome.exit_code <= 255);
        require(e.credits <= WIRE_INPUT_CREDIT);
    }
    wire_reader_free(&r);
}

/* The same as what passes by: it means the same wherever it is cut. */
static void check_watch(const uint8_t *data, size_t size) {
    struct wire_watch whole = {0}, cut = {0};
    struct exec_outcome a = {0}, b = {0};
    size_t at = size > 0 ? data[0] % size : 0;
    wire_watch_see(&whole, (const char *)data, size);
    wire_watch_see(&cut, (const char *)data, at);
    wire_watch_see(&cut, (const char *)data + at, size - at);
    bool is_end = wire_watch_end(&whole, &a);
    require(is_end == wire_watch_end(&cut, &b) && a.exit_code == b.exit_code);
    require(a.exit_code <= 255 && whole.end_len <= sizeof whole.end);
}

/* ---- round trip ---- */

struct field {
    unsigned tag;
    uint64_t number;
    char text[64];
};

/* A field out of the front of the input; returns how many bytes it took. */
static size_t make_field(const uint8_t *data, size_t size, struct field *f) {
    size_t n = MIN(size - 1, sizeof f->text - 1);
    *f = (struct field){.tag = 1 + data[0] % (WIRE_TAG_COUNT_ - 1)};
    memcpy(&f->number, data + 1, MIN(n, sizeof f->number));
    memcpy(f->text, data + 1, n);
    return 1 + (kinds[f->tag] == WIRE_KIND_NUMBER ? MIN(n, sizeof f->number) : strlen(f->text));
}

static bool put_field(struct buf *b, const struct field *f) {
    if (kinds[f->tag] == WIRE_KIND_NUMBER)
        wire_put_number(b, (enum wire_tag)f->tag, f->number);
    else
        wire_put_string(b, (enum wire_tag)f->tag, f->text);
    return !b->failed;
}

static void check_field(const struct wire_message *m, const struct field *f, const char **last) {
    require(m->present[f->tag]);
    if (kinds[f->tag] == WIRE_KIND_NUMBER) {
        require(m->number[f->tag] == f->number);
        return;
    }
    const char *text = wire_next_string(m, (enum wire_tag)f->tag, last[f->tag]);
    require(text != NULL && strcmp(text, f->text) == 0);
    last[f->tag] = text;
}

static void check_round_trip(const uint8_t *data, size_t size) {
    enum { FIELDS = 64 };
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    static struct field fields[FIELDS];
    bool seen[WIRE_TAG_COUNT_] = {false};
    const char *last[WIRE_TAG_COUNT_] = {NULL};
    size_t count = 0;
    while (size > 0 && count < FIELDS) {
        struct field *f = &fields[count];
        size_t used = make_field(data, size, f);
        data += used;
        size -= used;
        if (seen[f->tag] && kinds[f->tag] != WIRE_KIND_STRINGS)
            continue;
        seen[f->tag] = true;
        require(put_field(&b, f));
        count++;
    }
    struct wire_message m;
    require(wire_parse(buf_text(&b), b.len, &m) == 0);
    for (size_t i = 0; i < count; i++)
        check_field(&m, &fields[i], last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_message(data, size);
    check_stream(data, size);
    check_events(data, size);
    check_watch(data, size);
    check_round_trip(data, size);
    return 0;
}
