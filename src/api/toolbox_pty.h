/* Terminals of the toolbox: what their two files share. */
#pragma once

#include "api/toolbox_command.h"

struct ws;

/* What is shown and typed, over a WebSocket, on the answer's connection, which is attached. */
void toolbox_pty_talk(struct call *c, struct ws *w);
