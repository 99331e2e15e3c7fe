#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "imager/transfer/archive.h"

enum { HEAD = 8, TEXT = ARCHIVE_NOTE_SIZE - HEAD };

/* A frame that zstd skips: its mark, and the size of what follows, little-endian. */
static const unsigned char head[HEAD] = {0x5c, 0x2a, 0x4d, 0x18, TEXT & 0xff, TEXT >> 8, 0, 0};
static const char title[] = "cay archive 1\nsha256 ";

int archive_note_format(const struct archive_note *n, char out[static ARCHIVE_NOTE_SIZE],
                        struct cay_error *err) {
    char record[KEEP_RECORD_SIZE];
    memset(out, 0, ARCHIVE_NOTE_SIZE);
    memcpy(out, head, HEAD);
    int r = keep_record_format(&n->record, record);
    if (r == 0)
        r = str_format(out + HEAD, TEXT, "%s%s\n%s", title, n->digest, record);
    return r < 0 ? error_sys(err, -r, "writing the note of an archive") : 0;
}

static int damaged(struct cay_error *err) {
    error_set(err, CAY_INTERNAL, "the archive is damaged, or not whole");
    return error_remedy(err, "put it back from a backup; it stays as it is");
}

int archive_note_parse(const char bytes[static ARCHIVE_NOTE_SIZE], struct archive_note *ret,
                       struct cay_error *err) {
    const char *text = bytes + HEAD;
    size_t len = strnlen(text, TEXT), skip = sizeof title - 1;
    if (memcmp(bytes, head, HEAD) != 0 || len == TEXT || len < skip + HEX_SIZE ||
        memcmp(text, title, skip) != 0 || text[skip + HEX_SIZE - 1] != '\n')
        return damaged(err);
    memcpy(ret->digest, text + skip, HEX_SIZE - 1);
    ret->digest[HEX_SIZE - 1] = '\0';
    skip += HEX_SIZE;
    if (!hex_is_valid(ret->digest) ||
        keep_record_parse(text + skip, len - skip, &ret->record, err) < 0 || ret->record.pid != 0)
        return damaged(err);
    return 0;
}

int archive_note_read(int archive, const char *id, struct archive_note *ret,
                      struct cay_error *err) {
    char bytes[ARCHIVE_NOTE_SIZE];
    struct stat st;
    if (fstat(archive, &st) < 0)
        return error_errno(err, "looking at the archive");
    if (!S_ISREG(st.st_mode) || st.st_size < ARCHIVE_NOTE_SIZE)
        return damaged(err);
    ssize_t n = pread(archive, bytes, sizeof bytes, st.st_size - ARCHIVE_NOTE_SIZE);
    if (n < 0)
        return error_errno(err, "reading the archive");
    int r = n == ARCHIVE_NOTE_SIZE ? archive_note_parse(bytes, ret, err) : damaged(err);
    if (r == 0 && !str_equal(ret->record.id, id)) {
        error_set(err, CAY_INTERNAL, "this is the archive of another sandbox, %s", ret->record.id);
        return error_remedy(err, "restore the right file from a backup, or remove the sandbox");
    }
    if (r == 0 && lseek(archive, 0, SEEK_SET) < 0)
        r = error_errno(err, "reading the archive");
    return r;
}
