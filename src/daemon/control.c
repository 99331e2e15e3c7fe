#include "daemon/control.h"

#include <errno.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"

int control_send(int sock, const struct control_message *m, const int *fds, unsigned count) {
    return fd_send(sock, m, sizeof *m, fds, count);
}

int control_receive(int sock, struct control_message *ret, int fds[static CONTROL_FDS_MAX]) {
    union {
        struct control_message message;
        char bytes[sizeof(struct control_message) + 1]; /* so that one that is too long shows */
    } in;
    size_t count = 0;
    for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
        fds[i] = -1;
    ssize_t n = fd_receive(sock, &in, sizeof in, fds, CONTROL_FDS_MAX, &count);
    if (n == (ssize_t)sizeof in.message) {
        *ret = in.message;
        ret->name[sizeof ret->name - 1] = '\0';
        ret->other[sizeof ret->other - 1] = '\0';
        ret->owner[sizeof ret->owner - 1] = '\0';
        ret->made_by[sizeof ret->made_by - 1] = '\0';
        error_sanitize(&ret->err);
        return 1;
    }
    for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
        fd_close(&fds[i]);
    return n > 0 ? -EPROTO : (int)n;
}
