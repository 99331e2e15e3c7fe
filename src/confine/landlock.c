#include "confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rights by number: the installed header may be older than the running kernel. */
#define ACCESS_ABI1     ((UINT64_C(1) << 13) - 1)
#define ACCESS_REFER    (UINT64_C(1) << 13) /* ABI 2 */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14) /* ABI 3 */
#define ACCESS_IOCTL    (UINT64_C(1) << 15) /* ABI 5 */
#define SCOPE_ABSTRACT  (UINT64_C(1) << 0)  /* ABI 6 */
#define SCOPE_SIGNAL    (UINT64_C(1) << 1)

#define ACCESS_MAKE_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

struct ruleset_attr {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};

int landlock_abi(void) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t handled_access(int abi) {
    uint64_t access = ACCESS_ABI1;
    if (abi >= 2)
        access |= ACCESS_REFER;
    if (abi >= 3)
        access |= ACCESS_TRUNCATE;
    if (abi >= 5)
        access |= ACCESS_IOCTL;
    return access;
}

static int make_ruleset(int abi, uint64_t access) {
    struct ruleset_attr attr = {.fs = access};
    if (abi >= 6)
        attr.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
    size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 16 : 8;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    return ruleset < 0 ? -errno : ruleset;
}

static int allow_beneath(int ruleset, int folder, uint64_t access) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = folder};
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
               ? -errno
               : 0;
}

int landlock_restrict(int abi) {
    int ruleset = make_ruleset(abi, handled_access(abi));
    if (ruleset < 0)
        return ruleset;
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = root < 0 ? -errno
                     : allow_beneath(ruleset, root,
                                     handled_access(abi) & ~(uint64_t)ACCESS_MAKE_DEVICES);
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    if (root >= 0)
        (void)close(root);
    (void)close(ruleset);
    return r;
}

static uint64_t access_of(enum landlock_right right, int abi) {
    uint64_t all = handled_access(abi) & ~(LANDLOCK_ACCESS_FS_EXECUTE | ACCESS_IOCTL);
    switch (right) {
    case LANDLOCK_READ:
        return LANDLOCK_ACCESS_FS_READ_FILE;
    case LANDLOCK_LIST:
        return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    case LANDLOCK_CHANGE:
        return all & ~(uint64_t)ACCESS_MAKE_DEVICES;
    case LANDLOCK_FILL:
        return all;
    }
    return 0;
}

int landlock_restrict_to(int abi, const struct landlock_place *places, size_t count) {
    int ruleset = make_ruleset(abi, handled_access(abi));
    if (ruleset < 0)
        return ruleset;
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        if (places[i].fd >= 0)
            r = allow_beneath(ruleset, places[i].fd, access_of(places[i].right, abi));
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    (void)close(ruleset);
    return r;
}
