/* Runs operations of cay-init in a process of their own over a socket pair, as the real one does,
 * so that tests drive them with the host's client functions. */
#pragma once

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/error.h"
#include "wire/client_files.h"

enum { NOBODY = 65534 };

struct harness {
    struct wire_call call;
    pid_t pid;
};

/* Starts the process, as another user if uid is not 0 (then the test must run as root). */
void harness_open(struct harness *h, uid_t uid);
/* Ends it and checks that it neither crashed nor leaked. */
void harness_close(struct harness *h);

/* The value of an expression that uses the call c. */
#define RUN_AS(uid, expression)                                                                    \
    ({                                                                                             \
        struct harness harness_;                                                                   \
        harness_open(&harness_, uid);                                                              \
        const struct wire_call *c = &harness_.call;                                                \
        int result_ = (expression);                                                                \
        harness_close(&harness_);                                                                  \
        result_;                                                                                   \
    })
#define RUN(expression) RUN_AS(0, expression)

/* An empty folder that everybody may write to, removed by folder_teardown; *state is its path. */
int folder_setup(void **state);
int folder_teardown(void **state);

/* Joins into one of a few static buffers. */
const char *at(void **state, const char *name);

void put_file(const char *path, const char *content, mode_t mode);
/* The content, NUL-terminated in a static buffer; fails the test if there is no such file. */
const char *get_file(const char *path);
/* Content sent by wire_write. */
int write_text(const struct wire_call *c, const char *path, const char *text, int mode,
               bool parents, struct cay_error *err);
mode_t mode_of(const char *path);
bool is_missing(const char *path);
/* Number of names in a folder. */
int count_names(const char *path);
/* Runs a program without a shell and returns its exit code; -1 if it does not exist. */
int run_program(const char *const argv[]);
