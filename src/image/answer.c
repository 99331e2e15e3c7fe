#include "image/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

int image_answer(char *text, char id[static HEX_SIZE], struct cay_error *err) {
    static char none[] = "";
    char *line[3] = {text, none, none};
    for (size_t i = 0; i < ARRAY_LEN(line); i++) {
        char *end = strchr(line[i], '\n');
        if (end == NULL)
            break;
        *end = '\0';
        if (i + 1 < ARRAY_LEN(line))
            line[i + 1] = end + 1;
    }
    if (hex_is_valid(line[0])) {
        memcpy(id, line[0], HEX_SIZE);
        return 0;
    }
    if (line[1][0] == '\0')
        return error_set(err, CAY_INTERNAL, "cay-image ended without an answer");
    error_set(err, error_code_from_name(line[0]), "%s", line[1]);
    (void)error_remedy(err, "%s", line[2]);
    error_sanitize(err);
    return -(int)err->code;
}

void image_answer_error(struct buf *out, struct cay_error *err, const char *hidden) {
    error_sanitize(err);
    (void)buf_printf(out, "%s\n%s\n%s\n", cay_code_name(err->code), err->message, err->remedy);
    if (hidden[0] != '\0')
        (void)buf_printf(out, "%s\n", hidden);
}

const char *image_answer_hidden(const char *text, char *out, size_t size) {
    enum { LINES_BEFORE = 3 };
    char line[480];
    out[0] = '\0';
    for (int i = 0; i < LINES_BEFORE; i++) {
        const char *end = strchr(text, '\n');
        if (end == NULL)
            return out;
        text = end + 1;
    }
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    return str_escape(out, size, line);
}
