/* The upper folder of an overlay in the form of the store: without the overlay's attributes, and
 * with whiteouts in place of opaque folders. The tree may be a sandbox's: it is walked by names
 * below its top, never through a symlink, with bounded memory and few descriptors. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "imager/layer/layer.h"

enum { PENDING_MAX = 256 * 1024 * 1024, ATTRIBUTES_SIZE = 64 * 1024 };

/* Folders still to be visited, last in first out: one byte that says whether nothing of the layers
 * below shows in it, the path, NUL. */
struct pending {
    char *text;
    size_t len, size;
};

struct tidy {
    int upper;
    const int *lowers; /* topmost first */
    size_t count;
    struct pending pending;
    char path[PATH_MAX]; /* of the folder that is visited; "" for the top */
    struct cay_error *err;
};

static int fail(struct tidy *t, int sys, const char *name) {
    char shown[200], path[PATH_MAX];
    (void)path_join(path, sizeof path, t->path, name);
    return error_sys(t->err, sys, "tidying a layer: '%s'", str_escape(shown, sizeof shown, path));
}

/* ---- folders to visit ---- */

static int push(struct tidy *t, const char *name, bool cut_off) {
    struct pending *p = &t->pending;
    size_t above = strlen(t->path), len = strlen(name), need = above + len + 3;
    if (above + len + 2 > PATH_MAX || p->len + need > PENDING_MAX) {
        fail(t, ENAMETOOLONG, name);
        return error_remedy(t->err, "make the folders of the layer less deep, or fewer");
    }
    if (p->len + need > p->size) {
        size_t size = MAX(2 * p->size, (size_t)64 * 1024);
        char *text = realloc(p->text, size);
        if (text == NULL)
            return fail(t, ENOMEM, name);
        p->text = text;
        p->size = size;
    }
    char *at = p->text + p->len;
    *at++ = cut_off ? 'x' : '-';
    memcpy(at, t->path, above);
    at += above;
    if (above > 0)
        *at++ = '/';
    memcpy(at, name, len + 1);
    p->len = (size_t)(at + len + 1 - p->text);
    return 0;
}

/* Takes the last one into t->path; false if there is none. */
static bool pop(struct tidy *t, bool *cut_off) {
    struct pending *p = &t->pending;
    if (p->len == 0)
        return false;
    size_t at = p->len - 1;
    while (at > 0 && p->text[at - 1] != '\0')
        at--;
    *cut_off = p->text[at] == 'x';
    memcpy(t->path, p->text + at + 1, p->len - at - 1);
    p->len = at;
    return true;
}

/* ---- attributes ---- */

/* The overlay's name for an attribute, behind either prefix; NULL if it is none of its. */
static const char *overlay_name(const char *attribute) {
    static const char *const prefixes[] = {"user.overlay.", "trusted.overlay."};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (str_starts(attribute, prefixes[i]))
            return attribute + strlen(prefixes[i]);
    return NULL;
}

static bool is_opaque(int fd, const char *attribute) {
    char value;
    return fgetxattr(fd, attribute, &value, 1) == 1 && (value == 'y' || value == 'x');
}

/* A file or folder whose content is elsewhere would be lost. Only an overlay with options that we
 * do not use makes such. */
static int refuse_redirect(struct tidy *t, const char *name) {
    fail(t, EOPNOTSUPP, name);
    return error_remedy(t->err, "its content is in another layer (redirect_dir or metacopy); copy "
                                "it in the sandbox and try again");
}

/* Removes what the overlay noted. 1 if it noted that the folder is opaque. */
static int clear_attributes(struct tidy *t, int fd, const char *name) {
    char names[ATTRIBUTES_SIZE];
    int opaque = 0;
    ssize_t n = flistxattr(fd, names, sizeof names);
    if (n < 0)
        return errno == ENOTSUP ? 0 : fail(t, errno, name);
    for (const char *p = names; p < names + n; p += strlen(p) + 1) {
        const char *note = overlay_name(p);
        if (note == NULL)
            continue;
        if (str_equal(note, "redirect") || str_equal(note, "metacopy"))
            return refuse_redirect(t, name);
        if (str_equal(note, "opaque") && is_opaque(fd, p))
            opaque = 1;
        if (fremovexattr(fd, p) < 0 && errno != ENODATA)
            return fail(t, errno, name);
    }
    return opaque;
}

/* ---- what lies below ---- */

