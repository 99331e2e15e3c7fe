/* Any bytes as the index of a write-ahead log: what reads it reads nothing beyond them. */
#include <stdint.h>
#include <stdlib.h>

#include "manager/db/wal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct db_wal_promise promise = {0};
    if (db_wal_read_promise(data, size, &promise) && size < DB_WAL_INDEX_SIZE)
        abort();
    return 0;
}
