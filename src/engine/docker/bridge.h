/* The ways into the sandboxes of a Docker on another machine. The socket that the manager made for
 * a sandbox is served here, and each connection to it passed on to cay-init by a process in the
 * container (transport/relay.h). */
#pragma once

struct cay_error;
struct docker_engine;

/* Until it is opened or closed, nobody else opens the way into this sandbox. */
int docker_bridge_reserve(struct docker_engine *d, const char *id, struct cay_error *err);
/* Serves the listener, which it keeps a copy of. */
int docker_bridge_open(struct docker_engine *d, const char *id, int listener,
                       struct cay_error *err);
/* Ends it, if there is one. Connections that are under way end with their streams. */
void docker_bridge_close(struct docker_engine *d, const char *id);
/* For a sandbox that ran before this process did: listens again where the manager looks. There
 * already is fine. */
int docker_bridge_adopt(struct docker_engine *d, const char *id, struct cay_error *err);
void docker_bridge_close_all(struct docker_engine *d);
