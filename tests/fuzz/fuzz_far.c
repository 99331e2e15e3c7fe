/* Any JSON as what a Daytona says of a sandbox, a volume, or what one uses: it becomes one object,
 * or one row with a field for each name. */
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/error.h"
#include "remote/far_read.h"
#include "remote/far_shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static size_t count(const char *text, size_t len, char c) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += text[i] == c;
    return n;
}

static void check(const struct sheet_kind *kind, const struct json *at) {
    _cleanup_(buf_free) struct buf table = BUF_INIT((size_t)64 << 20);
    _cleanup_(buf_free) struct buf text = BUF_INIT((size_t)64 << 20);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    sheet_write_one(&table, true, kind, at);
    sheet_write_one(&text, false, kind, at);
    require(!table.failed && !text.failed);
    require(count(table.data, table.len, '\n') == 2);
    require(count(table.data, table.len, '\t') % 2 == 0);
    require(json_parse("shape", buf_text(&text), text.len, &doc, NULL) == 0 ||
            text.len > JSON_TEXT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    if (json_parse("fuzz", (const char *)data, size, &doc, NULL) < 0)
        return 0;
    struct json root = json_root(doc, "");
    check(&far_shape_sandbox, &root);
    check(&far_shape_volume, &root);
    check(&far_shape_stats, &root);
    return 0;
}
