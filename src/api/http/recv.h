/* The bytes of clients on their way into the HTTP library. The library has no place for a check of
 * our own between its socket and its parser, so this file defines the two functions that it reads
 * with, recv() and gnutls_record_recv(), for the whole program: a connection that was registered
 * here is checked (framing.h), all others are read as usual. */
#pragma once

#include <stdbool.h>

#include "api/http/framing.h"

/* Checks what is read from this descriptor until it is forgotten. False if it cannot. */
bool http_recv_check(int fd, struct framing *f, bool is_tls);
void http_recv_forget(int fd);
/* The connection becomes something else than HTTP. */
void http_recv_release(int fd);
