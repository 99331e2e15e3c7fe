/* A process beside the maker of sandboxes. It makes namespaces, which takes the kernel long, while
 * the maker does other things; and it outlives a killed maker for the moment that it takes to
 * remove what the kernel would not remove by itself: the control groups. */
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

/* Asks for a user namespace with the id range that starts at base, for a network namespace with
 * loopback only, for a lean mount namespace. Each is then taken once, in the order of asking. */
int helper_ask_userns(const struct helper *h, uid_t base, struct cay_error *err);
int helper_ask_netns(const struct helper *h, struct cay_error *err);
int helper_ask_lean(const struct helper *h, struct cay_error *err);
/* A user namespace, or a lean mount namespace; or negative. */
int helper_take(const struct helper *h, struct cay_error *err);
/* A network namespace; *ret_sockets is for netns_is_clean. */
int helper_take_netns(const struct helper *h, int *ret_sockets, struct cay_error *err);

/* The control group with this id is to be removed if the maker dies; or no longer. */
int helper_watch(const struct helper *h, const char *id, struct cay_error *err);
void helper_forget(const struct helper *h, const char *id);

/* Tells it that everything is clean and waits for it. */
void helper_stop(struct helper *h);
