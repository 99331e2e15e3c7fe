/* Any text as an image name: it is refused with a remedy, or it has a normal form that means the
 * same again, and whose parts can be names of files. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "image/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_same(const struct reference *ref, const char *text) {
    struct reference again;
    require(reference_parse(text, &again, NULL) == 0);
    require(memcmp(ref, &again, sizeof again) == 0);
}

static void check_file_name(const char *name) {
    require(name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) <= 255);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(freep) char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct reference ref;
    struct cay_error err = {0};
    char out[REFERENCE_TEXT_SIZE], hex[HEX_SIZE];
    if (digest_parse(text, hex))
        require(hex_is_valid(hex) && reference_is_id(text));
    if (reference_parse(text, &ref, &err) < 0) {
        require(err.code == CAY_INVALID_ARGUMENT && err.remedy[0] != '\0');
        require(str_is_utf8(err.message, strlen(err.message)));
        return 0;
    }
    require(!reference_is_id(text));
    require(ref.tag[0] != '\0' || hex_is_valid(ref.digest));
    check_same(&ref, reference_format(&ref, out));
    check_same(&ref, reference_familiar(&ref, out));
    check_file_name(ref.registry);
    require(strstr(ref.repository, "..") == NULL && strchr(ref.repository, '+') == NULL);
    if (ref.tag[0] != '\0')
        check_file_name(ref.tag);
    return 0;
}
