/* The output of a program whose result is one document: what is short is in it, what is long is in
 * a file beside it, with its beginning and its end in the document. */
#pragma once

#include <limits.h>
#include <stddef.h>

struct cay_error;

struct python_output {
    char path[PATH_MAX]; /* "" when there is no file (any more) */
    int fd;
};

#define PYTHON_OUTPUT_NONE ((struct python_output){.fd = -1})

/* Makes the file, in $TMPDIR or /tmp; stream is the end of its name. */
int python_output_open(struct python_output *o, const char *stream, struct cay_error *err);

/* The text for the document: all of it if that is at most max bytes, and then the file is removed;
 * else two halves of that and a notice between. NUL-terminated, the caller's to free. */
int python_output_take(struct python_output *o, size_t max, char **ret, size_t *ret_len,
                       struct cay_error *err);

/* Closes it, and removes the file if nothing was taken. */
void python_output_close(struct python_output *o);
