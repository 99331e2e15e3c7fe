/* Users as the sandbox's own /etc/passwd and /etc/group name them. Those files belong to the
 * sandbox: they are read with bounds, and whatever they say stays within its id range. */
#pragma once

#include <sys/types.h>

struct cay_error;

enum { USER_GROUPS_MAX = 32 };

/* What engines start cay-init as, where they can (IDRANGE_INIT_ID); refused for commands. */
enum { INIT_ID = 65533 };

struct user {
    uid_t uid;
    gid_t gid;
    gid_t groups[USER_GROUPS_MAX];
    int group_count;
    char name[64];
    char home[256];
};

/* Resolves "name", "uid", "name:group", "uid:gid". A number needs no entry in the files.
 * The id of cay-init itself is refused, by name and number. */
int user_lookup(const char *spec, struct user *ret, struct cay_error *err);

/* Resolves one group name or number. */
int user_lookup_group(const char *spec, gid_t *ret, struct cay_error *err);

/* Takes on the identity and drops every capability. Raw system calls only, so it may be called
 * after vfork(). 0 or -errno. */
int user_become(const struct user *u);
