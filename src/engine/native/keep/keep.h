/* Sandboxes that stay, in the launcher. Their files lie in STATE/sandboxes/ID: what they have
 * written in `fs` with `work`, and in `local` (/usr/local, where /usr is the host's), and `record`
 * (keep/record.h). A folder with such a name is a sandbox, running or not; there is no other list.
 *
 * Whatever is done survives a launcher that is killed in the middle. A new sandbox waits for its
 * socket until its record is on the disk, and ends by itself if the launcher ends before. What is
 * removed is first renamed, so that no half of it is taken for a sandbox. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Names in STATE/sandboxes that are no sandbox yet: who makes one beside the launcher gives it its
 * own name by renaming it, and holds a lock on the folder meanwhile. Without one it is swept. */
#define KEEP_NEW_PREFIX ".new-"

struct cay_error;
struct keep;
struct launcher_request;
struct native;
struct spec_host;

/* Takes over what there is: what lives is watched, what has died is cleaned up after. One launcher
 * at a time does that for a state folder: -CAY_CONFLICT if another does not end. Answers go to
 * client, which is borrowed, as host is. To be called, like all of these, where the host's mounts
 * are. */
int keep_open(struct native *n, int client, const struct spec_host *host, struct keep **ret,
              struct cay_error *err);
/* Sandboxes live on. NULL is fine. */
void keep_close(struct keep *k);

/* Does, or begins, what a request that launcher_check has passed asks for, and answers it; its spec
 * has the mounts. listener is KEEP's, borrowed. */
void keep_handle(struct keep *k, const struct launcher_request *r, int listener);

/* A descriptor that is readable when a sandbox has ended; keep_tend does what follows. */
int keep_descriptor(const struct keep *k);
void keep_tend(struct keep *k);

/* A child of the launcher was reaped. False if it was none of these. */
bool keep_reaped(struct keep *k, pid_t pid, int status);

/* The user namespace of the sandboxes of this state folder that live: a descriptor, or -1. */
int keep_find_userns(const char *state_dir);
