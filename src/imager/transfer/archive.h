/* The archive of a sandbox that stays: what it has written, as a tar of its disk's "fs" and "local"
 * in the form of the overlay, compressed by zstd with checksums. Behind it, in a frame that zstd
 * skips, is a note: the digest of the tar, without which nothing is believed, and the sandbox's
 * record. So any tool can list an archive, and a part of one is never taken for a whole. */
#pragma once

#include <stdint.h>

#include "engine/native/keep/record.h"
#include "image/reference.h"

struct cay_error;

struct archive_note {
    char digest[HEX_SIZE]; /* SHA-256 of the tar */
    struct keep_record record;
};

/* ---- archive_note.c ---- */

enum { ARCHIVE_NOTE_SIZE = 2048 }; /* with the head of its frame */

/* The last bytes of an archive, and back: -CAY_INVALID_ARGUMENT for what is none. */
int archive_note_format(const struct archive_note *n, char out[static ARCHIVE_NOTE_SIZE],
                        struct cay_error *err);
int archive_note_parse(const char bytes[static ARCHIVE_NOTE_SIZE], struct archive_note *ret,
                       struct cay_error *err);
/* Reads the note of the open archive of sandbox id, and leaves it at its beginning. */
int archive_note_read(int archive, const char *id, struct archive_note *ret, struct cay_error *err);

/* ---- archive.c ---- */

/* How far it is, in bytes of the files, or of the archive that is read. */
typedef void (*archive_progress)(void *user, uint64_t bytes);

/* Writes the archive of what is on the disk (disk.h) to out. To be called in the image store's
 * world. */
int archive_write(int disk, const struct keep_record *record, int out, archive_progress progress,
                  void *user, struct cay_error *err);
/* Unpacks it onto an empty disk. To be called there too. */
int archive_restore(int archive, const struct archive_note *note, int disk,
                    archive_progress progress, void *user, struct cay_error *err);
