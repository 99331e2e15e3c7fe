/* Any JSON as what a Daytona says of a sandbox, a volume, or what one uses: it becomes one object.
 */
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

static void check(jsonw_members_fn *members, const struct json *at) {
    _cleanup_(buf_free) struct buf text = BUF_INIT((size_t)64 << 20);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    jsonw_write_object(&text, members, at);
    require(!text.failed);
    require(json_parse("shape", buf_text(&text), text.len, &doc, NULL) == 0 ||
            text.len > JSON_TEXT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    if (json_parse("fuzz", (const char *)data, size, &doc, NULL) < 0)
        return 0;
    struct json root = json_root(doc, "");
    check(far_put_sandbox, &root);
    check(far_put_volume, &root);
    check(far_put_stats, &root);
    return 0;
}
