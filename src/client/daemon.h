/* The daemon, as verbs see it: where it is, that it runs, and asking it. */
#pragma once

#include "base/buf.h"
#include "client/http.h"
#include "client/remote.h"

struct cay_error;

/* What the user said about where it is; NULL where nothing. */
struct daemon_choice {
    const char *host;           /* unix://PATH, http://HOST:PORT, https://HOST, or "daytona" */
    const char *key, *key_file; /* for TCP */
    const char *config;
    const char *state_dir;
    bool no_start; /* be content if it does not run */
};

struct daemon {
    struct http_address address;
    char key[REMOTE_KEY_MAX]; /* for TCP; "" if there is none */
    struct remote remote;     /* what leads there, if connecting alone does not */
    bool start;               /* if nobody listens */
    const char *config;       /* as in the choice */
    char state_dir[PATH_MAX]; /* the daemon's, if no host was named; else "" */
};

enum { DAEMON_ANSWER_MAX = 64 * 1024 * 1024 };

/* Finds it: the host that was named, by the choice, CAY_HOST or [remote] host, or the socket in the
 * state folder. If nobody listens there and no host was named, it is started, now and before each
 * later request. "daytona" is the remote of [daytona], DAYTONA_API_URL and DAYTONA_API_KEY. */
int daemon_open(const struct daemon_choice *choice, struct daemon *ret, struct cay_error *err);
/* Safe for one that was not opened. */
void daemon_close(struct daemon *d);

/* A connection to it. */
int daemon_dial(const struct daemon *d, struct cay_error *err);

struct daemon_request {
    const char *method, *path; /* escaped */
    const struct buf *body;    /* JSON; NULL: none */
    /* Hears lines of progress before the answer, if it is set. */
    void (*progress)(void *arg, const char *line);
    void *progress_arg;
};

/* Asks, and takes the answer into body, which is JSON or empty. A refusal is the error that the
 * daemon sent; body has its text. */
int daemon_call(const struct daemon *d, const struct daemon_request *req, struct buf *body,
                struct cay_error *err);

/* Refuses an empty name, of which a path would be that of all sandboxes. */
int daemon_check_name(const char *who, struct cay_error *err);
/* Appends text to a path, everything but letters, digits and "-._~" escaped. */
void daemon_put_escaped(struct buf *path, const char *text);

/* ---- an operation of cay-init ---- */

struct daemon_connection {
    int fd; /* speaks wire.h */
    struct http_head head;
    const char *user; /* NULL: root */
    const char *work_dir;
    const char *name;
    const char **env;   /* "K=V" of every command, NULL-terminated */
    const char *python; /* what daemon_connect_python was told; NULL: nothing */
};

#define DAEMON_CONNECTION_INIT ((struct daemon_connection){.fd = -1})

/* A connection to the init of the sandbox `who`. */
int daemon_connect(const struct daemon *d, const char *who, struct daemon_connection *ret,
                   struct cay_error *err);
/* The same with a Python interpreter woken there, if there is one: "warm" in ret->python says that
 * it waits for its program (lib/python/python.h), "cold; …" why there is none. is_changed says that
 * the one before was not fit for use: then there is none. */
int daemon_connect_python(const struct daemon *d, const char *who, bool is_changed,
                          struct daemon_connection *ret, struct cay_error *err);
void daemon_disconnect(struct daemon_connection *c);
