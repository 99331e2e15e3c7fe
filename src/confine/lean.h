/* A lean mount namespace: one empty, read-only tmpfs and nothing else. A sandbox that starts from
 * it copies one mount instead of all of the host's, has none of them to leave, and finds nothing
 * below its own root. */
#pragma once

struct cay_error;

/* Makes one; the caller stays where it is. staging is a folder of the host, needed for a moment.
 * The caller must have one thread. Returns its descriptor or negative. */
int lean_create(const char *staging, struct cay_error *err);

/* Moves the caller into a mount namespace; -1 is where it is already. */
int lean_enter(int ns, struct cay_error *err);
