/* The launcher: a small single-threaded process that holds the privilege and makes sandboxes for a
 * client, from slots that it keeps ready. They talk over a sequenced-packet socket with fixed
 * binary requests, which the launcher checks again.
 *
 * The client makes the descriptors that the sandbox's cay-init gets (a connection, a listening
 * socket, or both) and sends them along, so it can write its first request before the sandbox
 * exists and read the answer without asking the launcher. It must keep reading answers: the
 * launcher waits for a client that does not. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <cay/errors.h>

#include "engine/spec.h"

struct cay_error;
struct native;

enum launcher_op {
    LAUNCHER_START = 1, /* with the spec; descriptors as `fds` says */
    LAUNCHER_END = 2,   /* kill the sandbox with this tag */
};

enum { LAUNCHER_CONNECTION = 1, LAUNCHER_LISTENER = 2 }; /* bits of `fds`, in this order */

struct launcher_request {
    uint32_t op;
    uint32_t fds;
    uint64_t tag;             /* chosen by the client, names the sandbox in every answer */
    struct sandbox_spec spec; /* START; its mounts follow */
    struct mount_spec mounts[SPEC_MOUNTS_MAX]; /* as many as there are; the length tells */
};

enum launcher_event { LAUNCHER_STARTED = 1, LAUNCHER_FAILED = 2, LAUNCHER_ENDED = 3 };

struct launcher_answer {
    uint32_t event;
    uint32_t oom_killed; /* ENDED */
    uint64_t tag;
    int32_t pid;    /* STARTED: of its PID 1, in the launcher's view */
    int32_t status; /* ENDED: wait status of its PID 1 */
    char id[ID_SIZE];
    struct cay_error err; /* FAILED */
};

/* Bytes of a START request with so many mounts. */
size_t launcher_request_size(size_t mounts);

/* 0, or -EINVAL for a request of `len` bytes that no client of ours could have sent. */
int launcher_check(const struct launcher_request *r, size_t len);

/* Takes the low descriptor numbers that are not in use, so that nothing else ever lands there. To
 * be called before anything else is opened. */
int launcher_reserve_descriptors(struct cay_error *err);

/* Serves the client at the other end of sock until it hangs up; then ends every sandbox. `ready` is
 * how many slots to keep ready; defaults says for which size. */
int launcher_serve(struct native *n, int sock, unsigned ready, const struct sandbox_spec *defaults,
                   struct cay_error *err);
