#include "confine/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "base/str.h"

enum { START_TIME_FIELD = 22, STAT_SIZE = 4096, REAPED_MS = 100 };

/* struct pidfd_info of <linux/pidfd.h>, in its first version: C libraries do not have it yet. */
struct pidfd_answer {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_ASK       _IOWR(0xff, 11, struct pidfd_answer)
#define PIDFD_MASK_EXIT (UINT64_C(1) << 3)

/* The name of the program, in parentheses, may hold anything: fields are counted from the last one.
 */
static int parse_start_time(const char *stat, uint64_t *ret) {
    const char *p = strrchr(stat, ')');
    for (int field = 2; p != NULL && field < START_TIME_FIELD; field++) {
        p = strchr(p, ' ');
        p = p == NULL ? NULL : p + 1;
    }
    return p == NULL || sscanf(p, "%" SCNu64, ret) != 1 ? -EBADMSG : 0;
}

int process_start_time(pid_t pid, uint64_t *ret) {
    char path[32], text[STAT_SIZE];
    int r = str_format(path, sizeof path, "/proc/%d/stat", pid);
    ssize_t n = r < 0 ? r : fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    return n < 0 ? (int)n : parse_start_time(text, ret);
}

bool process_may_live(pid_t pid, uint64_t start) {
    uint64_t now;
    if (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH))
        return false;
    return process_start_time(pid, &now) < 0 || now == start;
}

int process_exit_status(int pidfd) {
    struct pidfd_answer a = {.mask = PIDFD_MASK_EXIT};
    struct pollfd reaped = {.fd = pidfd};
    (void)poll(&reaped, 1, REAPED_MS); /* it hangs up then; the answer tells if it did */
    if (ioctl(pidfd, PIDFD_ASK, &a) < 0 || (a.mask & PIDFD_MASK_EXIT) == 0)
        return -1;
    return a.exit_code;
}

int process_boot_id(char out[static BOOT_ID_SIZE]) {
    char text[64];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (n < 0)
        return (int)n;
    return str_copy(out, BOOT_ID_SIZE, text) < 0 ? -EBADMSG : 0;
}
