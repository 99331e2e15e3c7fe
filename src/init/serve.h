/* Serving one connection of cay-init. */
#pragma once

/* Reads the request, becomes its user where the operation wants that, runs it, answers. stop is
 * what WIRE_OP_SHUTDOWN writes to. Returns what the process should exit with. */
int serve_connection(int fd, int stop);
