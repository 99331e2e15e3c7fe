#include "api/shape/daytona_version.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"

static bool read_part(const char **text, long *ret) {
    if (**text < '0' || **text > '9' || strspn(*text, "0123456789") > 3)
        return false;
    char *end;
    *ret = strtol(*text, &end, 10);
    *text = end;
    return true;
}

int daytona_version(const char *text) {
    long major, minor;
    if (text == NULL || !read_part(&text, &major) || *text++ != '.' || !read_part(&text, &minor))
        return -1;
    return *text == '.' || *text == '\0' ? (int)(major * 1000 + minor) : -1;
}

bool daytona_is_before(const struct call *c, int version) {
    int given = daytona_version(call_header(c, "X-Daytona-SDK-Version"));
    return given >= 0 && given < version;
}

void daytona_rewrite(struct target *t) {
    if (t->segments < 4 || !str_equal(t->segment[0], "api") ||
        !str_equal(t->segment[1], "toolbox") || !str_equal(t->segment[3], "toolbox"))
        return;
    t->segment[0] = "toolbox";
    t->segment[1] = t->segment[2];
    t->segments -= 2;
    for (size_t i = 2; i < t->segments; i++)
        t->segment[i] = t->segment[i + 2];
}

bool daytona_is_public(const struct target *t) {
    return t->segments == 2 && str_equal(t->segment[0], "api") &&
           (str_equal(t->segment[1], "config") || str_equal(t->segment[1], "health"));
}
