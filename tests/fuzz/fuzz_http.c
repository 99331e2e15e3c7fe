/* Any bytes as the daemon's answer: its head, its chunks, its JSON, its progress. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "client/http_answer.h"
#include "client/progress.h"
#include "client/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_head(const char *data, size_t size) {
    struct http_head h;
    size_t end = http_head_end(data, size, 0);
    require(end <= size);
    if (http_head_parse(data, end > 0 ? end : size, &h) < 0)
        return;
    require(h.status >= 100 && h.status <= 999 && !(h.chunked && h.length >= 0));
    for (size_t i = 0; i < h.field_count; i++) {
        require(strpbrk(h.fields[i].value, "\r\n") == NULL);
        require(http_head_get(&h, h.fields[i].name, NULL) != NULL);
        size_t before = strlen(h.fields[i].value);
        char *value = h.text + (h.fields[i].value - h.text);
        require(http_unescape(value) < 0 || strlen(value) <= before);
    }
    http_head_free(&h);
}

/* In whatever pieces it comes, the content is the same. */
static uint64_t chunks(const char *data, size_t size, size_t step, int *ret) {
    struct http_chunks c = {0};
    uint64_t sum = 0;
    *ret = HTTP_CHUNKS_MORE;
    for (size_t at = 0; at < size && *ret == HTTP_CHUNKS_MORE; at += step) {
        const char *from = data + at, *piece;
        size_t left = MIN(step, size - at), len;
        while ((*ret = http_chunks_next(&c, &from, &left, &piece, &len)) == HTTP_CHUNKS_PIECE)
            for (size_t i = 0; i < len; i++)
                sum = sum * 31 + (unsigned char)piece[i] + 1;
    }
    return sum;
}

/* What is shown has no control character, whatever came. */
static void check_reply(const char *text, size_t len) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    struct reply t;
    struct cay_error err;
    if (buf_append(&b, text, len) < 0 ||
        (reply_parse(&b, &t, &err) < 0 && reply_parse_list(&b, &t, &err) < 0))
        return;
    for (size_t row = 0; row < t.rows; row++) {
        struct json one = reply_row(&t, row), member;
        for (void *i = NULL; json_next(&one, &i, &member);)
            for (const char *c = reply_text(&t, row, member.key); *c != '\0'; c++)
                require((unsigned char)*c >= 0x20 && *c != 0x7f);
    }
    reply_free(&t);
}

static void report(void *arg, const char *line) {
    (void)arg;
    require(strchr(line, '\n') == NULL);
}

static void check_progress(const char *data, size_t size) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(1 << 20);
    struct progress p = {.tell = report, .answer = &body};
    struct cay_error err;
    if (progress_take(&p, data, size, &err) == 0)
        (void)progress_end(&p, &err);
    progress_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int all, single;
    check_head((const char *)data, size);
    require(chunks((const char *)data, size, MAX(size, (size_t)1), &all) ==
            chunks((const char *)data, size, 1, &single));
    require(all == single);
    check_reply((const char *)data, size);
    check_progress((const char *)data, size);
    return 0;
}
