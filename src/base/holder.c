#include "base/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"

struct holder holder_read(int lock) {
    char text[32] = {0};
    int64_t pid;
    struct holder nobody = {0};
    if (pread(lock, text, sizeof text - 1, 0) <= 0)
        return nobody;
    bool is_ending = strstr(text, "\n" HOLDER_ENDING) != NULL;
    text[strcspn(text, "\n")] = '\0';
    if (str_to_i64(text, 1, INT_MAX, &pid) < 0 || (kill((pid_t)pid, 0) < 0 && errno == ESRCH))
        return nobody;
    return (struct holder){.pid = (pid_t)pid, .is_ending = is_ending};
}

/* A process of another user does not show its program. Then no signal reaches it either. */
static bool is_cayd(pid_t pid) {
    char link[64], target[PATH_MAX];
    if (str_format(link, sizeof link, "/proc/%d/exe", (int)pid) < 0)
        return false;
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0)
        return errno == EACCES;
    target[n] = '\0';
    const char *name = strrchr(target, '/');
    return name != NULL && strncmp(name, "/cayd", 5) == 0 &&
           (name[5] == '\0' || str_equal(name + 5, " (deleted)"));
}

struct holder holder_find(const char *path) {
    struct holder nobody = {0};
    _cleanup_(closep) int lock = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_SH | LOCK_NB) == 0)
        return nobody;
    struct holder found = holder_read(lock);
    return found.pid != 0 && is_cayd(found.pid) ? found : nobody;
}
