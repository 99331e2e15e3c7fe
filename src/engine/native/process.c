#include "engine/native/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

enum { START_TIME_FIELD = 22, STAT_SIZE = 4096 };

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

int process_boot_id(char out[static BOOT_ID_SIZE]) {
    char text[64];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (n < 0)
        return (int)n;
    return str_copy(out, BOOT_ID_SIZE, text) < 0 ? -EBADMSG : 0;
}
