/* The front: everything of the daemon that meets bytes from outside. It holds no privilege. */
#pragma once

#include <sys/types.h>

#include "daemon/helpers/places.h"
#include "daemon/settings.h"

struct front_options {
    const struct settings *settings;
    struct places_sockets sockets;
    int control;                                /* to the supervisor */
    int launcher;                               /* to cay-launcher */
    unsigned front_restarts, launcher_restarts; /* so far */
    pid_t supervisor;
};

/* Serves until the supervisor says so or is gone. To be called in a process of its own
 * (front/exec.h), in the daemon's folder; returns its exit status. */
int front_run(const struct front_options *options);
