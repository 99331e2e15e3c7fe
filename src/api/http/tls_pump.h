/* What a connection with TLS has become is a stream of bytes; these are decrypted and encrypted
 * here. (The HTTP library would do it too, four bytes at a time.) */
#pragma once

/* Passes bytes between a TLS session (gnutls_session_t) over the socket tcp and the socket plain,
 * both ways, until plain has ended and all that came from it was passed on, or the client is gone.
 * The client's end is passed on as the end of one direction. 0 or -errno. */
int tls_pump(void *session, int tcp, int plain);
