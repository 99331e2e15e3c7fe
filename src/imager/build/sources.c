#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "imager/build/files.h"
#include "imager/build/glob.h"

enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static const char *where(const struct file_tree *tree) {
    return tree->is_image ? "image" : "context";
}

static int open_below(const struct file_tree *tree, const char *path, int flags) {
    return tree->is_image ? path_open_in_root(tree->root, path, flags, 0)
                          : path_open_beneath(tree->root, path, flags, 0);
}

static int fail(const struct file_tree *tree, const char *path, int sys, struct cay_error *err) {
    char shown[200];
    (void)str_escape(shown, sizeof shown, path);
    if (sys == EXDEV) {
        (void)error_set(err, CAY_INVALID_ARGUMENT, "'%s' leads out of the context", shown);
        return error_remedy(err,
                            "only files in the context can be copied; symlinks must stay in it");
    }
    if (sys != ENOENT)
        return error_sys(err, sys, "'%s' in the %s", shown, where(tree));
    (void)error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not in the %s", shown, where(tree));
    return error_remedy(err,
                        tree->ignore != NULL
                            ? "check the path, and what .dockerignore leaves out"
                            : "check the path: it is relative to the root of the %s",
                        where(tree));
}

static bool is_ignored(const struct file_tree *tree, const char *path) {
    return tree->ignore != NULL && strcmp(path, ".") != 0 &&
           dockerignore_matches(tree->ignore, path);
}

/* ---- patterns ---- */

struct names {
    char **v;
    size_t len, room;
};

