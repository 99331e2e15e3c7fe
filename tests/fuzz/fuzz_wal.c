/* Any bytes as an index and a write-ahead log: what judges them reads nothing beyond them, and a
 * log that is cut off has no more frames than the whole one. */
#include <stdint.h>
#include <stdlib.h>

#include "manager/db_wal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct db_wal_promise promise = {0};
    (void)db_wal_read_promise(data, size, &promise);
    if (size < 16 + DB_WAL_SALT)
        return 0;
    uint32_t whole = db_wal_count(data, size, data + 16); /* its own salt */
    for (size_t less = size / 8; less > 0 && less < size; less += size / 8)
        if (db_wal_count(data, size - less, data + 16) > whole)
            abort();
    (void)db_wal_count(data, size, promise.salt);
    return 0;
}
