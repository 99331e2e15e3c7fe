/* How far the disks of sandboxes are over-committed, as 'cay doctor' says it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct jsonw;

struct doctor_space {
    bool is_known; /* there is a state folder, and its sandboxes may be looked at */
    uint64_t total_bytes, free_bytes; /* of its file system */
    uint64_t limit_bytes;             /* what the disks of sandboxes may take together */
};

/* state_dir as given by the user, or NULL. */
void doctor_measure_space(const char *state_dir, struct doctor_space *ret);
void doctor_print_space(struct buf *b, const struct doctor_space *s);
void doctor_put_space(struct jsonw *w, const struct doctor_space *s);
