/* A request for a preview: whatever its host, path and fields are, its head is lines that the proxy
 * meant, and none of ours is in it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/preview/head.h"
#include "api/preview/place.h"
#include "base/auto.h"
#include "base/str.h"

/* The next line of the input. */
static char *take(char **text) {
    char *line = *text;
    size_t len = strcspn(line, "\n");
    *text = line + len + (line[len] == '\n');
    line[len] = '\0';
    return line;
}

static void check(const char *head) {
    size_t fields = 0;
    for (const char *p = strstr(head, "\r\n"); p != NULL; p = strstr(p + 2, "\r\n"))
        fields++;
    if (!str_ends(head, "\r\n\r\n") || fields > 64 ||
        strstr(head, "\r\n" PREVIEW_HEADER ":") != NULL ||
        strstr(head, "\r\nCookie: " PREVIEW_COOKIE) != NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char *text = strndup((const char *)input, size), *rest = text;
    struct buf out = BUF_INIT(1 << 20);
    struct preview_place place;
    const char *host = take(&rest), *uri = take(&rest);
    preview_read_place(host, uri, &place);
    if (place.is_one && place.port == 0)
        abort();
    if (place.is_one) {
        const struct preview_head h = {
            .place = &place, .method = "GET", .host = "x", .connection = take(&rest)};
        preview_put_request(&out, &h);
        bool was_plain = strchr(place.rest, '\r') == NULL;
        for (int i = 0; i < 16 && *rest != '\0'; i++) {
            const char *name = take(&rest);
            preview_put_field(&out, &h, name, take(&rest));
        }
        preview_put_end(&out);
        if (was_plain && !out.failed)
            check(buf_text(&out));
    }
    buf_clear(&out);
    preview_put_set_cookie(&out, uri, NULL, 0);
    preview_put_set_cookie(&out, uri, "/p/", 3);
    if (!str_ends(buf_text(&out), "; Path=/p/"))
        abort();
    buf_free(&out);
    free(text);
    return 0;
}
