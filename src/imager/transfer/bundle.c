#include "imager/transfer/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"

enum { LINKS_MAX = 8 };

void extent_close(struct extent *e) {
    fd_close(&e->fd);
}

/* ---- opening ---- */

static int compare_members(const void *a, const void *b) {
    const struct bundle_member *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* "./index.json" and "index.json" are one. */
static void strip_dots(char *name) {
    size_t skip = 0;
    while (name[skip] == '.' && name[skip + 1] == '/')
        skip += 2 + strspn(name + skip + 2, "/");
    memmove(name, name + skip, strlen(name + skip) + 1);
}

static int open_tar(const struct image_store *store, int input, struct bundle *b,
                    struct cay_error *err) {
    b->fd = bundle_plain(store, input, false, err);
    if (b->fd < 0)
        return b->fd;
    int r = bundle_list(store, b, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < b->count; i++)
        strip_dots(b->members[i].name);
    if (b->count > 0)
        qsort(b->members, b->count, sizeof *b->members, compare_members);
    return 0;
}

int bundle_open(const struct image_store *store, int input, struct bundle *ret,
                struct cay_error *err) {
    struct stat st;
    *ret = BUNDLE_NONE;
    if (fstat(input, &st) < 0)
        return error_errno(err, "looking at the input");
    if (!S_ISDIR(st.st_mode)) {
        int r = open_tar(store, input, ret, err);
        if (r < 0)
            bundle_close(ret);
        return r;
    }
    ret->is_folder = true;
    ret->fd = openat(input, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret->fd >= 0)
        return 0;
    error_errno(err, "opening the folder");
    return error_remedy(err, "let others read it, or use tar: tar -C FOLDER -c . | cay image load");
}

void bundle_close(struct bundle *b) {
    for (size_t i = 0; i < b->count; i++) {
        free(b->members[i].name);
        free(b->members[i].link);
    }
    free(b->members);
    fd_close(&b->fd);
    *b = BUNDLE_NONE;
}

/* ---- finding ---- */

static const struct bundle_member *find_member(const struct bundle *b, const char *name) {
    size_t low = 0, high = b->count; /* the first that is greater */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(b->members[middle].name, name) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && strcmp(b->members[low - 1].name, name) == 0 ? &b->members[low - 1] : NULL;
}

/* Where a link leads; `from` is the folder that it is relative to, with a slash at the end or "".
 * 0, or -EXDEV if that is outside. */
static int follow(const char *from, size_t from_len, const char *target,
                  char out[static PATH_MAX]) {
    size_t len = from_len;
    if (target[0] == '/' || from_len >= PATH_MAX)
        return -EXDEV;
    memcpy(out, from, from_len);
    while (*target != '\0') {
        size_t n = strcspn(target, "/");
        if (n == 2 && memcmp(target, "..", 2) == 0) {
            if (len == 0)
                return -EXDEV;
            for (len--; len > 0 && out[len - 1] != '/';)
                len--;
        } else if (n > 0 && !(n == 1 && target[0] == '.')) {
            if (len + n + 2 > PATH_MAX)
                return -ENAMETOOLONG;
            memcpy(out + len, target, n);
            len += n;
            if (target[n] == '/')
                out[len++] = '/';
        }
        target += n + (target[n] == '/');
    }
    out[len] = '\0';
    return 0;
}

static int next_name(const struct bundle_member *m, char out[static PATH_MAX]) {
    const char *slash = m->kind == BUNDLE_SYMLINK ? strrchr(m->name, '/') : NULL;
    return follow(m->name, slash != NULL ? (size_t)(slash - m->name) + 1 : 0, m->link, out);
}

static int not_found(const char *name, struct cay_error *err) {
    char shown[160];
    error_set(err, CAY_NOT_FOUND, "the archive has no '%s'", str_escape(shown, sizeof shown, name));
    return error_remedy(err, "it is incomplete; save the image again");
}

static int find_in_tar(const struct bundle *b, const char *name, struct extent *ret,
                       struct cay_error *err) {
    char path[PATH_MAX], shown[160];
    int r = follow("", 0, name, path);
    for (int links = 0; r == 0 && links <= LINKS_MAX; links++) {
        const struct bundle_member *m = find_member(b, path);
        if (m == NULL)
            return not_found(name, err);
        if (m->kind == BUNDLE_FILE) {
            *ret = (struct extent){fcntl(b->fd, F_DUPFD_CLOEXEC, 3), m->offset, m->size};
            return ret->fd < 0 ? error_errno(err, "opening the archive") : 0;
        }
        r = m->kind == BUNDLE_OTHER ? -EINVAL : next_name(m, path);
    }
    return error_set(err, CAY_INVALID_ARGUMENT, "the archive's '%s' %s",
                     str_escape(shown, sizeof shown, name),
                     r == 0         ? "is a symlink in a circle"
                     : r == -EINVAL ? "is no regular file"
                                    : "leads out of it");
}

static int find_in_folder(const struct bundle *b, const char *name, struct extent *ret,
                          struct cay_error *err) {
    char shown[160];
    struct stat st;
    _cleanup_(closep) int fd = path_open_beneath(b->fd, name, O_RDONLY | O_NONBLOCK, 0);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return not_found(name, err);
    if (fd == -EXDEV || fd == -ELOOP)
        return error_set(err, CAY_INVALID_ARGUMENT, "the folder's '%s' leads out of it",
                         str_escape(shown, sizeof shown, name));
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_sys(err, fd < 0 ? -fd : errno, "opening '%s' of the folder",
                         str_escape(shown, sizeof shown, name));
    if (!S_ISREG(st.st_mode))
        return error_set(err, CAY_INVALID_ARGUMENT, "the folder's '%s' is no regular file",
                         str_escape(shown, sizeof shown, name));
    *ret = (struct extent){TAKE_FD(fd), 0, (uint64_t)st.st_size};
    return 0;
}

int bundle_find(const struct bundle *b, const char *name, struct extent *ret,
                struct cay_error *err) {
    return b->is_folder ? find_in_folder(b, name, ret, err) : find_in_tar(b, name, ret, err);
}

bool bundle_has(const struct bundle *b, const char *name) {
    _cleanup_(extent_close) struct extent e = EXTENT_NONE;
    return bundle_find(b, name, &e, NULL) == 0;
}

int bundle_read(const struct bundle *b, const char *name, struct buf *out, struct cay_error *err) {
    _cleanup_(extent_close) struct extent e = EXTENT_NONE;
    char shown[160];
    (void)str_escape(shown, sizeof shown, name);
    int r = bundle_find(b, name, &e, err);
    if (r < 0)
        return r;
    if (e.size > out->max)
        return error_set(err, CAY_INVALID_ARGUMENT, "the archive's '%s' has more than %zu bytes",
                         shown, out->max);
    char *data = buf_reserve(out, (size_t)e.size);
    if (data == NULL)
        return error_sys(err, ENOMEM, "reading '%s'", shown);
    for (size_t done = 0; done < e.size;) {
        ssize_t n = pread(e.fd, data + done, (size_t)e.size - done, (off_t)(e.offset + done));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return error_sys(err, n == 0 ? ENODATA : errno, "reading '%s'", shown);
        done += n > 0 ? (size_t)n : 0;
    }
    buf_commit(out, (size_t)e.size);
    return 0;
}
