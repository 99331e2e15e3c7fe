/* Tar archives as streams: ustar with pax headers is written; ustar, pax, GNU long names and the
 * old format are read. An archive is hostile: whatever it says is checked here, and extraction
 * stays below the destination whatever it contains. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/ustar.h"

struct buf;
struct cay_error;

enum {
    TAR_BLOCK = USTAR_BLOCK,
    TAR_EXTENDED_MAX = 1024 * 1024, /* pax header or long name */
    TAR_DEPTH_MAX = 256,            /* folders below each other */
    TAR_MEMBERS_MAX = 2 * 1000 * 1000,
};

struct tar_member {
    char type; /* enum tar_type, or what else the archive says */
    char path[PATH_MAX];
    char link[PATH_MAX]; /* target of a link, else "" */
    uint32_t mode;       /* permission bits */
    uint64_t uid;
    uint64_t gid;
    uint64_t size; /* of the content that follows */
    struct timespec mtime;
};

/* ---- codec (tar_header.c): no I/O ---- */

/* Decodes a header block: 1, 0 for a block of zeros (end of the archive), -EBADMSG for a wrong
 * checksum or a malformed number. */
int tar_decode(const unsigned char block[static TAR_BLOCK], struct tar_member *ret);

/* Applies the records of a pax header: 0, -EBADMSG if malformed, -EOPNOTSUPP if it describes a
 * sparse file. Unknown records are ignored. */
int tar_apply_pax(const char *data, size_t len, struct tar_member *m);

/* Appends the header of m, with a pax header before it where ustar cannot hold it. */
void tar_encode(const struct tar_member *m, struct buf *out);

/* Makes a member's name relative and normal: 0 (out is "" for the root), -EINVAL for "..",
 * -ENAMETOOLONG beyond PATH_MAX, NAME_MAX or TAR_DEPTH_MAX. */
int tar_clean_path(const char *path, char out[static PATH_MAX]);

/* Content is padded with this many zeros. */
size_t tar_padding(uint64_t size);

/* ---- extraction (tar_extract.c) ---- */

/* Where an archive comes from. */
struct tar_input {
    const char *data; /* what is there and not used yet */
    size_t len;
    /* Replaces data and len by the next bytes: 1, 0 at the end, negative. */
    int (*more)(struct tar_input *in, struct cay_error *err);
    const char *as; /* takes the place of the first part of every name, so that nothing can appear
                     * beside it; NULL: names are as they are */
    mode_t umask;   /* of this process: modes are set in spite of it */
};

struct tar_totals {
    uint64_t members;
    uint64_t bytes;
    uint64_t skipped;        /* devices, fifos and the like */
    char first_skipped[128]; /* name of one of them */
};

/* Extracts everything below the folder dest, owned by the current user. More content
 * than max_bytes is refused (0: the disk decides). */
int tar_extract(struct tar_input *in, int dest, uint64_t max_bytes, struct tar_totals *ret,
                struct cay_error *err);

/* ---- writing (tar_write.c) ---- */

/* Where an archive goes to. */
struct tar_output {
    int (*take)(void *arg, const char *data, size_t len, struct cay_error *err);
    void *arg;
    uint64_t max_bytes; /* of the stream; 0: no limit */
};

struct tar_written {
    uint64_t members;
    uint64_t bytes;
    uint64_t skipped; /* devices, fifos, sockets */
};

/* Archives path and what is below it, under the name `name`; NULL: what is below it only. */
int tar_write(const char *path, const char *name, const struct tar_output *to,
              struct tar_written *ret, struct cay_error *err);

/* ---- putting members on disk (tar_place.c) ---- */

struct tar_folder;

struct tar_place {
    int dest;
    mode_t umask;
    int parent;                 /* folder of the last member, or -1 */
    char parent_path[PATH_MAX]; /* its path below dest */
    struct tar_folder *folders; /* their modes and times are set at the end */
    size_t folder_count, folder_cap;
};

void tar_place_free(struct tar_place *p);

/* Each makes the member at the clean path m->path, replacing a file that is there: 0 or -errno.
 * tar_place_file returns the descriptor to write the content to. */
int tar_place_file(struct tar_place *p, const struct tar_member *m);
int tar_place_folder(struct tar_place *p, const struct tar_member *m);
int tar_place_symlink(struct tar_place *p, const struct tar_member *m);
int tar_place_hard_link(struct tar_place *p, const struct tar_member *m);

/* Sets the time of a file whose content is complete. */
int tar_place_finish_file(int fd, const struct tar_member *m);
/* Sets modes and times of the folders, deepest last made first. */
int tar_place_finish(struct tar_place *p);
