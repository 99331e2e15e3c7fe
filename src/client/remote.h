/* A remote daemon that plain HTTP does not reach: by TLS, behind a proxy, or one that speaks
 * Daytona's protocol only. The program cay-remote has the libraries for it. It is started once, and
 * gives connections that are spoken to as those of a daemon are. */
#pragma once

#include <cay/errors.h>
#include <limits.h>
#include <sys/types.h>

enum { REMOTE_URL_MAX = 1024, REMOTE_KEY_MAX = 256, REMOTE_WORD_MAX = 64 };

enum remote_kind {
    REMOTE_NONE,
    REMOTE_CAY,     /* the connections lead to it as they are */
    REMOTE_DAYTONA, /* cay-remote translates */
};

/* The first message to cay-remote. Both ends come from one build. */
struct remote_order {
    char url[REMOTE_URL_MAX];     /* http(s)://HOST[:PORT][/PATH], without "/api" at its end */
    char key[REMOTE_KEY_MAX];     /* "": none */
    char ca_file[PATH_MAX];       /* further certificates to trust; "": the system's only */
    char target[REMOTE_WORD_MAX]; /* the region of new sandboxes; "": the remote's default */
};

/* Its answer. */
struct remote_reply {
    enum remote_kind kind; /* REMOTE_NONE: err says why */
    char version[REMOTE_WORD_MAX];
    struct cay_error err;
};

struct remote {
    enum remote_kind kind;
    char version[REMOTE_WORD_MAX]; /* that it says of itself; "" if it does not */
    int control;
    pid_t pid;
};

/* Starts cay-remote, which asks the remote what it is. */
int remote_open(const struct remote_order *order, struct remote *ret, struct cay_error *err);

/* A connection; any thread may ask for one. */
int remote_dial(const struct remote *r, struct cay_error *err);

/* Ends cay-remote. Nothing happens if there is none. */
void remote_close(struct remote *r);
