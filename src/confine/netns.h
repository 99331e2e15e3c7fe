/* Network namespaces. */
#pragma once

struct cay_error;

/* A new network namespace with nothing but loopback, up. The caller's own stays as it is, but for a
 * moment: one thread only. Returns its descriptor or negative. If ret_sockets is not NULL it gets a
 * descriptor for netns_is_clean. */
int netns_create(int *ret_sockets, struct cay_error *err);

/* Raises loopback in the caller's own network namespace. System calls only. 0 or -errno. */
int netns_raise_loopback(void);

/* 1 if no socket is left in the namespace, so that it may be leased again; 0 if there is one, or a
 * connection that outlived its process; -errno. */
int netns_is_clean(int sockets);
