/* Any bytes as the name of a package: what is taken is nothing that pip reads as something else. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/python/package.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    if (text == NULL)
        return 0;
    if (python_package_is_valid(text) &&
        (isalnum((unsigned char)text[0]) == 0 || strlen(text) > PYTHON_PACKAGE_LEN_MAX ||
         strpbrk(text, " \t\r\n/:;@#$\\\"'%") != NULL))
        abort();
    char module[PYTHON_MODULE_SIZE];
    if (python_missing_module("ImportError", text, module) &&
        (strlen(module) >= sizeof module || !python_package_is_valid(module)))
        abort();
    free(text);
    return 0;
}
