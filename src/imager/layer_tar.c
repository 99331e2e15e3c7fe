#include "imager/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

enum {
    DEPTH_MAX = 512, /* each costs a descriptor and some stack */
    ENTRIES_MAX = 2000 * 1000,
    XATTRS_MAX = 768 * 1024, /* of one file, in all */
};
static const uint64_t BYTES_MAX = UINT64_C(64)
                                  << 30; /* what unpacking takes; files may be sparse */

/* A file with several names, by the first of them. */
struct linked {
    dev_t dev;
    ino_t ino;
    char *path; /* NULL: free slot */
};

struct writer {
    const struct layer_tar_options *options;
    struct tar_stream stream;
    struct layer_tar_result *result;
    struct linked *linked; /* hash table, a power of two in size */
    size_t linked_count, linked_cap;
    unsigned depth;
    size_t len; /* of path */
    char path[PATH_MAX];
};

/* An entry of a folder, as it is looked at. */
struct place {
    int dir;
    const char *name;
    struct stat st;
};

/* The path of the entry at hand, fit for an error message. */
static int fail(const struct writer *w, struct cay_error *err) {
    char shown[256];
    return error_prefix(err, "'%s'", str_escape(shown, sizeof shown, w->path));
}

static int fail_sys(const struct writer *w, int sys, const char *what, struct cay_error *err) {
    error_sys(err, sys, "%s", what);
    return fail(w, err);
}

/* ---- hard links ---- */

static struct linked *find_slot(struct linked *table, size_t cap, dev_t dev, ino_t ino) {
    size_t at = ((size_t)ino * 0x9E3779B97F4A7C15u ^ (size_t)dev) & (cap - 1);
    while (table[at].path != NULL && (table[at].ino != ino || table[at].dev != dev))
        at = (at + 1) & (cap - 1);
    return &table[at];
}

static int grow_linked(struct writer *w) {
    size_t cap = w->linked_cap == 0 ? 64 : w->linked_cap * 2;
    struct linked *table = calloc(cap, sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < w->linked_cap; i++) {
        const struct linked *old = &w->linked[i];
        if (old->path != NULL)
            *find_slot(table, cap, old->dev, old->ino) = *old;
    }
    free(w->linked);
    w->linked = table;
    w->linked_cap = cap;
    return 0;
}

/* *ret is the name under which this file was written already, or NULL. 0 or -ENOMEM. */
static int find_earlier(struct writer *w, const struct stat *st, const char **ret) {
    *ret = NULL;
    if (st->st_nlink < 2)
        return 0;
    if (w->linked_count * 2 >= w->linked_cap && grow_linked(w) < 0)
        return -ENOMEM;
    struct linked *slot = find_slot(w->linked, w->linked_cap, st->st_dev, st->st_ino);
    *ret = slot->path;
    if (slot->path != NULL)
        return 0;
    *slot = (struct linked){st->st_dev, st->st_ino, strdup(w->path)};
    w->linked_count++;
    return slot->path == NULL ? -ENOMEM : 0;
}

/* ---- extended attributes ---- */

/* Other security.* and trusted.* are this host's, user.overlay.* the overlay's; a name with "=" has
 * no form in PAX. */
