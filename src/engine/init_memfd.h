/* cay-init, as every engine starts it: its program, and the descriptors that it expects. */
#pragma once

struct cay_error;

enum { ENTER_LISTENER_FD = 3, ENTER_CONNECTION_FD = 4, ENTER_INIT_FD = 5 };

/* A sealed, executable memfd that holds cay-init; negative with err. */
int init_memfd_create(struct cay_error *err);
