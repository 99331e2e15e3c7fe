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

/* Restricts the calling thread to reading files below these folders (negative ones are omitted),
 * with the same scopes. no_new_privs must be set. 0 or -errno. */
int landlock_restrict_reading(int abi, const int *folders, size_t count);
