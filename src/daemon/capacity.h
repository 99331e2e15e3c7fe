/* What the host has for persistent sandboxes of the native engine: a limit in the configuration
 * that it cannot keep is refused when the daemon starts, not by the sandbox that is one too many.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cay_error;
struct config;

struct capacity {
    uint64_t descriptors; /* that the launcher may have open; one for each sandbox */
    uint64_t processes;   /* that the host may have; two for each sandbox */
    uint64_t id_ranges;   /* one for each sandbox; 0: they share the user's */
};

/* What cannot be read counts as enough. */
void capacity_look(bool is_root, struct capacity *ret);

/* Refuses more sandboxes (max_sandboxes and the pool) than there can be. */
int capacity_check(const struct capacity *host, uint64_t sandboxes, struct cay_error *err);
/* The same for a configuration, on this host. */
int capacity_check_config(const struct config *config, bool is_root, struct cay_error *err);
