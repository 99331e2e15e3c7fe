/* Any bytes of a connection: however they are cut, the same are passed on, and no line of a chunk
 * that was ends in anything but CR LF. */
#include <stdint.h>
#include <stdlib.h>

#include "api/http/framing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static bool ends_line(enum framing_state s) {
    return s == FRAMING_SIZE_LF || s == FRAMING_DATA_LF || s == FRAMING_FIELD_LF ||
           s == FRAMING_TRAILER_LF;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct framing whole = {0}, pieces = {0};
    const char *text = (const char *)data;
    size_t taken = framing_take(&whole, text, size), at = 0;
    require(taken <= size && (taken == size) == !whole.is_bad);
    for (; at < size; at++) {
        enum framing_state before = pieces.state;
        if (framing_take(&pieces, text + at, 1) == 0)
            break;
        bool in_lines = before != FRAMING_HEAD && before != FRAMING_BODY && before != FRAMING_DATA;
        require(!in_lines || (text[at] == '\n') == ends_line(before));
        require(!ends_line(before) || text[at - 1] == '\r');
    }
    require(at == taken && pieces.state == whole.state && pieces.left == whole.left);
    return 0;
}
