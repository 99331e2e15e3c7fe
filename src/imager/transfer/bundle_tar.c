/* What of a bundle is parsed from hostile bytes, in a confined child: the list of a tar's members,
 * and the content of a compressed one. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "imager/transfer/bundle.h"
#include "imager/transfer/temp_file.h"
#include "imager/unpack/confined.h"

enum {
    MEMBERS_MAX = 100 * 1000,
    BLOCK = 256 * 1024,
    RATIO_MAX = 1000, /* beyond the first GiB */
};
static const uint64_t RATIO_FROM = UINT64_C(1) << 30;

/* ---- in the child ---- */

struct input {
    int fd;
    char data[BLOCK];
};

static la_ssize_t read_input(struct archive *a, void *user, const void **ret) {
    struct input *in = user;
    ssize_t n;
    do
        n = read(in->fd, in->data, sizeof in->data);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        archive_set_error(a, errno, "reading failed");
    *ret = in->data;
    return n;
}

/* 0: the library reads instead. */
static la_int64_t skip_input(struct archive *a _unused_, void *user, la_int64_t len) {
    const struct input *in = user;
    return lseek(in->fd, len, SEEK_CUR) < 0 ? 0 : len;
}

static void free_archive(struct archive **a) {
    (void)archive_read_free(*a);
}

static int refuse(struct archive *a, struct cay_error *err) {
    const char *why = archive_error_string(a);
    error_set(err, CAY_INVALID_ARGUMENT, "this is not an image archive: %s",
              why != NULL ? why : "no memory");
    return error_remedy(err, "for a root file system use `cay image import`");
}

static int refuse_rest(struct archive *a, struct cay_error *err) {
    const char *why = archive_error_string(a);
    error_set(err, CAY_INVALID_ARGUMENT, "the archive cannot be read to its end: %s",
              why != NULL ? why : "no memory");
    return error_remedy(err, "it may be damaged; copy or save it again");
}

/* What the child says of a member; name and link follow. */
struct head {
    uint32_t kind, name_len, link_len;
    uint64_t offset, size;
};

static enum bundle_kind kind_of(struct archive_entry *e) {
    if (archive_entry_hardlink(e) != NULL)
        return BUNDLE_HARD_LINK;
    if (archive_entry_filetype(e) == AE_IFLNK)
        return BUNDLE_SYMLINK;
    bool plain = archive_entry_filetype(e) == AE_IFREG && archive_entry_sparse_count(e) == 0;
    return plain ? BUNDLE_FILE : BUNDLE_OTHER;
}

static int report_member(struct archive *a, struct archive_entry *e, int out) {
    const char *name = archive_entry_pathname(e), *link = archive_entry_hardlink(e);
    if (link == NULL)
        link = archive_entry_symlink(e);
    struct head h = {.kind = kind_of(e),
                     .name_len = name != NULL ? (uint32_t)strnlen(name, PATH_MAX) : 0,
                     .link_len = link != NULL ? (uint32_t)strnlen(link, PATH_MAX) : 0,
                     .offset = (uint64_t)archive_filter_bytes(a, 0),
                     .size = (uint64_t)archive_entry_size(e)};
    int r = fd_write_all(out, &h, sizeof h);
    if (r == 0)
        r = fd_write_all(out, name, h.name_len);
    return r < 0 ? r : fd_write_all(out, link, h.link_len);
}

static int list_members(int fd, int out, uint64_t limit _unused_, struct cay_error *err) {
    _cleanup_(free_archive) struct archive *a = archive_read_new();
    _cleanup_(freep) struct input *in = malloc(sizeof *in);
    if (a == NULL || in == NULL)
        return error_sys(err, ENOMEM, "reading an archive");
    in->fd = fd;
    if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
        archive_read_open2(a, in, NULL, read_input, skip_input, NULL) != ARCHIVE_OK)
        return refuse(a, err);
    for (bool first = true;; first = false) {
        struct archive_entry *e;
        int r = archive_read_next_header(a, &e);
        if (r == ARCHIVE_EOF)
            return 0;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return first ? refuse(a, err) : refuse_rest(a, err);
        if ((r = report_member(a, e, out)) < 0)
            return error_sys(err, -r, "listing an archive");
    }
}

