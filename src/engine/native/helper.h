/* A process beside the maker of sandboxes. It makes what takes the kernel long, namespaces above
 * all, while the maker does other things; and it outlives a killed maker for the moment that it
 * takes to remove what the kernel would not remove by itself: the control groups. */
#pragma once

#include <sys/types.h>

#include "base/id.h"

struct cay_error;

struct helper {
    pid_t pid;
    int sock; /* hanging up without a word means: clean up */
};

#define HELPER_NONE ((struct helper){.sock = -1})

/* Starts it, in the caller's namespaces. `keep` (or -1) stays open in it, so that a lease ends only
 * after the clean-up; staging is for lean_create. */
int helper_start(int keep, const char *staging, struct helper *ret, struct cay_error *err);

/* What it makes; each is asked for, and then taken once, in the order of asking. */
enum helper_thing {
    HELPER_USERNS, /* with the id range that starts at base */
    HELPER_NETNS,  /* with loopback only */
    HELPER_IPCNS,
    HELPER_LEAN, /* mount namespace */
    HELPER_DEV,  /* a detached /dev */
    HELPER_INIT, /* cay-init in a sealed memfd */
};
int helper_ask(const struct helper *h, enum helper_thing thing, uid_t base, struct cay_error *err);
/* A descriptor or negative. */
int helper_take(const struct helper *h, struct cay_error *err);
/* Of a network or IPC namespace; *ret_second is for netns_is_clean or ipcns_is_clean. */
int helper_take_pair(const struct helper *h, int *ret_second, struct cay_error *err);

/* The control group with this id is to be removed if the maker dies; or no longer. */
int helper_watch(const struct helper *h, const char *id, struct cay_error *err);
void helper_forget(const struct helper *h, const char *id);

/* Tells it that everything is clean and waits for it. */
void helper_stop(struct helper *h);
