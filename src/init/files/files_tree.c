/* Operations on whole trees: move, remove, and changes of mode and owner. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/files.h"
#include "init/files/walk.h"
#include "init/user.h"

/* A name in an open folder. */
struct place {
    int folder;
    char name[NAME_MAX + 1];
};

static void place_close(struct place *p) {
    fd_close(&p->folder);
}

static int place_open(const char *path, const char *doing, struct place *p, struct cay_error *err) {
    char folder[PATH_MAX];
    int r = files_split(path, folder, p->name);
    if (r < 0)
        return files_error(err, -r, doing, path);
    p->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return p->folder < 0 ? files_error(err, errno, doing, path) : 0;
}

/* ---- move ---- */

/* Copies under a hidden name first, so that the target appears whole or not at all. */
static int move_by_copy(const struct place *from, const struct place *to, const char *shown,
                        struct cay_error *err) {
    char id[ID_SIZE], temporary[32];
    if (id_new(id, err) < 0 || str_format(temporary, sizeof temporary, ".cay-%s", id) < 0)
        return error_prefix(err, "moving '%.256s'", shown);
    int r = files_copy_tree(from->folder, from->name, to->folder, temporary, shown, err);
    if (r < 0)
        return r;
    if (renameat(to->folder, temporary, to->folder, to->name) < 0) {
        int sys = errno;
        (void)path_remove_tree(to->folder, temporary);
        return files_error(err, sys, "moving to", to->name);
    }
    int sys = path_remove_tree(from->folder, from->name);
    return sys < 0 ? files_error(err, -sys, "copied, but removing the original", shown) : 0;
}

/* rename(2) refuses this with EINVAL, but a copy would have to be told. */
static int check_not_inside(const char *from, const char *to, struct cay_error *err) {
    char a[PATH_MAX], b[PATH_MAX], folder[PATH_MAX], name[NAME_MAX + 1];
    if (files_split(to, folder, name) < 0 || realpath(from, a) == NULL ||
        realpath(folder, b) == NULL)
        return 0; /* the move itself will say what is wrong */
    size_t len = strlen(a);
    if (strncmp(a, b, len) != 0 || (b[len] != '/' && b[len] != '\0'))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "moving '%.128s' to '%.128s', inside itself", from, to);
    return error_remedy(err, "choose a target outside of the folder that is moved");
}

