/* What a Python program reports beside its streams: records of a kind (u8), a length (u32, little
 * endian) and so many bytes. It comes from inside the sandbox, so it is judged record by record:
 * one that makes no sense is the last that counts. */
#pragma once

#include <cay.h>

struct buf;

enum python_record {
    PYTHON_ENDED =
        0, /* its exit code, a byte: the last record, for cay-init (session/exit_record.h) */
    PYTHON_VERSION = 1,
    PYTHON_TYPE = 2,
    PYTHON_MESSAGE = 3,
    PYTHON_TRACEBACK = 4,
    PYTHON_FRAME = 5,  /* line, file, function and source, each but the last with a NUL behind */
    PYTHON_FIGURE = 6, /* format, NUL, bytes */
    PYTHON_CHART = 7,  /* an object of JSON, of the figure before */
    PYTHON_SVG = 8,    /* text, of the figure before */
    PYTHON_NOT_INSTALLED = 32,
    PYTHON_REPORT_FILE = 33, /* path, NUL, text */
    PYTHON_REPORT_SECTION = 34,
    PYTHON_REPORT_FIGURE = 35,
    PYTHON_REPORT_PROBLEM = 36,
};

enum {
    PYTHON_REPORT_MAX = 48 * 1024 * 1024,
    PYTHON_FRAMES_MAX = 64,
    PYTHON_FIGURES_MAX = 16,
    PYTHON_SVG_MAX = 2 * 1024 * 1024,
};

/* Fills the members of ret that a report tells of. 0, or -ENOMEM. */
int python_report_read(const struct buf *report, struct cay_python_result *ret);

/* Frees what python_report_read() filled. */
void python_report_free(struct cay_python_result *r);
