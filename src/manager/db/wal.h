/* Whether a write-ahead log of SQLite has lost changes that were promised.
 *
 * What was promised is in the index beside the log (-shm): SQLite writes there how many frames are
 * committed before it says that a change is made. The index is memory that processes share, so it
 * outlives a process that is killed, but not the machine. What lies in the log beyond that was
 * never promised, whatever it looks like: SQLite drops it, and so do we. SQLite itself reads the
 * log: whether it takes all that was promised shows in the index that it makes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DB_WAL_SALT = 8, DB_WAL_INDEX_SIZE = 100 };

/* What an index says. */
struct db_wal_promise {
    uint32_t committed;              /* frames */
    uint32_t copied;                 /* of them, that are in the database as well */
    unsigned char salt[DB_WAL_SALT]; /* of the log that it is about */
};

/* Reads the beginning of an index. False if it is none, or says nothing. */
bool db_wal_read_promise(const unsigned char *index, size_t len, struct db_wal_promise *ret);

/* True if the log of this database lacks something that was promised. An index from before this
 * boot is not judged: after a loss of power neither file has to be whole. Neither is a log for
 * whose index the disk has no room: a full disk is no damage. */
bool db_wal_has_lost(const char *database);
