/* A Python program over a connection to cay-init, whoever made the sandbox. */
#pragma once

#include <cay.h>

#include "lib/command.h"

struct buf;

/* What an interpreter, warm or cold, reads from its standard input before anything else. */
int python_put_request(const struct cay_python *python, struct buf *b, struct cay_error *err);

/* Where a fresh sandbox sees a folder of wheels of the host. */
#define PYTHON_WHEELS "/mnt/cay-wheels"

/* What a cold one is started with, by "python3 -u -c"; NULL without memory. */
char *python_cold_text(const struct cay_python *python);

/* How a frozen interpreter is woken in a sandbox that others have used: it ends with PYTHON_CHANGED
 * before it reads anything if it is not the one that would be started there. */
extern const char *const python_kept_argv[];
/* The same for one that keeps a context: it begins with _cay_context(). */
extern const char *const python_context_argv[];
enum { PYTHON_CHANGED = 123, PYTHON_REQUEST_MAX = 68 * 1024 * 1024 };

/* Wakes a frozen interpreter (cay_python_warm), which then waits for the program that python_exec
 * brings it by the same connection. */
int python_wake(int fd, int warm, const struct command_defaults *defaults, struct cay_error *err);
/* The same in a sandbox that others have used, as by python_kept_argv. */
int python_wake_kept(int fd, int warm, const struct command_defaults *defaults,
                     struct cay_error *err);

/* As command_exec; tier and out of memory are the caller's to fill. */
int python_exec(int *fd, const struct cay_python *python, const struct cay_exec *exec,
                const struct command_defaults *defaults, struct cay_python_result *ret,
                struct cay_error *err);

/* The same for an interpreter that somebody else has woken (python->waits) and that may not be fit
 * for use: the caller's input is left alone until the program begins. It fails with *ret_asleep set
 * if it never did, and nothing was run. */
int python_exec_woken(int *fd, const struct cay_python *python, const struct cay_exec *exec,
                      const struct command_defaults *defaults, bool *ret_asleep,
                      struct cay_python_result *ret, struct cay_error *err);

/* Adds a file to those of a struct cay_python_result: for command_extras. */
void python_take_change(void *result, const char *path, uint64_t size, bool created);
