#include "cli/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ".", "..", "./x" and "../x", but not ".x": that could be meant as the name of a volume. */
static bool is_relative(const char *text, size_t len) {
    size_t dots = strspn(text, ".");
    return (dots == 1 || dots == 2) && dots <= len && (dots == len || text[dots] == '/');
}

int paths_of_volumes(const struct strv *given, struct strv *ret, struct cay_error *err) {
    for (size_t i = 0; i < given->len; i++) {
        const char *text = given->v[i];
        size_t len = strcspn(text, ":");
        char host[PATH_MAX], path[PATH_MAX];
        int r;
        if (!is_relative(text, len)) {
            r = strv_push(ret, text);
        } else {
            (void)snprintf(host, sizeof host, "%.*s", (int)MIN(len, sizeof host - 1), text);
            if (realpath(host, path) == NULL)
                return error_errno(err, "volume source '%.200s'", host);
            r = strv_pushf(ret, "%s%s", path, text + len);
        }
        if (r < 0)
            return error_sys(err, -r, "reading --volume");
    }
    return 0;
}
