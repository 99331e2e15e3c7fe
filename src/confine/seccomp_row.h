/* The shape of a condition of the system-call policy. Included by its tables only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "confine/seccomp.h"

enum { SECCOMP_COLUMNS = 3 };

/* What is compared: argument & mask, on the low 32 bits. All arguments compared here are 32-bit in
 * the kernel, which drops the upper half: comparing it would let a caller hide in it. */
struct seccomp_column {
    uint8_t arg;
    uint32_t mask;
};

/* One combination of values; holds if the first `count` columns have them. */
struct seccomp_row {
    uint8_t count;
    uint32_t values[SECCOMP_COLUMNS];
    enum verdict verdict; /* VERDICT_KILL, which no row asks for: the condition's own */
};

/* `hit` if any row holds, else `miss`; plainly `miss` without rows. Rows that share their first
 * values stand together: they are compiled into one branch. Rows of one column that are `sorted`
 * by their value, all different, are compiled into a binary search. */
struct seccomp_condition {
    struct seccomp_column columns[SECCOMP_COLUMNS];
    const struct seccomp_row *rows;
    uint8_t count;
    bool sorted;
    enum verdict hit;
    enum verdict miss;
};
