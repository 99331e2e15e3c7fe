/* One operation of a sandbox on another machine: what comes on a connection of the manager's goes
 * to cay-init by a stream, and back. */
#pragma once

struct docker_engine;
struct docker_stream;

/* Begins it in a thread of its own, with a stream that is ready or NULL; takes both over. What
 * cannot be reached is told on the connection, as cay-init itself would. */
void docker_pump_start(struct docker_engine *d, const char *id, int conn,
                       struct docker_stream *stream);
/* The container of a sandbox has ended: what is under way in it ends soon. */
void docker_pump_end(const char *id);
