/* What a program inside asks the proxy for: the head of an HTTP/1 request with CONNECT, or with the
 * whole URL. Read strictly, since it is hostile and is written anew for others: what two readers
 * could understand differently is refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/network.h"

struct buf;
struct cay_error;

enum { PROXY_HEAD_MAX = 32 * 1024 };

struct proxy_request {
    bool is_tunnel;               /* CONNECT: what follows is the stream itself */
    char host[NETWORK_NAME_SIZE]; /* a name, or an address without brackets */
    bool is_address;
    unsigned port;
    size_t head_len;          /* with the empty line */
    size_t method_len;        /* which the head begins with */
    size_t path_at, path_len; /* of the URL, in the head; no length: "/" */
    size_t fields_at;         /* where the lines behind the first begin */
};

/* 1 if a whole head is there, 0 if more of it has to come, or an error. */
int proxy_request_parse(const char *data, size_t len, struct proxy_request *ret,
                        struct cay_error *err);

/* The head for the server itself: its path, the host that was checked, without what is for proxies,
 * and with the connection's end after it. */
int proxy_request_rewrite(const char *head, const struct proxy_request *r, struct buf *out);
