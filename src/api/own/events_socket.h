/* The socket of events: Socket.IO 5 over Engine.IO 4, as much of it as SDKs use, over one
 * WebSocket. A viewer sends its key first, then hears of the sandboxes that it sees. */
#pragma once

#include "api/route.h"

extern const struct route_table events_socket_routes;
