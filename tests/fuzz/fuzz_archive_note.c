/* Any bytes as the end of an archive: what is taken for a note is written again as it was read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "imager/transfer/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char bytes[ARCHIVE_NOTE_SIZE] = {0}, again[ARCHIVE_NOTE_SIZE];
    struct archive_note note, second;
    struct cay_error err = {0};
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (archive_note_parse(bytes, &note, &err) < 0)
        return err.code == CAY_OK ? abort(), 0 : 0;
    if (archive_note_format(&note, again, &err) < 0 ||
        archive_note_parse(again, &second, &err) < 0 || strcmp(note.digest, second.digest) != 0 ||
        strcmp(note.record.id, second.record.id) != 0 ||
        strcmp(note.record.image, second.record.image) != 0)
        abort();
    return 0;
}
