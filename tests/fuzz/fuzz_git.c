/* Whatever git prints: what is accepted becomes one whole JSON value. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/code/git_parse.h"
#include "base/auto.h"
#include "base/json/jsonw.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static int (*const writers[])(struct jsonw * w, const char *text, size_t len) = {
        git_write_status, git_write_history, git_write_branches, git_write_remotes};
    for (size_t i = 0; i < ARRAY_LEN(writers); i++) {
        struct buf out = BUF_INIT(1 << 22);
        struct jsonw w = JSONW_INIT(&out);
        if (writers[i](&w, (const char *)input, size) == 0 && jsonw_finish(&w) < 0 && !out.failed)
            abort();
        buf_free(&out);
    }
    return 0;
}
