/* Reading an archive from a stream. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/files.h"
#include "init/files/tar.h"

enum { HOLE_MIN = 4096 }; /* a run of zeros of this length is not written but left out */

/* The state of one extraction. */
struct extraction {
    struct tar_input *in;
    struct tar_place place;
    struct tar_totals *totals;
    uint64_t max_bytes; /* of content; 0: no limit */
    uint64_t headers;   /* all of them, so that none is free */
    struct buf pax;     /* records for the next member */
    struct buf name;    /* its name and link target, if they came in GNU's way */
    struct buf target;
    struct tar_member member;
};

static void extraction_free(struct extraction *x) {
    tar_place_free(&x->place);
    buf_free(&x->pax);
    buf_free(&x->name);
    buf_free(&x->target);
}

static int broken(struct cay_error *err, const char *why) {
    error_set(err, CAY_INVALID_ARGUMENT, "the archive is damaged: %s", why);
    return error_remedy(err, "send a complete, uncompressed tar archive");
}

/* ---- input ---- */

/* At least one byte in in->data: 1, 0 at the end. */
static int have_input(struct tar_input *in, struct cay_error *err) {
    while (in->len == 0) {
        int r = in->more(in, err);
        if (r <= 0)
            return r;
    }
    return 1;
}

static size_t take_input(struct tar_input *in, uint64_t want) {
    size_t n = (size_t)MIN(want, (uint64_t)in->len);
    in->data += n;
    in->len -= n;
    return n;
}

/* Hands `size` bytes of input to take() in pieces. */
typedef int take_fn(void *arg, const char *data, size_t len);

static int pass_input(struct extraction *x, uint64_t size, take_fn *take, void *arg,
                      struct cay_error *err) {
    while (size > 0) {
        int r = have_input(x->in, err);
        if (r <= 0)
            return r < 0 ? r : broken(err, "it breaks off");
        const char *data = x->in->data;
        size_t n = take_input(x->in, size);
        r = take(arg, data, n);
        if (r < 0)
            return files_error(err, -r, "extracting", x->member.path);
        size -= n;
    }
    return 0;
}

static int take_nothing(void *arg, const char *data, size_t len) {
    (void)arg;
    (void)data;
    (void)len;
    return 0;
}

static int skip_input(struct extraction *x, uint64_t size, struct cay_error *err) {
    return pass_input(x, size, take_nothing, NULL, err);
}

static int take_to_buffer(void *arg, const char *data, size_t len) {
    return buf_append(arg, data, len);
}

/* The content of an extended header, and its padding. */
static int read_extended(struct extraction *x, struct buf *b, struct cay_error *err) {
    uint64_t size = x->member.size;
    if (size > TAR_EXTENDED_MAX)
        return broken(err, "a header is too long");
    buf_clear(b);
    int r = pass_input(x, size, take_to_buffer, b, err);
    return r < 0 ? r : skip_input(x, tar_padding(size), err);
}

/* ---- members ---- */

static int take_to_file(void *arg, const char *data, size_t len) {
    const int *fd = arg;
    if (len >= HOLE_MIN && data[0] == 0 && memcmp(data, data + 1, len - 1) == 0)
        return lseek(*fd, (off_t)len, SEEK_CUR) < 0 ? -errno : 0;
    return fd_write_all(*fd, data, len);
}

static int extract_file(struct extraction *x, struct cay_error *err) {
    const struct tar_member *m = &x->member;
    uint64_t max = x->max_bytes;
    if (max != 0 && m->size > max - x->totals->bytes) {
        error_set(err, CAY_LIMIT_REACHED, "the archive holds more than %llu bytes",
                  (unsigned long long)max);
        return error_remedy(err, "send less at once, or raise the limit");
    }
    _cleanup_(closep) int fd = tar_place_file(&x->place, m);
    if (fd < 0)
        return files_error(err, -fd, "extracting", m->path);
    int r = pass_input(x, m->size, take_to_file, &fd, err);
    if (r < 0)
        return r;
    /* the end may be a hole */
    if (m->size >= HOLE_MIN && ftruncate(fd, (off_t)m->size) < 0)
        return files_error(err, errno, "extracting", m->path);
    r = tar_place_finish_file(fd, m);
    if (r < 0)
        return files_error(err, -r, "extracting", m->path);
    x->totals->bytes += m->size;
    return skip_input(x, tar_padding(m->size), err);
}

static void note_skipped(struct tar_totals *t, const char *path) {
    if (t->skipped++ == 0)
        (void)str_escape(t->first_skipped, sizeof t->first_skipped, path);
}

/* Devices, fifos and kinds that we do not know. Types 3, 4 and 6 have no content whatever their
 * size says. */
static int skip_member(struct extraction *x, struct cay_error *err) {
    const struct tar_member *m = &x->member;
    note_skipped(x->totals, m->path);
    if (strchr("346", m->type) != NULL)
        return 0;
    int r = skip_input(x, m->size, err);
    return r < 0 ? r : skip_input(x, tar_padding(m->size), err);
}

static int extract_other(struct extraction *x, struct cay_error *err) {
    const struct tar_member *m = &x->member;
    int r;
    switch (m->type) {
    case TAR_FOLDER:
        r = tar_place_folder(&x->place, m);
        break;
    case TAR_SYMLINK:
        r = tar_place_symlink(&x->place, m);
        break;
    case TAR_HARD_LINK:
        r = tar_place_hard_link(&x->place, m);
        break;
    default:
        return skip_member(x, err);
    }
    return r < 0 ? files_error(err, -r, "extracting", m->path) : 0;
}

