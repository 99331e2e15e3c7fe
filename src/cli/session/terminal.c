#include "cli/session/terminal.h"

#include <unistd.h>

bool terminal_raw(struct terminal *t, int fd) {
    struct termios raw;
    if (tcgetattr(fd, &t->saved) < 0)
        return false;
    raw = t->saved;
    cfmakeraw(&raw);
    if (tcsetattr(fd, TCSANOW, &raw) < 0)
        return false;
    t->fd = fd;
    return true;
}

void terminal_restore(struct terminal *t) {
    if (t->fd >= 0)
        (void)tcsetattr(t->fd, TCSANOW, &t->saved); /* the terminal may be gone */
    t->fd = -1;
}
