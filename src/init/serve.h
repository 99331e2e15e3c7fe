/* Serving one connection of cay-init. */
#pragma once

/* Reads the request, becomes its user where the operation wants that, runs it, answers. tell and
 * proxy_port are those of struct op_conn. Returns what the process should exit with. */
int serve_connection(int fd, int tell, unsigned proxy_port);
