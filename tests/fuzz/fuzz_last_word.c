/* Any bytes as the report of a command: portions do not matter, and a code is a byte of it. */
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "init/session/exit_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct last_word whole = {0}, parts = {0};
    const char *bytes = (const char *)data;
    int at_once = last_word_find(&whole, bytes, size), by_parts = -1;
    for (size_t at = 0, n = 1; at < size && by_parts < 0; at += n, n = n % 3 + 1)
        by_parts = last_word_find(&parts, bytes + at, MIN(n, size - at));
    if (at_once != by_parts || at_once > UINT8_MAX)
        abort();
    return 0;
}
