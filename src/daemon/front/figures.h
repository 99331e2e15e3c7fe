/* Memory, processor time and descriptors of the daemon's processes. The supervisor measures, since
 * the front may not look at processes of root. */
#pragma once

#include <sys/types.h>

#include "api/metrics/vitals.h"

/* A process that is to be measured. */
struct figures_of {
    const char *name;
    pid_t pid; /* 0: there is none */
};

/* Measures one; false if it is gone or may not be looked at. */
bool figures_read(const struct figures_of *of, struct vitals_process *ret);

/* The supervisor's side: measures them all and sends them. Does not wait for the reader. */
void figures_send(int sock, const struct figures_of *of, size_t count);

/* The front's: asks over the control socket, into v->processes. 0, or -errno with v as it was. */
int figures_ask(int control, struct vitals *v);
