/* Any text as a range of content of any size: what is taken lies within the content. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/http/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t whole = 0;
    if (size < sizeof whole)
        return 0;
    memcpy(&whole, data, sizeof whole);
    char *text = strndup((const char *)data + sizeof whole, size - sizeof whole);
    require(text != NULL);
    struct range r;
    if (range_read(text, whole, &r) == RANGE_PART)
        require(r.length > 0 && r.first < whole && r.length <= whole - r.first);
    else
        require(r.first == 0 && r.length == whole);
    (void)range_has_tag(text, "\"1-a\"");
    free(text);
    return 0;
}