/* Puts what extended headers said over what the member's own header says. */
static int complete_member(struct extraction *x, struct cay_error *err) {
    struct tar_member *m = &x->member;
    if ((x->name.len > 0 && str_copy(m->path, sizeof m->path, buf_text(&x->name)) < 0) ||
        (x->target.len > 0 && str_copy(m->link, sizeof m->link, buf_text(&x->target)) < 0))
        return broken(err, "a name is too long");
    int r = tar_apply_pax(buf_text(&x->pax), x->pax.len, m);
    buf_clear(&x->name);
    buf_clear(&x->target);
    buf_clear(&x->pax);
    if (r == -EOPNOTSUPP || m->type == TAR_SPARSE) {
        error_set(err, CAY_UNSUPPORTED, "'%.256s' is stored as a sparse file", m->path);
        return error_remedy(err, "make the archive without --sparse");
    }
    if (r < 0 || m->size > INT64_MAX)
        return broken(err, "malformed extended header");
    /* The old format has no type for folders. Now, since a long name is cut in the header itself,
     * perhaps behind a slash. */
    if (m->type == TAR_FILE && str_ends(m->path, "/"))
        m->type = TAR_FOLDER;
    return 0;
}

/* Puts another name in place of the first part of a clean path. */
static int rename_first(const char *as, char path[static PATH_MAX]) {
    char renamed[PATH_MAX];
    if (as == NULL || path[0] == '\0')
        return 0;
    int r = str_format(renamed, sizeof renamed, "%s%s", as, path + strcspn(path, "/"));
    if (r == 0)
        memcpy(path, renamed, strlen(renamed) + 1);
    return r;
}

/* A hard link leads to another member: its name changes alike. */
static int rename_member(const char *as, struct tar_member *m) {
    int r = rename_first(as, m->path);
    if (r < 0 || m->type != TAR_HARD_LINK)
        return r;
    char clean[PATH_MAX];
    r = tar_clean_path(m->link, clean);
    if (r == 0)
        r = rename_first(as, clean);
    if (r == 0)
        memcpy(m->link, clean, strlen(clean) + 1);
    return r;
}

static int clean_name(const char *as, struct tar_member *m, struct cay_error *err) {
    char clean[PATH_MAX];
    int r = tar_clean_path(m->path, clean);
    if (r == -EINVAL) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%.256s' leads out of the destination", m->path);
        return error_remedy(err, "make the archive with names that contain no '..'");
    }
    if (r < 0)
        return files_error(err, -r, "extracting", m->path);
    memcpy(m->path, clean, strlen(clean) + 1);
    if (clean[0] == '\0' && m->type != TAR_FOLDER)
        return broken(err, "a member has no name");
    r = rename_member(as, m);
    return r < 0 ? files_error(err, -r, "extracting", m->path) : 0;
}

static int extract_member(struct extraction *x, struct cay_error *err) {
    int r = complete_member(x, err);
    if (r == 0)
        r = clean_name(x->in->as, &x->member, err);
    if (r == 0)
        r = x->member.type == TAR_FILE ? extract_file(x, err) : extract_other(x, err);
    if (r == 0)
        x->totals->members++;
    return r;
}

/* ---- the archive ---- */

static int take_header(struct extraction *x, struct cay_error *err) {
    switch (x->member.type) {
    case TAR_PAX:
        return read_extended(x, &x->pax, err);
    case TAR_LONG_NAME:
        return read_extended(x, &x->name, err);
    case TAR_LONG_LINK:
        return read_extended(x, &x->target, err);
    case TAR_PAX_GLOBAL: {
        /* comments, in practice; no member of ours takes anything from it */
        int r = skip_input(x, x->member.size, err);
        return r < 0 ? r : skip_input(x, tar_padding(x->member.size), err);
    }
    default:
        return extract_member(x, err);
    }
}

/* The next header: 1, 0 at the end mark. */
static int next_header(struct extraction *x, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(TAR_BLOCK);
    int r = pass_input(x, TAR_BLOCK, take_to_buffer, &b, err);
    if (r < 0)
        return r;
    r = tar_decode((const unsigned char *)b.data, &x->member);
    if (r < 0)
        return broken(err, "a header has a wrong checksum");
    if (r == 1 && ++x->headers > TAR_MEMBERS_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "the archive has more than %d members", TAR_MEMBERS_MAX);
        return error_remedy(err, "send it in parts");
    }
    return r;
}

int tar_extract(struct tar_input *in, int dest, uint64_t max_bytes, struct tar_totals *ret,
                struct cay_error *err) {
    *ret = (struct tar_totals){0};
    _cleanup_(extraction_free) struct extraction x = {
        .in = in,
        .place = {.dest = dest, .umask = in->umask, .parent = -1},
        .max_bytes = max_bytes,
        .totals = ret,
        .pax = BUF_INIT(TAR_EXTENDED_MAX),
        .name = BUF_INIT(TAR_EXTENDED_MAX),
        .target = BUF_INIT(TAR_EXTENDED_MAX),
    };
    for (;;) {
        int r = next_header(&x, err);
        if (r == 0)
            break;
        if (r > 0)
            r = take_header(&x, err);
        if (r < 0)
            return r;
    }
    if (x.pax.len + x.name.len + x.target.len > 0)
        return broken(err, "it ends behind a header that belongs to the next member");
    int r = tar_place_finish(&x.place);
    return r < 0 ? error_sys(err, -r, "setting the modes of the extracted folders") : 0;
}
