/* The lines of a Dockerfile: directives, comments, continuations, heredocs. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

struct cay_error;
struct dockerfile;
struct instruction;

struct dockerfile_reader {
    const char *at, *end;
    unsigned line; /* of what `at` points to, from 1 */
    char escape;
    struct cay_error *err;
};

/* Fills err with "Dockerfile:LINE: …". */
int dockerfile_refuse(struct cay_error *err, unsigned line, const char *fmt, ...) _printf_(3, 4);

/* Reads the parser directives at the very top into file. */
int dockerfile_read_directives(struct dockerfile_reader *r, struct dockerfile *file);

/* The next instruction's text with its continuations joined, blanks at both ends removed. 1, or 0
 * at the end of the file; ret_line is where it starts. */
int dockerfile_read_line(struct dockerfile_reader *r, struct buf *text, unsigned *ret_line);

/* Reads the heredocs that the text of an instruction announces, and which follow it. */
int dockerfile_read_heredocs(struct dockerfile_reader *r, const char *text, struct instruction *in);