static int check_expansion(struct archive *a, uint64_t size, uint64_t limit,
                           struct cay_error *err) {
    uint64_t read = (uint64_t)archive_filter_bytes(a, -1);
    if (size > limit)
        error_set(err, CAY_RESOURCE_EXHAUSTED, "the archive has more than %llu bytes unpacked",
                  (unsigned long long)limit);
    else if (size > RATIO_FROM && size / RATIO_MAX > read)
        error_set(err, CAY_RESOURCE_EXHAUSTED, "the archive unpacks to %d times its size",
                  RATIO_MAX);
    else
        return 0;
    return error_remedy(err, "make room for it, or do not use it: it fills disks");
}

static int copy_expanded(struct archive *a, int out, uint64_t limit, struct cay_error *err) {
    uint64_t size = 0;
    for (;;) {
        const void *data;
        size_t len;
        la_int64_t offset;
        int r = archive_read_data_block(a, &data, &len, &offset);
        if (r == ARCHIVE_EOF)
            return 0;
        if (r != ARCHIVE_OK)
            return refuse_rest(a, err);
        size += len;
        if ((r = check_expansion(a, size, limit, err)) < 0)
            return r;
        if ((r = fd_write_all(out, data, len)) < 0)
            return error_sys(err, -r, "writing to the image store");
    }
}

static int expand(int fd, int out, uint64_t limit, struct cay_error *err) {
    _cleanup_(free_archive) struct archive *a = archive_read_new();
    _cleanup_(freep) struct input *in = malloc(sizeof *in);
    if (a == NULL || in == NULL)
        return error_sys(err, ENOMEM, "reading an archive");
    in->fd = fd;
    struct archive_entry *e;
    /* named one by one: some others run a program */
    if (archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
        archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
        archive_read_support_filter_xz(a) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(a) != ARCHIVE_OK ||
        archive_read_support_format_raw(a) != ARCHIVE_OK ||
        archive_read_open(a, in, NULL, read_input, NULL) != ARCHIVE_OK ||
        archive_read_next_header(a, &e) != ARCHIVE_OK)
        return refuse_rest(a, err);
    return copy_expanded(a, out, limit, err);
}

/* ---- in the parent: compression ---- */

static bool begins_with(const unsigned char *data, ssize_t len, const char *magic, size_t n) {
    return len >= (ssize_t)n && memcmp(data, magic, n) == 0;
}

/* Whether a file must be expanded before it can be read anywhere. */
static bool is_compressed(int fd, bool keep_gzip) {
    unsigned char data[6];
    ssize_t n = pread(fd, data, sizeof data, 0);
    return (!keep_gzip && begins_with(data, n, "\x1f\x8b", 2)) ||
           begins_with(data, n, "\x28\xb5\x2f\xfd", 4) || begins_with(data, n, "BZh", 3) ||
           begins_with(data, n,
                       "\xfd"
                       "7zXZ",
                       5);
}

/* What arrives through a pipe, as it is: its first bytes decide what happens to it, and a file can
 * be read twice. */
static int take_pipe(const struct image_store *store, int input, struct cay_error *err) {
    _cleanup_(closep) int out = spool_open(store, err);
    _cleanup_(freep) char *data = malloc(BLOCK);
    if (out < 0 || data == NULL)
        return out < 0 ? out : error_sys(err, ENOMEM, "reading the input");
    uint64_t size = 0, limit = spool_limit(out);
    for (;;) {
        ssize_t n = read(input, data, BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "reading the input");
        if (n == 0)
            return TAKE_FD(out);
        size += (uint64_t)n;
        if (size > limit) {
            error_set(err, CAY_RESOURCE_EXHAUSTED, "the input has more than %llu bytes",
                      (unsigned long long)limit);
            return error_remedy(err, "make room for it");
        }
        int r = fd_write_all(out, data, (size_t)n);
        if (r < 0)
            return error_sys(err, -r, "writing to the image store");
    }
}

