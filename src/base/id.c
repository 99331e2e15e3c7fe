#include "base/id.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/str.h"

int id_random(void *data, size_t len) {
    char *p = data;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int id_new(char out[static ID_SIZE], struct cay_error *err) {
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[ID_LEN / 2];
    int r = id_random(bytes, sizeof bytes);
    if (r < 0)
        return error_sys(err, -r, "getting random bytes");
    for (size_t i = 0; i < sizeof bytes; i++) {
        out[2 * i] = hex[bytes[i] >> 4];
        out[2 * i + 1] = hex[bytes[i] & 15];
    }
    out[ID_LEN] = '\0';
    return 0;
}

bool id_is_valid(const char *text) {
    return strlen(text) == ID_LEN && strspn(text, "0123456789abcdef") == ID_LEN;
}

static bool name_char(char c) {
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

int id_check_name(const char *what, const char *name, struct cay_error *err) {
    size_t len = strlen(name);
    bool ok = len > 0 && len <= NAME_MAX_LEN && isalnum((unsigned char)name[0]);
    for (size_t i = 0; ok && i < len; i++)
        ok = name_char(name[i]);
    if (ok)
        return 0;
    char shown[80];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is not a valid name", what,
              str_escape(shown, sizeof shown, name));
    return error_remedy(err,
                        "use up to %d letters, digits, '.', '_' or '-', starting with a "
                        "letter or digit",
                        NAME_MAX_LEN);
}
