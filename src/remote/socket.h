/* A WebSocket to the toolbox of a sandbox. */
#pragma once

#include "api/http/ws.h"
#include "remote/toolbox.h"

struct cay_error;

struct socket {
    struct ws *ws;
    int fd;
};

#define SOCKET_INIT ((struct socket){.fd = -1})

/* Opens one at a path of the toolbox, offering subprotocols. */
int socket_open(const struct toolbox *t, const char *path, const char *protocols,
                struct socket *ret, struct cay_error *err);
void socket_close(struct socket *s);
