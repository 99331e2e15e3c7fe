#include "api/http/range.h"

#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/str.h"

/* Digits up to another character; more than fits is the most that does. False if there are none. */
static bool read_number(const char **at, uint64_t *ret) {
    const char *start = *at;
    *ret = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        *ret = *ret > (UINT64_MAX - digit) / 10 ? UINT64_MAX : *ret * 10 + digit;
    }
    return *at != start;
}

/* "-500": the last bytes */
static enum range_wish take_end(const char *text, uint64_t size, struct range *ret) {
    uint64_t count;
    if (!read_number(&text, &count) || *text != '\0')
        return RANGE_WHOLE;
    if (count == 0 || size == 0)
        return RANGE_OUTSIDE;
    ret->length = MIN(count, size);
    ret->first = size - ret->length;
    return RANGE_PART;
}

/* "500-", "500-999" */
static enum range_wish take_middle(const char *text, uint64_t size, struct range *ret) {
    uint64_t first, last = UINT64_MAX;
    if (!read_number(&text, &first) || *text++ != '-')
        return RANGE_WHOLE;
    if (*text != '\0' && (!read_number(&text, &last) || *text != '\0' || last < first))
        return RANGE_WHOLE;
    if (first >= size)
        return RANGE_OUTSIDE;
    ret->first = first;
    ret->length = MIN(last, size - 1) - first + 1;
    return RANGE_PART;
}

enum range_wish range_read(const char *header, uint64_t size, struct range *ret) {
    static const char unit[] = "bytes=";
    *ret = (struct range){0, size};
    if (header == NULL || strncasecmp(header, unit, sizeof unit - 1) != 0)
        return RANGE_WHOLE;
    header += sizeof unit - 1;
    return *header == '-' ? take_end(header + 1, size, ret) : take_middle(header, size, ret);
}

bool range_has_tag(const char *header, const char *tag) {
    size_t len = strlen(tag);
    if (header == NULL)
        return false;
    if (str_equal(header, "*"))
        return true;
    for (const char *p = header; *p != '\0'; p += strcspn(p, ",")) {
        p += strspn(p, ", \t");
        if (p[0] == 'W' && p[1] == '/')
            p += 2;
        if (strncmp(p, tag, len) == 0 && strchr(", \t", p[len]) != NULL)
            return true;
    }
    return false;
}
