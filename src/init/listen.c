/* A socket that listens in the sandbox and is served outside: the way to the proxy. It is made
 * here, where it belongs to the sandbox's network namespace, and handed out. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/op.h"

enum { BACKLOG = 128 };

/* Its predecessor may still be open in a proxy that is about to end: then both have the port for a
 * moment. Other ids of the sandbox cannot join them. */
static int make_listener(uint16_t port, struct cay_error *err) {
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    _cleanup_(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_errno(err, "making a socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, BACKLOG) < 0) {
        error_errno(err, "listening on port %u in the sandbox", (unsigned)port);
        return error_remedy(err, "end what uses this port, and start the sandbox again");
    }
    return TAKE_FD(fd);
}

int listen_for_proxy(struct op_conn *c, uint64_t port, struct cay_error *err) {
    int door = c->came[1] >= 0 ? c->came[1] : c->came[0];
    if (door < 0 || port == 0 || port > UINT16_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "a socket for a proxy that did not come along");
    _cleanup_(closep) int fd = make_listener((uint16_t)port, err);
    if (fd < 0)
        return fd;
    int r = fd_send(door, "", 1, &fd, 1);
    fd_close(c->came[1] >= 0 ? &c->came[1] : &c->came[0]);
    if (r < 0)
        return error_sys(err, -r, "handing out the proxy's socket");
    c->proxy_port = (unsigned)port;
    return 0;
}

int op_listen(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    int r = listen_for_proxy(c, request->number[WIRE_TAG_PORT], err);
    if (r < 0)
        return r;
    const struct init_news news = {.proxy_port = c->proxy_port};
    r = c->tell >= 0 ? fd_write_all(c->tell, &news, sizeof news) : 0;
    if (r == 0) /* PID 1 must know before the host believes that it does */
        r = wire_send(c->fd, WIRE_DONE, NULL);
    return r < 0 ? error_sys(err, -r, "answering") : 0;
}
