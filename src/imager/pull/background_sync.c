#include "imager/pull/background_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "image/store.h"

/* Keeps nothing open but the store: whoever waits for the end of a pipe or a socket of ours must
 * not wait for this. */
static int keep_only(struct image_store *store) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int dir = fcntl(store->dir, F_DUPFD, 3), lock = fcntl(store->lock, F_DUPFD, 3);
    if (null < 0 || dir < 0 || lock < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0)
            return -errno;
    int low = MIN(dir, lock), high = MAX(dir, lock);
    if ((low > 3 && close_range(3, (unsigned)low - 1, 0) < 0) ||
        (high > low + 1 && close_range((unsigned)low + 1, (unsigned)high - 1, 0) < 0) ||
        close_range((unsigned)high + 1, ~0U, 0) < 0)
        return -errno;
    *store = (struct image_store){.dir = dir, .lock = lock};
    return 0;
}

static _noreturn_ void settle(const struct image_store *store) {
    struct image_store own = *store;
    if (setsid() < 0 || fork() != 0) /* the second is nobody's child but init's */
        _exit(0);
    int r = keep_only(&own);
    if (r == 0)
        r = image_store_settle(&own);
    _exit(r == 0 ? 0 : 1);
}

void settle_later(const struct image_store *store) {
    pid_t pid = fork();
    if (pid == 0)
        settle(store);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
