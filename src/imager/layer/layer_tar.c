#include "imager/layer/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "imager/layer/layer_tar_parts.h"

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

/* ---- entries ---- */

static bool is_raw(const struct writer *w) {
    return w->options->tops != NULL;
}

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

/* What a sandbox has on its disk is within its own limits. */
static int put_entry(struct writer *w, const struct tar_entry *entry, struct cay_error *err) {
    bool limited = !is_raw(w);
    if (++w->result->entries > ENTRIES_MAX && limited)
        return error_set(err, CAY_LIMIT_REACHED, "more than %d files", ENTRIES_MAX);
    w->result->bytes += entry->size;
    if (limited && (entry->size > BYTES_MAX || w->result->bytes > BYTES_MAX))
        return error_set(err, CAY_LIMIT_REACHED, "the files have more than %llu bytes",
                         (unsigned long long)BYTES_MAX);
    return tar_stream_entry(&w->stream, entry, err);
}

/* Opens what fstatat() showed; -EAGAIN if it is another thing by now. */
static int open_same(const struct writer *w, const struct place *p, int flags) {
    if (is_raw(w))
        flags |= O_NOATIME;
    _cleanup_(closep) int fd = openat(p->dir, p->name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_ino != p->st.st_ino || st.st_dev != p->st.st_dev ||
        (st.st_mode & S_IFMT) != (p->st.st_mode & S_IFMT))
        return -EAGAIN;
    return TAKE_FD(fd);
}

/* What is said of it in PAX records. fd is -1 for what cannot be opened. */
static int put_records(const struct writer *w, const struct place *p, int fd, bool hands_on,
                       struct buf *out, struct cay_error *err) {
    enum attr_choice choice = !is_raw(w) ? ATTR_OF_LAYER
                              : hands_on ? ATTR_RAW
                                         : ATTR_RAW_WITHOUT_DEFAULT;
    if (is_raw(w))
        attr_put_times(&p->st, out);
    int r = fd < 0 ? 0 : attr_put_all(fd, choice, out);
    return r < 0 ? error_sys(err, -r, "reading its attributes") : 0;
}

/* The header has promised a size. */
static int check_size(int fd, uint64_t size, struct cay_error *err) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_errno(err, "looking at it");
    if ((uint64_t)st.st_size != size)
        return error_set(err, CAY_CONFLICT, "it changed while it was read");
    return 0;
}

/* entry has all but its size. */
static int put_sparse(struct writer *w, int fd, const struct sparse *parts, uint64_t size,
                      struct tar_entry *entry, struct buf *pax, struct cay_error *err) {
    _cleanup_(buf_free) struct buf map = BUF_INIT(0);
    int r = sparse_put_records(parts, size, pax, &map, &entry->size);
    if (r < 0)
        return error_sys(err, -r, "listing its parts");
    r = put_entry(w, entry, err);
    return r < 0 ? r : sparse_put_content(parts, fd, &map, &w->stream, err);
}

static int put_content(struct writer *w, int fd, const struct place *p, struct tar_entry *entry,
                       struct buf *pax, struct cay_error *err) {
    uint64_t size = (uint64_t)p->st.st_size;
    _cleanup_(sparse_free) struct sparse parts = {0};
    int r = is_raw(w) ? sparse_find(fd, &p->st, &parts) : 0;
    if (r < 0)
        return error_sys(err, -r, "looking for its holes");
    if (is_raw(w) && sparse_has_holes(&parts, size)) {
        r = put_sparse(w, fd, &parts, size, entry, pax, err);
    } else {
        entry->size = size;
        r = put_entry(w, entry, err);
        if (r == 0 && is_raw(w) && lseek(fd, 0, SEEK_SET) < 0)
            r = error_errno(err, "reading");
        if (r == 0)
            r = tar_stream_copy(&w->stream, fd, size, err);
    }
    return r < 0 ? r : check_size(fd, size, err);
}

