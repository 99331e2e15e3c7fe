/* Any bytes as an object of JSON: what is taken, the library takes too, unless it has a key twice.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cay.h>

#include "base/json.h"
#include "base/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LEN_MAX = 4096 }; /* below what the library takes of values */
    struct json_document *doc = NULL;
    struct cay_error err = {0};
    const char *text = (const char *)data;
    if (size > LEN_MAX || !json_text_is_object(text, size))
        return 0;
    if (json_parse("text", text, size, &doc, &err) < 0 && strstr(err.message, "duplicate") == NULL)
        abort();
    json_free(doc);
    return 0;
}
