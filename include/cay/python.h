/* Running Python: a program in, everything that it left out. Included by <cay.h>. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a program is for, and what it must leave. */
enum cay_python_type {
    CAY_PYTHON_OTHERS,  /* anything */
    CAY_PYTHON_PROCESS, /* processes data: at least one file that is not empty in the work folder */
    CAY_PYTHON_REPORT,  /* a text report there, with headings and the figures that it refers to */
};

/* A program. Everything is borrowed for the call. */
struct cay_python {
    const char *name; /* of its file; "-c" and "-" are what python3 means by them; NULL: "-c" */
    const void *code; /* any bytes; python3 judges them */
    size_t code_len;
    const char *const *args;     /* sys.argv[1:], NULL-terminated; NULL: none */
    int warm;                    /* from cay_python_warm; 0 or less: the interpreter starts cold */
    bool waits;                  /* the sandbox has one that has been woken */
    const char *const *packages; /* to be installed by pip, as "requests==2.31.0", NULL-terminated;
                                  * NULL: none. Needs a cold interpreter */
    const char *index_url;       /* where pip looks for them; NULL: as it is configured inside */
    const char *find_links;      /* a folder inside with wheels; NULL: none */
    enum cay_python_type type;
    bool svg; /* figures as SVG too */
};

struct cay_python_frame {
    char *file, *function, *source; /* source is the line itself, without its indentation */
    uint64_t line;
};

struct cay_python_file {
    char *path; /* below the work folder */
    uint64_t size;
    bool created; /* else changed */
};

struct cay_python_figure {
    char *format; /* "png" */
    void *data;
    size_t len;
    char *chart; /* what it shows, as an object of JSON: type, title, elements …; NULL: unknown */
    char *svg;   /* the same as SVG, at most 2 MB; NULL: not asked for, or longer */
};

enum { CAY_PYTHON_REPORT_MAX = 64 };

/* A text report, and what is wrong with it or with whatever else the program had to leave. */
struct cay_python_report {
    char *path, *text; /* below the work folder; at most 1 MB of it. NULL: there is none */
    char *sections[CAY_PYTHON_REPORT_MAX];
    char *figures[CAY_PYTHON_REPORT_MAX]; /* files that it refers to and that are there */
    char *problems[CAY_PYTHON_REPORT_MAX];
    size_t section_count, figure_count, problem_count;
};

/* A Python interpreter of an image that has been started once and frozen: a descriptor, the
 * caller's to close, from which any number of programs can be run in sandboxes of that image. It is
 * made in a sandbox of its own if the state folder has none that is fresh, with the modules of
 * preload (NULL-terminated; NULL: none) imported. Fails where the image's Python cannot
 * be frozen; then programs run cold. */
int cay_python_warm(cay_engine *engine, const struct cay_spec *spec, const char *const *preload,
                    int *ret, struct cay_error *err);

/* What the program left. All but `run` is the sandbox's word: bounded, and shaped as described, but
 * a program can tell lies about itself. */
struct cay_python_result {
    struct cay_result run;
    char *version; /* of the interpreter; NULL if it did not begin */
    bool warm;     /* it had been started before */
    char *type;    /* of the exception that ended it, as "ValueError"; NULL: none did */
    char *message, *traceback;
    struct cay_python_frame *frames; /* the outermost first */
    size_t frame_count;
    struct cay_python_file *files;
    size_t file_count;
    bool files_truncated; /* there are more, or nobody knows */
    struct cay_python_figure *figures;
    size_t figure_count;
    char *not_installed; /* why there were no packages, and so no run; NULL: there were */
    struct cay_python_report report;
};

/* Runs a program to its end, as cay_sandbox_exec runs a command; argv of exec is not used, nor is
 * tty. What there is of a result is to be released in any case. */
int cay_sandbox_python(cay_sandbox *box, const struct cay_python *python,
                       const struct cay_exec *exec, struct cay_python_result *result,
                       struct cay_error *err);
void cay_python_result_free(struct cay_python_result *result);

#ifdef __cplusplus
}
#endif
