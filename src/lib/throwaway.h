/* Throw-away sandboxes of the Docker engine: a container that cay-docker makes, and removes when it
 * is told to or when this process is gone. */
#pragma once

#include <stdbool.h>

struct cay_error;
struct sandbox_spec;
struct throwaway;

/* Starts cay-docker. */
int throwaway_open(const char *state_dir, struct throwaway **ret, struct cay_error *err);
/* One sandbox; image is an id of the store. The connection is its only one. */
int throwaway_start(struct throwaway *t, const struct sandbox_spec *spec, const char *image,
                    int *ret_connection, struct cay_error *err);
/* Whether something in it was killed for want of memory. */
bool throwaway_oom_killed(struct throwaway *t, const char *id);
/* Removes the sandbox; gone already is fine. */
int throwaway_remove(struct throwaway *t, const char *id, struct cay_error *err);
/* Waits until cay-docker has ended. NULL is fine. */
void throwaway_close(struct throwaway *t);
