/* A body in two cuts must be heard alike, whatever it is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/http/multipart.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"

static int begin(void *user, const struct multipart_part *part, struct cay_error *err) {
    (void)err;
    (void)buf_putc(user, part->has_filename ? '*' : '[');
    return buf_append(user, part->name, strlen(part->name));
}

static int data(void *user, const char *bytes, size_t len, struct cay_error *err) {
    (void)err;
    return buf_append(user, bytes, len);
}

static int end(void *user, struct cay_error *err) {
    (void)err;
    return buf_putc(user, ']');
}

static int parse(const uint8_t *body, size_t len, size_t piece, struct buf *out) {
    static const struct multipart_handler handler = {begin, data, end};
    struct multipart m;
    struct cay_error err;
    int r = multipart_init(&m, "multipart/form-data; boundary=b", &handler, out, &err);
    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = multipart_feed(&m, (const char *)body + at, MIN(piece, len - at), &err);
    return r < 0 ? r : multipart_finish(&m, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    struct buf whole = BUF_INIT(1 << 20), cut = BUF_INIT(1 << 20);
    if (size == 0)
        return 0;
    int a = parse(input + 1, size - 1, size, &whole);
    int b = parse(input + 1, size - 1, (size_t)input[0] + 1, &cut);
    if ((a < 0) != (b < 0) ||
        (a == 0 &&
         (whole.len != cut.len || (whole.len > 0 && memcmp(whole.data, cut.data, whole.len) != 0))))
        abort();
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
