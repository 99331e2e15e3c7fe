#include "init/session/changes.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/files/files.h"
#include "init/files/walk.h"

enum { LOOK_MAX = 20000, TELL_MAX = 1000 };

/* One file of the look before. Its name is kept as a hash: two names that share one hide at most a
 * change of the second. */
struct seen {
    uint64_t name;
    uint64_t inode;
    int64_t size;
    struct timespec changed; /* ctime: nobody inside can set it back */
};

void changes_free(struct changes *c) {
    free(c->list);
    c->list = NULL;
    c->count = c->room = 0;
}

static uint64_t hash(const char *text) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

static struct seen look_at(const struct walk_entry *e) {
    return (struct seen){.name = hash(e->below),
                         .inode = e->st->st_ino,
                         .size = e->st->st_size,
                         .changed = e->st->st_ctim};
}

static int by_name(const void *a, const void *b) {
    const struct seen *x = a, *y = b;
    return x->name < y->name ? -1 : x->name > y->name;
}

static bool is_same(const struct seen *a, const struct seen *b) {
    return a->inode == b->inode && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

static bool is_watched(const struct walk_entry *e) {
    return S_ISREG(e->st->st_mode) || S_ISLNK(e->st->st_mode);
}

static int64_t time_ns(const struct timespec *t) {
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static struct folder_look look_at_folder(const struct stat *st) {
    return (struct folder_look){.device = st->st_dev,
                                .inode = st->st_ino,
                                .modified_ns = time_ns(&st->st_mtim),
                                .changed_ns = time_ns(&st->st_ctim)};
}

/* Most work folders are empty, before and after; then a look takes a third of a walk. */
static bool is_empty(const char *folder, struct folder_look *ret) {
    _cleanup_(closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _Alignas(struct dirent) char entries[1024];
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return false;
    *ret = look_at_folder(&st); /* first: what changes meanwhile has a later time */
    ssize_t n = 1;
    while (n > 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        const struct dirent *e;
        for (ssize_t at = 0; at < n; at += e->d_reclen) {
            e = (const struct dirent *)(entries + at);
            if (!str_equal(e->d_name, ".") && !str_equal(e->d_name, ".."))
                return false;
        }
    }
    return n == 0;
}

static void see_as_user(const struct op_conn *c) {
    (void)setfsgid(c->gid);
    (void)setfsuid(c->uid);
}

static void see_as_init(void) {
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
}

/* Nothing of an empty folder is visited. */
static int walk_as_user(const struct op_conn *c, const char *folder, walk_fn *visit, void *arg,
                        struct cay_error *err) {
    static const struct walk_options options = {.forgiving = true, .below_only = true};
    struct folder_look ignored;
    see_as_user(c);
    int r = is_empty(folder, &ignored) ? 0 : walk_tree(folder, folder, options, visit, arg, err);
    see_as_init();
    return r;
}

/* ---- a folder that stays as it was ---- */

void changes_settle(const struct op_conn *c, struct changes *ch) {
    if (ch->folder[0] == '\0' || ch->count > 0 || ch->is_empty)
        return;
    see_as_user(c);
    ch->is_empty = is_empty(ch->folder, &ch->look);
    see_as_init();
}

void changes_begin(struct changes *ch) {
    enum { SECOND_NS = 1000000000 };
    struct timespec now;
    /* Files get their times from this clock, which goes in ticks: two changes within one have the
     * same time. And some file systems know whole seconds only. */
    ch->is_settled = ch->is_empty && ch->look.modified_ns % SECOND_NS != 0 &&
                     clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 &&
                     time_ns(&now) > ch->look.modified_ns;
}

/* Empty when it was looked at, and nothing was put there since. */
static bool is_still_empty(const struct changes *ch) {
    struct stat st;
    if (!ch->is_settled || lstat(ch->folder, &st) < 0)
        return false;
    const struct folder_look a = ch->look, b = look_at_folder(&st);
    return a.device == b.device && a.inode == b.inode && a.modified_ns == b.modified_ns &&
           a.changed_ns == b.changed_ns;
}

/* ---- before ---- */

static bool make_room(struct changes *c) {
    if (c->count < c->room)
        return true;
    size_t room = c->room > 0 ? c->room * 2 : 64;
    struct seen *list = reallocarray(c->list, room, sizeof *list);
    if (list == NULL)
        return false;
    c->list = list;
    c->room = room;
    return true;
}

static int remember(void *arg, const struct walk_entry *e, struct cay_error *err) {
    (void)err;
    struct changes *c = arg;
    if (!is_watched(e))
        return WALK_ON;
    if (c->count >= LOOK_MAX || !make_room(c)) {
        c->truncated = true;
        return WALK_STOP;
    }
    c->list[c->count++] = look_at(e);
    return WALK_ON;
}

void changes_remember(const struct op_conn *c, const char *folder, struct changes *ret) {
    if (str_copy(ret->folder, sizeof ret->folder, folder) < 0)
        return;
    (void)walk_as_user(c, ret->folder, remember, ret, NULL); /* what it cannot see is not there */
    if (ret->count > 0)
        qsort(ret->list, ret->count, sizeof *ret->list, by_name);
}

/* ---- after ---- */

struct telling {
    const struct op_conn *c;
    const struct changes *before;
    size_t looked, told;
    struct buf b;
};

static int report(void *arg, const struct walk_entry *e, struct cay_error *err) {
    struct telling *t = arg;
    if (!is_watched(e))
        return WALK_ON;
    struct seen now = look_at(e);
    const struct changes *before = t->before;
    const struct seen *then = before->count > 0 ? bsearch(&now, before->list, before->count,
                                                          sizeof *before->list, by_name)
                                                : NULL;
    if (then != NULL && is_same(then, &now))
        return ++t->looked < 2 * LOOK_MAX ? WALK_ON : WALK_STOP;
    if (t->told++ >= TELL_MAX)
        return WALK_STOP;
    buf_clear(&t->b);
    files_put_stat(&t->b, e->below, e->st, NULL);
    wire_put_number(&t->b, WIRE_TAG_CREATED, then == NULL);
    return files_send(t->c, WIRE_ENTRY, &t->b, err);
}

void changes_send(const struct op_conn *c, struct changes *before) {
    if (before->folder[0] == '\0' || before->truncated || is_still_empty(before))
        return;
    struct telling t = {.c = c, .before = before, .b = BUF_INIT(WIRE_MESSAGE_MAX)};
    struct cay_error
        ignored; /* a folder that is gone has no files; a host that is gone needs none */
    if (walk_as_user(c, before->folder, report, &t, &ignored) == WALK_STOP)
        before->truncated = true;
    buf_free(&t.b);
}