static int move_paths(const char *from, const char *to, struct cay_error *err) {
    _cleanup_(place_close) struct place source = {.folder = -1}, target = {.folder = -1};
    struct stat st;
    int r = place_open(from, "moving", &source, err);
    if (r == 0 && fstatat(source.folder, source.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = files_error(err, errno, "moving", from);
    if (r == 0 && S_ISDIR(st.st_mode))
        r = check_not_inside(from, to, err);
    if (r == 0)
        r = place_open(to, "moving to", &target, err);
    if (r < 0)
        return r;
    if (renameat(source.folder, source.name, target.folder, target.name) == 0)
        return 0;
    if (errno != EXDEV)
        return files_error(err, errno, "moving to", to);
    return move_by_copy(&source, &target, from, err);
}

/* As mv does: a target that is a folder receives the source under its own name. */
static int extend_target(const char *from, char to[static PATH_MAX], struct cay_error *err) {
    char folder[PATH_MAX], name[NAME_MAX + 1];
    struct stat st;
    if (stat(to, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    int r = files_split(from, folder, name);
    if (r == 0)
        r = path_join(folder, PATH_MAX, to, name);
    if (r == 0)
        r = str_copy(to, PATH_MAX, folder);
    return r < 0 ? files_error(err, -r, "moving", from) : 0;
}

int op_move(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char from[PATH_MAX], to[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, from, err);
    if (r == 0)
        r = files_path(c, request, WIRE_TAG_TARGET, to, err);
    if (r == 0)
        r = extend_target(from, to, err);
    if (r == 0)
        r = move_paths(from, to, err);
    return r < 0 ? r : files_send(c, WIRE_DONE, NULL, err);
}

/* ---- remove ---- */

static int remove_place(const struct place *p, const char *path, bool recursive,
                        struct cay_error *err) {
    struct stat st;
    if (fstatat(p->folder, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return files_error(err, errno, "removing", path);
    if (recursive) {
        int r = path_remove_tree(p->folder, p->name);
        return r < 0 ? files_error(err, -r, "removing", path) : 0;
    }
    if (unlinkat(p->folder, p->name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) == 0)
        return 0;
    int sys = errno;
    int r = files_error(err, sys, "removing", path);
    return sys == ENOTEMPTY ? error_remedy(err, "remove it recursively with what it holds") : r;
}

int op_remove(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX];
    _cleanup_(place_close) struct place p = {.folder = -1};
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r == 0)
        r = place_open(path, "removing", &p, err);
    if (r == 0)
        r = remove_place(&p, path, request->number[WIRE_TAG_RECURSIVE] != 0, err);
    return r < 0 ? r : files_send(c, WIRE_DONE, NULL, err);
}

/* ---- chmod and chown ---- */

/* A mode with which its owner cannot enter a folder is set on the way back, any other on the way
 * in, so that both opening and closing a tree work. */
static int visit_chmod(void *arg, const struct walk_entry *e, struct cay_error *err) {
    mode_t mode = *(const mode_t *)arg;
    bool on_way_back = (mode & 0500) != 0500;
    if (S_ISLNK(e->st->st_mode) || (S_ISDIR(e->st->st_mode) && e->post != on_way_back))
        return WALK_ON;
    if (fchmodat(e->dirfd, e->name, mode, AT_SYMLINK_NOFOLLOW) < 0)
        return files_error(err, errno, "setting the mode of", e->path);
    return WALK_ON;
}

int op_chmod(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX], real[PATH_MAX];
    if (!request->present[WIRE_TAG_MODE] || request->number[WIRE_TAG_MODE] > 07777) {
        error_set(err, CAY_INVALID_ARGUMENT, "the mode must be octal, 0 to 7777");
        return error_remedy(err, "give a mode such as 644 or 755");
    }
    mode_t mode = (mode_t)request->number[WIRE_TAG_MODE];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r == 0)
        r = files_resolve(path, real, err);
    if (r == 0 && request->number[WIRE_TAG_RECURSIVE] != 0) {
        struct walk_options options = {.post = true};
        r = walk_tree(real, path, options, visit_chmod, &mode, err);
    } else if (r == 0 && chmod(real, mode) < 0) {
        r = files_error(err, errno, "setting the mode of", path);
    }
    return r < 0 ? r : files_send(c, WIRE_DONE, NULL, err);
}

struct owner {
    uid_t uid; /* -1: leave */
    gid_t gid;
};

/* "user", "user:group", ":group"; names or numbers. */
static int parse_owner(const char *spec, struct owner *ret, struct cay_error *err) {
    *ret = (struct owner){.uid = (uid_t)-1, .gid = (gid_t)-1};
    char name[64];
    size_t len = spec != NULL ? strcspn(spec, ":") : 0;
    if (spec == NULL || len >= sizeof name || spec[0] == '\0' || strcmp(spec, ":") == 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "no owner given");
        return error_remedy(err, "give 'user', 'user:group' or ':group', as names or numbers");
    }
    memcpy(name, spec, len);
    name[len] = '\0';
    struct user user;
    int r = len > 0 ? user_lookup(name, &user, err) : 0;
    if (r == 0 && len > 0)
        ret->uid = user.uid;
    if (r == 0 && spec[len] == ':' && spec[len + 1] != '\0')
        r = user_lookup_group(spec + len + 1, &ret->gid, err);
    return r;
}

static int visit_chown(void *arg, const struct walk_entry *e, struct cay_error *err) {
    const struct owner *o = arg;
    if (fchownat(e->dirfd, e->name, o->uid, o->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return files_error(err, errno, "setting the owner of", e->path);
    return WALK_ON;
}

int op_chown(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    char path[PATH_MAX], real[PATH_MAX];
    struct owner owner;
    int r = parse_owner(request->string[WIRE_TAG_TARGET], &owner, err);
    if (r == 0)
        r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r == 0)
        r = files_resolve(path, real, err);
    if (r == 0 && request->number[WIRE_TAG_RECURSIVE] != 0)
        r = walk_tree(real, path, (struct walk_options){0}, visit_chown, &owner, err);
    else if (r == 0 && chown(real, owner.uid, owner.gid) < 0)
        r = files_error(err, errno, "setting the owner of", path);
    return r < 0 ? r : files_send(c, WIRE_DONE, NULL, err);
}
