/* How much an unpacked layer holds. */
#pragma once

#include <stdint.h>

/* Counts the files below a folder (O_PATH will do), whoever made them, and the bytes of the regular
 * ones; a file with several names counts once for each name, in parts. 0 or -errno. */
int measure_tree(int folder, uint64_t *bytes, uint64_t *entries);
