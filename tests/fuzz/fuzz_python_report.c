/* Any bytes as the report of a program: what is kept is terminated and within its bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lib/python/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t length(const char *text) {
    return text != NULL ? strlen(text) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cay_python_result r = {0};
    struct buf b = {.data = (char *)(uintptr_t)data, .len = size, .cap = size, .max = size};
    if (python_report_read(&b, &r) < 0 || r.frame_count > PYTHON_FRAMES_MAX ||
        r.figure_count > PYTHON_FIGURES_MAX)
        abort();
    size_t total = length(r.version) + length(r.type) + length(r.message) + length(r.traceback);
    for (size_t i = 0; i < r.figure_count; i++)
        total += r.figures[i].len;
    if (total > size)
        abort();
    python_report_free(&r);
    return 0;
}
