/* Starting cay-image, or whoever answers as it does, for the supervisor: its answer comes on a
 * descriptor, as lines. */
#pragma once

#include <sys/types.h>

struct cay_error;

/* Starts the program argv[0] of ours with these arguments (NULL-terminated); its standard output
 * is `answer`, its standard error `progress` and its standard input `input` (-1: ours). `more`, if
 * it is not -1, is its descriptor IMAGER_MORE. All stay open here. */
enum { IMAGER_MORE = 3 };
struct imager_streams {
    int answer, progress, input, more;
};
int imager_spawn(const char *const *argv, const struct imager_streams *streams, pid_t *ret,
                 struct cay_error *err);

/* Starts a process that removes what a cay-image that was killed left in the store. */
void imager_sweep(const char *state_dir);
/* The same if this is the wait status of one that was killed. */
void imager_sweep_after(int status, const char *state_dir);

/* Answers in its place, in the same form: what kept it from starting, or CAY_OK as "ok". */
void imager_answer(int answer, struct cay_error *err);
