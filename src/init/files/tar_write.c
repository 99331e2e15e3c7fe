/* Writing an archive to a stream. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "init/files/files.h"
#include "init/files/tar.h"
#include "init/files/walk.h"

enum { OUT_MAX = WIRE_DATA_MAX, HEADERS_MAX = 16 * 1024 };

/* A file with several names, by the first of them. */
struct linked {
    dev_t dev;
    ino_t ino;
    char *path; /* NULL: free slot */
};

struct archive {
    const struct tar_output *to;
    bool content_only; /* names begin below the start */
    uint64_t sent;
    uint64_t members;
    uint64_t skipped;
    struct linked *linked; /* hash table, a power of two in size */
    size_t linked_count, linked_cap;
    struct tar_member member;
    size_t used; /* of data */
    char data[OUT_MAX];
};

static void archive_free(struct archive **archive) {
    struct archive *a = *archive;
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->linked_cap; i++)
        free(a->linked[i].path);
    free(a->linked);
    free(a);
}

/* ---- output ---- */

static int flush(struct archive *a, struct cay_error *err) {
    uint64_t max = a->to->max_bytes;
    if (max != 0 && a->used > max - a->sent) {
        error_set(err, CAY_LIMIT_REACHED, "the archive is larger than %llu bytes",
                  (unsigned long long)max);
        return error_remedy(err, "fetch less at once, or raise the limit");
    }
    int r = a->to->take(a->to->arg, a->data, a->used, err);
    if (r < 0)
        return r;
    a->sent += a->used;
    a->used = 0;
    return 0;
}

/* Appends bytes, zeros if data is NULL. */
static int put(struct archive *a, const char *data, uint64_t len, struct cay_error *err) {
    while (len > 0) {
        if (a->used == OUT_MAX) {
            int r = flush(a, err);
            if (r < 0)
                return r;
        }
        size_t n = (size_t)MIN(len, (uint64_t)(OUT_MAX - a->used));
        if (data == NULL) {
            memset(a->data + a->used, 0, n);
        } else {
            memcpy(a->data + a->used, data, n);
            data += n;
        }
        a->used += n;
        len -= n;
    }
    return 0;
}

static int put_header(struct archive *a, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(HEADERS_MAX);
    tar_encode(&a->member, &b);
    if (b.failed)
        return files_error(err, ENAMETOOLONG, "archiving", a->member.path);
    a->members++;
    return put(a, b.data, b.len, err);
}

/* The content is read into the output buffer. What a file lost meanwhile is sent as zeros and what
 * it gained is not sent: the header has promised a size. */
