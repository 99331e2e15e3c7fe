/* Scope clean-up and attributes. A cleanup variable is always initialised when declared;
 * ownership leaves a scope through TAKE_FD and TAKE_PTR. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f)       __attribute__((cleanup(f)))
#define _printf_(fmt, arg) __attribute__((format(printf, fmt, arg)))
#define _must_check_       __attribute__((warn_unused_result))
#define _noreturn_         __attribute__((noreturn))
#define _unused_           __attribute__((unused))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

/* Hands the value over and leaves the empty value behind. */
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int _taken = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        _taken;                                                                                    \
    })
#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) _taken = (p);                                                                \
        (p) = NULL;                                                                                \
        _taken;                                                                                    \
    })

static inline void freep(void *p) {
    free(*(void **)p);
}

static inline void closep(const int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void fclosep(FILE **f) {
    if (*f != NULL)
        (void)fclose(*f);
}

static inline void closedirp(DIR **d) {
    if (*d != NULL)
        (void)closedir(*d);
}

/* Closes *fd if open and marks it closed. */
static inline void fd_close(int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}
