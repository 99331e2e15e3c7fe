/* Any bytes as what the shell that runs a piece of code tells: what is kept is within its bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/python/code_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct code_report r = code_report_read((const char *)data, size);
    if (strnlen(r.tool, sizeof r.tool) >= sizeof r.tool || r.compile_us < 0 ||
        (r.compile_us > 0 && !r.compiled))
        abort();
    return 0;
}