static int put_content(struct archive *a, int fd, uint64_t size, struct cay_error *err) {
    while (size > 0) {
        int r = a->used == OUT_MAX ? flush(a, err) : 0;
        if (r < 0)
            return r;
        size_t want = (size_t)MIN(size, (uint64_t)(OUT_MAX - a->used));
        ssize_t n = read(fd, a->data + a->used, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return files_error(err, errno, "reading", a->member.path);
        if (n == 0)
            return put(a, NULL, size, err);
        a->used += (size_t)n;
        size -= (uint64_t)n;
    }
    return 0;
}

/* ---- hard links ---- */

static struct linked *find_slot(struct linked *table, size_t cap, dev_t dev, ino_t ino) {
    size_t at = ((size_t)ino * 0x9E3779B97F4A7C15u ^ (size_t)dev) & (cap - 1);
    while (table[at].path != NULL && (table[at].ino != ino || table[at].dev != dev))
        at = (at + 1) & (cap - 1);
    return &table[at];
}

static int grow_linked(struct archive *a) {
    size_t cap = a->linked_cap == 0 ? 64 : a->linked_cap * 2;
    struct linked *table = calloc(cap, sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < a->linked_cap; i++) {
        const struct linked *old = &a->linked[i];
        if (old->path != NULL)
            *find_slot(table, cap, old->dev, old->ino) = *old;
    }
    free(a->linked);
    a->linked = table;
    a->linked_cap = cap;
    return 0;
}

/* Turns the member into a hard link if its file was archived under another name: 0 or -errno. */
static int link_to_earlier(struct archive *a, const struct stat *st) {
    if (a->linked_count * 2 >= a->linked_cap && grow_linked(a) < 0)
        return -ENOMEM;
    struct linked *slot = find_slot(a->linked, a->linked_cap, st->st_dev, st->st_ino);
    if (slot->path != NULL) {
        a->member.type = TAR_HARD_LINK;
        a->member.size = 0;
        return str_copy(a->member.link, sizeof a->member.link, slot->path);
    }
    *slot = (struct linked){st->st_dev, st->st_ino, strdup(a->member.path)};
    a->linked_count++;
    return slot->path == NULL ? -ENOMEM : 0;
}

/* ---- members ---- */

static int put_file(struct archive *a, const struct walk_entry *e, struct cay_error *err) {
    _cleanup_(closep) int fd =
        openat(e->dirfd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return files_error(err, errno, "archiving", e->path);
    if (!S_ISREG(st.st_mode))
        return files_error(err, EAGAIN, "archiving", e->path); /* replaced a moment ago */
    a->member.size = (uint64_t)st.st_size;
    int r = put_header(a, err);
    if (r == 0)
        r = put_content(a, fd, a->member.size, err);
    return r < 0 ? r : put(a, NULL, tar_padding(a->member.size), err);
}

/* The fields that every kind of member has. */
static int describe(struct archive *a, const struct walk_entry *e) {
    struct tar_member *m = &a->member;
    m->mode = e->st->st_mode & 07777;
    m->uid = e->st->st_uid;
    m->gid = e->st->st_gid;
    m->size = 0;
    m->mtime = e->st->st_mtim;
    m->link[0] = '\0';
    const char *slash = S_ISDIR(e->st->st_mode) ? "/" : "";
    return str_format(m->path, sizeof m->path, "%s%s", a->content_only ? e->below : e->path, slash);
}

static int visit(void *arg, const struct walk_entry *e, struct cay_error *err) {
    struct archive *a = arg;
    int r = describe(a, e);
    if (r == 0 && S_ISREG(e->st->st_mode)) {
        a->member.type = TAR_FILE;
        r = e->st->st_nlink > 1 ? link_to_earlier(a, e->st) : 0;
        if (r == 0 && a->member.type == TAR_FILE)
            return put_file(a, e, err);
    } else if (S_ISDIR(e->st->st_mode)) {
        a->member.type = TAR_FOLDER;
    } else if (S_ISLNK(e->st->st_mode)) {
        a->member.type = TAR_SYMLINK;
        files_read_link(e->dirfd, e->name, a->member.link);
    } else {
        a->skipped++;
        return WALK_ON;
    }
    return r < 0 ? files_error(err, -r, "archiving", e->path) : put_header(a, err);
}

/* ---- the archive ---- */

static int put_end(struct archive *a, struct tar_written *ret, struct cay_error *err) {
    int r = put(a, NULL, (uint64_t)2 * TAR_BLOCK, err);
    if (r == 0)
        r = flush(a, err);
    *ret = (struct tar_written){a->members, a->sent, a->skipped};
    return r;
}

int tar_write(const char *path, const char *name, const struct tar_output *to,
              struct tar_written *ret, struct cay_error *err) {
    _cleanup_(archive_free) struct archive *a = calloc(1, sizeof *a);
    if (a == NULL)
        return error_sys(err, ENOMEM, "archiving '%.256s'", path);
    a->to = to;
    a->content_only = name == NULL;
    struct walk_options options = {.below_only = a->content_only};
    int r = walk_tree(path, a->content_only ? path : name, options, visit, a, err);
    return r < 0 ? r : put_end(a, ret, err);
}
