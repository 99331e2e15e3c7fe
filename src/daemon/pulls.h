/* What the supervisor has done with images for the front, by cay-image. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "daemon/settings.h"

enum { PULLS_MAX = 32 };

struct pulls {
    pid_t pid[PULLS_MAX];  /* 0: free */
    int answer[PULLS_MAX]; /* where its answer goes; valid unless it is free */
};

struct control_message;

/* Starts what a message asks for (CONTROL_PULL, CONTROL_STORE). The answer of cay-image goes to
 * `answer`, or what kept it from starting in the same form; its progress to `progress` (-1:
 * nowhere). Both stay open here. */
void pulls_start(struct pulls *p, const struct settings *s, const struct control_message *m,
                 int answer, int progress);
/* True if this child was one of them. */
bool pulls_ended(struct pulls *p, pid_t pid);
/* Fills what to wait for: PULLS_MAX entries, of which some are ready when pulls_tend has something
 * to do. */
void pulls_watch(const struct pulls *p, struct pollfd fds[static PULLS_MAX]);
/* Ends those whose answer nobody wants any more. */
void pulls_tend(const struct pulls *p, const struct pollfd fds[static PULLS_MAX]);
/* Ends all that are under way. */
void pulls_cancel(const struct pulls *p);

/* The front's side: asks for one over its control socket, and waits for the answer, or until cancel
 * (or -1) is readable: -CAY_CONFLICT then. */
int pulls_ask(int control, const char *name, int progress, int cancel, char id[static 65],
              struct cay_error *err);

/* The same for the store (control.h): the lines of the answer go to text. */
struct buf;
int pulls_ask_store(int control, const struct control_message *m, struct buf *text,
                    struct cay_error *err);
