/* What the daemon measures of itself from time to time: its disks and its processes. The watcher of
 * the front writes it, /healthz and /metrics read it; neither waits for a disk or a process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file system that the daemon needs. */
struct vitals_disk {
    const char *place; /* "state", "sandboxes"; NULL: there is none */
    uint64_t bytes, free_bytes;
    uint64_t inodes, free_inodes; /* both 0: it has no fixed number of them */
};

struct vitals_process {
    char name[16]; /* "supervisor", "front", "egress", or the role of an engine */
    uint64_t memory_bytes;
    uint64_t cpu_us;
    uint64_t fds, fds_max; /* fds_max 0: not known */
};

enum { VITALS_DISKS = 2, VITALS_PROCESSES = 8 };

struct vitals {
    int64_t at_ms; /* when this was measured, monotonic; 0: never */
    struct vitals_disk disks[VITALS_DISKS];
    struct vitals_process processes[VITALS_PROCESSES];
    size_t process_count;
};

void vitals_set(const struct vitals *v);
void vitals_get(struct vitals *ret);

/* True if so little is left of what there is that the daemon is about to fail. */
bool vitals_is_short_of_bytes(const struct vitals_disk *d);
bool vitals_is_short_of_inodes(const struct vitals_disk *d);
bool vitals_is_short_of_fds(const struct vitals_process *p);
