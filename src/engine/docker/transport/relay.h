/* The way to cay-init in a container of a Docker on another machine, where nothing of ours can be
 * mounted and no descriptor passed. cay-init listens at an abstract name inside, and takes those
 * who have its own id; each operation is a process in the container (`cay-enter relay`, started by
 * an exec of Docker's) that connects there, and the stream of that exec.
 *
 * Input has to tell a finished direction from a connection that is gone, so it comes in frames: a
 * length of four bytes, the lowest first, and as many bytes; a length of 0 ends the direction, and
 * the end of the stream ends all. Output begins with a byte that says that the process runs, since
 * Docker writes there too why it does not, and is plain then. When it is finished, stderr says how
 * many bytes it had, in eight bytes, since Docker keeps no order between the two. The process
 * connects with the first frame, so that one can be kept ready. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RELAY_NAME "cay-init" /* of the socket, abstract */

enum {
    RELAY_HEADER = 4,
    RELAY_DATA_MAX = 65536, /* of a frame */
    RELAY_READY = 0x06,     /* the first byte of output */
    RELAY_TOTAL = 8,        /* bytes of the message on stderr */
};

/* Numbers, the lowest byte first: the header of a frame (more than RELAY_DATA_MAX is nonsense), and
 * the total. */
void relay_put_number(unsigned char *out, size_t size, uint64_t number);
uint64_t relay_get_number(const unsigned char *in, size_t size);

/* Inside: a socket that listens at the name. A descriptor or -errno. */
int relay_listen(void);
/* Inside: relays between the descriptors 0, 1 and 2 and a connection, until one of both ends. What
 * the process should exit with. */
int relay_between(int sock);
/* The same, with what goes before: says that it runs, and connects to cay-init with the first
 * frame.
 */
int relay_run(void);