static bool is_kept(const char *name) {
    if (strcmp(name, "security.capability") == 0)
        return true;
    return str_starts(name, "user.") && !str_starts(name, "user.overlay.") &&
           strchr(name, '=') == NULL;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int put_xattr(int fd, const char *name, struct buf *out) {
    char key[XATTR_NAME_MAX + sizeof "SCHILY.xattr."];
    _cleanup_(freep) char *value = malloc(XATTR_SIZE_MAX);
    if (value == NULL)
        return -ENOMEM;
    ssize_t n = fgetxattr(fd, name, value, XATTR_SIZE_MAX);
    if (n < 0)
        return errno == ENODATA ? 0 : -errno;
    int r = str_format(key, sizeof key, "SCHILY.xattr.%s", name);
    if (r == 0)
        tar_put_record(out, key, value, (size_t)n);
    return out->failed ? -E2BIG : r;
}

/* The names in list (len bytes, each ended by NUL), sorted; the count. */
static size_t sort_kept(const char *list, size_t len, const char **names) {
    size_t count = 0;
    for (size_t at = 0; at < len; at += strlen(list + at) + 1)
        if (is_kept(list + at))
            names[count++] = list + at;
    qsort(names, count, sizeof *names, compare_names);
    return count;
}

/* Appends the records: 0 or -errno. */
static int put_xattrs(int fd, struct buf *out) {
    ssize_t len = flistxattr(fd, NULL, 0);
    if (len <= 0)
        return len == 0 || errno == ENOTSUP ? 0 : -errno;
    _cleanup_(freep) char *list = calloc(1, XATTR_LIST_MAX + 1);
    _cleanup_(freep) const char **names = calloc(XATTR_LIST_MAX / 2, sizeof *names);
    if (list == NULL || names == NULL)
        return -ENOMEM;
    len = flistxattr(fd, list, XATTR_LIST_MAX);
    if (len < 0)
        return -errno;
    size_t count = sort_kept(list, (size_t)len, names);
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = put_xattr(fd, names[i], out);
    return r;
}

/* ---- entries ---- */

static struct tar_entry describe(const struct writer *w, const struct place *p) {
    int64_t max = w->options->mtime_max, mtime = p->st.st_mtim.tv_sec;
    return (struct tar_entry){
        .path = w->path,
        .mode = p->st.st_mode & 07777,
        .uid = p->st.st_uid,
        .gid = p->st.st_gid,
        .mtime = max != 0 && mtime > max ? max : mtime,
    };
}

static int put_entry(struct writer *w, const struct tar_entry *entry, struct cay_error *err) {
    if (++w->result->entries > ENTRIES_MAX)
        return error_set(err, CAY_LIMIT_REACHED, "more than %d files", ENTRIES_MAX);
    w->result->bytes += entry->size;
    if (entry->size > BYTES_MAX || w->result->bytes > BYTES_MAX)
        return error_set(err, CAY_LIMIT_REACHED, "the files have more than %llu bytes",
                         (unsigned long long)BYTES_MAX);
    return tar_stream_entry(&w->stream, entry, err);
}

/* Opens what fstatat() showed; -EAGAIN if it is another thing by now. */
static int open_same(const struct place *p, int flags) {
    _cleanup_(closep) int fd = openat(p->dir, p->name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_ino != p->st.st_ino || st.st_dev != p->st.st_dev ||
        (st.st_mode & S_IFMT) != (p->st.st_mode & S_IFMT))
        return -EAGAIN;
    return TAKE_FD(fd);
}

/* The header has promised a size. */
static int put_content(struct writer *w, int fd, uint64_t size, struct cay_error *err) {
    struct stat st;
    int r = tar_stream_copy(&w->stream, fd, size, err);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return error_errno(err, "looking at it");
    if ((uint64_t)st.st_size != size)
        return error_set(err, CAY_CONFLICT, "it changed while it was read");
    return 0;
}

static int put_file(struct writer *w, const struct place *p, struct tar_entry *entry,
                    struct cay_error *err) {
    _cleanup_(buf_free) struct buf xattrs = BUF_INIT(XATTRS_MAX);
    _cleanup_(closep) int fd = open_same(p, O_RDONLY);
    if (fd < 0)
        return error_sys(err, -fd, "opening");
    int r = put_xattrs(fd, &xattrs);
    if (r < 0)
        return error_sys(err, -r, "reading its attributes");
    entry->type = TAR_FILE;
    entry->size = (uint64_t)p->st.st_size;
    entry->xattrs = &xattrs;
    r = put_entry(w, entry, err);
    entry->xattrs = NULL; /* they end here */
    return r < 0 ? r : put_content(w, fd, entry->size, err);
}

static int put_symlink(struct writer *w, const struct place *p, struct tar_entry *entry,
                       struct cay_error *err) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(p->dir, p->name, target, sizeof target);
    if (n < 0)
        return error_errno(err, "reading the link");
    if ((size_t)n == sizeof target)
        return error_sys(err, ENAMETOOLONG, "reading the link");
    target[n] = '\0';
    entry->type = TAR_SYMLINK;
    entry->link = target;
    int r = put_entry(w, entry, err);
    entry->link = NULL; /* it ends here */
    return r;
}

