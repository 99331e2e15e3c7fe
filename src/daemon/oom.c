#include "daemon/oom.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define SCORE_TEXT "-500"

enum { SCORE = -500 };

void oom_protect(void) {
    char text[16];
    int64_t score;
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof text);
    if (n > 0 && text[n - 1] == '\n')
        text[n - 1] = '\0';
    if (n <= 0 || str_to_i64(text, -1000, 1000, &score) < 0 || score <= SCORE)
        return;
    int r = fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", SCORE_TEXT);
    if (r < 0 && geteuid() == 0)
        log_event(LOG_LEVEL_INFO, "not protected when memory runs out", "why", "%s", strerror(-r));
}
