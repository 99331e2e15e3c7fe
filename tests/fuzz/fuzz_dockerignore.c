/* The first line is a path, the rest a .dockerignore. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "imager/build/dockerignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = memchr(data, '\n', size);
    if (end == NULL || end - data > 4096)
        return 0;
    char *path = strndup((const char *)data, (size_t)(end - data));
    struct dockerignore *d = NULL;
    struct cay_error err = {0};
    size_t len = size - (size_t)(end + 1 - data);
    if (dockerignore_parse("fuzz", (const char *)end + 1, len, &d, &err) == 0)
        (void)dockerignore_matches(d, path);
    else if (d != NULL || err.code != CAY_INVALID_ARGUMENT)
        abort();
    dockerignore_free(d);
    free(path);
    return 0;
}
