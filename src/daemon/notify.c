#include "daemon/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"

void notify_send(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        str_copy(to.sun_path, sizeof to.sun_path, path) < 0)
        return;
    size_t len = offsetof(struct sockaddr_un, sun_path) + strlen(path);
    if (path[0] == '@')
        to.sun_path[0] = '\0'; /* a name without a file */
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock >= 0)
        (void)sendto(sock, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                     (const struct sockaddr *)&to, (socklen_t)len);
}

void notify_reloading(void) {
    char text[96];
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=Reloading",
                   (long long)clock_us());
    notify_send(text);
}