static int put_file(struct writer *w, const struct place *p, struct tar_entry *entry,
                    struct cay_error *err) {
    _cleanup_(buf_free) struct buf pax = BUF_INIT(XATTRS_MAX);
    _cleanup_(closep) int fd = open_same(w, p, O_RDONLY);
    if (fd < 0)
        return error_sys(err, -fd, "opening");
    int r = put_records(w, p, fd, false, &pax, err);
    if (r < 0)
        return r;
    entry->type = TAR_FILE;
    entry->xattrs = &pax;
    r = put_content(w, fd, p, entry, &pax, err);
    entry->xattrs = NULL; /* they end here */
    return r;
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
    _cleanup_(buf_free) struct buf pax = BUF_INIT(XATTRS_MAX);
    entry->type = TAR_SYMLINK;
    entry->link = target;
    entry->xattrs = &pax;
    int r = put_records(w, p, -1, false, &pax, err);
    if (r == 0)
        r = put_entry(w, entry, err);
    entry->link = NULL; /* it ends here */
    entry->xattrs = NULL;
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

/* The entry of the folder fd. hands_on: with what new files in it would inherit. */
static int put_folder_entry(struct writer *w, const struct place *p, int fd, bool hands_on,
                            struct cay_error *err) {
    struct tar_entry entry = describe(w, p);
    _cleanup_(buf_free) struct buf pax = BUF_INIT(XATTRS_MAX);
    int r = put_records(w, p, fd, hands_on, &pax, err);
    if (r < 0)
        return r;
    w->path[w->len] = '/'; /* there is room: see push() */
    w->path[w->len + 1] = '\0';
    entry.type = TAR_FOLDER;
    entry.xattrs = &pax;
    r = put_entry(w, &entry, err);
    w->path[w->len] = '\0';
    return r;
}

/* A folder on the way: to be entered, and told of once more afterwards if it hands on something,
 * which what is made in it meanwhile must not get. */
struct entered {
    int fd;
    bool again;
};

static int put_folder(struct writer *w, const struct place *p, struct entered *ret,
                      struct cay_error *err) {
    _cleanup_(closep) int fd = open_same(w, p, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return error_sys(err, -fd, "opening");
    int r = put_folder_entry(w, p, fd, false, err);
    if (r == 0 && w->options->upper && is_opaque(fd))
        r = put_opaque(w, err);
    ret->again = r == 0 && is_raw(w) && attr_has_default(fd);
    if (r == 0)
        ret->fd = TAKE_FD(fd);
    return r;
}

static int put_folder_again(struct writer *w, int dir, const char *name, struct cay_error *err) {
    struct place p = {.dir = dir, .name = name};
    if (fstatat(dir, name, &p.st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, "looking at it");
    _cleanup_(closep) int fd = open_same(w, &p, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? error_sys(err, -fd, "opening") : put_folder_entry(w, &p, fd, true, err);
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

static enum tar_type special_type(mode_t mode) {
    return S_ISCHR(mode) ? TAR_CHAR_DEVICE : S_ISBLK(mode) ? TAR_BLOCK_DEVICE : TAR_FIFO;
}

/* A socket comes as a fifo with a mark. */
static int put_special(struct writer *w, const struct place *p, struct tar_entry *entry,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf pax = BUF_INIT(XATTRS_MAX);
    _cleanup_(closep) int fd =
        is_raw(w) && S_ISFIFO(p->st.st_mode) ? open_same(w, p, O_RDONLY) : -1;
    int r = put_records(w, p, fd, false, &pax, err);
    if (r == 0 && S_ISSOCK(p->st.st_mode) && attr_put(TAR_SOCKET_MARK, "y", 1, &pax) < 0)
        r = error_sys(err, ENOMEM, "writing it");
    if (r < 0)
        return r;
    entry->type = special_type(p->st.st_mode);
    if (entry->type != TAR_FIFO) {
        entry->major = major(p->st.st_rdev);
        entry->minor = minor(p->st.st_rdev);
    }
    entry->xattrs = &pax;
    r = put_entry(w, entry, err);
    entry->xattrs = NULL; /* they end here */
    return r;
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

static int put_any(struct writer *w, const struct place *p, struct entered *ret,
                   struct cay_error *err) {
    if (S_ISSOCK(p->st.st_mode) && !is_raw(w))
        return 0;
    if (!w->options->merged && !is_raw(w)) {
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

/* ret->fd is a folder that is to be entered, or stays. */
static int visit(struct writer *w, int dir, const char *name, struct entered *ret,
                 struct cay_error *err) {
    struct place p = {.dir = dir, .name = name};
    if (fstatat(dir, name, &p.st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_sys(w, errno, "looking at it", err);
    int r = put_any(w, &p, ret, err);
    return r < 0 ? fail(w, err) : 0;
}

static int write_folder(struct writer *w, int fd, struct cay_error *err);

static int write_entry(struct writer *w, int dir, const char *name, struct cay_error *err) {
    size_t before = w->len;
    struct entered entered = {.fd = -1};
    int r = push(w, name);
    r = r < 0 ? fail_sys(w, -r, "its path", err) : visit(w, dir, name, &entered, err);
    if (entered.fd >= 0)
        r = write_folder(w, entered.fd, err);
    if (r == 0 && entered.again && put_folder_again(w, dir, name, err) < 0)
        r = fail(w, err);
    w->len = before;
    w->path[before] = '\0';
    return r;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_names(DIR *d, struct strv *names) {
    const char *name;
    int r;
    while ((r = path_next(d, &name)) > 0)
        if (names->len >= ENTRIES_MAX || strv_push(names, name) < 0)
            return -ENOMEM;
    return r;
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
    if (w->depth == DEPTH_MAX) {
        error_set(err, CAY_CONFLICT, "folders are nested more than %d deep", DEPTH_MAX);
        return error_remedy(err,
                            "remove or move those that this prints inside: find / -xdev "
                            "-mindepth %d -type d -prune",
                            DEPTH_MAX);
    }
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

static int write_tops(struct writer *w, int dir, struct cay_error *err) {
    int r = 0;
    for (const char *const *top = w->options->tops; r == 0 && *top != NULL; top++)
        r = write_entry(w, dir, *top, err);
    return r;
}

static int write_all(struct writer *w, int fs, struct cay_error *err) {
    if (is_raw(w))
        return write_tops(w, fs, err);
    int fd = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening the layer") : write_folder(w, fd, err);
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
    r = write_all(w, fs, err);
    if (r == 0)
        r = tar_stream_end(&w->stream, ret->diff_id, err);
    ret->tar_size = w->stream.size;
    return r;
}
