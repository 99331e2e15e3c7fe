/* Where fuzzed archives are unpacked: a folder beside a file that must stay as it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program, as a fuzzer wants it, if something is not so. */
void require(bool ok);

/* Puts the checksum of each header right, without which few inputs get beyond the first. */
void archive_fix_checksums(uint8_t *data, size_t size);

/* A new, empty folder to unpack into, opened with `flags`; the caller closes it. */
int archive_place_make(int flags);

/* Nothing was written beside the folder. Removes it. */
void archive_place_check(void);
