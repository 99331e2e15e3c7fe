/* What the supervisor has done with images for the front, by cay-image, and by
 * the program of an engine that keeps its own. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "daemon/control.h"
#include "daemon/settings.h"
#include "image/store.h"

/* What may take long (pulls, builds, snapshots) and what is looked up in the store have separate
 * places, and an owner has a share of each: neither a silent registry nor one key keeps others from
 * images that are here. */
enum {
    PULLS_LONG = 32,
    PULLS_SHORT = 64,
    PULLS_MAX = PULLS_LONG + PULLS_SHORT,
    PULLS_LONG_SHARE = PULLS_LONG / 4,
    PULLS_SHORT_SHARE = PULLS_SHORT / 2,
};

struct pulls {
    pid_t pid[PULLS_MAX];                    /* 0: free; long ones come first */
    int answer[PULLS_MAX];                   /* where its answer goes; valid unless it is free */
    char owner[PULLS_MAX][IMAGE_OWNER_SIZE]; /* "": without a share */
};

/* Starts what a message asks for (CONTROL_PULL, CONTROL_STORE, CONTROL_BUILD). fds are those of the
 * message, and stay open here; the answer of cay-image, or what kept it from starting in the same
 * form, goes to the first. */
void pulls_start(struct pulls *p, const struct settings *s, const struct control_message *m,
                 const int *fds);
/* True if this child was one of them. */
bool pulls_ended(struct pulls *p, pid_t pid);
/* Fills what to wait for: PULLS_MAX entries, of which some are ready when pulls_tend has something
 * to do. */
void pulls_watch(const struct pulls *p, struct pollfd fds[static PULLS_MAX]);
/* Ends those whose answer nobody wants any more. */
void pulls_tend(const struct pulls *p, const struct pollfd fds[static PULLS_MAX]);
/* Ends all that are under way. */
void pulls_cancel(const struct pulls *p);

/* The front's side: asks for one over its control socket, and waits for the answer, or until
 * it is given up: -CAY_CONFLICT then; beyond timeout_ms -CAY_TIMEOUT. */
struct image_wish;
int pulls_ask(int control, const struct image_wish *wish, enum pull_how how, int64_t timeout_ms,
              char id[static 65], struct cay_error *err);

/* The same for a build; beyond timeout_ms it is given up: -CAY_TIMEOUT. */
struct image_build_order;
int pulls_ask_build(int control, const struct image_build_order *order, int64_t timeout_ms,
                    char id[static 65], struct cay_error *err);

/* The same for the store (control.h): the lines of the answer go to text. */
struct buf;
int pulls_ask_store(int control, const struct control_message *m, struct buf *text,
                    struct cay_error *err);
