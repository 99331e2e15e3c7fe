/* Landlock: a second wall behind the mount namespace. It allows what lies below the sandbox's root
 * and nothing else, so that a descriptor of a host folder, should one ever leak in, opens nothing.
 */
#pragma once

#include <stddef.h>

/* The ABI version of the running kernel, 0 if there is none. */
int landlock_abi(void);

/* Restricts the calling thread to what lies below "/" as it is now, without device nodes, and
 * scopes signals and abstract sockets to the sandbox where the kernel can. no_new_privs must be
 * set. System calls only. 0 or -errno. */
int landlock_restrict(int abi);

enum landlock_right {
    LANDLOCK_READ,   /* files */
    LANDLOCK_LIST,   /* files and the names in folders */
    LANDLOCK_CHANGE, /* everything but programs and devices */
    LANDLOCK_FILL,   /* the same with devices, for the marks of overlayfs */
};

struct landlock_place {
    int fd; /* a folder, or for LANDLOCK_READ a file; -1: the place is omitted */
    enum landlock_right right;
};

/* Restricts the calling thread to these places and what lies below them, with the same scopes.
 * no_new_privs must be set. 0 or -errno. */
int landlock_restrict_to(int abi, const struct landlock_place *places, size_t count);
