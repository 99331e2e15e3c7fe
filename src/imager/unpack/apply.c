/* The second half of unpacking: the entries of a tar, one after the other, become files. Names are
 * resolved as a program in the image would (RESOLVE_IN_ROOT), since folders of an image may well be
 * symlinks to others; the process is confined to the root besides. */
#include "imager/unpack/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"

enum { BLOCK = 1024 * 1024 };

#define WHITEOUT ".wh."
#define OPAQUE   WHITEOUT WHITEOUT ".opq"

/* ---- errors ---- */

_printf_(3, 0) static int fail(struct apply *a, enum cay_code code, const char *fmt, va_list args) {
    char why[256], name[160];
    (void)vsnprintf(why, sizeof why, fmt, args);
    error_set(a->err, code, "layer: entry '%s': %s", str_escape(name, sizeof name, a->shown), why);
    return error_remedy(a->err, "do not use this image: it is damaged or made to do harm");
}

int apply_refuse(struct apply *a, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int r = fail(a, CAY_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    return r;
}

int apply_limit(struct apply *a, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int r = fail(a, CAY_RESOURCE_EXHAUSTED, fmt, args);
    va_end(args);
    return r;
}

int apply_errno(struct apply *a, int sys, const char *what) {
    char name[160];
    return error_sys(a->err, sys, "layer: entry '%s': %s", str_escape(name, sizeof name, a->shown),
                     what);
}

/* ---- names ---- */

/* One component: kept, or skipped as "" and "." are. */
static int clean_part(struct apply *a, const char *part, size_t len, char *out, size_t *at) {
    if (len == 0 || (len == 1 && part[0] == '.'))
        return 0;
    if (len == 2 && memcmp(part, "..", 2) == 0)
        return apply_refuse(a, "a name with '..' leads out of the image");
    if (len > NAME_MAX)
        return apply_limit(a, "a part of its name is longer than %d bytes", NAME_MAX);
    if (*at + len + 2 > PATH_MAX)
        return apply_limit(a, "its name is longer than %d bytes", PATH_MAX - 1);
    if (*at > 0)
        out[(*at)++] = '/';
    memcpy(out + *at, part, len);
    *at += len;
    return 1;
}

int apply_clean(struct apply *a, const char *name, char out[static PATH_MAX]) {
    size_t at = 0;
    unsigned depth = 0;
    if (name == NULL || name[0] == '\0')
        return apply_refuse(a, "has an empty name");
    for (const char *p = name; *p != '\0'; p += *p == '/') {
        size_t len = strcspn(p, "/");
        int r = clean_part(a, p, len, out, &at);
        if (r < 0)
            return r;
        depth += (unsigned)r;
        if (depth > a->limits->depth)
            return apply_limit(a, "lies deeper than %u folders", a->limits->depth);
        p += len;
    }
    out[at] = '\0';
    return 0;
}

/* True if a folder on the way has the name of a whiteout. */
static bool has_whiteout_folder(const char *path) {
    for (const char *p = path, *slash; (slash = strchr(p, '/')) != NULL; p = slash + 1)
        if (str_starts(p, WHITEOUT))
            return true;
    return false;
}

/* ---- the folder of an entry ---- */

void apply_forget(struct apply *a) {
    a->parent_known = false;
}

/* A folder that no entry has named yet: as umask 022 would make it, root's. */
static int make_missing(struct apply *a, int at, const char *name) {
    struct stat st;
    if (fstat(at, &st) < 0 || mkdirat(at, name, 0755) < 0)
        return errno == EEXIST ? -ENOENT : -errno; /* a symlink that leads nowhere */
    int r = number_add(&a->made, number_of(&st, name));
    if (r < 0)
        return r;
    a->counts->entries++;
    return path_open_beneath(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* Opens a folder, making what is missing on the way. */
static int make_folders(struct apply *a, const char *path) {
    char part[PATH_MAX];
    _cleanup_(closep) int at = openat(a->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -errno;
    for (const char *p = path;;) {
        const char *end = p + strcspn(p, "/");
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = '\0';
        int next = path_open_in_root(a->root, part, O_PATH | O_DIRECTORY, 0);
        if (next == -ENOENT)
            next = make_missing(a, at, part + (p - path));
        if (next < 0)
            return next;
        (void)close(at);
        at = next;
        if (*end == '\0')
            return TAKE_FD(at);
        p = end + 1;
    }
}

static int open_folder(struct apply *a, const char *folder, bool make) {
    int fd = path_open_in_root(a->root, folder[0] != '\0' ? folder : ".", O_PATH | O_DIRECTORY, 0);
    return fd == -ENOENT && make ? make_folders(a, folder) : fd;
}

int apply_enter(struct apply *a, const char *path, bool make, const char **ret_name) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;
    memcpy(folder, path, len);
    folder[len] = '\0';
    *ret_name = slash != NULL ? slash + 1 : path;
    if (a->parent_known && str_equal(a->parent_path, folder))
        return 0;
    int fd = open_folder(a, folder, make);
    if (fd < 0)
        return fd;
    fd_close(&a->parent);
    a->parent = fd;
    a->parent_known = true;
    if (fstat(fd, &a->parent_stat) < 0)
        return -errno;
    memcpy(a->parent_path, folder, len + 1);
    return 0;
}

/* ---- entries ---- */

static bool is_absent(int r) {
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

/* Whiteouts need no folder to be made for them: in one that is missing is nothing to hide. last is
 * the last part of the entry's name. */
static int apply_whiteout(struct apply *a, const char *last) {
    const char *hidden = last + strlen(WHITEOUT), *name;
    bool opaque = str_equal(last, OPAQUE);
    if (str_starts(hidden, WHITEOUT) && !opaque) { /* notes of another file system, AUFS */
        a->counts->skipped++;
        return 0;
    }
    if (hidden[0] == '\0' || str_equal(hidden, ".") || str_equal(hidden, ".."))
        return apply_refuse(a, "is a whiteout of a whole folder or of nothing");
    int r = apply_enter(a, a->path, false, &name);
    if (r < 0)
        return is_absent(r) ? 0 : apply_errno(a, -r, "opening its folder");
    r = opaque ? hide_all(a) : hide_name(a, hidden);
    apply_forget(a);
    return r;
}

static int apply_kind(struct apply *a, const char *name) {
    if (archive_entry_hardlink(a->entry) != NULL)
        return apply_hard_link(a, name);
    if (a->raw && archive_entry_filetype(a->entry) == AE_IFCHR)
        return apply_overlay_whiteout(a, name);
    switch (archive_entry_filetype(a->entry)) {
    case AE_IFREG:
        return apply_file(a, name);
    case AE_IFDIR:
        return apply_folder(a, name);
    case AE_IFLNK:
        return apply_symlink(a, name);
    case AE_IFIFO:
        return a->raw ? apply_marked_fifo(a, name) : apply_fifo(a, name);
    default: /* a sandbox has its own devices, and a socket without a listener is of no use */
        a->counts->skipped++;
        return 0;
    }
}

static int apply_making(struct apply *a) {
    const char *name;
    int r = apply_enter(a, a->path, true, &name);
    if (is_absent(r))
        return apply_refuse(a, "its folder is a file, or a symlink that leads nowhere");
    return r < 0 ? apply_errno(a, -r, "opening its folder") : apply_kind(a, name);
}

static int apply_entry(struct apply *a) {
    if (++a->headers > a->limits->entries)
        return apply_limit(a, "the layer has more than %llu entries",
                           (unsigned long long)a->limits->entries);
    int r = apply_clean(a, a->shown, a->path);
    if (r < 0)
        return r;
    const char *slash = strrchr(a->path, '/');
    if (a->path[0] == '\0')
        return archive_entry_filetype(a->entry) == AE_IFDIR
                   ? apply_root(a)
                   : apply_refuse(a, "would replace the root folder");
    if (a->raw)
        return apply_making(a);
    if (str_starts(a->path, WHITEOUT WHITEOUT) && slash != NULL) { /* inside of AUFS' notes */
        a->counts->skipped++;
        return 0;
    }
    if (has_whiteout_folder(a->path))
        return apply_refuse(a, "its folder has the name of a whiteout");
    const char *last = slash != NULL ? slash + 1 : a->path;
    return str_starts(last, WHITEOUT) ? apply_whiteout(a, last) : apply_making(a);
}

/* ---- the archive ---- */

struct input {
    int fd;
    char *block;
};

static la_ssize_t read_input(struct archive *archive, void *user, const void **ret) {
    const struct input *in = user;
    ssize_t n;
    do
        n = read(in->fd, in->block, BLOCK);
    while (n < 0 && errno == EINTR);
    *ret = in->block;
    if (n < 0)
        archive_set_error(archive, errno, "reading it");
    return n < 0 ? ARCHIVE_FATAL : n;
}

static int bad_archive(struct apply *a) {
    const char *why = archive_error_string(a->archive);
    char text[160];
    error_set(a->err, CAY_INVALID_ARGUMENT, "layer: this is no tar, or a damaged one: %s",
              str_escape(text, sizeof text, why != NULL ? why : "unknown"));
    return error_remedy(a->err, "pull or export the image again");
}

static int apply_all(struct apply *a) {
    for (;;) {
        int status = archive_read_next_header(a->archive, &a->entry);
        if (status == ARCHIVE_EOF)
            break;
        if (status < ARCHIVE_WARN)
            return bad_archive(a);
        a->shown = archive_entry_pathname(a->entry);
        if (a->shown == NULL)
            a->shown = "";
        int r = apply_entry(a);
        if (r < 0)
            return r;
    }
    return later_set_times(a);
}

/* What comes behind the archive's end is part of its digest. */
static int drain(struct apply *a, const struct input *in) {
    const void *data;
    la_ssize_t n;
    do
        n = read_input(a->archive, (void *)(uintptr_t)in, &data);
    while (n > 0);
    return n < 0 ? bad_archive(a) : 0;
}

static int open_archive(struct apply *a, struct input *in) {
    a->archive = archive_read_new();
    in->block = malloc(BLOCK);
    if (a->archive == NULL || in->block == NULL)
        return error_sys(a->err, ENOMEM, "unpacking a layer");
    if (archive_read_support_format_tar(a->archive) != ARCHIVE_OK ||
        archive_read_support_format_empty(a->archive) != ARCHIVE_OK ||
        archive_read_open(a->archive, in, NULL, read_input, NULL) != ARCHIVE_OK)
        return bad_archive(a);
    return 0;
}

int unpack_apply(int in, int root, enum unpack_form form, const struct unpack_limits *limits,
                 bool single_id, struct unpack_result *ret, struct cay_error *err) {
    struct input input = {.fd = in};
    struct apply a = {.root = root,
                      .limits = limits,
                      .raw = form == UNPACK_RAW,
                      .single_id = single_id,
                      .parent = -1,
                      .counts = ret,
                      .shown = "",
                      .err = err};
    *ret = (struct unpack_result){0};
    int r = open_archive(&a, &input);
    if (r == 0)
        r = apply_all(&a);
    if (r == 0)
        r = drain(&a, &input);
    if (a.archive != NULL)
        (void)archive_read_free(a.archive);
    free(input.block);
    fd_close(&a.parent);
    number_free(&a.made);
    later_free(&a.later);
    return r;
}
