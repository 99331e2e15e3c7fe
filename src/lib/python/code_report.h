/* What the shell that runs a piece of code tells on descriptor 3: lines of a word and its values.
 * They come from inside the sandbox: one that makes no sense is passed over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CODE_REPORT_MAX = 4096, CODE_TOOL_MAX = 32 };

struct code_report {
    char tool[CODE_TOOL_MAX]; /* "" if none was found */
    bool missing;             /* there is nothing that runs it */
    bool compiled;            /* a compiler ran … */
    bool late;                /* … until its time was over */
    bool began;               /* the program was started */
    int64_t compile_us;
};

struct code_report code_report_read(const char *text, size_t len);
