/* Network namespaces. */
#pragma once

struct cay_error;

/* A new network namespace with nothing but loopback, up. The caller's own stays as it is, but for a
 * moment: one thread only. Returns its descriptor or negative. */
int netns_create(struct cay_error *err);

/* Raises loopback in the caller's own network namespace. System calls only. 0 or -errno. */
int netns_raise_loopback(void);

/* True if no socket is left in it, so that it may be leased again. */
int netns_is_clean(int ns);
