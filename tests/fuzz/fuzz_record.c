/* Any bytes as an image record: refused, or a record that writes itself and is read again the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "image/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(record_freep) struct image_record *record = NULL, *again = NULL;
    struct cay_error err = {0};
    if (record_read("fuzz", (const char *)data, size, &record, &err) < 0) {
        require(record == NULL && err.message[0] != '\0');
        return 0;
    }
    require(hex_is_valid(record->id) && record->layer_count <= RECORD_LAYERS_MAX);
    for (size_t i = 0; i < record->layer_count; i++)
        require(hex_is_valid(record->layers[i].chain));

    _cleanup_(buf_free) struct buf first = BUF_INIT(RECORD_TEXT_MAX);
    _cleanup_(buf_free) struct buf second = BUF_INIT(RECORD_TEXT_MAX);
    if (record_write(record, &first) < 0) {
        require(size > RECORD_TEXT_MAX / 6); /* escapes can make it longer, but no more than this */
        return 0;
    }
    require(record_read("fuzz", first.data, first.len, &again, &err) == 0);
    require(record_write(again, &second) == 0);
    require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    return 0;
}
