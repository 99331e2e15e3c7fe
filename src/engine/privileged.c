#include "engine/privileged.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "confine/idrange.h"
#include "image/store.h"

static bool has_capability(int cap) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    return (data[cap / 32].effective & (1U << (cap % 32))) != 0;
}

/* True if the ids that we hand out exist here: not so in a container with a map of its own. */
static bool ids_are_mapped(void) {
    _Static_assert(ROLE_IDS_FIRST == IDRANGE_FIRST + (uint64_t)IDRANGE_LOW * IDRANGE_SIZE &&
                       IMAGE_IDS_FIRST == ROLE_IDS_FIRST + (uint64_t)IDRANGE_SIZE,
                   "the daemon's ids follow those of the sandboxes, then come the image store's");
    char text[4096];
    if (fd_read_file_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0)
        return false;
    unsigned long inside, outside, count;
    return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
           count >= (unsigned long)IMAGE_IDS_FIRST + IMAGE_IDS_COUNT;
}

bool engine_is_privileged(void) {
    return geteuid() == 0 && has_capability(CAP_SYS_ADMIN) && has_capability(CAP_SETUID) &&
           ids_are_mapped();
}