/* True if the overlay hides what is below the folder. */
static bool is_opaque(int fd) {
    char value;
    return fgetxattr(fd, "user.overlay.opaque", &value, sizeof value) == 1 && value == 'y';
}

static int put_opaque(struct writer *w, struct cay_error *err) {
    char path[PATH_MAX];
    if (str_format(path, sizeof path, "%s/.wh..wh..opq", w->path) < 0)
        return error_sys(err, ENAMETOOLONG, "telling that it is opaque");
    struct tar_entry entry = {.type = TAR_FILE, .path = path};
    return put_entry(w, &entry, err);
}

/* *ret is the folder, to be entered. */
static int put_folder(struct writer *w, const struct place *p, int *ret, struct cay_error *err) {
    struct tar_entry entry = describe(w, p);
    _cleanup_(buf_free) struct buf xattrs = BUF_INIT(XATTRS_MAX);
    _cleanup_(closep) int fd = open_same(p, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return error_sys(err, -fd, "opening");
    int r = put_xattrs(fd, &xattrs);
    if (r < 0)
        return error_sys(err, -r, "reading its attributes");
    w->path[w->len] = '/'; /* there is room: see push() */
    w->path[w->len + 1] = '\0';
    entry.type = TAR_FOLDER;
    entry.xattrs = &xattrs;
    r = put_entry(w, &entry, err);
    w->path[w->len] = '\0';
    if (r == 0 && w->options->upper && is_opaque(fd))
        r = put_opaque(w, err);
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

/* An empty file in the name of what is gone. */
static int put_whiteout(struct writer *w, const struct place *p, struct cay_error *err) {
    char path[PATH_MAX];
    size_t folder = w->len - strlen(p->name);
    if (str_format(path, sizeof path, "%.*s.wh.%s", (int)folder, w->path, p->name) < 0)
        return error_sys(err, ENAMETOOLONG, "writing its whiteout");
    struct tar_entry entry = {.type = TAR_FILE, .path = path};
    return put_entry(w, &entry, err);
}

static int put_special(struct writer *w, const struct place *p, struct tar_entry *entry,
                       struct cay_error *err) {
    entry->type = S_ISFIFO(p->st.st_mode)  ? TAR_FIFO
                  : S_ISCHR(p->st.st_mode) ? TAR_CHAR_DEVICE
                                           : TAR_BLOCK_DEVICE;
    if (entry->type != TAR_FIFO) {
        entry->major = major(p->st.st_rdev);
        entry->minor = minor(p->st.st_rdev);
    }
    return put_entry(w, entry, err);
}

static int put_other(struct writer *w, const struct place *p, struct cay_error *err) {
    struct tar_entry entry = describe(w, p);
    const char *earlier;
    if (find_earlier(w, &p->st, &earlier) < 0)
        return error_sys(err, ENOMEM, "remembering its name");
    if (earlier != NULL) {
        entry.type = TAR_HARD_LINK;
        entry.link = earlier;
        return put_entry(w, &entry, err);
    }
    if (S_ISREG(p->st.st_mode))
        return put_file(w, p, &entry, err);
    return S_ISLNK(p->st.st_mode) ? put_symlink(w, p, &entry, err) : put_special(w, p, &entry, err);
}

/* A name of this form would come back as a deletion. */
static int refuse_name(struct cay_error *err) {
    error_set(err, CAY_UNSUPPORTED, "a name that begins with '.wh.' means a deletion in an image");
    return error_remedy(err, "remove or rename it");
}

static int put_any(struct writer *w, const struct place *p, int *ret, struct cay_error *err) {
    if (S_ISSOCK(p->st.st_mode))
        return 0;
    if (!w->options->merged) {
        if (str_starts(p->name, ".wh."))
            return refuse_name(err);
        if (S_ISCHR(p->st.st_mode) && p->st.st_rdev == 0)
            return put_whiteout(w, p, err);
    }
    return S_ISDIR(p->st.st_mode) ? put_folder(w, p, ret, err) : put_other(w, p, err);
}

/* ---- the walk ---- */

/* Appends the name to the path, with room for a slash. 0 or -ENAMETOOLONG. */
static int push(struct writer *w, const char *name) {
    const char *slash = w->len > 0 ? "/" : "";
    int r = str_format(w->path + w->len, sizeof w->path - 1 - w->len, "%s%s", slash, name);
    w->len += strlen(w->path + w->len);
    return r;
}

/* *ret is a folder that is to be entered, or stays. */
static int visit(struct writer *w, int dir, const char *name, int *ret, struct cay_error *err) {
    struct place p = {.dir = dir, .name = name};
    if (fstatat(dir, name, &p.st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_sys(w, errno, "looking at it", err);
    int r = put_any(w, &p, ret, err);
    return r < 0 ? fail(w, err) : 0;
}

static int write_folder(struct writer *w, int fd, struct cay_error *err);

static int write_entry(struct writer *w, int dir, const char *name, struct cay_error *err) {
    size_t before = w->len;
    int entered = -1;
    int r = push(w, name);
    r = r < 0 ? fail_sys(w, -r, "its path", err) : visit(w, dir, name, &entered, err);
    if (entered >= 0)
        r = write_folder(w, entered, err);
    w->len = before;
    w->path[before] = '\0';
    return r;
}

static int list_names(DIR *d, struct strv *names) {
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL)
            return -errno;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (names->len >= ENTRIES_MAX || strv_push(names, e->d_name) < 0)
            return -ENOMEM;
    }
}

/* The sorted names; fd is closed in any case. 0 or -errno. */
static int read_names(int fd, DIR **ret, struct strv *names) {
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    *ret = d;
    int r = list_names(d, names);
    if (r == 0 && names->len > 0)
        qsort(names->v, names->len, sizeof *names->v, compare_names);
    return r;
}

static int write_folder(struct writer *w, int fd, struct cay_error *err) {
    _cleanup_(strv_free) struct strv names = {0};
    _cleanup_(closedirp) DIR *d = NULL;
    int r = read_names(fd, &d, &names);
    if (r < 0)
        return fail_sys(w, -r, "reading the folder", err);
    if (w->depth == DEPTH_MAX)
        return error_set(err, CAY_LIMIT_REACHED, "folders are nested more than %d deep", DEPTH_MAX);
    w->depth++;
    for (size_t i = 0; r == 0 && i < names.len; i++)
        r = write_entry(w, dirfd(d), names.v[i], err);
    w->depth--;
    return r;
}

static void writer_free(struct writer **writer) {
    struct writer *w = *writer;
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->linked_cap; i++)
        free(w->linked[i].path);
    free(w->linked);
    tar_stream_free(&w->stream);
    free(w);
}

int layer_tar_write(int fs, const struct layer_tar_options *options, tar_sink sink, void *user,
                    struct layer_tar_result *ret, struct cay_error *err) {
    _cleanup_(writer_free) struct writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return error_sys(err, ENOMEM, "writing a layer");
    *ret = (struct layer_tar_result){0};
    w->options = options;
    w->result = ret;
    int r = tar_stream_begin(&w->stream, sink, user, true, err);
    if (r < 0)
        return r;
    int fd = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening the layer");
    r = write_folder(w, fd, err);
    if (r == 0)
        r = tar_stream_end(&w->stream, ret->diff_id, err);
    ret->tar_size = w->stream.size;
    return r;
}