int bundle_plain(const struct image_store *store, int given, bool keep_gzip,
                 struct cay_error *err) {
    struct stat st;
    if (fstat(given, &st) < 0)
        return error_errno(err, "looking at the input");
    _cleanup_(closep) int input =
        S_ISREG(st.st_mode) ? fcntl(given, F_DUPFD_CLOEXEC, 3) : take_pipe(store, given, err);
    if (input < 0)
        return S_ISREG(st.st_mode) ? error_errno(err, "opening the input") : input;
    if (!is_compressed(input, keep_gzip))
        return TAKE_FD(input);
    if (lseek(input, 0, SEEK_SET) < 0)
        return error_errno(err, "reading the input");
    _cleanup_(closep) int out = spool_open(store, err);
    if (out < 0)
        return out;
    struct confined child;
    int r = confined_start(store, expand, input, out, spool_limit(out), &child, err);
    if (r == 0)
        r = confined_finish(&child, err);
    return r < 0 ? r : TAKE_FD(out);
}

/* ---- in the parent: the list ---- */

static int read_name(int in, uint32_t len, char **ret) {
    *ret = calloc(1, (size_t)len + 1);
    if (*ret == NULL)
        return -ENOMEM;
    return len == 0 || fd_read_all(in, *ret, len) == 1 ? 0 : -EBADMSG;
}

/* 1, 0 at the end, or -errno. The child is not trusted. */
static int read_member(int in, uint64_t file_size, struct bundle_member *m) {
    struct head h;
    int r = fd_read_all(in, &h, sizeof h);
    if (r <= 0)
        return r;
    if (h.kind > BUNDLE_OTHER || h.name_len > PATH_MAX || h.link_len > PATH_MAX)
        return -EBADMSG;
    if (h.kind == BUNDLE_FILE && (h.offset > file_size || h.size > file_size - h.offset))
        return -ENODATA;
    m->kind = (enum bundle_kind)h.kind;
    m->offset = h.offset;
    m->size = h.size;
    r = read_name(in, h.name_len, &m->name);
    if (r == 0)
        r = read_name(in, h.link_len, &m->link);
    return r < 0 ? r : 1;
}

static int grow(struct bundle *b) {
    if ((b->count & (b->count - 1)) != 0 && b->count != 0)
        return 0; /* room up to the next power of two */
    size_t cap = b->count == 0 ? 1 : b->count * 2;
    struct bundle_member *grown = reallocarray(b->members, cap, sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    b->members = grown;
    return 0;
}

static int read_members(struct bundle *b, int in, uint64_t file_size) {
    for (;;) {
        if (b->count == MEMBERS_MAX)
            return -E2BIG;
        int r = grow(b);
        if (r < 0)
            return r;
        b->members[b->count] = (struct bundle_member){.order = b->count};
        r = read_member(in, file_size, &b->members[b->count]);
        b->count += r != 0; /* what failed is released too */
        if (r <= 0)
            return r;
    }
}

static int fail_list(int r, struct cay_error *err) {
    if (r == -ENODATA) {
        error_set(err, CAY_INVALID_ARGUMENT, "the archive is cut short");
        return error_remedy(err, "copy or save it again");
    }
    if (r == -E2BIG)
        return error_set(err, CAY_LIMIT_REACHED, "the archive has more than %d members",
                         MEMBERS_MAX);
    return error_sys(err, -r, "listing the archive");
}

int bundle_list(const struct image_store *store, struct bundle *b, struct cay_error *err) {
    struct stat st;
    int ends[2];
    if (fstat(b->fd, &st) < 0 || lseek(b->fd, 0, SEEK_SET) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "reading the archive");
    struct confined child;
    int r = confined_start(store, list_members, b->fd, ends[1], 0, &child, err);
    (void)close(ends[1]);
    int listed = r < 0 ? 0 : read_members(b, ends[0], (uint64_t)st.st_size);
    (void)close(ends[0]); /* a child that still writes ends now */
    if (r < 0)
        return r;
    r = confined_finish(&child, listed < 0 ? NULL : err);
    return listed < 0 ? fail_list(listed, err) : r;
}
