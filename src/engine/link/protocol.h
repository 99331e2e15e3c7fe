/* What is said between the manager and the program of an engine (cay-launcher of the native one),
 * which holds the privilege and makes sandboxes for it: fixed binary requests over a
 * sequenced-packet socket, which that program checks again. "The launcher" is any such program.
 *
 * Throw-away sandboxes (START, END) come from slots that it keeps ready, go by the tag of their
 * request, and end with the launcher or when the client hangs up. Sandboxes that stay (KEEP and all
 * that follows) go by their id and have their files in the state folder; they live on, and the next
 * launcher on the same state folder takes them over (keep.h).
 *
 * The client makes the descriptors that the sandbox's cay-init gets (a connection, a listening
 * socket, or both) and sends them along, so it can write its first request before the sandbox
 * exists and read the answer without asking the launcher. It must keep reading answers: the
 * launcher waits for a client that does not. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <cay/errors.h>

#include "engine/engine.h"
#include "engine/spec.h"
#include "image/host.h"

enum launcher_op {
    LAUNCHER_START = 1, /* with the spec; descriptors as `fds` says */
    LAUNCHER_END = 2,   /* kill the sandbox with this tag */
    /* Sandboxes that stay; spec.id names them. What is not said to be answered otherwise is
     * answered by DONE or FAILED, once it has been done. */
    LAUNCHER_KEEP = 3, /* start, with spec, image and a listener: STARTED */
    LAUNCHER_STOP = 4,
    LAUNCHER_PAUSE = 5,
    LAUNCHER_RESUME = 6,
    LAUNCHER_REMOVE = 7,
    LAUNCHER_RESIZE = 8,         /* to the limits in spec that are not 0 */
    LAUNCHER_STATS = 9,          /* STATS */
    LAUNCHER_LIST = 10,          /* LIST, of those whose ids follow spec.id, which may be "" */
    LAUNCHER_VOLUME_MAKE = 30,   /* the named volume spec.id, for spec.disk_bytes (0: no limit);
                                  * there already is fine */
    LAUNCHER_VOLUME_REMOVE = 31, /* with all that is in it; gone already is fine */
    LAUNCHER_VOLUME_GROW = 32,   /* to spec.disk_bytes */
    LAUNCHER_USAGE = 20,         /* STATS at once, without disk_bytes */
    LAUNCHER_SPACE = 50,  /* SPACE; spec.disk_bytes is floor_bytes, spec.memory_bytes hold_bytes */
    LAUNCHER_REPAIR = 51, /* the file system of one that does not run */
    /* Of an engine that keeps by itself what sandboxes have written; with image: */
    LAUNCHER_ARCHIVE = 40, /* STATS, with disk_bytes alone */
    LAUNCHER_UNARCHIVE = 41,
    LAUNCHER_SNAPSHOT = 42,       /* IMAGE */
    LAUNCHER_BACKUP = 43,         /* STATS, the same; of spec.disk_bytes at most */
    LAUNCHER_BACKUP_RESTORE = 44, /* without image: STATS, with disk_bytes 1 if it was restored */
    LAUNCHER_BACKUP_REMOVE = 45,
};

enum { LAUNCHER_CONNECTION = 1, LAUNCHER_LISTENER = 2 }; /* bits of `fds`, in this order */
enum { LAUNCHER_READY_MAX = 64 };

struct launcher_request {
    uint32_t op;
    uint32_t fds;
    uint64_t tag;         /* chosen by the client, comes back in every answer */
    char image[HEX_SIZE]; /* id in the store; "" is the host image */
    /* START: send a descriptor with STARTED, if the kernel counts: a file of cgroup with a line
     * "oom_kill N", N being how often it killed for want of memory. 0 or 1. */
    uint32_t wants_counter;
    /* START: how many sandboxes of this kind to keep ready from now on; 0 changes nothing. */
    uint32_t ready;
    /* START: the host image that the client would use; an older one is replaced. "": any. */
    char fingerprint[HOST_FINGERPRINT_SIZE];
    struct sandbox_spec spec;                  /* START and KEEP; its mounts follow */
    struct mount_spec mounts[SPEC_MOUNTS_MAX]; /* as many as there are; the length tells */
};

enum launcher_event {
    LAUNCHER_STARTED = 1,
    LAUNCHER_FAILED = 2,
    LAUNCHER_ENDED = 3,
    LAUNCHER_DONE = 4,
    LAUNCHER_HAS_STATS = 5,
    LAUNCHER_HAS_LIST = 6,
    LAUNCHER_HAS_IMAGE = 8,
    LAUNCHER_HAS_SPACE = 9,
    LAUNCHER_DISK = 10,      /* without a tag: news of the disk of one that stays */
    LAUNCHER_KEPT_ENDED = 7, /* without a tag: one that stays has ended, asked or not, or did so
                              * before this launcher began */
};

enum { LAUNCHER_PAGE = 16 };

struct launcher_answer {
    uint32_t event;
    uint32_t oom_killed; /* ENDED, KEPT_ENDED */
    uint64_t tag;
    int32_t pid;    /* STARTED: of its PID 1, in the launcher's view */
    int32_t status; /* ENDED, KEPT_ENDED: wait status of its PID 1, -1 if it is not known */
    uint32_t cause; /* KEPT_ENDED: enum engine_end_cause */
    char id[ID_SIZE];
    union {
        struct cay_error err;      /* FAILED */
        struct engine_stats stats; /* HAS_STATS */
        char image[HEX_SIZE];      /* HAS_IMAGE: id in the store */
        struct engine_space space; /* HAS_SPACE */
        struct engine_disk disk;   /* DISK */
        struct {
            uint32_t count;  /* fewer than LAUNCHER_PAGE: these are the last */
            uint32_t unkept; /* ENGINE_UNKEPT_… */
            struct engine_sandbox entries[LAUNCHER_PAGE];
        } list; /* HAS_LIST, sorted by id */
    };
};

/* Bytes of a request with so many mounts. */
size_t launcher_request_size(size_t mounts);

/* 0, or -EINVAL for a request of `len` bytes that no client of ours could have sent. */
int launcher_check(const struct launcher_request *r, size_t len);
