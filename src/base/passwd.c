#include "base/passwd.h"

#include <string.h>

#include "base/str.h"

bool passwd_next(char **at, char *fields[static PASSWD_FIELDS], int count) {
    while (**at != '\0') {
        char *line = *at;
        size_t len = strcspn(line, "\n");
        *at = line + len + (line[len] == '\n');
        line[len] = '\0';
        int n = 0;
        for (char *p = line; p != NULL && n < count; n++) {
            fields[n] = p;
            p = strchr(p, ':');
            if (p != NULL)
                *p++ = '\0';
        }
        if (n == count)
            return true;
    }
    return false;
}

bool passwd_id(const char *text, unsigned *ret) {
    uint64_t number;
    if (str_to_u64(text, PASSWD_ID_MAX, &number) < 0)
        return false;
    *ret = (unsigned)number;
    return true;
}
