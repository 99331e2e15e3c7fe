/* Whether a write-ahead log of SQLite has lost committed changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* True if its head is none, or if a frame that does not add up has the end of a transaction behind
 * it. What a process leaves that is killed while it writes is not cut: committed frames are never
 * written over, and nothing follows the last one but such as never were committed. */
bool db_wal_is_cut(const unsigned char *wal, size_t len);

/* The same of a file; false if there is none. One from before this boot is not judged: after a loss
 * of power frames may be missing that nobody was promised. */
bool db_wal_has_lost(const char *path);