static void names_free(struct names *n) {
    for (size_t i = 0; i < n->len; i++)
        free(n->v[i]);
    free(n->v);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_push(void *user, int folder, const char *name) {
    (void)folder;
    struct names *n = user;
    if (n->len == n->room) {
        size_t room = n->room == 0 ? 64 : 2 * n->room;
        char **v = realloc(n->v, room * sizeof *v);
        if (v == NULL)
            return -ENOMEM;
        n->v = v;
        n->room = room;
    }
    n->v[n->len] = strdup(name);
    return n->v[n->len] == NULL ? -ENOMEM : (n->len++, 0);
}

/* The sorted names in a folder, so that the same files always give the same digest. */
static int list_folder(int folder, struct names *ret) {
    int r = path_each(folder, names_push, ret);
    if (r == 0 && ret->len > 1)
        qsort(ret->v, ret->len, sizeof *ret->v, compare_names);
    return r;
}

struct search {
    const struct file_tree *tree;
    struct strv *ret;
    struct cay_error *err;
};

static int search_from(struct search *s, const char *done, const char *rest, unsigned depth);

/* One name more: "done/name", then what is left of the pattern. */
static int search_name(struct search *s, const char *done, const char *name, const char *rest,
                       unsigned depth) {
    char path[PATH_MAX];
    if (str_format(path, sizeof path, "%s%s%s", done, done[0] != '\0' ? "/" : "", name) < 0)
        return fail(s->tree, done, ENAMETOOLONG, s->err);
    return search_from(s, path, rest, depth + 1);
}

static int search_pattern(struct search *s, const char *done, const char *part, const char *rest,
                          unsigned depth) {
    _cleanup_(glob_freep) struct glob *g = NULL;
    _cleanup_(names_free) struct names names = {0};
    int r = glob_compile(part, GLOB_NAMES, &g);
    if (r == -EINVAL) {
        char shown[120];
        (void)error_set(s->err, CAY_INVALID_ARGUMENT, "'%s' is no pattern",
                        str_escape(shown, sizeof shown, part));
        return error_remedy(s->err, "close every [ with ], or put a \\ before it");
    }
    _cleanup_(closep) int fd =
        r < 0 ? r : open_below(s->tree, done[0] != '\0' ? done : ".", OPEN_FLAGS | O_DIRECTORY);
    if (fd == -ENOTDIR || fd == -ENOENT)
        return 0;
    r = fd < 0 ? fd : list_folder(fd, &names);
    if (r < 0)
        return fail(s->tree, done, -r, s->err);
    for (size_t i = 0; r == 0 && i < names.len; i++)
        if (glob_matches(g, names.v[i], strlen(names.v[i])))
            r = search_name(s, done, names.v[i], rest, depth);
    return r;
}

static int found(struct search *s, const char *path) {
    const char *at = path[0] != '\0' ? path : ".";
    _cleanup_(closep) int fd = open_below(s->tree, at, O_PATH | O_CLOEXEC);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail(s->tree, at, fd < 0 ? -fd : errno, s->err);
    bool may_hold = S_ISDIR(st.st_mode) && dockerignore_has_exceptions(s->tree->ignore);
    if (is_ignored(s->tree, at) && !may_hold)
        return 0;
    if (s->ret->len >= FILES_SOURCES_MAX)
        return error_set(s->err, CAY_INVALID_ARGUMENT, "a pattern means more than %d files",
                         FILES_SOURCES_MAX);
    return strv_push(s->ret, at) < 0 ? error_sys(s->err, ENOMEM, "looking for files") : 0;
}

static int search_from(struct search *s, const char *done, const char *rest, unsigned depth) {
    char part[NAME_MAX + 1];
    while (*rest == '/' || (rest[0] == '.' && (rest[1] == '/' || rest[1] == '\0')))
        rest++;
    size_t len = strcspn(rest, "/");
    if (len == 0)
        return found(s, done);
    if (len >= sizeof part || depth > FILES_DEPTH_MAX)
        return fail(s->tree, rest, ENAMETOOLONG, s->err);
    memcpy(part, rest, len);
    part[len] = '\0';
    if (strcmp(part, "..") == 0)
        return fail(s->tree, rest, EXDEV, s->err);
    return glob_is_pattern(part) ? search_pattern(s, done, part, rest + len, depth)
                                 : search_name(s, done, part, rest + len, depth);
}

int files_find(const struct file_tree *tree, const char *source, struct strv *ret,
               struct cay_error *err) {
    struct search s = {.tree = tree, .ret = ret, .err = err};
    size_t before = ret->len;
    int r = search_from(&s, "", source, 0);
    if (r == 0 && ret->len == before)
        return fail(tree, source, ENOENT, err);
    return r;
}

int files_open(const struct file_tree *tree, const char *path, struct stat *ret_st,
               struct cay_error *err) {
    /* by O_PATH first: opening a device does things */
    _cleanup_(closep) int at = open_below(tree, path, O_PATH | O_CLOEXEC);
    if (at < 0)
        return fail(tree, path, -at, err);
    if (fstat(at, ret_st) < 0)
        return fail(tree, path, errno, err);
    if (!S_ISREG(ret_st->st_mode) && !S_ISDIR(ret_st->st_mode)) {
        char shown[200];
        return error_set(err, CAY_INVALID_ARGUMENT, "'%s' in the %s is no file and no folder",
                         str_escape(shown, sizeof shown, path), where(tree));
    }
    _cleanup_(closep) int fd = open_below(tree, path, OPEN_FLAGS);
    if (fd < 0)
        return fail(tree, path, -fd, err);
    return fstat(fd, ret_st) < 0 ? fail(tree, path, errno, err) : TAKE_FD(fd);
}

/* ---- walking ---- */

/* A folder on the way down. One that is ignored is visited only once something in it is not. */
struct frame {
    struct frame *parent;
    struct file_entry entry;
    bool visited;
};

struct walk {
    const struct file_tree *tree;
    const struct file_visitor *visitor;
    const char *base; /* how the tree names the source; "" for its root */
    struct cay_error *err;
};

static int visit_folder(struct walk *w, struct frame *f) {
    if (f == NULL || f->visited)
        return 0;
    int r = visit_folder(w, f->parent);
    if (r < 0)
        return r;
    f->visited = true;
    return w->visitor->visit(w->visitor->user, &f->entry, w->err);
}

static int walk_names(struct walk *w, struct frame *parent, int folder, const char *path,
                      unsigned depth);

static int walk_folder(struct walk *w, struct frame *parent, const struct file_entry *e,
                       bool ignored, unsigned depth) {
    struct frame f = {.parent = parent, .entry = *e};
    int r = ignored ? 0 : visit_folder(w, &f);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd =
        openat(e->dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail(w->tree, e->path, errno, w->err);
    r = walk_names(w, &f, fd, e->path, depth + 1);
    if (r == 0 && f.visited && w->visitor->leave != NULL)
        r = w->visitor->leave(w->visitor->user, e, w->err);
    return r;
}

static int walk_entry(struct walk *w, struct frame *parent, int folder, const char *name,
                      const char *path, unsigned depth) {
    char full[PATH_MAX], known[2 * PATH_MAX];
    struct stat st;
    if (str_format(full, sizeof full, "%s%s%s", path, path[0] != '\0' ? "/" : "", name) < 0)
        return fail(w->tree, path, ENAMETOOLONG, w->err);
    (void)snprintf(known, sizeof known, "%s%s%s", w->base, w->base[0] != '\0' ? "/" : "", full);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(w->tree, full, errno, w->err);
    bool ignored = is_ignored(w->tree, known);
    if (ignored && !(S_ISDIR(st.st_mode) && dockerignore_has_exceptions(w->tree->ignore)))
        return 0;
    struct file_entry e = {.dir = folder, .name = name, .path = full, .st = &st};
    if (S_ISDIR(st.st_mode))
        return walk_folder(w, parent, &e, ignored, depth);
    int r = visit_folder(w, parent);
    return r < 0 ? r : w->visitor->visit(w->visitor->user, &e, w->err);
}

static int walk_names(struct walk *w, struct frame *parent, int folder, const char *path,
                      unsigned depth) {
    _cleanup_(names_free) struct names names = {0};
    if (depth > FILES_DEPTH_MAX) {
        (void)error_set(w->err, CAY_INVALID_ARGUMENT, "folders are nested more than %d deep",
                        FILES_DEPTH_MAX);
        return error_remedy(w->err, "copy a part of them, or pack them into a tar and ADD it");
    }
    int r = list_folder(folder, &names);
    if (r < 0)
        return fail(w->tree, path, -r, w->err);
    for (size_t i = 0; r == 0 && i < names.len; i++)
        r = walk_entry(w, parent, folder, names.v[i], path, depth);
    return r;
}

int files_walk(const struct file_tree *tree, int folder, const char *path,
               const struct file_visitor *visitor, struct cay_error *err) {
    struct walk w = {
        .tree = tree,
        .visitor = visitor,
        .base = strcmp(path, ".") == 0 ? "" : path,
        .err = err,
    };
    return walk_names(&w, NULL, folder, "", 0);
}

/* ---- digests ---- */

struct digesting {
    struct digest *digest;
    bool with_owner;
    int64_t *newest;
};

static int digest_content(struct digest *d, int fd) {
    char block[64 * 1024];
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        digest_update(d, block, (size_t)n);
    }
}

/* Everything but the content. A length before each text keeps one field apart from the next. */
static void digest_head(struct digesting *g, const char *path, const struct stat *st) {
    char head[160];
    bool link = S_ISLNK(st->st_mode), folder = S_ISDIR(st->st_mode);
    int n = snprintf(head, sizeof head, "%zu:%o:%u:%u:%" PRIu64 ":", strlen(path),
                     link ? st->st_mode & S_IFMT : st->st_mode, g->with_owner ? st->st_uid : 0,
                     g->with_owner ? st->st_gid : 0, folder ? 0 : (uint64_t)st->st_size);
    digest_update(g->digest, head, (size_t)n);
    digest_update(g->digest, path, strlen(path));
    if (!folder)
        *g->newest = MAX(*g->newest, (int64_t)st->st_mtim.tv_sec);
}

static int digest_entry(void *user, const struct file_entry *e, struct cay_error *err) {
    struct digesting *g = user;
    char target[PATH_MAX];
    digest_head(g, e->path, e->st);
    if (S_ISLNK(e->st->st_mode)) {
        ssize_t n = readlinkat(e->dir, e->name, target, sizeof target);
        if (n < 0)
            return error_errno(err, "reading the symlink '%.200s'", e->path);
        digest_update(g->digest, target, (size_t)n);
    }
    if (!S_ISREG(e->st->st_mode))
        return 0;
    _cleanup_(closep) int fd = openat(e->dir, e->name, OPEN_FLAGS | O_NOFOLLOW);
    int r = fd < 0 ? -errno : digest_content(g->digest, fd);
    return r < 0 ? error_sys(err, -r, "reading '%.200s'", e->path) : 0;
}

int files_digest(const struct file_tree *tree, const char *path, bool with_owner,
                 struct digest *digest,
                 int64_t *newest, /* NOLINT(readability-non-const-parameter): digest_head writes */
                 struct cay_error *err) {
    struct digesting g = {.digest = digest, .with_owner = with_owner, .newest = newest};
    struct file_visitor visitor = {.visit = digest_entry, .user = &g};
    struct stat st;
    _cleanup_(closep) int fd = files_open(tree, path, &st, err);
    if (fd < 0)
        return fd;
    if (S_ISDIR(st.st_mode)) {
        digest_update(digest, "folder", sizeof "folder");
        return files_walk(tree, fd, path, &visitor, err);
    }
    const char *slash = strrchr(path, '/');
    digest_head(&g, slash != NULL ? slash + 1 : path, &st);
    int r = digest_content(digest, fd);
    return r < 0 ? error_sys(err, -r, "reading '%.200s'", path) : 0;
}
