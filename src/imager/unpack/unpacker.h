/* A process that unpacks layers for one that has threads. Unpacking forks, and a child of a process
 * with threads may take no lock that one of them held at that moment, an allocator's included. So
 * this process is made before the threads are, and does the forking. */
#pragma once

#include <sys/types.h>

#include "imager/unpack/unpack.h"

struct unpacker {
    pid_t pid;
    int sock;
};

#define UNPACKER_NONE ((struct unpacker){.pid = -1, .sock = -1})

/* To be called while there is one thread. The process ends with its maker, and keeps no descriptor
 * of his but the standard ones. */
int unpacker_start(struct unpacker *ret, struct cay_error *err);

/* unpack_layer() with the usual limits, one at a time. in and root may be closed afterwards: nobody
 * else has them open any more. */
int unpacker_run(const struct unpacker *u, int in, int root, unpack_progress progress, void *user,
                 struct unpack_result *ret, struct cay_error *err);

/* Waits for its end. */
void unpacker_stop(struct unpacker *u);
