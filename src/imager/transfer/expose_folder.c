#include "imager/transfer/expose_folder.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/mounts.h"
#include "confine/userns.h"
#include "engine/privileged.h"
#include "image/store.h"

/* The host's first ids seen as those of the store, which the world is root over. Ids beyond are
 * nobody's. */
static int clone_for_world(int folder) {
    struct id_map map = {0, IMAGE_IDS_FIRST, IMAGE_IDS_COUNT};
    _cleanup_(closep) int userns = userns_create(&map, &map, NULL);
    if (userns < 0)
        return -1;
    unsigned attributes =
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    _cleanup_(closep) int tree = mounts_clone(folder, ".", false, attributes, userns);
    return tree < 0 ? -1 : openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int folder_offer(int folder, struct cay_error *err) {
    int fd = engine_is_privileged() ? clone_for_world(folder) : -1;
    if (fd < 0)
        fd = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? error_errno(err, "opening the folder") : fd;
}
