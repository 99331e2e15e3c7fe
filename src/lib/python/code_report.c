#include "lib/python/code_report.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

enum { LINE_MAX_LEN = 100, COMPILE_MAX_S = 24 * 3600 };

static void take_tool(const char *name, struct code_report *ret) {
    for (const char *p = name; *p != '\0'; p++)
        if (isalnum((unsigned char)*p) == 0 && strchr("+-", *p) == NULL)
            return;
    (void)!str_copy(ret->tool, sizeof ret->tool, name); /* a longer one is no tool of ours */
}

/* "12.34 15.00": two times of a clock, in seconds. */
static void take_times(char *text, struct code_report *ret) {
    double from, to;
    char *space = strchr(text, ' ');
    ret->compiled = true;
    if (space == NULL)
        return;
    *space = '\0';
    if (str_to_double(text, &from) == 0 && str_to_double(space + 1, &to) == 0 && to > from &&
        to - from < COMPILE_MAX_S)
        ret->compile_us = (int64_t)((to - from) * 1000000 + 0.5);
}

static void take_line(char *line, struct code_report *ret) {
    if (str_starts(line, "tool "))
        take_tool(line + strlen("tool "), ret);
    else if (str_starts(line, "compiled"))
        take_times(line + strcspn(line, " ") + (strchr(line, ' ') != NULL), ret);
    else if (str_equal(line, "missing"))
        ret->missing = true;
    else if (str_equal(line, "late"))
        ret->late = true;
    else if (str_equal(line, "begin"))
        ret->began = true;
}

struct code_report code_report_read(const char *text, size_t len) {
    struct code_report ret = {0};
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end != NULL ? (size_t)(end - text) : len;
        char line[LINE_MAX_LEN + 1];
        if (end != NULL && n <= LINE_MAX_LEN) {
            memcpy(line, text, n);
            line[n] = '\0';
            take_line(line, &ret);
        }
        n += end != NULL;
        text += n;
        len -= n;
    }
    return ret;
}
