/* Owners of an image where the kernel or the file system knows no id-mapped mounts: an overlay
 * whose upper layer holds nothing but changed owners (metacopy), made once for each sandbox. Some
 * ten thousand files take about a second; an id-mapped mount takes none. */
#pragma once

#include <sys/types.h>

/* A detached tmpfs with the folders "u" and "w" for such a layer. An fd or -errno. */
int shift_make(void);

/* Moves the owner of everything below root, which must be such an overlay, from the image store's
 * ids to those from base on. No memory is allocated: it may run in a child that shares memory. 0 or
 * -errno. */
int shift_owners(int root, uid_t base);
