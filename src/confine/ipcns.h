/* Namespaces of System V IPC and POSIX message queues. */
#pragma once

struct cay_error;

/* A new namespace. The caller's own stays as it is, but for a moment: one thread only. Returns its
 * descriptor or negative; *ret_queues gets a descriptor for ipcns_is_clean. */
int ipcns_create(int *ret_queues, struct cay_error *err);

/* Enters it, as will every process that is made from now on without another. 0 or -errno. */
int ipcns_join(int ns);

/* Enters it to look; the caller stays there. 1 if no object is left in it and it never had a
 * message queue, so that it may be leased again; 0 if not; -errno. */
int ipcns_is_clean(int ns, int queues);
