/* SIGHUP: the configuration is read again. The supervisor reads, since the front may not; the front
 * takes over what it can use, or refuses; only then it counts for fronts to come. */
#pragma once

#include <stdint.h>

#include "daemon/settings.h"

struct cay_error;

struct reload {
    struct config *config; /* NULL: none is under way */
    struct tls tls;        /* another certificate, if it has one */
    uint64_t number;       /* ever growing: which one an answer is about */
};

/* Reads the file that was used at the start (or looks for one, if there was none) and the
 * certificate. A broken one is an error with its place. */
int reload_read(const struct settings *s, struct reload *ret, struct cay_error *err);

/* Passes it to the front, which answers by CONTROL_RELOADED or CONTROL_REFUSED. */
int reload_send(int control, const struct reload *r, struct cay_error *err);

/* Makes it the settings', and logs what of it counts only after a restart. */
void reload_finish(struct reload *r, struct settings *s);

/* Forgets it. */
void reload_drop(struct reload *r);
