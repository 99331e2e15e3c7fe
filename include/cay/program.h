/* Running a piece of code in any language that an image has. Included by <cay.h>. */
#pragma once

#include <cay/python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything is borrowed for the call. */
struct cay_program {
    const char *language; /* "bash", "c", "javascript" …: docs/languages.md */
    const char *name;     /* of its file, for messages; "-c" and "-": it has none */
    const void *code;
    size_t code_len;
    const char *const *args;    /* of the program, NULL-terminated; NULL: none */
    int64_t compile_timeout_ms; /* 0: 60 s */
};

/* As with Python, all but program.run is the sandbox's word. */
struct cay_program_result {
    struct cay_python_result program; /* exception and figures are for Python only */
    char *tool;                       /* what compiled or interpreted it; NULL if there was none */
    bool compiling;                   /* it ended in the compiler: the program never began */
    int64_t compile_us;               /* to a hundredth of a second; 0 if nothing was compiled */
};

/* Runs it to its end, as cay_sandbox_exec runs a command; argv and input of exec are not used, nor
 * is tty. Fails with CAY_NOT_FOUND if the image has nothing that runs the language. What
 * there is of a result is to be released in any case. */
int cay_sandbox_program(cay_sandbox *box, const struct cay_program *code,
                        const struct cay_exec *exec, struct cay_program_result *result,
                        struct cay_error *err);
void cay_program_result_free(struct cay_program_result *result);

#ifdef __cplusplus
}
#endif
