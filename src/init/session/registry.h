/* Where keepers live. A keeper is a process that keeps something by a name for as long as the
 * sandbox runs: a session, a terminal. It has a folder, cay-init's own, with a socket in it, and
 * whoever serves a connection about that name hands the connection over there. Nobody but
 * cay-init's own processes is heard at the socket, and nobody else's socket is believed to be a
 * keeper. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/op.h"

struct user;

enum { PLACE_NAME_MAX = 64, PLACE_PATH_MAX = 128 };

/* Takes on the user's rights over files, or cay-init's own again (NULL), for what is made next. */
void place_act_as(const struct user *u);

/* What is kept. */
struct place_kind {
    const char *prefix; /* of the folder's name */
    const char *word;   /* for people, as in "cay session" */
    unsigned max;       /* of them in a sandbox; 0: no limit */
};

extern const struct place_kind place_session, place_context, place_terminal;

struct place {
    const struct place_kind *kind;
    char name[PLACE_NAME_MAX + 1];
    const char *path; /* of the folder of all */
    int all;          /* that folder */
    int folder;       /* the own one */
    int listener;     /* connections are handed over here */
};

#define PLACE_INIT(k) ((struct place){.kind = (k), .all = -1, .folder = -1, .listener = -1})

/* Takes the name that a request asks about. */
int place_take_name(struct place *p, const struct wire_message *m, struct cay_error *err);

/* Makes the folder and the socket, unless there is a keeper of that name, or too many of them. */
int place_make(struct place *p, struct cay_error *err);
void place_remove(const struct place *p);

/* Makes a folder PREFIXNAME for u in another one, without what was left there, or removes it. The
 * first returns its descriptor or -errno. */
int place_make_folder(int in, const char *prefix, const char *name, const struct user *u);
void place_remove_folder(int in, const char *prefix, const char *name, const struct user *u);

/* Hands the connection to the keeper that the request names, with all that came on it so far. */
int place_hand_over(const struct place_kind *kind, struct op_conn *c, const struct wire_message *m,
                    struct cay_error *err);

/* The keeper's side: takes the next connection that is handed over. *ret holds what came on it,
 * the request first. 0 or -errno. */
int place_accept(int listener, int *ret_fd, struct wire_reader *ret);

/* Hears every keeper of a kind, with a connection that is closed afterwards. A negative result ends
 * it and is returned. */
typedef int place_fn(void *arg, const char *name, int keeper);
int place_each(const struct place_kind *kind, place_fn *each, void *arg);

/* Asks every keeper of a kind one thing: m is the frame that it answered with, if it did so in time
 * (WIRE_ENTRY or WIRE_DONE). One that ends meanwhile is passed over; if one is silent until the
 * deadline, -CAY_TIMEOUT is the result: what it has is not known. A negative result ends it. */
typedef int place_answer_fn(void *arg, const char *name, const struct wire_message *m);
int place_ask_all(const struct place_kind *kind, enum wire_op op, int64_t deadline_ms,
                  place_answer_fn *each, void *arg, struct cay_error *err);
