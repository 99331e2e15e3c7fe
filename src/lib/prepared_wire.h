/* What `cay` and the daemon say to each other about prepared sandboxes, over a sequenced-packet
 * socket in the daemon's folder. One connection is one sandbox:
 *
 *   client  a request, with the sandbox's end of a connection to its cay-init
 *   daemon  STARTED, or REFUSED and the end; then the client makes the sandbox itself
 *   daemon  ENDED, when the sandbox is gone, if the client still listens
 *
 * The sandbox is killed when the client hangs up or shuts down its side. Both ends come from one
 * build: a request of another version is refused. */
#pragma once

#include <cay/errors.h>
#include <limits.h>
#include <stdint.h>

#include "engine/spec.h"
#include "image/host.h"

#define PREPARED_SOCKET "prepared.sock"

enum { PREPARED_VERSION_SIZE = 64, PREPARED_CPUS_SIZE = 128 };

/* What a sandbox inherits from whoever makes it: it must be the same here and there. */
struct prepared_place {
    uint64_t mount_ns, root_dev, root_ino;
    uint32_t umask;
    unsigned char cpus[PREPARED_CPUS_SIZE]; /* where it may run */
};

enum prepared_what {
    PREPARED_COMMAND = 1,
    PREPARED_PYTHON = 2, /* with an interpreter that waits, or else one that is frozen */
};

struct prepared_request {
    char version[PREPARED_VERSION_SIZE]; /* first, in every version */
    uint32_t what;
    struct prepared_place place;
    char fingerprint[HOST_FINGERPRINT_SIZE];
    struct sandbox_spec spec; /* limits as asked for: id and mounts are not used */
    /* PYTHON: whether one that waits would do, and what it must have been started with. */
    uint32_t may_wait;
    uint64_t preload;
    char work_dir[PATH_MAX];
};

enum prepared_event { PREPARED_STARTED = 1, PREPARED_REFUSED = 2, PREPARED_ENDED = 3 };

/* PYTHON: what the client gets. */
enum prepared_python {
    PREPARED_NOTHING, /* as for a command */
    PREPARED_FROZEN,  /* an interpreter to be woken, as a descriptor */
    PREPARED_WAITING, /* one waits at the connection */
};

enum { PREPARED_FDS_MAX = 3 }; /* beside STARTED: connection, frozen interpreter, counter */

struct prepared_answer {
    uint32_t event;
    uint32_t python;         /* STARTED */
    uint32_t has_connection; /* STARTED: a connection, in place of the client's own */
    uint32_t has_counter; /* STARTED: a file with a line "oom_kill N", kills for want of memory */
    uint32_t oom_killed;  /* ENDED */
    char id[ID_SIZE];     /* STARTED */
    struct cay_error err; /* REFUSED; ENDED: it never ran to its end, if the code is not CAY_OK */
};

/* Of this process. Fails where /proc is not mounted. */
int prepared_look_around(struct prepared_place *ret, struct cay_error *err);
/* A number for a list of modules. */
uint64_t prepared_preload(const char *const *modules);
