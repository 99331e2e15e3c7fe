/* The disk of the state folder: what is left, and what is refused and held when that is little. */
#pragma once

#include <stdint.h>

struct cay_error;
struct manager;

/* The file system of the state folder. */
struct manager_space {
    uint64_t total_bytes, free_bytes;   /* free: for those without privilege */
    uint64_t total_inodes, free_inodes; /* 0 of 0: it does not count them */
    uint64_t reserve_bytes;             /* below it new writes are refused; 0: never */
    uint64_t limit_bytes;   /* the disk limits of all sandboxes together: what they may need */
    uint64_t held, damaged; /* sandboxes: stopped writing for it; with a damaged file system */
};
/* Measures it now. */
int manager_space(struct manager *m, struct manager_space *ret, struct cay_error *err);
/* -CAY_RESOURCE_EXHAUSTED if there is less than the reserve: what would write is to be refused. */
int manager_check_space(struct manager *m, struct cay_error *err);