static bool is_whiteout(const struct stat *st) {
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* The folders of t->path in the layers below that show through each other, topmost first. A layer
 * that has something else there, or a whiteout, hides those below it. */
static size_t open_lowers(struct tidy *t, int *fds) {
    size_t count = 0;
    const char *path = t->path[0] != '\0' ? t->path : ".";
    for (size_t i = 0; i < t->count; i++) {
        int fd = path_open_no_symlinks(t->lowers[i], path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        if (fd >= 0)
            fds[count++] = fd;
        else if (fd != -ENOENT)
            break;
    }
    return count;
}

/* True if a name shows in the folders: the topmost that has it decides. */
static bool shows(const int *fds, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        struct stat st;
        if (fstatat(fds[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return !is_whiteout(&st);
    }
    return false;
}

/* ---- walking ---- */

/* Called for each name of a folder; negative ends it. */
typedef int (*visit)(struct tidy *t, int fd, const char *name, unsigned char type, void *user);

static int each_name(struct tidy *t, int fd, visit call, void *user) {
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d == NULL) {
        int saved = errno;
        if (copy >= 0)
            (void)close(copy);
        return fail(t, saved, "");
    }
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL)
            return errno != 0 ? fail(t, errno, "") : 0;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int r = call(t, fd, e->d_name, e->d_type, user);
        if (r < 0)
            return r;
    }
}

struct lower_folders {
    int upper;
    const int *fds;
    size_t count;
};

/* What the upper has itself needs no whiteout. */
static int hide(struct tidy *t, int fd, const char *name, unsigned char type, void *user) {
    const struct lower_folders *l = user;
    (void)fd;
    (void)type;
    if (!shows(l->fds, l->count, name))
        return 0;
    if (mknodat(l->upper, name, S_IFCHR, makedev(0, 0)) < 0 && errno != EEXIST)
        return fail(t, errno, name);
    return 0;
}

/* Hides all that lower layers have in the folder. *ret_any: there are such folders. */
static int hide_lowers(struct tidy *t, int upper, bool *ret_any) {
    int fds[RECORD_LAYERS_MAX];
    struct lower_folders l = {.upper = upper, .fds = fds, .count = open_lowers(t, fds)};
    int r = 0;
    for (size_t i = 0; r == 0 && i < l.count; i++)
        r = each_name(t, fds[i], hide, &l);
    *ret_any = l.count > 0;
    for (size_t i = 0; i < l.count; i++)
        (void)close(fds[i]);
    return r;
}

static unsigned char type_of(int fd, const char *name, unsigned char type) {
    struct stat st;
    if (type != DT_UNKNOWN || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return type;
    return (unsigned char)IFTODT(st.st_mode);
}

/* Only files and folders can have attributes that an overlay of ours makes. */
static int visit_name(struct tidy *t, int fd, const char *name, unsigned char type, void *user) {
    const bool *cut_off = user;
    type = type_of(fd, name, type);
    if (type == DT_DIR)
        return push(t, name, *cut_off);
    if (type != DT_REG)
        return 0;
    _cleanup_(closep) int file =
        openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return fail(t, errno, name);
    int r = clear_attributes(t, file, name);
    return r < 0 ? r : 0;
}

/* The times of a folder are part of the layer. */
static int restore_times(struct tidy *t, int fd, const struct stat *st) {
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return futimens(fd, times) < 0 ? fail(t, errno, "") : 0;
}

/* Below an opaque folder all folders are opaque without being marked: nothing shows there. */
static int visit_folder(struct tidy *t, bool cut_off) {
    struct stat st;
    _cleanup_(closep) int fd = path_open_no_symlinks(t->upper, t->path[0] != '\0' ? t->path : ".",
                                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return fail(t, -fd, "");
    if (fstat(fd, &st) < 0)
        return fail(t, errno, "");
    int opaque = clear_attributes(t, fd, "");
    if (opaque < 0)
        return opaque;
    cut_off = cut_off || opaque == 1;
    bool changed = false;
    int r = cut_off ? hide_lowers(t, fd, &changed) : 0;
    cut_off = changed;
    if (r == 0)
        r = each_name(t, fd, visit_name, &cut_off);
    return r == 0 && changed ? restore_times(t, fd, &st) : r;
}

static int walk(struct tidy *t) {
    bool cut_off = false;
    int r = visit_folder(t, false);
    while (r == 0 && pop(t, &cut_off))
        r = visit_folder(t, cut_off);
    return r;
}

int layer_tidy(const struct image_store *store, int upper, const struct record_layer *below,
               size_t count, struct cay_error *err) {
    int lowers[RECORD_LAYERS_MAX];
    struct tidy t = {.upper = upper, .lowers = lowers, .err = err};
    int r = count > RECORD_LAYERS_MAX ? error_set(err, CAY_INVALID_ARGUMENT, "too many layers") : 0;
    while (r == 0 && t.count < count) {
        const char *chain = below[count - 1 - t.count].chain;
        int fd = image_store_open_layer(store, chain, NULL);
        if (fd < 0)
            r = error_sys(err, -fd, "opening layer %.12s", chain);
        else
            lowers[t.count++] = fd;
    }
    if (r == 0)
        r = walk(&t);
    for (size_t i = 0; i < t.count; i++)
        (void)close(lowers[i]);
    free(t.pending.text);
    return r;
}
