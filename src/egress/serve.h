/* The proxy itself: listens inside of sandboxes, by sockets that were made there, and connects from
 * outside. A thread for each connection; everything else in the calling one. */
#pragma once

struct cay_error;

/* Serves until the control socket ends. */
int egress_serve(int control, struct cay_error *err);
