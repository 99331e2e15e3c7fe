#include "init/user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/passwd.h"
#include "base/str.h"

enum { DATABASE_MAX = 1024 * 1024 };

/* A database that is missing, huge or no regular file counts as empty. */
static void read_database(const char *path, struct buf *b) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > DATABASE_MAX)
        return;
    char *to = buf_reserve(b, (size_t)st.st_size);
    ssize_t n = to == NULL ? -1 : read(fd, to, (size_t)st.st_size);
    if (n > 0)
        buf_commit(b, (size_t)n);
}

/* Fills u from the passwd entry with this name or, if name is NULL, this uid. */
static bool find_passwd(const char *name, uid_t uid, struct user *u) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DATABASE_MAX);
    read_database("/etc/passwd", &b);
    if (b.data == NULL)
        return false;
    char *at = b.data, *f[PASSWD_FIELDS];
    while (passwd_next(&at, f, PASSWD_FIELDS)) {
        unsigned id, gid;
        if (!passwd_id(f[2], &id) || !passwd_id(f[3], &gid))
            continue;
        if (name != NULL ? strcmp(f[0], name) != 0 : id != uid)
            continue;
        if (str_copy(u->name, sizeof u->name, f[0]) < 0 ||
            str_copy(u->home, sizeof u->home, f[5]) < 0)
            continue;
        u->uid = id;
        u->gid = gid;
        return true;
    }
    return false;
}

static bool find_group(const char *name, gid_t *ret) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DATABASE_MAX);
    read_database("/etc/group", &b);
    if (b.data == NULL)
        return false;
    char *at = b.data, *f[PASSWD_FIELDS];
    while (passwd_next(&at, f, GROUP_FIELDS))
        if (strcmp(f[0], name) == 0 && passwd_id(f[2], ret))
            return true;
    return false;
}

static bool is_member(const char *members, const char *name) {
    size_t len = strlen(name);
    while (*members != '\0') {
        size_t n = strcspn(members, ",");
        if (n == len && memcmp(members, name, n) == 0)
            return true;
        members += n + (members[n] == ',');
    }
    return false;
}

static void find_supplementary(struct user *u) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DATABASE_MAX);
    if (u->name[0] == '\0')
        return;
    read_database("/etc/group", &b);
    if (b.data == NULL)
        return;
    char *at = b.data, *f[PASSWD_FIELDS];
    while (u->group_count < USER_GROUPS_MAX && passwd_next(&at, f, GROUP_FIELDS)) {
        unsigned gid;
        if (is_member(f[3], u->name) && passwd_id(f[2], &gid))
            u->groups[u->group_count++] = gid;
    }
}

int user_lookup_group(const char *spec, gid_t *ret, struct cay_error *err) {
    if (passwd_id(spec, ret) || find_group(spec, ret))
        return 0;
    error_set(err, CAY_NOT_FOUND, "no group '%.64s' in the sandbox", spec);
    return error_remedy(err, "name a group of its /etc/group, or a number up to %d", PASSWD_ID_MAX);
}

/* Whoever has our own id may send us signals and lower our limits. */
static int check_id(uid_t uid, struct cay_error *err) {
    if (uid != INIT_ID)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "user id %d is that of cay-init itself", INIT_ID);
    return error_remedy(err, "name another user, or a number up to %d", INIT_ID - 1);
}

int user_lookup(const char *spec, struct user *ret, struct cay_error *err) {
    *ret = (struct user){0};
    char name[64];
    size_t len = strcspn(spec, ":");
    if (len == 0 || len >= sizeof name) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%.64s' is not a user", spec);
        return error_remedy(err, "name a user, a number, or both with a group: user:group");
    }
    memcpy(name, spec, len);
    name[len] = '\0';
    unsigned uid;
    if (passwd_id(name, &uid)) {
        if (!find_passwd(NULL, uid, ret)) {
            ret->uid = uid;
            memcpy(ret->home, "/", sizeof "/");
        }
    } else if (!find_passwd(name, 0, ret)) {
        error_set(err, CAY_NOT_FOUND, "no user '%s' in the sandbox", name);
        return error_remedy(err, "name a user of its /etc/passwd, or a number up to %d",
                            PASSWD_ID_MAX);
    }
    int r = check_id(ret->uid, err);
    if (r < 0)
        return r;
    find_supplementary(ret);
    return spec[len] == ':' ? user_lookup_group(spec + len + 1, &ret->gid, err) : 0;
}

static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int user_become(const struct user *u) {
    /* A sandbox with a single id cannot change users, and need not. */
    bool same = getuid() == u->uid && getgid() == u->gid && u->group_count == 0;
    if (!same) {
        if (syscall(SYS_setgroups, u->group_count, u->groups) < 0 ||
            syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
            syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
            return -errno;
    }
    /* The profile build leaves root its rights over files; nothing else ever keeps any. */
    bool build = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_CHOWN, 0, 0) == 1;
    return build && u->uid == 0 ? 0 : drop_capabilities();
}
