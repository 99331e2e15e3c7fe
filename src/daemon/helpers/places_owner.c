/* Who owns the daemon's folder. The front that it belonged to may have been hostile: nothing is
 * followed, and only what belonged to that front changes its owner. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/helpers/places.h"

enum { DEPTH_MAX = 16 }; /* several times what a front makes */

struct change {
    uid_t from, to;
};

static int change_below(int folder, const struct change *c, unsigned depth);

/* By descriptor, so that what was looked at is what changes. */
static int change_entry(int folder, const char *name, const struct change *c, unsigned depth) {
    struct stat st;
    _cleanup_(closep) int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (st.st_uid == c->from &&
        fchownat(fd, "", c->to, c->to, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return 0;
    return depth >= DEPTH_MAX ? -ELOOP : change_below(fd, c, depth + 1);
}

static int change_below(int folder, const struct change *c, unsigned depth) {
    const struct dirent *entry;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        int sys = errno;
        fd_close(&fd);
        return -sys;
    }
    int r = 0;
    while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL)
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = change_entry(fd, entry->d_name, c, depth);
    if (r == 0 && errno != 0)
        r = -errno;
    (void)closedir(dir);
    return r;
}

/* The folder itself comes last: until then, who is killed here finds the former owner again. */
static int change_owner(int folder, const struct change *c, struct cay_error *err) {
    int r = c->from == 0 || c->from == c->to ? 0 : change_below(folder, c, 0);
    if (r < 0) {
        (void)error_sys(err, -r, "changing the owner of the files in the daemon's folder");
        return error_remedy(err, "look for what does not belong into 'daemon' in the state folder");
    }
    if (fchown(folder, c->to, c->to) < 0)
        return error_errno(err, "giving away the daemon's folder");
    return 0;
}

/* Only the front may pass through the state folder, besides root; it can list nothing there. */
static int open_way(const struct settings *s, uid_t front, struct cay_error *err) {
    _cleanup_(closep) int state = open(s->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0 || fchown(state, 0, front) < 0 || fchmod(state, 0710) < 0)
        return error_errno(err, "letting the daemon through %s", s->state_dir);
    return 0;
}

int places_give_away(struct settings *s, struct cay_error *err) {
    struct stat st;
    if (!s->is_root)
        return 0;
    _cleanup_(closep) int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &st) < 0)
        return error_errno(err, "looking at the daemon's folder");
    int r = role_ids_lease(s->state_dir, st.st_uid, &s->ids, err);
    if (r < 0)
        return r;
    uid_t front = role_id(&s->ids, ROLE_FRONT);
    r = change_owner(folder, &(struct change){.from = st.st_uid, .to = front}, err);
    return r < 0 ? r : open_way(s, front, err);
}
