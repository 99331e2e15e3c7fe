#include "egress/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/landlock.h"
#include "confine/mounts.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"
#include "confine/syscalls.h"
#include "egress/names.h"

enum { ROOT_BYTES = 32 << 20, ROOT_INODES = 16 }; /* lists of blocked hosts may be long */

#define STAGING "/proc" /* covered for a moment, in a mount namespace of our own */

/* ---- the empty root ---- */

/* A file system with the folder etc, which belongs to the keeper of the names. */
static int make_root(uid_t keeper, struct cay_error *err) {
    _cleanup_(closep) int root = mounts_tmpfs(
        ROOT_BYTES, ROOT_INODES, "0555", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (root < 0)
        return error_sys(err, -root, "making the proxy's root");
    if (mkdirat(root, "etc", 0755) < 0)
        return error_errno(err, "making a folder in the proxy's root");
    _cleanup_(closep) int etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0 || fchmod(etc, 0755) < 0)
        return error_errno(err, "opening a folder of the proxy's root");
    int r = names_copy(etc, err);
    if (r < 0)
        return r;
    if (fchown(etc, keeper, keeper) < 0)
        return error_errno(err, "giving away a folder of the proxy's root");
    r = names_keep(etc, keeper, err);
    return r < 0 ? r : TAKE_FD(root);
}

static int leave_host(int root, struct cay_error *err) {
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        move_mount(root, "", AT_FDCWD, STAGING, MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(root) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_errno(err, "leaving the host's mounts");
    return 0;
}

static int become(uid_t as, struct cay_error *err) {
    _cleanup_(closep) int root = make_root(as + 1, err);
    if (root < 0)
        return root;
    int r = leave_host(root, err);
    if (r < 0)
        return r;
    r = privilege_set_ids(as, as, true);
    return r < 0 ? error_sys(err, -r, "becoming user %u", (unsigned)as) : 0;
}

/* ---- what is readable ---- */

/* The folder in which a file really lies: the file itself may be replaced. */
static int open_folder_of(const char *file) {
    char path[PATH_MAX];
    if (realpath(file, path) == NULL)
        return -errno;
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int restrict_files(struct cay_error *err) {
    int abi = landlock_abi();
    if (abi == 0)
        return 0;
    _cleanup_(closep) int etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int hosts = open_folder_of("/etc/hosts");
    _cleanup_(closep) int servers = open_folder_of("/etc/resolv.conf");
    const struct landlock_place readable[] = {
        {etc, LANDLOCK_READ}, {hosts, LANDLOCK_READ}, {servers, LANDLOCK_READ}};
    int r = landlock_restrict_to(abi, readable, ARRAY_LEN(readable));
    return r < 0 ? error_sys(err, -r, "applying Landlock to the proxy") : 0;
}

int jail_enter(uid_t as, struct cay_error *err) {
    int r = as != 0 ? become(as, err) : 0;
    if (r < 0)
        return r;
    if (chdir("/") < 0)
        return error_errno(err, "leaving the work folder");
    r = privilege_clear_capabilities();
    if (r < 0)
        return error_sys(err, -r, "giving up capabilities");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, "giving up new privileges");
    r = restrict_files(err);
    return r < 0 ? r : seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_EGRESS}, err);
}
