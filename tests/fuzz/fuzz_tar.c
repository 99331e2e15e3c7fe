/* Any bytes as a tar archive: the codec keeps its promises, and extraction touches nothing outside
 * of its destination. The first byte says how the rest is cut into pieces and whether checksums
 * are put right, without which few inputs get beyond the first header. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_place.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "init/files/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- codec ---- */

static void check_clean(const char *path) {
    char clean[PATH_MAX], again[PATH_MAX];
    if (tar_clean_path(path, clean) < 0)
        return;
    require(clean[0] != '/' && !str_starts(clean, "../") && strstr(clean, "/../") == NULL);
    require(strcmp(clean, "..") != 0 && !str_ends(clean, "/..") && !str_ends(clean, "/"));
    require(tar_clean_path(clean, again) == 0 && strcmp(clean, again) == 0);
}

/* What was decoded can be encoded, and comes back the same. */
static void check_codec(const uint8_t *data, size_t size) {
    struct tar_member m, again, pax;
    uint8_t block[TAR_BLOCK] = {0};
    memcpy(block, data, MIN(size, sizeof block));
    if (tar_decode(block, &m) != 1)
        return;
    if (size > TAR_BLOCK && tar_apply_pax((const char *)data + TAR_BLOCK, size - TAR_BLOCK, &m) < 0)
        return;
    check_clean(m.path);
    check_clean(m.link);
    _cleanup_(buf_free) struct buf b = BUF_INIT(65536);
    tar_encode(&m, &b);
    require(!b.failed && b.len % TAR_BLOCK == 0);
    const unsigned char *last = (const unsigned char *)b.data + b.len - TAR_BLOCK;
    require(tar_decode(last, &again) == 1);
    if (b.len > TAR_BLOCK) {
        require(tar_decode((const unsigned char *)b.data, &pax) == 1 && pax.type == TAR_PAX);
        require(tar_apply_pax(b.data + TAR_BLOCK, pax.size, &again) == 0);
    }
    require(strcmp(m.path, again.path) == 0 && strcmp(m.link, again.link) == 0);
    require(m.size == again.size && m.uid == again.uid && m.mode == again.mode);
    require(m.mtime.tv_sec == again.mtime.tv_sec && m.mtime.tv_nsec == again.mtime.tv_nsec);
}

/* ---- extraction ---- */

struct pieces {
    struct tar_input input;
    const uint8_t *next;
    size_t left;
    size_t step;
};

static int more_pieces(struct tar_input *in, struct cay_error *err) {
    (void)err;
    struct pieces *p = (struct pieces *)in; /* its first member */
    size_t n = MIN(p->left, p->step);
    in->data = (const char *)p->next;
    in->len = n;
    p->next += n;
    p->left -= n;
    return n > 0;
}

static void check_extraction(const uint8_t *data, size_t size, size_t step) {
    struct cay_error err = {0};
    struct tar_totals totals;
    _cleanup_(closep) int dest = archive_place_make(O_PATH);
    struct pieces p = {.input = {.more = more_pieces}, .next = data, .left = size, .step = step};
    int r = tar_extract(&p.input, dest, 1024 * 1024, &totals, &err);
    require((r < 0) == (err.code != CAY_OK));
    require(totals.bytes <= 1024 * 1024);
    archive_place_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 64 * 1024)
        return 0;
    _cleanup_(freep) uint8_t *copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    if ((data[0] & 0x80) == 0)
        archive_fix_checksums(copy, size - 1);
    check_codec(copy, size - 1);
    check_extraction(copy, size - 1, (size_t)(data[0] & 0x7F) * 8 + 1);
    return 0;
}
