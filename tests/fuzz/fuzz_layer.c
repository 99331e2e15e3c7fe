/* Any bytes as the tar of a layer, applied to a folder without the walls around that process: the
 * limits hold, and nothing outside of the folder is touched. The first byte says whether checksums
 * are put right, without which few inputs get beyond the first header, and whether the archive is
 * applied twice, as a layer over another is, and whether it is the archive of a sandbox. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_place.h"
#include "base/error.h"
#include "base/fd.h"
#include "imager/unpack/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 1024 * 1024, ENTRIES = 300, DEPTH = 12 };

static void apply(const uint8_t *data, size_t size, enum unpack_form form, int root) {
    const struct unpack_limits limits = {.bytes = BYTES, .entries = ENTRIES, .depth = DEPTH};
    struct unpack_result result;
    struct cay_error err = {0};
    _cleanup_(closep) int in = memfd_create("layer", MFD_CLOEXEC);
    require(in >= 0 && fd_write_all(in, data, size) == 0 && lseek(in, 0, SEEK_SET) == 0);
    int r = unpack_apply(in, root, form, &limits, geteuid() != 0, &result, &err);
    require((r < 0) == (err.code != CAY_OK));
    require(result.bytes <= BYTES && result.skipped <= ENTRIES);
    require(result.entries <= (uint64_t)ENTRIES * DEPTH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 64 * 1024)
        return 0;
    _cleanup_(freep) uint8_t *copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    if ((data[0] & 1) == 0)
        archive_fix_checksums(copy, size - 1);
    (void)umask(0);
    _cleanup_(closep) int root = archive_place_make(O_RDONLY);
    for (int i = 0; i <= (data[0] & 2) / 2; i++)
        apply(copy, size - 1, (data[0] & 4) != 0 ? UNPACK_RAW : UNPACK_LAYER, root);
    archive_place_check();
    return 0;
}
