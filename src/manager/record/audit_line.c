#include "manager/record/audit_line.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

enum { COLUMNS = 8 };

static bool read_hex(const char *text, unsigned char ret[static HASH_SIZE]) {
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * HASH_SIZE || strspn(text, digits) != 2 * HASH_SIZE)
        return false;
    for (size_t i = 0; i < HASH_SIZE; i++)
        ret[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 |
                                 (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

/* Splits at tabs, in place; how many there are, or 0 if they are not `wanted`. */
static size_t split(char *line, char **columns, size_t wanted) {
    size_t n = 0;
    for (char *at = line; at != NULL && n < wanted; n++) {
        columns[n] = strsep(&at, "\t");
        if (n + 1 == wanted && at != NULL)
            return 0;
    }
    return n == wanted ? n : 0;
}

int audit_line_parse(char *line, struct audit_row *ret) {
    char *c[COLUMNS];
    if (split(line, c, COLUMNS) == 0)
        return -EINVAL;
    *ret = (struct audit_row){0};
    if (str_to_i64(c[0], 1, INT64_MAX, &ret->number) < 0 ||
        str_to_i64(c[1], INT64_MIN, INT64_MAX, &ret->time_ms) < 0 ||
        str_copy(ret->who, sizeof ret->who, c[2]) < 0 ||
        str_copy(ret->action, sizeof ret->action, c[3]) < 0 ||
        str_copy(ret->object, sizeof ret->object, c[4]) < 0 ||
        str_copy(ret->result, sizeof ret->result, c[5]) < 0 ||
        str_copy(ret->detail, sizeof ret->detail, c[6]) < 0 || !read_hex(c[7], ret->chain))
        return -EINVAL;
    return 0;
}

int audit_line_parse_end(char *line, const char *word, int64_t *number,
                         unsigned char chain[static HASH_SIZE]) {
    char *c[3];
    if (split(line, c, 3) == 0 || !str_equal(c[0], word) ||
        str_to_i64(c[1], 0, INT64_MAX, number) < 0 || !read_hex(c[2], chain))
        return -EINVAL;
    return 0;
}
