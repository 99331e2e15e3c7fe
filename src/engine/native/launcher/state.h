/* What the parts of the launcher share: launcher.c serves requests, launcher/start.c has the slots
 * and starts sandboxes in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/link/protocol.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/native/helper.h"
#include "engine/native/keep/slot.h"

struct cay_error;
struct keep;
struct native;

enum {
    LAUNCHER_SLOTS_MAX = 1536,
    LAUNCHER_INIT_PLACE = 8, /* the descriptor from which children execute cay-init */
};

struct launcher {
    struct native *n;
    int client;
    int signals;
    int ids;
    unsigned hint;
    int host_ns, lean_ns; /* mount namespaces; -1: this kernel cannot do without the host's */
    int dev;       /* shared by all; -1: this kernel cannot clone it, each sandbox gets its own */
    int nothing;   /* likewise */
    int oom_score; /* our own oom_score_adj */
    struct spec_host host;
    struct sandbox_spec defaults;
    struct cgroup_limits limits;
    unsigned ready;
    struct helper helper;
    struct slot *slots; /* NULL: none can be made, for want of walls */
    size_t slot_count;
    struct keep *keep; /* sandboxes that stay; NULL until the first request about them */
    bool idle;         /* nothing to tidy */
    bool hung_up;
};

/* Starts a sandbox as asked for, in one that waits or in a slot; fds are those of the request. */
int launcher_start(struct launcher *l, const struct launcher_request *r, const int *fds,
                   struct slot **ret, struct cay_error *err);

/* Work that nobody waits for, until there is none or the client has something to say: what makes
 * the next start fast, then letting go of what sandboxes that live long do not need. */
void launcher_tidy(struct launcher *l);
/* Milliseconds until there will be more of that by itself; -1: never. */
int launcher_settles_in(const struct launcher *l);
/* The last part of it, for one sandbox; false if none has lived long enough. */
bool launcher_settle(struct launcher *l);

/* Frees a slot and gives its id range back. */
void launcher_free_slot(struct launcher *l, struct slot *s);
