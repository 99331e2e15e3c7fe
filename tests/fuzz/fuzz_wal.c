/* Any bytes as a write-ahead log: its judge reads nothing beyond them, and what is cut off at its
 * end, as a kill leaves it, is no damage where the whole is none. */
#include <stdint.h>
#include <stdlib.h>

#include "manager/db_wal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool is_cut = db_wal_is_cut(data, size);
    for (size_t less = size / 8; less > 0 && less < size; less += size / 8)
        if (!is_cut && db_wal_is_cut(data, size - less))
            abort();
    return 0;
}
